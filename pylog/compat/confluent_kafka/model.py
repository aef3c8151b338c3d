"""confluent-kafka's values: partitions, messages, groups, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, IntEnum
from typing import Any, Final, Generic, TypeVar

from pylog import model
from pylog.compat.confluent_kafka.error import KafkaError
from pylog.records.record import Record

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001
TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2

K = TypeVar("K")
V = TypeVar("V")


class TopicPartition:
    """A partition, with an offset where a call has to do with one; equal by topic and partition."""

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str) or not isinstance(partition, int):
            raise TypeError(f"TopicPartition({topic!r}, {partition!r}): give a text and a number")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: KafkaError | None = None

    def _place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and self._place() == other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def __lt__(self, other: TopicPartition) -> bool:
        return self._place() < other._place()

    def __le__(self, other: TopicPartition) -> bool:
        return self._place() <= other._place()

    def __gt__(self, other: TopicPartition) -> bool:
        return self._place() > other._place()

    def __ge__(self, other: TopicPartition) -> bool:
        return self._place() >= other._place()

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )

    def ours(self) -> model.TopicPartition:
        """pylog's partition."""
        return model.TopicPartition(self.topic, self.partition)


class Message(Generic[K, V]):
    """A record, or an error that a poll tells of. As in the library, one without bytes in its value
    is false.
    """

    def __init__(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,
        value: Any = None,
        headers: Any = None,
        error: KafkaError | None = None,
        timestamp: tuple[int, int] | None = None,
        latency: float | None = None,
        leader_epoch: int | None = None,
        delivery_count: int | None = None,
    ) -> None:
        self._topic, self._partition, self._offset = topic, partition, offset
        self._key, self._value, self._headers = key, value, headers
        self._error = error
        self._timestamp = timestamp or (TIMESTAMP_NOT_AVAILABLE, 0)
        self._latency = latency
        self._leader_epoch = leader_epoch
        self._delivery_count = delivery_count

    def topic(self) -> str | None:
        """The topic."""
        return self._topic

    def partition(self) -> int | None:
        """The partition."""
        return self._partition

    def offset(self) -> int | None:
        """The offset."""
        return self._offset

    def key(self) -> Any:
        """The key."""
        return self._key

    def value(self) -> Any:
        """The value."""
        return self._value

    def deserialized_key(self) -> K | None:
        """The key, as a deserializer has made it."""
        key: K | None = self._key
        return key

    def deserialized_value(self) -> V | None:
        """The value, as a deserializer has made it."""
        value: V | None = self._value
        return value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Pairs in the producer's order; None without any."""
        headers: list[tuple[str, bytes | None]] | None = self._headers
        return headers

    def error(self) -> KafkaError | None:
        """The error that the message tells of; None for a record."""
        return self._error

    def timestamp(self) -> tuple[int, int]:
        """(whose it is, milliseconds since 1970)."""
        return self._timestamp

    def latency(self) -> float | None:
        """Seconds from produce() to the acknowledgement, in a delivery report."""
        return self._latency

    def leader_epoch(self) -> int | None:
        """Epoch of the leader that wrote the record."""
        return self._leader_epoch

    def delivery_count(self) -> int | None:
        """The number of times that a share group has delivered the record."""
        return self._delivery_count

    def set_topic(self, topic: str | None) -> None:
        """Put another one in its place."""
        self._topic = topic

    def set_headers(self, headers: Any) -> None:
        """Put others in their place."""
        self._headers = headers

    def set_key(self, key: Any) -> None:
        """Put another one in its place."""
        self._key = key

    def set_value(self, value: Any) -> None:
        """Put another one in its place."""
        self._value = value

    def set_error(self, error: KafkaError | None) -> None:
        """Put another one in its place."""
        self._error = error

    def __len__(self) -> int:
        return 0 if self._value is None else len(self._value)


def about(
    error: KafkaError,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
) -> Message[Any, Any]:
    """A message that tells of an error: the value is its text, as bytes."""
    text = error.str().encode()
    return Message(topic, partition, offset, None, text, None, error, (TIMESTAMP_NOT_AVAILABLE, -1))


