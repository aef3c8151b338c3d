"""Produce: from a client's batches to the leader's log, and the wait until they are committed.

Checks in Kafka's order: acks first, then each partition by itself (it exists, it is led here, it
has enough in-sync replicas), then what the log checks of the batch. One bad partition does not fail
the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from pylog.errors import (
    InvalidRecord,
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    PylogError,
    RequestTimedOut,
    UnknownServerError,
)
from pylog.model import LeaderEpoch, Offset, is_internal
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import Effect, ProduceDone
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.isr import IsrEffect, LeaderState
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce
from pylog_broker.replication.syncs import Syncs
from pylog_broker.replication.transactions import guard_fault
from pylog_broker.replication.waiting import WaitingOperation, WaitingRoom
from pylog_broker.storage.errors import DiskFull
from pylog_broker.storage.log.validator import CLIENT, INTERNAL, Origin

_ACKS: Final = (-1, 1, 0)
_OF_COORDINATORS: Final = Produce(acks=-1, timeout_ms=0, batches=(), internal=True)

OpenAcks = dict[Partition, tuple[int, Offset, LeaderEpoch]]
"""Partition -> (index of its ack, offset to be committed, leader epoch of the append)."""


class DelayedProduce(WaitingOperation):
    """A produce whose acks wait, each partition by itself: for the high watermark (acks=all), and
    for the sync that `flush.messages` asks for. Each is settled once, in any order.
    """

    __slots__ = ("_acks", "_open", "_room", "_wants_all")

    def __init__(
        self,
        token: object,
        acks: list[PartitionAck],
        open_acks: OpenAcks,
        room: WaitingRoom,
        wants_all: bool,
    ) -> None:
        """`acks` holds the answer for the case that all goes well, also for each of `open_acks`."""
        super().__init__(token)
        self._acks = acks
        self._open = open_acks
        self._room = room
        self._wants_all = wants_all

    def is_satisfied(self, key: Partition | None) -> bool:
        for partition in list(self._open) if key is None else (key,):
            wait = self._open.get(partition)
            if wait is not None:
                self._look(partition, *wait)
        return not self._open

    def _look(
        self, partition: Partition, index: int, required: Offset, leader_epoch: LeaderEpoch
    ) -> None:
        fault: Failure | None = None
        leading = partition.leading
        if leading is None or partition.leader_epoch != leader_epoch:
            fault = _lost(partition, leader_epoch)
        elif (self._wants_all and not is_committed(partition, required)) or (
            not partition.log.may_acknowledge(required)
        ):
            return
        elif self._wants_all and leading.is_under_min_isr:
            fault = _too_few_after_append(partition)
        del self._open[partition]
        if fault is not None:
            self._refuse(partition, index, fault)

    def on_complete(self, expired: bool) -> None:
        for partition, (index, required, _) in self._open.items():
            assert expired
            so_far = (
                f"committed only up to {partition.high_watermark}; in sync are "
                f"{list(partition.isr)}"
                if partition.log.may_acknowledge(required)
                else "the disk has not synced it yet, as flush.messages asks"
            )
            fault = Failure(
                RequestTimedOut.code,
                f"{partition.topic_partition} is stored up to {required} but {so_far}",
            )
            self._refuse(partition, index, fault)
        self._room.finished(self)
        self._room.outbox.append(ProduceDone(self.token, tuple(self._acks)))

    def _refuse(self, partition: Partition, index: int, fault: Failure) -> None:
        """The batch is in the log, and its producer is told so: only what was turned away before
        may it send under another producer id.
        """
        base_offset = self._acks[index].base_offset
        self._acks[index] = _refused(partition, fault)._replace(base_offset=base_offset)

    def on_fault(self, error: Exception) -> Effect:
        fault = Failure(UnknownServerError.code, f"the broker failed over the produce: {error!r}")
        refused = (PartitionAck(ack.topic_partition, fault) for ack in self._acks)
        return ProduceDone(self.token, tuple(refused))


class Produces:
    """The produce path of one broker."""

    operation_type: type[DelayedProduce] = DelayedProduce

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        lead: Callable[[Partition, tuple[IsrEffect, ...]], None],
        storage_failed: Callable[[Partition, Exception], None],
        syncs: Syncs,
    ) -> None:
        self._syncs = syncs
        self._hosted = hosted
        self._room = room
        self._lead = lead
        self._storage_failed = storage_failed

    def produce(self, wall_ms: int, requests: Iterable[tuple[Produce, object]]) -> None:
        """Append and answer, or append and wait: each request, in order, for its token."""
        appended: list[tuple[Partition, tuple[IsrEffect, ...]]] = []
        outcomes = [
            (request, token, *self._append_all(wall_ms, request, appended))
            for request, token in requests
        ]
        # Followers are woken once all is appended, so that one answer carries everything.
        for partition, effects in appended:
            if effects:
                self._lead(partition, effects)
        if appended:
            self._room.appended({partition: None for partition, _ in appended})
        for request, token, acks, open_acks in outcomes:
            self._answer_or_wait(request, token, acks, open_acks)

    def append_internal(
        self, wall_ms: int, partition: Partition, item: PartitionBatch
    ) -> Failure | None:
        """Append a coordinator's batch. Nobody waits here for its commit."""
        appended: list[tuple[Partition, tuple[IsrEffect, ...]]] = []
        ack = self._append(wall_ms, partition, item, _OF_COORDINATORS, appended, {}, 0)
        for _, effects in appended:
            self._lead(partition, effects)
            self._room.appended((partition,))
        return ack.failure

    def _append_all(
        self,
        wall_ms: int,
        request: Produce,
        appended: list[tuple[Partition, tuple[IsrEffect, ...]]],
    ) -> tuple[list[PartitionAck], OpenAcks]:
        """One request's acks as they are when all goes well, and which are still open."""
        fault = self._request_fault(request)
        if fault is not None:
            return [PartitionAck(item.topic_partition, fault) for item in request.batches], {}
        acks: list[PartitionAck] = []
        open_acks: OpenAcks = {}
        find = self._hosted.find
        for item in request.batches:
            partition = find(item.topic_partition, item.topic_id)
            if isinstance(partition, Missing):
                acks.append(
                    PartitionAck(
                        item.topic_partition,
                        partition.failure,
                        current_leader=partition.leader,
                        current_leader_epoch=partition.leader_epoch,
                    )
                )
                continue
            index = len(acks)
            acks.append(self._append(wall_ms, partition, item, request, appended, open_acks, index))
        return acks, open_acks

    def _answer_or_wait(
        self, request: Produce, token: object, acks: list[PartitionAck], open_acks: OpenAcks
    ) -> None:
        wants_all, room = request.acks == -1, self._room
        waits: OpenAcks = {}
        lost = False
        for partition, wait in open_acks.items() if request.acks else ():
            _, required, leader_epoch = wait
            if (wants_all and not is_committed(partition, required)) or (
                not partition.log.may_acknowledge(required)
            ):
                waits[partition] = wait
                # over the same request: a disk failed, say
                lost = lost or (partition.leading is None or partition.leader_epoch != leader_epoch)
        if not waits:
            room.outbox.append(ProduceDone(token, tuple(acks)))
            return
        operation = self.operation_type(token, acks, waits, room, wants_all)
        wait_ms = max(0, min(request.timeout_ms, room.settings.request_wait_max_ms))
        begin_to_wait = room.complete_or_wait if lost else room.wait
        begin_to_wait(room.produces, operation, tuple(waits), room.now_ms + wait_ms)

    def _request_fault(self, request: Produce) -> Failure | None:
        if request.acks not in _ACKS:
            return Failure(
                InvalidRequiredAcks.code, f"acks={request.acks}: it must be 0, 1 or -1 (all)"
            )
        batches = request.batches
        if len(batches) > 1:
            limit = self._room.settings.request_partitions_max
            if len(batches) > limit:
                return Failure(
                    InvalidRequest.code,
                    f"the request names {len(batches)} partitions, the limit is {limit}",
                )
            names = Counter(item.topic_partition for item in batches)
            if len(names) < len(batches):
                twice = next(name for name, count in names.items() if count > 1)
                return Failure(
                    InvalidRequest.code,
                    f"{twice} stands in the request more than once; send one batch a partition",
                )
        return self._room.full() if request.acks == -1 else None

    def _append(
        self,
        wall_ms: int,
        partition: Partition,
        item: PartitionBatch,
        request: Produce,
        appended: list[tuple[Partition, tuple[IsrEffect, ...]]],
        open_acks: OpenAcks,
        index: int,
    ) -> PartitionAck:
        leading = partition.leading
        fault = None if leading is not None else partition.leader_fault()
        if fault is None and not request.internal:
            topic = partition.topic_partition[0]
            if is_internal(topic):
                fault = _not_for_clients(topic)
        if fault is None and item.guard is not None:
            fault = guard_fault(item.guard, item.topic_partition, partition.leader_epoch)
        if fault is None and request.acks == -1:
            fault = too_few(partition)
        if fault is not None or leading is None:
            assert fault is not None
            return _refused(partition, fault)
        log = partition.log
        try:
            info = log.append_as_leader(
                item.batch,
                leader_epoch=partition.leader_epoch,
                wall_ms=wall_ms,
                origin=CLIENT
                if item.checked is None and item.guard is None and not request.internal
                else _origin(item, request),
            )
        except PylogError as error:
            if isinstance(error, DiskFull):
                self._give_way(partition, leading)
            elif isinstance(error, KafkaStorageError):
                self._storage_failed(partition, error)
            index_in_batch = error.record_index if isinstance(error, InvalidRecord) else None
            return PartitionAck(
                item.topic_partition,
                Failure(error.code, str(error)),
                record_index=-1 if index_in_batch is None else index_in_batch,
            )
        except OSError as error:
            self._storage_failed(partition, error)
            return _refused(partition, Failure(KafkaStorageError.code, str(error)))
        due = self._syncs.are_due(partition)
        if not info.duplicate:
            if due:
                leading.await_sync(info.base_offset)
            effects = leading.on_append(self._room.now_ms, Offset(log.bounds.end))
            appended.append((partition, tuple(effects)))
        # A duplicate, too, is only good when what it repeats is committed.
        open_acks[partition] = (index, Offset(info.last_offset + 1), partition.leader_epoch)
        return PartitionAck(
            item.topic_partition,
            None,
            info.base_offset,
            info.log_append_time_ms,
            info.log_start_offset,
        )

    def _give_way(self, partition: Partition, leading: LeaderState) -> None:
        """The disk is full: let a replica lead that has room."""
        effects = leading.on_no_room(self._room.now_ms)
        if effects:
            partition.no_room = True
            self._lead(partition, tuple(effects))


