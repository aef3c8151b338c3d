"""State that is a log's replay: decided, committed, and what waits for the difference. Pure."""
