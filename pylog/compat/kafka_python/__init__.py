"""kafka-python's names over pylog's clients: change `from kafka import ...` to
`from pylog.compat.kafka_python import ...`, its modules (`kafka.errors`, `kafka.admin`,
`kafka.structs`, ...) alike, and nothing else.

Names, shapes, defaults and blocking behaviour are those of kafka-python 3, with the names that
programs for version 2 use beside them.
"""

from pylog.compat.kafka_python import (
    admin,
    consumer,
    coordinator,
    errors,
    future,
    partitioner,
    producer,
    serializer,
    structs,
    version,
)
from pylog.compat.kafka_python.admin import IsolationLevel, KafkaAdminClient, OffsetSpec
from pylog.compat.kafka_python.consumer import KafkaConsumer
from pylog.compat.kafka_python.consumer.subscription_state import (
    AsyncConsumerRebalanceListener,
    ConsumerRebalanceListener,
)
from pylog.compat.kafka_python.producer import KafkaProducer
from pylog.compat.kafka_python.serializer import (
    DefaultSerializer,
    Deserializer,
    JsonSerializer,
    Serializer,
)
from pylog.compat.kafka_python.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    TopicPartitionReplica,
)
from pylog.compat.kafka_python.version import __version__

__all__ = [
    "AsyncConsumerRebalanceListener",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "DefaultSerializer",
    "Deserializer",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetSpec",
    "Serializer",
    "TopicPartition",
    "TopicPartitionReplica",
    "__version__",
    "admin",
    "consumer",
    "coordinator",
    "errors",
    "future",
    "partitioner",
    "producer",
    "serializer",
    "structs",
    "version",
]
