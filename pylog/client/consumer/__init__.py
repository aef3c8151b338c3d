"""The consumer: what the user's thread calls, and its half on pylog's loop."""
