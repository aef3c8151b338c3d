"""`pylog dump`: the files of a data directory as rows, for people and for machines."""
