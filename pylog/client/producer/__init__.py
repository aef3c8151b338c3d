"""The producer: the class that users' threads call, and its half on pylog's loop."""
