"""What a process counts, how Prometheus reads it, and the small HTTP server that answers."""
