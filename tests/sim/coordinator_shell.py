"""The ground of a simulated broker's coordinators: its clock, its replica manager with the ghost
looking at appends, and the calls that clients make.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pylog import errors
from pylog.model import TopicId, TopicPartition
from pylog.records.batch import read_header
from pylog.records.builder import ControlType, read_control
from pylog.records.reader import iter_records
from pylog_broker.api.context import RequestContext
from pylog_broker.coordinator.runtime.shard import ShardPhase
from pylog_broker.metadata.messages import EnsureInternalTopic, Failure, InternalTopicEnsured
from pylog_broker.node.coordinators import CoordinatorShell
from pylog_broker.node.internal_topics import InternalTopics
from pylog_broker.protobuf.unary import AnyBound
from pylog_broker.replication.effects import Effect, LeadershipEnded
from pylog_broker.replication.internal_messages import AppendInternal, ReadInternal
from pylog_broker.replication.offset_messages import DeleteRecords
from pylog_broker.replication.produce_messages import PartitionAck, Produce
from tests.sim.contents import ANYWHERE, Marker, Original, fingerprint
from tests.sim.controller_node import ControllerProcess
from tests.sim.disk import TornWrite
from tests.sim.rpc import Call

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess


class UnaryCall(NamedTuple):
    """A call of one of the services of coordinators. `address`: of the client."""

    api: int
    message: Any
    address: str


class Refused(NamedTuple):
    """The call failed as a whole."""

    code: int
    message: str


@dataclass(slots=True)
class Clock:
    """The clock of the broker's machine."""

    process: BrokerProcess

    def monotonic_ms(self) -> int:
        """As the broker's cores are told."""
        return self.process.now_ms()

    def wall_ms(self) -> int:
        """As its machine has it."""
        return self.process.node.clock.now_ms()

    def sleep(self, seconds: float) -> None:
        """A broker's loop does not sleep."""
        raise AssertionError(seconds)


class NotedManager:
    """The replica manager; what coordinators append by it is noted for the ghost state first."""

    def __init__(self, process: BrokerProcess) -> None:
        assert process.core is not None
        self._process = process
        self._core = process.core
        self.transactions = process.core.transactions
        self.trusted_ms = process.core.trusted_ms

    def internal_refusal(self, name: Any) -> Failure | None:
        """See `ReplicaManager`."""
        return self._core.internal_refusal(name)

    def read_internal(self, now_ms: int, request: ReadInternal, token: object) -> list[Effect]:
        """See `ReplicaManager`."""
        return self._core.read_internal(now_ms, request, token)

    def append_internal(
        self, now_ms: int, wall_ms: int, request: AppendInternal, token: object
    ) -> list[Effect]:
        """See `ReplicaManager`."""
        self._note(request.topic_partition, request.batch)
        return self._core.append_internal(now_ms, wall_ms, request, token)

    def delete_records(self, now_ms: int, request: DeleteRecords, done: object) -> list[Effect]:
        """Records that must be gone before the marker of an overwrite is written."""
        sinks = self._process.cluster.sinks
        assert sinks is not None
        for name, offset in request.offsets:
            topic_id = self._topic_id(name)
            if topic_id is not None:
                sinks.ghost.deletes(self._process.name, topic_id, name.partition, offset)
        return self._core.delete_records(now_ms, request, done)

    def produce(
        self,
        now_ms: int,
        wall_ms: int,
        request: Produce,
        done: Callable[[Sequence[PartitionAck]], None],
    ) -> list[Effect]:
        """A marker, which nobody but coordinators produces. It comes from a task, where no torn
        write may end.
        """
        (item,) = request.batches
        self._note(item.topic_partition, item.batch)
        token = partial(self._marked, item.topic_partition, item.batch, done)
        try:
            return self._core.produce(now_ms, wall_ms, request, token)
        except TornWrite:
            self._process.torn_write()
            raise asyncio.CancelledError from None

    def _marked(
        self,
        name: TopicPartition,
        batch: Any,
        done: Callable[[Sequence[PartitionAck]], None],
        acks: Sequence[PartitionAck],
    ) -> None:
        """I10: a marker that is said to be there is committed."""
        topic_id = self._topic_id(name)
        if acks[0].failure is None and topic_id is not None:
            ghost = self._process.cluster.shadows.ghost(topic_id, name.partition)
            offset, mark = acks[0].base_offset, fingerprint(batch)
            ghost.check_ok(self._process.broker_id, offset, mark)
        done(acks)

    def _topic_id(self, name: TopicPartition) -> TopicId | None:
        topic = self._process.image.topics_by_name.get(name.topic)
        return None if topic is None else topic.topic_id

    def _note(self, name: TopicPartition, batch: Any) -> None:
        topic_id = self._topic_id(name)
        if topic_id is None:
            return
        header = read_header(batch)
        records = [*iter_records(batch, *name, include_control=True)]
        home = (topic_id, name.partition)
        ends = None
        if header.is_control:
            kind, coordinator_epoch = read_control(records[0].key, records[0].value)
            ends = Marker(kind is ControlType.COMMIT, coordinator_epoch)
            home = ANYWHERE
            transactions = self._process.cluster.transactions
            if transactions is not None:
                producer = header.producer_id, header.producer_epoch
                transactions.ghost.marked(self._process.name, name, *producer, ends)
        original = Original(
            home,
            tuple(record.key for record in records),
            tuple(record.value for record in records),
            tuple(record.timestamp_ms for record in records),
            header.is_transactional,
            ends,
        )
        self._process.cluster.shadows.contents.sent(fingerprint(batch), original)


