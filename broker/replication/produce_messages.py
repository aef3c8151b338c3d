"""Writes to partitions: batches of producers, markers of coordinators, and the leader's answers.
Plain values.

A value of which every request makes several is a NamedTuple: a frozen dataclass takes four times
as long to make, which at a dozen for each batch was a third of a small produce.
"""

from __future__ import annotations

from typing import NamedTuple

from pylog.errors import PylogError
from pylog.model import (
    BrokerId,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
)
from pylog.records.batch import Buffer
from pylog.records.kernels_pure import RecordsSummary
from pylog_broker.metadata.messages import Failure
from pylog_broker.storage.log.recompression import Recompressed


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
