"""The small text files beside the logs, in Kafka's formats."""
