"""A client's view of the cluster, and the servers that it asks."""