def message_of(record: Record) -> Message[Any, Any]:
    """The record as a message."""
    stamp = record.timestamp_ms
    kind = TIMESTAMP_NOT_AVAILABLE if stamp < 0 else int(record.timestamp_type) + 1
    return Message(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        list(record.headers) or None,
        None,
        (kind, stamp),
        None,
        record.leader_epoch,
        record.delivery_count,
    )


class Uuid:
    """A topic's id."""

    def __init__(self, most_significant_bits: int, least_significant_bits: int) -> None:
        self._high, self._low = most_significant_bits, least_significant_bits

    def get_most_significant_bits(self) -> int:
        """The first half."""
        return self._high

    def get_least_significant_bits(self) -> int:
        """The second half."""
        return self._low

    def __int__(self) -> int:
        return (self._high & (2**64 - 1)) << 64 | self._low & (2**64 - 1)

    def __str__(self) -> str:
        return str(model.topic_id_from_bytes(int(self).to_bytes(16, "big")))

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Uuid) and int(self) == int(other)

    def __hash__(self) -> int:
        return hash(int(self))


def uuid_of(topic_id: str) -> Uuid:
    """A topic's id, out of its text."""
    raw = model.topic_id_to_bytes(model.TopicId(topic_id))
    signed = [int.from_bytes(half, "big", signed=True) for half in (raw[:8], raw[8:])]
    return Uuid(signed[0], signed[1])


class Node:
    """A broker."""

    def __init__(self, id: int, host: str, port: int, rack: str | None = None) -> None:
        self.id = id
        self.id_string = str(id)
        self.host = host
        self.port = port
        self.rack = rack

    def __str__(self) -> str:
        return f"({self.id}) {self.host}:{self.port} {f'(Rack - {self.rack})' if self.rack else ''}"


class ConsumerGroupTopicPartitions:
    """A group and partitions, with their offsets where a call has to do with them."""

    def __init__(self, group_id: str, topic_partitions: list[TopicPartition] | None = None) -> None:
        self.group_id = group_id
        self.topic_partitions = topic_partitions


class TopicCollection:
    """Topics by name."""

    def __init__(self, topic_names: Sequence[str]) -> None:
        self.topic_names = topic_names


class TopicPartitionInfo:
    """A partition with its replicas."""

    def __init__(self, id: int, leader: Node | None, replicas: list[Node], isr: list[Node]) -> None:
        self.id = id
        self.leader = leader
        self.replicas = replicas
        self.isr = isr


class OrderedEnum(Enum):
    """Members in the order of their values."""

    def __lt__(self, other: object) -> bool:
        if self.__class__ is not other.__class__:
            return NotImplemented
        less: bool = self.value < other.value
        return less


class ConsumerGroupState(OrderedEnum):
    """The state of a group."""

    UNKNOWN = 0
    UNKOWN = 0  # the library's own alias
    PREPARING_REBALANCING = 1
    COMPLETING_REBALANCING = 2
    STABLE = 3
    DEAD = 4
    EMPTY = 5


class ConsumerGroupType(OrderedEnum):
    """The protocol of a group's members."""

    UNKNOWN = 0
    CONSUMER = 1
    CLASSIC = 2


class IsolationLevel(OrderedEnum):
    """Whether records of open and aborted transactions are seen."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ElectionType(OrderedEnum):
    """The kinds of leader elections."""

    PREFERRED = 0
    UNCLEAN = 1


class AcknowledgeType(IntEnum):
    """The acknowledgements of a message that a share group has delivered."""

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


class Messages:
    """The messages that a share consumer's poll returns."""

    def __init__(self, messages: Iterable[Message[Any, Any]] = ()) -> None:
        self._records = list(messages)

    def records(self) -> list[Message[Any, Any]]:
        """The messages."""
        return list(self._records)

    def count(self) -> int:
        """The number of messages."""
        return len(self._records)

    def is_empty(self) -> bool:
        """Whether there is none."""
        return not self._records

    def __iter__(self) -> Iterator[Message[Any, Any]]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


class ThrottleEvent:
    """The argument of a `throttle_cb`; pylog's brokers throttle no client yet."""

    def __init__(self, broker_name: str, broker_id: int, throttle_time: float) -> None:
        self.broker_name = broker_name
        self.broker_id = broker_id
        self.throttle_time = throttle_time

    def __str__(self) -> str:
        return (
            f"{self.broker_name}/{self.broker_id} throttled for {self.throttle_time * 1000:.0f} ms"
        )
