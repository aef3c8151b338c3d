"""The module in which confluent-kafka has its `DeserializingShareConsumer`."""

from pylog.compat.confluent_kafka.deserializing_consumer import DeserializingShareConsumer

__all__ = ["DeserializingShareConsumer"]
