"""The events and effects of the replica manager: requests of clients and followers, and
effects.

Plain values. `broker/grpc` and `broker/kafka` turn wire messages into them; the shell in
`broker/node` performs the effects; the simulator does both in memory. A `token` is whatever the
caller wants back with the answer (a callback in the shells, a number in the simulator).

A value of which every request makes several is a NamedTuple: a frozen dataclass takes four times
as long to make, which at a dozen for each batch was a third of a small produce.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pylog.errors import PylogError
from pylog.model import (
    NO_RANGE,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    ProducerEpoch,
    ProducerId,
    RangeSplit,
    TopicId,
    TopicPartition,
    TransactionName,
    TransactionSpan,
)
from pylog.records.batch import Buffer
from pylog.records.kernels_pure import RecordsSummary
from pylog_broker.metadata.messages import AlterPartition, Failure
from pylog_broker.storage.checkpoints.checkpoint_writer import LogStartsTask
from pylog_broker.storage.log.recompression import Recompressed
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.segments.flush_task import FlushTask
from pylog_broker.storage.segments.local_range import FileRange

# ---- produce ----------------------------------------------------------------------------------


class TransactionGuard:
    """The right of a batch to open a transaction, given under a leader epoch and for an epoch of
    the producer. `refusal`: why the coordinator does not give it; `holds`: no marker has taken it
    since.
    """

    __slots__ = ("holds", "leader_epoch", "producer_epoch", "refusal")

    def __init__(self, leader_epoch: LeaderEpoch, producer_epoch: ProducerEpoch) -> None:
        self.leader_epoch = leader_epoch
        self.producer_epoch = producer_epoch
        self.refusal: Failure | None = None
        self.holds = True

    def on_marker(self, marker_epoch: int, version: int) -> None:
        """A marker ends what is of an earlier epoch, and under version 1 also of its own."""
        if self.producer_epoch < marker_epoch or (
            version < 2 and self.producer_epoch == marker_epoch
        ):
            self.holds = False


class PartitionBatch(NamedTuple):
    """One record batch (Kafka's v2 format, bytes as the client sent them) for one partition."""

    topic_partition: TopicPartition
    topic_id: TopicId | None  # None: the client knows only the name
    batch: Buffer
    # what the edge heard of the records where it had them checked (in the pool, for a compressed
    # batch), with the batch in the topic's codec where that is another
    checked: RecordsSummary | Recompressed | PylogError | None = None
    # of a batch of which the coordinator of its transaction was asked
    guard: TransactionGuard | None = None


class Produce(NamedTuple):
    """At most one batch per partition. `acks` as sent; anything but 0, 1, -1 is refused."""

    acks: int
    timeout_ms: int
    batches: tuple[PartitionBatch, ...]
    # a coordinator's own write: control batches and internal topics are allowed
    internal: bool = False
    # of the producer, where batches are of a transaction, and the version that it speaks
    transactional_id: str = ""
    transaction_version: int = 2


class WriteMarker(NamedTuple):
    """The end of a producer's transaction, to be written to a partition. With `new_start` the
    transaction has overwritten that topic, and the partition begins there.
    """

    topic_partition: TopicPartition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    commits: bool
    coordinator_epoch: int
    version: int = 1
    topic_id: TopicId | None = None
    new_start: Offset | None = None


class ProducerState(NamedTuple):
    """A producer as its partition's leader knows it; -1 where there is nothing."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    last_sequence: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int


class PartitionAck(NamedTuple):
    """The outcome for one batch. Offsets are -1 with a failure; but `base_offset` is where a batch
    stands that was appended and then not committed in time, or not under the same leader.
    """

    topic_partition: TopicPartition
    failure: Failure | None = None
    base_offset: Offset = Offset(-1)
    log_append_time_ms: int = -1
    log_start_offset: Offset = Offset(-1)
    current_leader: BrokerId = BrokerId(-1)
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    record_index: int = -1


# ---- fetch of clients -------------------------------------------------------------------------


class PartitionFetch(NamedTuple):
    """The question of a consumer about one partition. -1 epochs are not checked."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    fetch_offset: Offset
    max_bytes: int
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    last_fetched_epoch: LeaderEpoch = LeaderEpoch(-1)


class Standing(NamedTuple):
    """The rest of a fetch that may be answered again: answers, and bytes of batches. `given`
    answers have gone since `since_ms`.
    """

    answers: int
    bytes: int
    given: int = 0
    since_ms: int = 0


class Fetch(NamedTuple):
    """A consumer's long poll:

    answered when `min_bytes` are there, after `max_wait_ms`, or at once on any error; once, or
    while it is `standing` again from where the answer ended.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: tuple[PartitionFetch, ...]
    read_committed: bool = False
    standing: Standing | None = None
    # where the consumer stands, which then may read followers; empty: it reads leaders only
    rack: str = ""


class EpochEnd(NamedTuple):
    """The largest known epoch at or below an asked one, and the offset where it ends
    (exclusive).
    """

    epoch: LeaderEpoch
    end_offset: Offset


class PartitionData(NamedTuple):
    """The answer about one partition.

    `records` holds whole batches, the first may begin before the asked offset.
    """

    topic_partition: TopicPartition
    failure: Failure | None = None
    high_watermark: Offset = Offset(-1)
    last_stable_offset: Offset = Offset(-1)
    log_start_offset: Offset = Offset(-1)
    records: Buffer = b""
    aborted: tuple[tuple[int, int], ...] = ()  # (producer id, first offset), if read committed
    diverging: EpochEnd | None = None
    current_leader: BrokerId = BrokerId(-1)
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    damaged_end: Offset = Offset(-1)  # where a reader may go on behind what has rotted
    # a follower in the consumer's rack, to be read instead of this leader (KIP-392)
    preferred_replica: BrokerId = BrokerId(-1)


# ---- fetch of followers (Kafka's Fetch and OffsetForLeaderEpoch) ---------------------------------


class ReplicaPartitionFetch(NamedTuple):
    """The question of a follower about one partition; `fetch_offset` is its log end.

    `high_watermark` is the one that the follower has (KIP-1166): the leader need not repeat it, and
    need not guess whether an earlier answer arrived. -1: the follower does not say.
    """

    topic_id: TopicId
    partition: int
    current_leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    max_bytes: int
    high_watermark: Offset = Offset(-1)


class ReplicaFetch(NamedTuple):
    """One fetch of a follower from one leader broker, over all partitions that they share.

    `replica_epoch` is the follower's broker epoch: a late fetch of an earlier life is refused
    (KIP-903). In a session (KIP-227) the first fetch, of epoch 0, names all partitions; later ones
    only those whose question changed, and those (`forgotten`) that are not asked for any more.
    Epoch -1: all are named, and no session is wanted.
    """

    replica_id: BrokerId
    replica_epoch: BrokerEpoch
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: tuple[ReplicaPartitionFetch, ...]
    session_id: int = 0
    session_epoch: int = -1
    forgotten: tuple[tuple[TopicId, int], ...] = ()


class ReplicaPartitionData(NamedTuple):
    """The leader's answer for one partition.

    With `diverging` there are no records: truncate first.
    """

    topic_id: TopicId
    partition: int
    failure: Failure | None = None
    high_watermark: Offset = Offset(-1)
    last_stable_offset: Offset = Offset(-1)
    log_start_offset: Offset = Offset(-1)
    diverging: EpochEnd | None = None
    records: Buffer = b""
    current_leader: BrokerId = BrokerId(-1)
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)


class ReplicaFetched(NamedTuple):
    """The answer to a ReplicaFetch; partitions with nothing new may be left out.

    `session_id`: of the session that the fetch belongs to, 0 without one.
    """

    failure: Failure | None = None
    partitions: tuple[ReplicaPartitionData, ...] = ()
    session_id: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaEpochQuery:
    """A follower's question for the end of `leader_epoch` in the leader's log."""

    topic_id: TopicId
    partition: int
    current_leader_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class EpochEndQuery:
    """OffsetForLeaderEpoch of a follower."""

    replica_id: BrokerId
    queries: tuple[ReplicaEpochQuery, ...]


@dataclass(frozen=True, slots=True)
class ReplicaEpochEnd:
    """The answer for one partition;

    epoch and offset are -1 when the leader knows no epoch that old.
    """

    topic_id: TopicId
    partition: int
    failure: Failure | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    end_offset: Offset = Offset(-1)


@dataclass(frozen=True, slots=True)
class EpochEnds:
    """The answer to an EpochEndQuery."""

    ends: tuple[ReplicaEpochEnd, ...]


# ---- other client requests
# ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OffsetQuery:
    """An offset by time:

    -1 latest (high watermark, or last stable offset when read committed), -2 earliest, -3 the
    largest timestamp. With `from_offset`, which is pylog's own, "latest" comes with the time of the
    first record at that offset or behind it: how old is what a reader that is there has not read.
    """

    topic_partition: TopicPartition
    timestamp_ms: int
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    read_committed: bool = False
    from_offset: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """Offset -1 without a failure: no record is that late."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    topic_id: TopicId | None = None
    offset: Offset = Offset(-1)
    timestamp_ms: int = -1
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)


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


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """New log start offsets; -1 means the high watermark."""

    offsets: tuple[tuple[TopicPartition, Offset], ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class LowWatermark:
    """The lowest log start offset over the live replicas, once it has reached the asked one."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    low_watermark: Offset = Offset(-1)


# ---- coordinators of this broker
# --------------------------------------------------------------------


class ReadInternal(NamedTuple):
    """The records of an internal partition's log from `offset` on, committed or not: its
    coordinator loads it. At least one batch, however large.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    offset: Offset
    max_bytes: int


class InternalData(NamedTuple):
    """Whole batches; the first may begin before the asked offset, and the log may begin behind it.

    `next_offset` is where to go on, `end_offset` the log's end. `lost`: from that offset on to the
    next one the log has rotted, and no other replica is there to tell what it was.
    """

    failure: Failure | None = None
    records: Buffer = b""
    next_offset: Offset = Offset(-1)
    end_offset: Offset = Offset(-1)
    lost: Offset | None = None


class AppendInternal(NamedTuple):
    """A coordinator's batch for the partition that this broker leads in `leader_epoch`, at exactly
    `first_offset`. Its ack comes when it is in the log; that it is committed a listener is told.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    first_offset: Offset
    batch: Buffer


# ---- effects
# ----------------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as its leader or follower must know it; used by tests, metrics and describe."""

    topic_partition: TopicPartition
    topic_id: TopicId
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset
    # at the leader: each follower's end as its fetches told it, -1 when it has not fetched yet
    follower_ends: tuple[tuple[BrokerId, Offset], ...] = ()
    directory_id: str = ""
    # why the replica does not work or lags: offline, or its last fetch failed
    fault: str = ""
