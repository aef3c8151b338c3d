"""What a client knows of the cluster, and the servers that it asks."""
