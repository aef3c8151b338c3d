"""Batches of queries that count once: what tasks and drivers ask of the coordinator of a sink."""
