"""Kafka's record batch, version 2: the format of every record on the wire and on disk."""
