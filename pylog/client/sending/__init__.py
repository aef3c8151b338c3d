"""The producer's core: batches, their order, and what answers mean. Pure."""
