"""confluent-kafka's names over pylog's clients: change `from confluent_kafka import ...` to
`from pylog.compat.confluent_kafka import ...`, its modules (`confluent_kafka.admin`,
`confluent_kafka.serialization`, ...) alike, and nothing else.

Names, shapes, defaults and blocking behaviour are those of confluent-kafka-python 2.
"""

from typing import Any

from pylog.compat.confluent_kafka import admin, error, serialization
from pylog.compat.confluent_kafka.admin.resources import NewPartitions, NewTopic
from pylog.compat.confluent_kafka.consumer import Consumer
from pylog.compat.confluent_kafka.deserializing_consumer import (
    DeserializingConsumer,
    DeserializingShareConsumer,
)
from pylog.compat.confluent_kafka.error import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
)
from pylog.compat.confluent_kafka.model import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    AcknowledgeType,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    Message,
    Messages,
    Node,
    ThrottleEvent,
    TopicCollection,
    TopicPartition,
    TopicPartitionInfo,
    Uuid,
)
from pylog.compat.confluent_kafka.partitioners import consistent, fnv1a, murmur2
from pylog.compat.confluent_kafka.producer import Producer
from pylog.compat.confluent_kafka.serializing_producer import SerializingProducer
from pylog.compat.confluent_kafka.share_consumer import ShareConsumer

__version__ = "2.16.1"

_NOT_TAKEN = {
    "kafkatest": "it tests librdkafka",
}


def version() -> str:
    """The version of confluent-kafka-python that this stands for."""
    return __version__


def libversion() -> tuple[str, int]:
    """The version of librdkafka that this stands for."""
    return "2.16.0", 0x021000FF


def __getattr__(name: str) -> Any:
    if name in _NOT_TAKEN:
        raise ImportError(f"{name}: {_NOT_TAKEN[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "AcknowledgeType",
    "ConcurrentModificationException",
    "Consumer",
    "ConsumerGroupState",
    "ConsumerGroupTopicPartitions",
    "ConsumerGroupType",
    "DeserializingConsumer",
    "DeserializingShareConsumer",
    "ElectionType",
    "IllegalStateException",
    "IsolationLevel",
    "KafkaError",
    "KafkaException",
    "Message",
    "Messages",
    "NewPartitions",
    "NewTopic",
    "Node",
    "Producer",
    "SerializingProducer",
    "ShareConsumer",
    "ThrottleEvent",
    "TopicCollection",
    "TopicPartition",
    "TopicPartitionInfo",
    "Uuid",
    "admin",
    "consistent",
    "error",
    "fnv1a",
    "libversion",
    "murmur2",
    "serialization",
    "version",
]
