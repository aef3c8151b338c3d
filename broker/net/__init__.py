"""The limits and the core of connections, below every protocol."""
