"""The Spark format `pylog`: batch and streaming source and sink over the public client."""
