"""The requests of readers of ranges, and the answers: the split of a range, its transactions, the
place of its bytes on disk, the wait for its records, and the lease that keeps them. Plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pylog.model import (
    NO_RANGE,
    LeaderEpoch,
    Offset,
    RangeSplit,
    TopicId,
    TopicPartition,
    TransactionName,
    TransactionSpan,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.storage.segments.local_range import FileRange


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """A request for the bytes that `start <= offset < end` has, and for its first `pieces_max`
    pieces of at most `piece_bytes` (0: none), about equally large with `even`. pylog's own.
    """

    topic_partition: TopicPartition
    start: int
    end: int
    piece_bytes: int = 0
    pieces_max: int = 0
    even: bool = False
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """The part of the range that the log has; nothing with a failure."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    topic_id: TopicId | None = None
    split: RangeSplit = NO_RANGE


class LocalAborted(NamedTuple):
    """An aborted transaction: its producer, its first record, and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class LocalReadQuery:
    """A request of a reader on this machine for the files that hold `start <= offset < end`. An
    empty `topic_id` stands for any. pylog's own.
    """

    topic_partition: TopicPartition
    topic_id: str
    start: int
    end: int
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    read_committed: bool = False
    machine_id: str = ""


@dataclass(frozen=True, slots=True)
class LocalReadAnswer:
    """The files up to `end_offset`, under the number that `LocalReadEnded` names; with a failure
    nothing. `aborted`: the aborted transactions with records there, for a reader of committed ones.
    """

    topic_partition: TopicPartition
    failure: Failure | None = None
    read_id: int = -1
    end_offset: int = -1
    files: tuple[FileRange, ...] = ()
    aborted: tuple[LocalAborted, ...] = ()


@dataclass(frozen=True, slots=True)
class RangeTransactionsQuery:
    """A request for the transactions whose commit markers have `start <= offset < end`; with `end`
    -1 all from `start` on, and those that are open. `named`: only these. pylog's own.

    At most `spans_max` that the log remembers are told at once, and `headers_max` batches are read.
    """

    topic_partition: TopicPartition
    start: int
    end: int = -1
    named: frozenset[TransactionName] | None = None
    spans_max: int = 1_000
    headers_max: int = 1_000
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)


@dataclass(frozen=True, slots=True)
class RangeTransactionsAnswer:
    """The spans, and the offset from which to ask on; -1: these are all."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    topic_id: TopicId | None = None
    last_stable_offset: Offset = Offset(-1)
    spans: tuple[TransactionSpan, ...] = ()
    next_offset: int = -1


@dataclass(frozen=True, slots=True)
class WaitedPartition:
    """A partition whose records from `offset` on are waited for."""

    topic_partition: TopicPartition
    offset: int
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)


@dataclass(frozen=True, slots=True)
class RecordWait:
    """Answer when the partitions have so many records together, or after the wait. pylog's own."""

    partitions: tuple[WaitedPartition, ...]
    min_records: int
    max_wait_ms: int
    read_committed: bool = False


@dataclass(frozen=True, slots=True)
class WaitEnd:
    """The end of a partition: its high watermark, or last stable offset when read committed."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    end_offset: Offset = Offset(-1)


class PartitionLease(NamedTuple):
    """The range of a partition that a reader is going to read. `follows`: the partition is led
    elsewhere, and this replica may be the next leader.
    """

    topic_partition: TopicPartition
    topic_id: TopicId | None
    start: int
    end: int
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    follows: bool = False


@dataclass(frozen=True, slots=True)
class LeaseReads:
    """Hold these ranges for a holder, in place of what it has here, or beside that and `renews` it.
    `client`: the one that counts for limits; `timeout_ms` 0: as long as this broker gives. pylog's
    own.
    """

    holder: str
    client: str
    partitions: tuple[PartitionLease, ...]
    timeout_ms: int = 0
    renews: bool = False


@dataclass(frozen=True, slots=True)
class ReadsLeased:
    """Leases last so long without a renewal. Those that were refused, and why."""

    timeout_ms: int
    refused: tuple[tuple[TopicPartition, Failure], ...] = ()
