"""A log's knowledge of its producers, now and in its snapshots."""
