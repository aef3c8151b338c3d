"""confluent-kafka's clients for asyncio."""

from pylog.compat.confluent_kafka.aio.clients import AIOConsumer, AIOProducer
from pylog.compat.confluent_kafka.aio.serdes import (
    AsyncDeserializingConsumer,
    AsyncSerializingProducer,
)

__all__ = ["AIOConsumer", "AIOProducer", "AsyncDeserializingConsumer", "AsyncSerializingProducer"]
