"""The controller: the only writer of the cluster's metadata, and its log on disk."""
