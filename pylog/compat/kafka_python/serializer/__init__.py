"""kafka-python's serializers."""

from pylog.compat.kafka_python.serializer.abstract import (
    Convert,
    DefaultSerializer,
    Deserializer,
    DeserializeWrapper,
    Headers,
    JsonSerializer,
    Serializer,
    SerializeWrapper,
    converter,
)

__all__ = [
    "Convert",
    "DefaultSerializer",
    "DeserializeWrapper",
    "Deserializer",
    "Headers",
    "JsonSerializer",
    "SerializeWrapper",
    "Serializer",
    "converter",
]
