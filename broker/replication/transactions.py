"""Transactions as the leaders here see them: batches that open one, and the markers that end it.

A batch that opens a transaction in its partition waits until the coordinator of its producer knows
of that (KIP-890). Between the coordinator's answer and the append the transaction may end: its
marker then takes the right from the batch, which a guard stands for. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from pylog.errors import (
    CorruptMessage,
    InvalidTxnState,
    NotCoordinator,
    NotEnoughReplicas,
    OffsetNotAvailable,
    PylogError,
)
from pylog.model import (
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    is_internal,
)
from pylog.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, read_header
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.metadata.messages import Failure, failure_of
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.produce_messages import (
    PartitionBatch,
    Produce,
    ProducerState,
    TransactionGuard,
    WriteMarker,
)

if TYPE_CHECKING:
    from pylog_broker.replication.partition import Partition

PRODUCERS_MAX: Final = 10_000
"""The most producers of one partition in an answer that describes them."""


class Unverified(NamedTuple):
    """A batch of a request, by its place, that opens a transaction in its partition."""

    place: int
    topic_partition: TopicPartition
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    guard: TransactionGuard


class Transactions:
    """Invariant: a guard is in `_guards` from the question to the append, and no longer."""

    def __init__(self, hosted: HostedPartitions) -> None:
        self._hosted = hosted
        self._guards: dict[tuple[TopicPartition, int], set[TransactionGuard]] = {}

    # ---- batches ---------------------------------------------------------------------------------

    def unverified(self, request: Produce) -> list[Unverified]:
        """The batches that the coordinator is to be asked about, each with its guard: give them
        back by `release`.
        """
        found = []
        for index, item in enumerate(request.batches):
            if is_internal(item.topic_partition.topic):
                continue  # not for clients, so no part of their transactions
            try:
                header = read_header(item.batch)
            except CorruptMessage:
                continue  # the append says what is wrong
            if not header.attributes & TRANSACTIONAL_BIT or header.attributes & CONTROL_BIT:
                continue
            partition = self._hosted.find(item.topic_partition, item.topic_id)
            if isinstance(partition, Missing) or partition.leading is None:
                continue
            if partition.log.producers.has_open(header.producer_id, header.producer_epoch):
                continue
            found.append(
                self._guarded(
                    index,
                    partition,
                    ProducerId(header.producer_id),
                    ProducerEpoch(header.producer_epoch),
                )
            )
        return found

    def guarded(
        self, topic_partition: TopicPartition, producer_id: ProducerId, epoch: ProducerEpoch
    ) -> Unverified:
        """Likewise of a coordinator's batch for a partition led here. Raises NotCoordinator. The
        epoch is looked at by the append: the transaction before may still be open in the partition,
        until the coordinator of the producer has answered.
        """
        partition = self._led(topic_partition)
        if isinstance(partition, Failure):
            raise NotCoordinator(partition.message)
        return self._guarded(0, partition, producer_id, epoch)

    def _guarded(
        self, place: int, partition: Partition, producer_id: ProducerId, epoch: ProducerEpoch
    ) -> Unverified:
        guard = TransactionGuard(partition.leader_epoch, epoch)
        name = partition.topic_partition
        self._guards.setdefault((name, producer_id), set()).add(guard)
        return Unverified(place, name, producer_id, epoch, guard)

    def is_open(
        self, topic_partition: TopicPartition, producer_id: ProducerId, epoch: ProducerEpoch
    ) -> bool:
        """Whether the producer has a transaction open in a partition led here."""
        partition = self._led(topic_partition)
        return not isinstance(partition, Failure) and partition.log.producers.has_open(
            producer_id, epoch
        )

    def still_holds(self, guard: TransactionGuard, topic_partition: TopicPartition) -> bool:
        """Whether the batch may be appended now."""
        partition = self._led(topic_partition)
        return not isinstance(partition, Failure) and (
            guard.holds and guard.leader_epoch == partition.leader_epoch
        )

    def release(self, unverified: Iterable[Unverified]) -> None:
        """The batches were appended, or will not be."""
        for each in unverified:
            key = each.topic_partition, each.producer_id
            guards = self._guards.get(key)
            if guards is not None:
                guards.discard(each.guard)
                if not guards:
                    del self._guards[key]

    # ---- markers ---------------------------------------------------------------------------------

    def batch_of(self, wall_ms: int, marker: WriteMarker) -> PartitionBatch | Failure | None:
        """The control batch that is to be appended; None where the log is beyond it, or why it may
        not be. Batches that wait for the coordinator lose their right to open this transaction;
        those of the producer's next one keep theirs.
        """
        partition = self._led(marker.topic_partition)
        if isinstance(partition, Failure):
            return partition
        try:
            wanted = partition.log.producers.wants_marker(
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                version=marker.version,
            )
        except PylogError as error:
            return failure_of(error)
        if not wanted:
            return None
        for guard in self._guards.get((marker.topic_partition, marker.producer_id), ()):
            guard.on_marker(marker.producer_epoch, marker.version)
        batch = encode_control_batch(
            ControlType.COMMIT if marker.commits else ControlType.ABORT,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=wall_ms,
        )
        return PartitionBatch(marker.topic_partition, None, batch)

    def new_start(self, marker: WriteMarker) -> Offset | Failure | None:
        """The offset to which the log start has to move before the marker of an overwrite is
        appended; None when it is there already, or the topic was made anew since. A Failure says
        why neither can be done now.
        """
        partition = self._led(marker.topic_partition)
        if isinstance(partition, Failure):
            return partition
        if marker.new_start is None or marker.topic_id != partition.topic_id:
            return None
        log = partition.log
        start = min(marker.new_start, log.log_end_offset)  # an unclean election may have cut it
        if start <= log.log_start_offset and log.start_is_written:
            return None
        if start > partition.high_watermark:  # a new leader does not know it yet
            return Failure(
                OffsetNotAvailable.code,
                f"{partition.topic_partition} is committed up to {partition.high_watermark} only, "
                f"and is to begin at {start}",
            )
        if partition.is_under_min_isr:
            return Failure(
                NotEnoughReplicas.code,
                f"{partition.topic_partition} is overwritten when min.insync.replicas are in sync; "
                f"now only {list(partition.isr)} are",
            )
        return start

    @contextmanager
    def overwriting(self, topic_partition: TopicPartition) -> Iterator[None]:
        """A request for the ends of the partition meanwhile does not hear that it is empty."""
        partition = self._hosted.find(topic_partition, None)
        if isinstance(partition, Missing):
            yield
            return
        partition.awaited_markers += 1
        try:
            yield
        finally:
            partition.awaited_markers -= 1

    # ---- looking ---------------------------------------------------------------------------------

    def producers(self, topic_partition: TopicPartition) -> list[ProducerState] | Failure:
        """The producers that the leader of the partition knows, those with an open transaction
        first; or why this broker cannot tell.
        """
        partition = self._led(topic_partition)
        if isinstance(partition, Failure):
            return partition
        found = [
            ProducerState(
                ProducerId(producer_id),
                ProducerEpoch(entry.epoch),
                entry.batches[-1].last_sequence if entry.batches else -1,
                entry.timestamp,
                entry.coordinator_epoch,
                entry.transaction_start,
            )
            for producer_id, entry in partition.log.producers.unpacked().items()
        ]
        found.sort(key=lambda each: (each.transaction_start < 0, each.producer_id))
        return found[:PRODUCERS_MAX]

    def _led(self, name: TopicPartition) -> Partition | Failure:
        partition = self._hosted.find(name, None)
        if isinstance(partition, Missing):
            return partition.failure
        return partition.leader_fault() or partition


def guard_fault(
    guard: TransactionGuard, topic_partition: TopicPartition, leader_epoch: LeaderEpoch
) -> Failure | None:
    """The refusal of a batch that may not open a transaction any more; None: it may."""
    if guard.refusal is not None:
        return guard.refusal
    if guard.holds and guard.leader_epoch == leader_epoch:
        return None
    return Failure(
        InvalidTxnState.code,
        f"{topic_partition}: the transaction of this batch ended, or the leadership of the "
        "partition changed, before the batch was appended",
    )
