"""The effects of the replica manager. Plain values.

The shell in `broker/node` performs them; the simulator does so in memory. A `token` is whatever the
caller wants back with the answer (a callback in the shells, a number in the simulator).
`produce_messages` says why some are NamedTuples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.metadata.messages import AlterPartition, Failure
from pylog_broker.replication.fetch_messages import PartitionData
from pylog_broker.replication.internal_messages import InternalData
from pylog_broker.replication.offset_messages import LowWatermark, OffsetAnswer
from pylog_broker.replication.produce_messages import PartitionAck
from pylog_broker.replication.range_messages import (
    LocalReadAnswer,
    RangeAnswer,
    RangeTransactionsAnswer,
    WaitEnd,
)
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch, ReplicaFetched
from pylog_broker.storage.checkpoints.checkpoint_writer import LogStartsTask
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.segments.flush_task import FlushTask


class InternalRead(NamedTuple):
    """Answer a ReadInternal."""

    token: object
    data: InternalData


class InternalAppended(NamedTuple):
    """Answer an AppendInternal; None: all is well."""

    token: object
    failure: Failure | None


class ProduceDone(NamedTuple):
    """Answer a Produce.

    Emitted exactly once per request, for acks=0 too (the edge then says nothing).
    """

    token: object
    acks: tuple[PartitionAck, ...]


class FetchDone(NamedTuple):
    """Answer a Fetch."""

    token: object
    partitions: tuple[PartitionData, ...]


class FetchStands(NamedTuple):
    """Answer a Fetch, which goes on: `token.stands` gets the answer."""

    token: object
    partitions: tuple[PartitionData, ...]


class ReplicaFetchDone(NamedTuple):
    """Answer a follower's fetch."""

    token: object
    fetched: ReplicaFetched


@dataclass(frozen=True, slots=True)
class DeleteRecordsDone:
    """Answer a DeleteRecords."""

    token: object
    watermarks: tuple[LowWatermark, ...]


class SendReplicaFetch(NamedTuple):
    """Fetch from `leader`;

    its answer, or None when the connection broke, goes to `on_replica_fetched` with the same
    id.
    """

    leader: BrokerId
    request_id: int
    request: ReplicaFetch


@dataclass(frozen=True, slots=True)
class SendAlterPartition:
    """Ask the controller for ISRs;

    the answer, or None when it could not be reached, goes to `on_partitions_altered`.
    """

    request_id: int
    request: AlterPartition


@dataclass(frozen=True, slots=True)
class OffsetsListed:
    """The offsets that somebody asked for, in the order of the queries."""

    token: object
    answers: tuple[OffsetAnswer, ...]


@dataclass(frozen=True, slots=True)
class RecordsArrived:
    """The records that somebody waited for are there, or the wait is over."""

    token: object
    ends: tuple[WaitEnd, ...]


@dataclass(frozen=True, slots=True)
class RangesSplit:
    """The ranges that somebody asked for, in the order of the queries."""

    token: object
    answers: tuple[RangeAnswer, ...]


@dataclass(frozen=True, slots=True)
class RangeTransactionsDescribed:
    """The transactions that somebody asked for, in the order of the queries."""

    token: object
    answers: tuple[RangeTransactionsAnswer, ...]


@dataclass(frozen=True, slots=True)
class LocalReadsOpened:
    """The local reads that somebody asked for. Their files are to be opened before anything else
    happens to the logs: the paths may soon be those of others.
    """

    token: object
    answers: tuple[LocalReadAnswer, ...]


@dataclass(frozen=True, slots=True)
class LocalReadEnded:
    """The holder of a local read must be told that it is over, and why, before anything else
    happens to the logs. It counts until it is closed.
    """

    read_id: int
    cause: str


@dataclass(frozen=True, slots=True)
class ColdRead:
    """An answer needs pages that are not in memory, or a log what its batches say: call `read()`
    on a pool thread, then `on_cold_read(now_ms, self)`.
    """

    token: object
    read: object  # a zero-argument callable that touches only files


@dataclass(frozen=True, slots=True)
class SyncLog:
    """A log is due a sync: call `task.run()` on a pool thread, then `on_synced(now_ms, self)`."""

    topic_partition: TopicPartition
    task: FlushTask


@dataclass(frozen=True, slots=True)
class WriteLogStarts:
    """Log starts have moved: call `task.run()` on a pool thread, then
    `on_log_starts_written(now_ms, self)`, which may give the same effect again.
    """

    manager: LogManager
    task: LogStartsTask


@dataclass(frozen=True, slots=True)
class ReplicaFailed:
    """A replica went offline on this broker (I/O error, corruption):

    log it and tell the controller.
    """

    topic_partition: TopicPartition
    reason: str
    # the whole log directory did, which is logged once for all its replicas
    directory_failed: bool = False
    # None: no replica that the metadata assigns to this broker, so the controller need not know
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True)
class OperationFailed:
    """A waiting request met a fault of this program, was answered with an error and is gone.

    Log it loudly, with the traceback of `error`; a test or the simulator should stop.
    """

    request: str
    error: Exception

    @property
    def reason(self) -> str:
        """The request and the fault, in one line."""
        return f"{self.request}: {self.error!r}"


@dataclass(frozen=True, slots=True)
class DeleteReplicaLater:
    """The replica's directory was renamed away and may be removed after `delay_ms`."""

    directory: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class LeadershipBegan:
    """This broker leads a partition of an internal topic, from this leader epoch on. Records of its
    log from `high_watermark` on are not committed yet.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    topic_id: TopicId
    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class LeadershipEnded:
    """The leadership that began in this leader epoch is over: another broker leads, or nobody; or
    this broker leads in a later epoch, which begins next.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """Everything below `offset` is committed, in a partition of an internal topic that this broker
    leads. It may come before the ProduceDone of the write that it is about.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    topic_id: TopicId
    offset: Offset


Effect = (
    ProduceDone
    | FetchDone
    | FetchStands
    | ReplicaFetchDone
    | DeleteRecordsDone
    | OffsetsListed
    | RangesSplit
    | RangeTransactionsDescribed
    | RecordsArrived
    | LocalReadsOpened
    | LocalReadEnded
    | InternalRead
    | InternalAppended
    | SendReplicaFetch
    | SendAlterPartition
    | ColdRead
    | SyncLog
    | WriteLogStarts
    | ReplicaFailed
    | OperationFailed
    | DeleteReplicaLater
    | LeadershipBegan
    | LeadershipEnded
    | HighWatermarkMoved
)
