"""The service of a simulated broker for clients: the edges of the product around `ReplicaManager`.

A produce stream's messages hold several requests, and are answered in their order; one with a
compressed batch is looked at beside the loop first, and what came behind it waits. A fetch stream
has one fetch under way, which may stand. Every answer is checked against the ghost state before it
leaves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pylog import errors
from pylog.model import BrokerId, ProducerId, TopicId, TopicPartition
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.metadata import view
from pylog_broker.api.produce import ProduceHandler
from pylog_broker.metadata.messages import Failure, ProducerIdBlock
from pylog_broker.protobuf.metadata import metadata_response, query_from
from pylog_broker.replication.fetch_messages import Fetch, PartitionData
from pylog_broker.replication.offset_messages import DeleteRecords, OffsetAnswer, OffsetQuery
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce
from pylog_broker.replication.replica_fetch_messages import (
    EpochEndQuery,
    EpochEnds,
    ReplicaEpochEnd,
)
from pylog_broker.replication.transactions import Unverified
from tests.sim.contents import fingerprint
from tests.sim.controller_node import ControllerProcess
from tests.sim.disk import TornWrite
from tests.sim.rpc import Call, Rpc
from tests.sim.twins import (
    check_divergence,
    check_epoch_end,
    check_offset,
    check_out_of_range,
)

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess
    from tests.sim.ghost import PartitionGhost

COMPRESSION_BITS = 7
UNPACKING_MS_MAX = 5


class ProduceMessage(NamedTuple):
    """One message of a produce stream: requests by their correlation."""

    requests: tuple[tuple[int, Produce], ...]


Answers = tuple[tuple[int, tuple[PartitionAck, ...]], ...]


class Fetched(NamedTuple):
    """An answer to a fetch. `stands`: another one follows."""

    partitions: tuple[PartitionData, ...]
    stands: bool


@dataclass(eq=False, slots=True)
class _Slot:
    """The place of a message's answer in its stream's order."""

    call: Call
    acks: list[tuple[PartitionAck, ...] | None]


@dataclass(eq=False, slots=True)
class _ProduceStream:
    slots: deque[_Slot] = field(default_factory=deque)
    waiting: deque[tuple[ProduceMessage, Call]] = field(default_factory=deque)
    is_unpacking: bool = False
    verifying: asyncio.Task[None] | None = None


@dataclass(eq=False, slots=True)
class Producing:
    """A produce that waits for its outcome: the replica manager's token."""

    request: Produce
    log_ends: tuple[int, ...]
    done: Callable[[tuple[PartitionAck, ...]], None]


