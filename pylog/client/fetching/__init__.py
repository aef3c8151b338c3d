"""The consumer's core: what is read next, from whom, and what answers mean. Pure."""
