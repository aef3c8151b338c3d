"""A consumer's part in its group: who reads what, and what has been committed. Pure."""
