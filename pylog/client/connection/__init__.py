"""One framed connection to a broker: its pure core, its socket, and what joins the two."""
