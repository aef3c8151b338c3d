"""The assignment of partitions in kafka-python's groups."""