class ClientService:
    """The service for clients of one life of a broker."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self._cluster = process.cluster
        self._sometimes = process.cluster.sometimes
        self._rng = process.cluster.scheduler.rng(f"edge {process.incarnation}")
        self._streams: dict[Rpc, _ProduceStream] = {}
        self._fetches: dict[Rpc, Call] = {}  # under way, or standing
        self._in_flight_bytes = 0
        self._producer_ids: list[ProducerId] = []

    # ---- produce

    def serve_produce(self, message: ProduceMessage, call: Call) -> None:
        """A message of a produce stream."""
        if self._process.core is None:
            call.stream.refuse()
            return
        stream = self._streams.setdefault(call.stream, _ProduceStream())
        stream.waiting.append((message, call))
        self._take(stream)

    def _take(self, stream: _ProduceStream) -> None:
        while stream.waiting and not stream.is_unpacking:
            message, call = stream.waiting.popleft()
            slot = _Slot(call, [None] * len(message.requests))
            if any(request.acks for _, request in message.requests):
                stream.slots.append(slot)
            if any(
                item.batch[22] & COMPRESSION_BITS
                for _, request in message.requests
                for item in request.batches
            ):
                self._sometimes["compressed batches produced"] += 1
                stream.is_unpacking = True
                wait_ms = self._rng.random() * UNPACKING_MS_MAX
                self._process.timer(wait_ms, self._unpacked, stream, message, slot)
            else:
                self._hand_over(stream, message, slot)

    def _unpacked(self, stream: _ProduceStream, message: ProduceMessage, slot: _Slot) -> None:
        stream.is_unpacking = False
        if slot.call.stream.open:
            self._hand_over(stream, message, slot)
            self._take(stream)

    def _hand_over(self, stream: _ProduceStream, message: ProduceMessage, slot: _Slot) -> None:
        process = self._process
        assert process.core is not None
        taken: list[tuple[Produce, Producing]] = []
        if len(message.requests) > 1:
            self._sometimes["several requests in a produce message"] += 1
        for index, (_, request) in enumerate(message.requests):
            size = sum(len(item.batch) for item in request.batches)
            limit = self._cluster.swarm.clients.request_bytes_max
            if self._in_flight_bytes + size > limit and self._in_flight_bytes:
                self._sometimes["produce throttled"] += 1
                fault = Failure(errors.ThrottlingQuotaExceeded.code, "too much waits")
                throttled = (PartitionAck(b.topic_partition, fault) for b in request.batches)
                self._answered(stream, slot, index, tuple(throttled))
                continue
            self._in_flight_bytes += size
            taken.append((request, self._producing(stream, slot, index, request, size)))
        if process.transactions is not None and any(map(self._opens, taken)):
            self._verify_first(stream, slot, taken)
        else:
            self._produce(taken)

    def _produce(self, taken: list[tuple[Produce, Producing]]) -> None:
        process = self._process
        if taken:
            assert process.core is not None
            now_ms, wall_ms = process.now_ms(), process.node.clock.now_ms()
            process.step(process.core.produce_all(now_ms, wall_ms, taken))

    def _verification(self) -> ProduceHandler:
        """The part of the product's handler that has coordinators asked."""
        assert self._process.transactions is not None
        nothing: Any = None
        return ProduceHandler(
            self._process.core or nothing,
            nothing,
            nothing,
            checks=nothing,
            memory=nothing,
            counters=nothing,
            topic_name=nothing,
            verification=self._process.transactions.verification,
        )

    def _opens(self, each: tuple[Produce, Producing]) -> bool:
        return self._verification()._opens(each[0])

    def _verify_first(
        self, stream: _ProduceStream, slot: _Slot, taken: list[tuple[Produce, Producing]]
    ) -> None:
        """The transactions' coordinators are asked; what comes behind on the stream waits."""
        self._sometimes["transactions: coordinator asked about batches"] += 1
        size = sum(len(item.batch) for request, _ in taken for item in request.batches)
        stream.is_unpacking = True
        assert self._process.loop is not None
        task = self._process.loop.create_task(self._verify(stream, slot, taken))
        stream.verifying = task

        def on_end(_: object) -> None:
            if taken:  # nobody waits any more
                self._in_flight_bytes -= size

        task.add_done_callback(on_end)

    async def _verify(
        self, stream: _ProduceStream, slot: _Slot, taken: list[tuple[Produce, Producing]]
    ) -> None:
        handler, asked = self._verification(), list[Unverified]()
        assert self._process.transactions is not None
        waiting: Any = taken
        try:
            await handler._verify_first(waiting, asked)
            for request, _ in taken:
                self._note_refusals(request)
            checked = taken[:]
            taken.clear()
            try:
                self._produce(checked)
            except TornWrite:
                self._process.torn_write()
                return
        finally:
            self._process.transactions.verification.release(asked)
        stream.is_unpacking = False
        if slot.call.stream.open:
            self._take(stream)

    def _note_refusals(self, request: Produce) -> None:
        for item in request.batches:
            if item.guard is not None and item.guard.refusal is not None:
                name = errors.ERRORS_BY_CODE[item.guard.refusal.code].__name__
                self._sometimes["transactions: verification refused"] += 1
                self._sometimes[f"transactions: verification: {name}"] += 1

    def _producing(
        self, stream: _ProduceStream, slot: _Slot, index: int, request: Produce, size: int
    ) -> Producing:
        if len(request.batches) > 1:
            self._sometimes["several partitions in a produce"] += 1
        if request.acks == 0:
            self._sometimes["produced without acks"] += 1
        shadow_of = self._process.broker_id
        ends = tuple(self._ghost_of(item).shadow(shadow_of).end for item in request.batches)
        self._cluster.scheduler.note("produce", self._process.name, request.acks, *ends)

        def done(acks: tuple[PartitionAck, ...]) -> None:
            self._in_flight_bytes -= size
            self._answered(stream, slot, index, acks)

        return Producing(request, ends, done)

    def produced(self, token: Producing, acks: tuple[PartitionAck, ...]) -> None:
        """The replica manager has answered."""
        for batch, ack, end in zip(token.request.batches, acks, token.log_ends, strict=True):
            if token.request.acks == -1 and ack.failure is None:
                mark = fingerprint(batch.batch)
                self._ghost_of(batch).check_ok(self._process.broker_id, ack.base_offset, mark)
                if ack.base_offset < end:
                    self._sometimes["duplicate answered"] += 1
            elif ack.failure is not None:
                name = errors.ERRORS_BY_CODE[ack.failure.code].__name__
                self._sometimes[f"produce: {name}"] += 1
        token.done(acks)

    def _answered(
        self, stream: _ProduceStream, slot: _Slot, index: int, acks: tuple[PartitionAck, ...]
    ) -> None:
        slot.acks[index] = acks
        while stream.slots and all(a is not None for a in stream.slots[0].acks):
            first = stream.slots.popleft()
            message = first.call.value
            assert isinstance(message, ProduceMessage)
            first.call.answer(
                tuple(
                    (correlation, acks if request.acks else ())
                    for (correlation, request), acks in zip(
                        message.requests, first.acks, strict=True
                    )
                )
            )

    def _ghost_of(self, batch: PartitionBatch) -> PartitionGhost:
        assert batch.topic_id is not None
        return self._cluster.shadows.ghost(batch.topic_id, batch.topic_partition.partition)

    # ---- fetch

    def serve_fetch(self, request: Fetch, call: Call) -> None:
        """A fetch; the next one on its stream ends one that stands."""
        process = self._process
        if process.core is None:
            call.stream.refuse()
            return
        before = self._fetches.get(call.stream)
        if before is not None:
            before.open = False
            process.core.cancel(before)
        self._fetches[call.stream] = call
        if len(request.partitions) > 1:
            self._sometimes["several partitions in a fetch"] += 1
        if request.read_committed:
            self._sometimes["read committed"] += 1
        if any(item.last_fetched_epoch >= 0 for item in request.partitions):
            self._sometimes["consumer's fetch names epochs"] += 1
        process.step(process.core.fetch(process.now_ms(), request, call))

    def found(self, call: Call, partitions: tuple[PartitionData, ...], *, stands: bool) -> None:
        """The replica manager has found something to read."""
        if stands:
            self._sometimes["standing fetch answered"] += 1
            call.answer_in_part(Fetched(partitions, True))
            return
        if self._fetches.get(call.stream) is call:
            del self._fetches[call.stream]
        for data in partitions:
            is_out = data.failure is not None and data.failure.code == errors.OffsetOutOfRange.code
            if is_out or data.diverging is not None:
                self._check_position(call, data)
        call.answer(Fetched(partitions, False))

    def _check_position(self, call: Call, data: PartitionData) -> None:
        """Checks the position of a reader that is told that it cannot go on from where it is."""
        request = call.value
        assert isinstance(request, Fetch)
        for item in request.partitions:
            if item.topic_partition != data.topic_partition or item.topic_id is None:
                continue
            ghost = self._cluster.shadows.ghost(item.topic_id, item.topic_partition.partition)
            if data.diverging is None:
                check_out_of_range(ghost, self._process.broker_id, item.fetch_offset)
            else:
                check_divergence(ghost, self._process.broker_id, item, data)

    def cancelled(self, call: Call) -> None:
        """Its connection broke. Its produce requests go on."""
        core = self._process.core
        if self._fetches.get(call.stream) is call:
            del self._fetches[call.stream]
        stream = self._streams.pop(call.stream, None)
        if stream is not None and stream.verifying is not None:
            stream.verifying.cancel()
        if core is not None and not isinstance(call.value, ProduceMessage):
            core.cancel(call)

    # ---- offsets

    def serve_list_offsets(
        self, queries: tuple[OffsetQuery, ...], answer: Callable[[object], None]
    ) -> None:
        """Offsets by time or by name."""
        process = self._process
        if process.core is None:
            return
        process.step([])  # a pass of the cleaner may have changed files since the last one

        def listed(answers: tuple[OffsetAnswer, ...]) -> None:
            for query, told in zip(queries, answers, strict=True):
                self._check_listed(query, told)
            answer(answers)

        process.step(process.core.list_offsets(process.now_ms(), queries, listed))

    def _check_listed(self, query: OffsetQuery, told: OffsetAnswer) -> None:
        self._sometimes["offset listed" if told.failure is None else "offset refused"] += 1
        if told.failure is None and told.topic_id is not None:
            ghost = self._cluster.shadows.ghost(told.topic_id, query.topic_partition.partition)
            if query.timestamp_ms >= 0:
                self._sometimes["offset by time"] += 1
            check_offset(ghost, self._process.broker_id, query, told)

    def serve_epoch_ends(self, request: EpochEndQuery, answer: Callable[[object], None]) -> None:
        """Answer with the ends of leader epochs."""
        process = self._process
        if process.core is None:
            return
        process.step([])
        ends: EpochEnds = process.core.epoch_ends(request)
        for query, end in zip(request.queries, ends.ends, strict=True):
            self._check_epoch_end(query.leader_epoch, end)
        answer(ends)

    def _check_epoch_end(self, epoch: int, end: ReplicaEpochEnd) -> None:
        self._sometimes["epoch end asked"] += 1
        if end.failure is None:
            ghost = self._cluster.shadows.ghost(end.topic_id, end.partition)
            check_epoch_end(ghost, self._process.broker_id, epoch, end)

    # ---- others

    def serve_metadata(
        self, request: log_pb2.MetadataRequest, answer: Callable[[object], None]
    ) -> None:
        """The metadata as far as this broker knows it."""
        if self._process.core is not None:
            told = view(self._process.image, query_from(request), None)
            answer(metadata_response(told))

    def serve_delete_records(self, asked: tuple[DeleteRecords, TopicId], call: Call) -> None:
        """An administrator's; the topic must still be the one that is meant."""
        request, topic_id = asked
        process = self._process
        name, offset = request.offsets[0]
        topic = process.image.topics_by_name.get(name.topic)
        if process.core is None or topic is None or topic.topic_id != topic_id:
            call.answer(None)
            return
        if offset < 0:
            ghost = self._cluster.shadows.ghost(topic_id, name.partition)
            ghost.deleted_to = max(ghost.deleted_to, ghost.shadow(process.broker_id).high_watermark)
        process.step(process.core.delete_records(process.now_ms(), request, call))

    def leader_of(self, topic_partition: TopicPartition) -> BrokerId | None:
        """The leader, as far as this broker knows."""
        topic = self._process.image.topics_by_name.get(topic_partition.topic)
        if topic is None:
            return None
        partition = topic.partitions.get(topic_partition.partition)
        return None if partition is None else partition.leader

    def new_producer_id(self, answer: Callable[[object], None]) -> None:
        """A producer id that nobody has, or None."""
        if self._producer_ids:
            answer(self._producer_ids.pop())
            return

        def allocated(block: object) -> None:
            if isinstance(block, ProducerIdBlock):
                self._producer_ids.extend(
                    ProducerId(block.first + index) for index in reversed(range(block.count))
                )
            answer(self._producer_ids.pop() if self._producer_ids else None)

        process = self._process
        if process.broker_epoch < 0:
            answer(None)
            return
        process.ask_controller(
            ControllerProcess.serve_producer_ids,
            (process.broker_id, process.broker_epoch),
            allocated,
        )


def named(partitions: Sequence[PartitionData]) -> str:
    """For the trace."""
    return " ".join(str(data.topic_partition) for data in partitions)
