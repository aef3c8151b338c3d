"""Counters of a process, Prometheus' form of them, and the small HTTP server that answers."""
