"""What a log knows of its producers, now and in its snapshots."""
