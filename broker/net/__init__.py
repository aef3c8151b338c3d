"""Who may connect to a process, and what a connection is, below every protocol."""
