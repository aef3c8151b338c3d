"""kafka-python's serializers, and the function that makes one of whatever a program gives."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

Headers = Sequence[tuple[str, bytes | None]]
Convert = Callable[[str, Headers, Any], Any]


class Serializer(ABC):
    """Turns values into bytes."""

    @abstractmethod
    def serialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The bytes of `data`, or None."""

    def close(self) -> None:  # noqa: B027  nothing to do is a fine default
        """The client closed."""


class Deserializer(ABC):
    """Turns bytes into values."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The value of the bytes `data`."""

    def close(self) -> None:  # noqa: B027  nothing to do is a fine default
        """The client closed."""


class DefaultSerializer(Serializer, Deserializer):
    """Texts; bytes and None are left as they are."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The text in this encoding."""
        if data is None or isinstance(data, bytes | bytearray | memoryview):
            return data
        return data.encode(self.encoding)

    def deserialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The text of the bytes."""
        return None if data is None else data.decode(self.encoding)


class JsonSerializer(DefaultSerializer):
    """JSON; None stays None."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The value as JSON."""
        return None if data is None else json.dumps(data).encode(self.encoding)

    def deserialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The value of the JSON text."""
        return None if data is None else json.loads(data.decode(self.encoding))


class SerializeWrapper(Serializer):
    """A function of the data as a serializer."""

    def __init__(self, fn: Callable[[Any], Any] | None) -> None:
        self.fn = fn

    def serialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The function's result for the data."""
        return data if self.fn is None else self.fn(data)


class DeserializeWrapper(Deserializer):
    """A function of the bytes as a deserializer."""

    def __init__(self, fn: Callable[[Any], Any] | None) -> None:
        self.fn = fn

    def deserialize(self, topic: str, headers: Headers, data: Any) -> Any:
        """The function's result for the bytes."""
        return data if self.fn is None else self.fn(data)


def converter(setting: str, given: Any, method: str) -> Convert | None:
    """`given` as (topic, headers, data): a Serializer or Deserializer, an object with such a method
    of (topic, data), or a function of the data. TypeError for anything else.
    """
    if given is None:
        return None
    found = getattr(given, method, None)
    if found is None:
        if not callable(given):
            raise TypeError(f"{setting}={given!r}: give a function of the data, or a serializer")
        return lambda _topic, _headers, data: given(data)
    if len(inspect.signature(found).parameters) == 2:
        return lambda topic, _headers, data: found(topic, data)
    convert: Convert = found
    return convert
