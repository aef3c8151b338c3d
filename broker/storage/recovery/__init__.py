"""Opening a log: what a partition directory holds, cut to what is whole."""