def is_committed(partition: Partition, required: Offset) -> bool:
    """Whether all in-sync replicas have the records below `required`."""
    return partition.high_watermark >= required


def _refused(partition: Partition, fault: Failure) -> PartitionAck:
    return PartitionAck(
        partition.topic_partition,
        fault,
        current_leader=partition.leader,
        current_leader_epoch=partition.leader_epoch,
    )


def _not_for_clients(topic: str) -> Failure:
    return Failure(
        InvalidTopic.code,
        f"topic {topic} is internal; only coordinators write to it",
    )


def _origin(item: PartitionBatch, request: Produce) -> Origin:
    if request.internal:
        return INTERNAL
    return Origin(transaction_verified=item.guard is not None, checked=item.checked)


def too_few(partition: Partition) -> Failure | None:
    """The refusal of acks=all before anything is appended; None: enough replicas are in sync."""
    leading = partition.leading
    if leading is None or not leading.is_under_min_isr:
        return None
    return Failure(
        NotEnoughReplicas.code,
        f"the in-sync replicas {list(leading.isr)} of {partition.topic_partition} are fewer than "
        f"min.insync.replicas={leading.effective_min_isr}, which acks=all (-1) requires",
    )


def _too_few_after_append(partition: Partition) -> Failure | None:
    leading = partition.leading
    if leading is None or leading.maximal_isr_size >= leading.effective_min_isr:
        return None
    return Failure(
        NotEnoughReplicasAfterAppend.code,
        f"the batch is stored, but the in-sync replicas of {partition.topic_partition} shrank to "
        f"{list(leading.isr)}, fewer than min.insync.replicas={leading.effective_min_isr}",
    )


def _lost(partition: Partition, leader_epoch: LeaderEpoch) -> Failure | None:
    """The failure of a batch that may commit or not, as the leadership of its append is over."""
    fault = partition.leader_fault()
    if fault is None and partition.leader_epoch != leader_epoch:
        return Failure(
            NotLeaderOrFollower.code,
            f"the leadership of {partition.topic_partition} changed from epoch {leader_epoch} to "
            f"{partition.leader_epoch} before the batch was committed",
        )
    return fault
