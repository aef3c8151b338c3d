"""Identifiers and values that client, broker, controller and connector share.

Covers plain data only: nothing here does I/O, reads a clock or imports a heavy library.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
PartitionEpoch = NewType("PartitionEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
BrokerEpoch = NewType("BrokerEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicId = NewType("TopicId", str)
"""A topic's 128-bit id as 22 characters of URL-safe base64, the way Apache Kafka prints it
(KIP-516).
"""

NO_BROKER_EPOCH: Final = BrokerEpoch(-1)
NO_LEADER: Final = BrokerId(-1)
NO_EPOCH: Final = LeaderEpoch(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
ZERO_TOPIC_ID: Final = TopicId("A" * 22)

EARLIEST_TIMESTAMP: Final = -2
"""As a timestamp in a list-offsets request: the log start offset."""
LATEST_TIMESTAMP: Final = -1
"""As a timestamp in a list-offsets request: the high watermark (consumers never see beyond it)."""
MAX_TIMESTAMP: Final = -3
"""As a timestamp in a list-offsets request: the record with the largest timestamp (KIP-734)."""

TOPIC_NAME_LENGTH_MAX: Final = 249
"""Kafka's limit: `<topic>-<partition>` plus the deletion suffix must fit a 255-byte file name."""


class TimestampType(IntEnum):
    """The origin of a record's timestamp."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class AcknowledgeType(IntEnum):
    """The fate of a record that a share group has delivered (KIP-932)."""

    ACCEPT = 1
    """It is done with."""
    RELEASE = 2
    """It is delivered again, to this consumer or another one."""
    REJECT = 3
    """It is never delivered again, though nobody is done with it."""
    RENEW = 4
    """It is still worked on: its lock begins anew (KIP-1222)."""


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """A committed position: the next offset to read, and a free text."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class ConsumerGroupMetadata(NamedTuple):
    """The identity of a member in its group: its generation, or its epoch in the new protocol; -1
    while it has none.
    """

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class PreparedTransaction(NamedTuple):
    """The transaction that a producer has prepared (KIP-939), to be stored with the decision about
    it: as text it is `producer id:epoch`, and empty where nothing is prepared.
    """

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    def __str__(self) -> str:
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return ""
        return f"{self.producer_id}:{self.producer_epoch}"

    @classmethod
    def of(cls, text: str) -> PreparedTransaction:
        """Out of such a text; ValueError for another one."""
        if not text:
            return cls()
        producer_id, _, producer_epoch = text.partition(":")
        numbers = int(producer_id), int(producer_epoch)
        if min(numbers) < 0:
            raise ValueError(f"{text!r}: neither a producer id nor an epoch is negative")
        return cls(*numbers)


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after an asked time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None


class RangePiece(NamedTuple):
    """A part of a range of offsets: where it ends, and the bytes of its batches in the log."""

    end_offset: int
    bytes: int


class RangeSplit(NamedTuple):
    """The bytes of a range of offsets, as the log stores its batches; its first pieces, as far as
    they were asked for; and the batch behind those (None: there is none).
    """

    bytes: int
    pieces: tuple[RangePiece, ...] = ()
    next: RangePiece | None = None


NO_RANGE: Final = RangeSplit(0)


class TransactionName(NamedTuple):
    """A transaction, by its producer and the epoch of its batches. From transaction version 2 on
    each has an epoch of its own; under version 1 several of a producer may share a name.
    """

    producer_id: int
    producer_epoch: int


class TransactionSpan(NamedTuple):
    """The part of a committed or open transaction in one partition: its first record, and the
    marker of its commit. `marker` -1: that is not committed yet. Where the transaction has no
    record, the marker stands for one.
    """

    name: TransactionName
    first: int
    marker: int = -1


