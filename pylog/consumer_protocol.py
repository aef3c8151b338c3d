"""The messages between members of a classic group: Kafka's `ConsumerProtocol`, byte for byte.

The coordinator hands these bytes on, and looks into them only where members of the consumer
protocol are in the same group. So a reader takes whatever version a member wrote: the fields that
it knows come first in every later version, and what follows is left alone. No length is trusted.

    Subscription                            Assignment
    version           int16                 version           int16
    topics            [string]              partitions        [topic string, [int32]]
    user data         bytes or null         user data         bytes or null
    owned partitions  [topic string, [int32]], from version 1
    generation        int32, from version 2
    rack              string or null, from version 3

A string has an int16 length before it, bytes and arrays an int32; -1 is null.

The user data of a leader's own assignment, where pylog leads, tell of how many partitions it has
shared out: `pylog`, version int8, [topic string, count int32]. Others pass over them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pylog import errors
from pylog.model import TopicPartition

VERSION: Final = 3
"""The version that is written: Kafka's newest. Each version is read."""
_SHARED_OUT: Final = b"pylog\x00"
"""The leader's own user data begin so; the last byte is their version."""

NO_GENERATION: Final = -1

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


class Subscription(NamedTuple):
    """A member's topics, and its partitions since the `generation` that it was last in."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None


class Assignment(NamedTuple):
    """The partitions that a member is to read."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


# ---- writing -----------------------------------------------------------------------------------


def encode_subscription(subscription: Subscription, version: int = VERSION) -> bytes:
    """The bytes of one of the versions 0 to 3: topics and owned partitions in order."""
    assert 0 <= version <= VERSION
    out = bytearray(_INT16.pack(version) + _INT32.pack(len(subscription.topics)))
    for topic in sorted(subscription.topics):
        out += _string(topic)
    out += _bytes(subscription.user_data)
    if version >= 1:
        out += encode_partitions(sorted(subscription.owned))
    if version >= 2:
        out += _INT32.pack(subscription.generation)
    if version >= 3:
        out += _INT16.pack(-1) if subscription.rack is None else _string(subscription.rack)
    return bytes(out)


def encode_assignment(assignment: Assignment, version: int = VERSION) -> bytes:
    """The bytes, which are the same in the versions 0 to 3 but for the version itself."""
    assert 0 <= version <= VERSION
    partitions = encode_partitions(assignment.partitions)
    return _INT16.pack(version) + partitions + _bytes(assignment.user_data)


def encode_shared_out(partition_counts: Mapping[str, int]) -> bytes:
    """User data by which a leader that starts again knows what it has shared out."""
    out = bytearray(_SHARED_OUT + _INT32.pack(len(partition_counts)))
    for topic, count in sorted(partition_counts.items()):
        out += _string(topic) + _INT32.pack(count)
    return bytes(out)


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """An array of topics, each with the array of its partitions."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    out = bytearray(_INT32.pack(len(by_topic)))
    for topic, numbers in by_topic.items():
        out += _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return bytes(out)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


# ---- reading -----------------------------------------------------------------------------------


def decode_subscription(data: bytes) -> Subscription:
    """A member's subscription. InconsistentGroupProtocol: these are not a subscription's bytes."""
    reader = Reader(data, "the subscription of a member")
    version = reader.version()
    topics = tuple(reader.string() for _ in range(reader.count(element_bytes=2)))
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else ()
    generation = reader.int32() if version >= 2 else NO_GENERATION
    rack = reader.nullable_string() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation, rack)


def decode_assignment(data: bytes) -> Assignment:
    """The leader's assignment; no bytes at all are an empty one, as in Kafka.

    InconsistentGroupProtocol: these are not an assignment's bytes.
    """
    if not data:
        return Assignment()
    reader = Reader(data, "the assignment of the group's leader")
    reader.version()
    return Assignment(reader.partitions(), reader.nullable_bytes())


def decode_shared_out(user_data: bytes | None) -> dict[str, int] | None:
    """The number of partitions that each topic had when the leader assigned them; None: the leader
    did not say."""
    if user_data is None or not user_data.startswith(_SHARED_OUT):
        return None
    reader = Reader(user_data[len(_SHARED_OUT) :], "what the group's leader has shared out")
    try:
        return {reader.string(): reader.int32() for _ in range(reader.count(element_bytes=6))}
    except errors.InconsistentGroupProtocol:
        return None


class Reader:
    """Reads one field after the other of bytes that another member wrote."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._at = 0

    def version(self) -> int:
        """The version that the rest is written in."""
        version = self._int16("version")
        if version < 0:
            raise self._refused(f"its version is {version}")
        return version

    def int32(self) -> int:
        """A number."""
        number: int = _INT32.unpack(self._take(4, "a number"))[0]
        return number

    def count(self, *, element_bytes: int) -> int:
        """The number of elements that follow, each of at least `element_bytes`."""
        count, left = self.int32(), len(self._data) - self._at
        if not 0 <= count <= left // element_bytes:
            raise self._refused(f"an array announces {count} elements in {left} bytes")
        return count

    def string(self) -> str:
        """A text, which is not null."""
        text = self.nullable_string()
        if text is None:
            raise self._refused("a topic's name is null")
        return text

    def nullable_string(self) -> str | None:
        """A text, or None."""
        length = self._int16("length of a text")
        if length == -1:
            return None
        try:
            return self._take(length, "a text").decode()
        except UnicodeDecodeError as error:
            raise self._refused("a text is not UTF-8") from error

    def nullable_bytes(self) -> bytes | None:
        """Bytes, or None."""
        length = self.int32()
        return None if length == -1 else self._take(length, "user data")

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Topics, each with its partitions."""
        found: list[TopicPartition] = []
        for _ in range(self.count(element_bytes=6)):
            topic = self.string()
            count = self.count(element_bytes=4)
            numbers = struct.unpack(f">{count}i", self._take(4 * count, "partitions"))
            if count and min(numbers) < 0:
                raise self._refused(f"a partition of {topic!r} is negative")
            found += [TopicPartition(topic, number) for number in numbers]
        return tuple(found)

    def _int16(self, field: str) -> int:
        number: int = _INT16.unpack(self._take(2, field))[0]
        return number

    def _take(self, length: int, field: str) -> bytes:
        end = self._at + length
        if length < 0 or end > len(self._data):
            left = len(self._data) - self._at
            raise self._refused(f"{field} takes {length} bytes, {left} are left")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _refused(self, reason: str) -> errors.InconsistentGroupProtocol:
        return errors.InconsistentGroupProtocol(f"{self._what} cannot be read: {reason}")
