"""Streams groups (KIP-1071): members of one application that share its tasks. Pure."""