class Engine:
    """The part of a broker's engine that shells need."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self.manager = NotedManager(process)

    def tell(self, event: Callable[[int], list[Effect]]) -> None:
        """Let the manager hear of something."""
        if not self._process.is_closing:
            self._process.step(event(self._process.now_ms()))

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform the manager's effects."""
        if not self._process.is_closing:
            try:
                self._process.step([*effects])
            except TornWrite:
                self._process.torn_write()
                raise asyncio.CancelledError from None


class UnaryCalls:
    """The calls of one service of a broker, each a task of its loop. `kind`: for the counters."""

    def __init__(self, process: BrokerProcess, kind: str) -> None:
        assert process.loop is not None
        self._process = process
        self._kind = kind
        self._loop = process.loop
        self._sometimes = process.cluster.sometimes
        self._calls: dict[Call, asyncio.Task[None]] = {}
        self._apis: dict[int, AnyBound] = {}
        self._internal_topics = InternalTopics(
            self._ask_for_topic, lambda: (process.broker_id, process.broker_epoch)
        )

    def note_end(self, shell: CoordinatorShell[Any], ended: LeadershipEnded) -> None:
        """Count what a coordinator was in the middle of when its partition moved away from its
        broker.
        """
        name, process = ended.topic_partition, self._process
        record = process.image.partition(ended.topic_id, name.partition)
        led = shell.runtime._led.get(name.partition)
        if record is None or led is None or process.broker_id in record.replicas:
            return
        counted = f"moves: {name.topic}: coordinator moved away"
        self._sometimes[counted] += 1
        if led.shard.phase is ShardPhase.LOADING:
            self._sometimes["moves: coordinator moved away while it loaded"] += 1
        elif led.shard._machine._uncommitted:
            self._sometimes[f"{counted} with decisions under way"] += 1

    async def _ask_for_topic(self, request: EnsureInternalTopic) -> InternalTopicEnsured | Failure:
        answer: InternalTopicEnsured | Failure | None
        answer = await self._asked(ControllerProcess.serve_ensure_internal_topic, request)
        if answer is None:
            raise errors.CoordinatorNotAvailable("the controller is silent")
        self._sometimes[f"{self._kind}: internal topic asked for"] += 1
        return answer

    async def _asked(self, handler: Any, request: object) -> Any:
        """The controller's answer; None when it is silent."""
        answered = self._loop.create_future()

        def heard(answer: object) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._process.ask_controller(handler, request, heard)
        return await answered

    def serve(self, asked: UnaryCall, call: Call) -> None:
        """A call that a client makes."""
        self._begin(self._answer(asked, call), call)

    def _begin(self, work: Any, call: Call) -> None:
        if self._process.is_closing:
            work.close()
            call.stream.refuse()
            return
        task = self._loop.create_task(work)
        self._calls[call] = task
        task.add_done_callback(lambda _: self._ended(call, task))

    def _ended(self, call: Call, task: asyncio.Task[None]) -> None:
        self._calls.pop(call, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            raise error

    def cancelled(self, call: Call) -> None:
        """The client's connection broke."""
        task = self._calls.pop(call, None)
        if task is not None:
            self._sometimes[f"{self._kind}: caller gone"] += 1
            task.cancel()

    async def _answer(self, asked: UnaryCall, call: Call) -> None:
        bound = self._apis[asked.api]
        try:
            given = await bound.decoded(self._context(asked, call), asked.message)
        except errors.PylogError as fault:
            self._sometimes[f"{self._kind}: {bound.api.name}: {fault.name}"] += 1
            response = (
                Refused(fault.code, str(fault)) if bound.refused is None else bound.refused(fault)
            )
        else:
            self._sometimes[f"{self._kind}: {bound.api.name}"] += 1
            response = bound.encode(given)
            self._check(asked, given)
        call.answer(response)

    def _context(self, asked: UnaryCall, call: Call) -> RequestContext:
        """The origin of the call."""
        address = asked.address
        return RequestContext("PLAINTEXT", address, f"{address}:1", client_id=address)

    def _check(self, asked: UnaryCall, given: Any) -> None:
        """Check an answer before it is given."""
