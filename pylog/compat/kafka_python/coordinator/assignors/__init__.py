"""kafka-python's assignors, as names that a consumer is given; pylog's own do the work."""