class RecordMetadata(NamedTuple):
    """The place of a produced record in the log. `offset` is -1 after `acks=0`, where no broker
    answers."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 means the cluster's default; config values are strings, as in Kafka.

    With `replica_assignment` (partition -> broker ids, preferred leader first) the two counts must
    stay at their defaults.
    """

    name: str
    num_partitions: int = 1
    replication_factor: int = -1
    replica_assignment: Mapping[int, Sequence[int]] | None = field(default=None, kw_only=True)
    config: Mapping[str, str] | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """Grow a topic to `total_count` partitions;

    `assignments` holds one list of broker ids for each added one.
    """

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition as the controller last committed it."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic; `partitions` is ordered by partition number."""

    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionDescription, ...]

    def _repr_html_(self) -> str:
        """For notebooks."""
        from pylog.html_tables import html_table, ids

        columns = ("partition", "leader", "epoch", "replicas", "in sync", "offline")
        rows = (
            (
                p.partition, "none" if p.leader is None else p.leader, p.leader_epoch,
                ids(p.replicas), ids(p.isr), ids(p.offline_replicas),
            )
            for p in self.partitions
        )  # fmt: skip
        return html_table(f"topic {self.name}", columns, rows, len(self.partitions))


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A registered broker: its client address and its registration's epoch. `fenced`: it does not
    serve at the moment, and since when in milliseconds since 1970, None when that is not known.
    """

    id: int
    host: str
    port: int
    rack: str | None
    epoch: int
    fenced: bool = False
    fenced_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as one of its brokers (or the gateway) sees it. `controller`: the address where
    admin calls go, None when that broker does not know it; `controller_since_ms`: when its epoch
    began, in milliseconds since 1970, None when that is not known.
    """

    cluster_id: str
    controller_epoch: int
    brokers: tuple[BrokerDescription, ...]
    controller: str | None = None
    controller_since_ms: int | None = None

    def _repr_html_(self) -> str:
        """For notebooks."""
        from pylog.html_tables import html_table

        live = sum(not broker.fenced for broker in self.brokers)
        rows = (
            (b.id, f"{b.host}:{b.port}", b.rack, b.epoch, "fenced" if b.fenced else "live")
            for b in self.brokers
        )
        title = f"cluster {self.cluster_id}: {live} of {len(self.brokers)} brokers are live"
        columns = ("broker", "address", "rack", "epoch", "state")
        return html_table(title, columns, rows, len(self.brokers))


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """A feature's finalized level (KIP-584), and the levels that the controller and all registered
    brokers support.
    """

    name: str
    level: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A partition that moves to other brokers (KIP-455). `replicas`: those of the target, followed
    by the ones that leave when all that are added are in sync.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


_LEGAL_TOPIC_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)


INTERNAL_PREFIX: Final = "__"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
"""The topic in which groups, their members and what they committed are kept."""
SINK_PREFIX: Final = "__sink/"
"""The prefix of transactional ids that belong to sinks of queries; producers cannot choose such an
id."""


def is_internal(topic: str) -> bool:
    """Whether the topic is the cluster's own, by its name: clients neither make nor write it."""
    return topic.startswith(INTERNAL_PREFIX)


def topic_name_fault(name: str) -> str | None:
    """The reason why `name` cannot name a topic, or None when it can. Kafka's rule:
    `[a-zA-Z0-9._-]{1,249}`, not `.` or `..`.

    Kafka's rule: `[a-zA-Z0-9._-]{1,249}`, not `.` or `..`.
    """
    if not name:
        return "the topic name is empty; use 1 to 249 of a-z A-Z 0-9 . _ -"
    if name in (".", ".."):
        return f"the topic name {name!r} is reserved by the file system"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"the topic name has {len(name)} characters; the limit is {TOPIC_NAME_LENGTH_MAX}"
    if not _LEGAL_TOPIC_CHARACTERS.issuperset(name):
        bad = next(c for c in name if c not in _LEGAL_TOPIC_CHARACTERS)
        return f"the topic name {name[:80]!a} contains {bad!a}; only a-z A-Z 0-9 . _ - are allowed"
    return None


def topic_id_from_bytes(raw: bytes) -> TopicId:
    """The printed form of a 16-byte topic id."""
    assert len(raw) == 16
    return TopicId(base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii"))


def topic_id_to_bytes(topic_id: TopicId) -> bytes:
    """The 16 bytes of a printed topic id; ValueError when it is not one."""
    try:
        raw = base64.urlsafe_b64decode(topic_id + "==")
    except binascii.Error as error:
        raise ValueError(f"{topic_id!r} is not a topic id") from error
    if len(raw) != 16:
        raise ValueError(f"{topic_id!r} is not a topic id: it holds {len(raw)} bytes, not 16")
    return raw
