"""The consumer's core: positions, fetches, and the meaning of answers. Pure."""
