"""One replica's log: appends, reads, truncation, syncs."""
