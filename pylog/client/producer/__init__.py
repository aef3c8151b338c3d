"""The producer: what users' threads call, and its half on pylog's loop."""
