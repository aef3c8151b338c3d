"""A segment's indexes: by offset, by time, and its aborted transactions."""
