"""kafka-python's producer."""

from pylog.compat.kafka_python.producer.kafka import KafkaProducer

__all__ = ["KafkaProducer"]
