"""The consumer: the class that the user's thread calls, and its half on pylog's loop."""
