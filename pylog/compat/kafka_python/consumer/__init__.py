"""kafka-python's consumer."""

from pylog.compat.kafka_python.consumer.group import KafkaConsumer

__all__ = ["KafkaConsumer"]
