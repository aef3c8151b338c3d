"""One framed connection to a broker: its pure core, its socket, and the link that joins the two."""
