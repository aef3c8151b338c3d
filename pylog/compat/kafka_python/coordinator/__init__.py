"""How kafka-python's groups share partitions out."""
