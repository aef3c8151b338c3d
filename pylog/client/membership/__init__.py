"""A consumer's part in its group: membership, assignment and committed offsets. Pure."""
