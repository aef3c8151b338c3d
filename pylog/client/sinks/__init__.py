"""Batches of queries that count once: the requests of tasks and drivers to the coordinator of a
sink.
"""
