"""pylog inside Spark: the driver is controller, gateway and supervisor, each task one broker."""
