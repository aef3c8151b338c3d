"""confluent-kafka's serializers for texts and numbers, and the bases of own ones.

The bases can be made, and called in vain, as confluent-kafka's can: programs subclass them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from pylog.compat.confluent_kafka.error import SerializationError

__all__ = [
    "Deserializer",
    "DeserializerBuilder",
    "DoubleDeserializer",
    "DoubleSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "MessageField",
    "SerializationContext",
    "SerializationError",
    "Serializer",
    "SerializerBuilder",
    "StringDeserializer",
    "StringSerializer",
]


class MessageField(StrEnum):
    """The part of a message."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"


class SerializationContext:
    """The place of data: its topic, its part of the message, the message's headers."""

    def __init__(self, topic: str, field: MessageField, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class Serializer:
    """Turns objects into bytes; subclasses say how."""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """The bytes of `obj`, or None."""
        raise NotImplementedError

    def set_cluster_id_resolver(self, resolver: Callable[[], Any]) -> None:
        """Told how to find out the cluster's id."""

    def close(self) -> None:
        """The client closed."""


class Deserializer:
    """Turns bytes into objects; subclasses say how."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """The object of the bytes."""
        raise NotImplementedError

    def set_cluster_id_resolver(self, resolver: Callable[[], Any]) -> None:
        """Told how to find out the cluster's id."""

    def close(self) -> None:
        """The client closed."""


class SerializerBuilder:
    """Makes a serializer once the client's settings are known."""

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Serializer, dict[str, Any]]:
        """The serializer, and the settings without those that it has taken."""
        raise NotImplementedError


class DeserializerBuilder:
    """Makes a deserializer once the client's settings are known."""

    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Deserializer, dict[str, Any]]:
        """The deserializer, and the settings without those that it has taken."""
        raise NotImplementedError


class _Packer(Serializer):
    form = ""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Big-endian bytes; None stays None."""
        if obj is None:
            return None
        try:
            return struct.pack(self.form, obj)
        except struct.error as error:
            raise SerializationError(str(error)) from error


class _Unpacker(Deserializer):
    form = ""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        """The number; None stays None."""
        if value is None:
            return None
        try:
            return struct.unpack(self.form, value)[0]
        except struct.error as error:
            raise SerializationError(str(error)) from error


class DoubleSerializer(_Packer):
    """Numbers as IEEE 754 binary64."""

    form = ">d"


class DoubleDeserializer(_Unpacker):
    """Numbers from IEEE 754 binary64."""

    form = ">d"


class IntegerSerializer(_Packer):
    """Whole numbers of 32 bits."""

    form = ">i"


class IntegerDeserializer(_Unpacker):
    """Whole numbers of 32 bits."""

    form = ">i"


class StringSerializer(Serializer):
    """Texts."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """The text in this codec; None stays None. AttributeError for what is no text: the library
        makes no texts of numbers, and of bytes none either.
        """
        if obj is None:
            return None
        try:
            encoded: bytes = obj.encode(self.codec)
            return encoded
        except UnicodeError as error:
            raise SerializationError(str(error)) from error


class StringDeserializer(Deserializer):
    """Texts."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> str | None:
        """The text of the bytes; None stays None."""
        if value is None:
            return None
        try:
            return value.decode(self.codec)
        except UnicodeError as error:
            raise SerializationError(str(error)) from error
