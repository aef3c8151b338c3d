"""Handlers for members of share groups, and for those who look after share groups."""
