"""A share consumer's decisions: membership, share sessions, fetches, acknowledgements. Pure."""
