"""Log directories: whose they are, how they were left, what is in them."""
