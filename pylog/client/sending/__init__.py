"""The producer's core: batches, their order, and the meaning of answers. Pure."""
