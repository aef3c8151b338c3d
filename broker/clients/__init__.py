"""What clients ask of a broker, whatever edge they come in by: produce and fetch."""
