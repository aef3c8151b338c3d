"""Compaction: passes that keep the newest record of each key, and how they are put in place."""
