"""Ordered streams of requests to one broker, framed or over gRPC."""
