"""pylog: a streaming log for people who live in Spark and Python."""
