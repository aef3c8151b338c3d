"""The groups of a simulated broker: the product's shards, their shell and their handlers.

They run on the broker's loop in simulated time, over its replica manager, and are asked by messages
of the protocol. Whatever they write is noted for the ghost state first, and what an answer
promises is compared with what is committed before it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pylog import errors
from pylog.model import CONSUMER_OFFSETS
from pylog.records.reader import iter_records
from pylog.rpc.apis import OFFSET_COMMIT
from pylog_broker.api.api import GroupApi
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.committed_offsets import CommittedOffsetsHandler
from pylog_broker.api.groups.find_coordinator import FindCoordinatorHandler
from pylog_broker.api.groups.group_admin import GroupAdminHandler
from pylog_broker.api.groups.members import MembersHandler
from pylog_broker.api.groups.streams import StreamsHandler
from pylog_broker.coordinator.runtime.shard import ShardPhase
from pylog_broker.metadata.image import MetadataDelta
from pylog_broker.metadata.messages import EnsureInternalTopic, Failure, InternalTopicEnsured
from pylog_broker.node.coordinators import Coordinators
from pylog_broker.node.group_coordinators import GroupShards
from pylog_broker.node.internal_topics import InternalTopics
from pylog_broker.protobuf.group_apis import group_apis
from pylog_broker.replication.messages import (
    AppendInternal,
    Effect,
    HighWatermarkMoved,
    InternalAppended,
    InternalRead,
    LeadershipBegan,
    LeadershipEnded,
    ReadInternal,
)
from tests.sim.contents import Original, fingerprint
from tests.sim.controller_node import ControllerProcess
from tests.sim.rpc import Call
from tests.sim.sim_loop import SimLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sim.broker_process import BrokerProcess

CALL_MS = 1_500
"""How long what is asked of a coordinator may wait for other replicas."""


class GroupCall(NamedTuple):
    """A unary call of the group service. `address`: of the client."""

    api: int
    message: Any
    address: str


class Refused(NamedTuple):
    """The call failed as a whole."""

    code: int
    message: str


@dataclass(slots=True)
class _Clock:
    """Of the broker's machine."""

    process: BrokerProcess

    def monotonic_ms(self) -> int:
        return self.process.now_ms()

    def wall_ms(self) -> int:
        return self.process.node.clock.now_ms()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("a broker's loop does not sleep")


class _Manager:
    """The replica manager, with the ghost looking at what is appended."""

    def __init__(self, process: BrokerProcess) -> None:
        assert process.core is not None
        self._process = process
        self.transactions = process.core.transactions

    def internal_refusal(self, name: Any) -> Failure | None:
        assert self._process.core is not None
        return self._process.core.internal_refusal(name)

    def read_internal(self, now_ms: int, request: ReadInternal, token: object) -> list[Effect]:
        assert self._process.core is not None
        return self._process.core.read_internal(now_ms, request, token)

    def append_internal(
        self, now_ms: int, wall_ms: int, request: AppendInternal, token: object
    ) -> list[Effect]:
        assert self._process.core is not None
        self._note(request)
        return self._process.core.append_internal(now_ms, wall_ms, request, token)

    def _note(self, request: AppendInternal) -> None:
        name, batch = request.topic_partition, request.batch
        topic = self._process.image.topics_by_name.get(name.topic)
        if topic is None:
            return
        records = [*iter_records(batch, name.topic, name.partition)]
        original = Original(
            (topic.topic_id, name.partition),
            tuple(record.key for record in records),
            tuple(record.value for record in records),
            tuple(record.timestamp_ms for record in records),
        )
        self._process.cluster.shadows.contents.sent(fingerprint(batch), original)


class _Engine:
    """What the shell needs of a broker's engine."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self.manager = _Manager(process)

    def tell(self, event: Callable[[int], list[Effect]]) -> None:
        if not self._process.is_closing:
            self._process.step(event(self._process.now_ms()))


class GroupService:
    """Of one life of a broker, from its registration on."""

    def __init__(self, process: BrokerProcess) -> None:
        cluster, incarnation = process.cluster, process.incarnation
        assert cluster.groups is not None
        self._process = process
        self._cluster = cluster
        self._ghost = cluster.groups.ghost
        self._sometimes = cluster.sometimes
        self._ids = cluster.scheduler.rng(f"member ids {incarnation}")
        self.loop = SimLoop(process, process.pool, cluster.scheduler.rng(f"loop {incarnation}"))
        self._calls: dict[Call, asyncio.Task[None]] = {}
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop)  # type: ignore[arg-type]
        clock: Any = _Clock(process)
        engine: Any = _Engine(process)
        pool: Any = None
        no_streams: Any = None  # groups of that type are not run here
        self.shards = GroupShards(cluster.groups.config, engine, clock, pool, lambda: process.image)
        self._leaderships = Coordinators({CONSUMER_OFFSETS: self.shards.shell})
        self._internal_topics = InternalTopics(
            self._ask_for_topic, lambda: (process.broker_id, process.broker_epoch)
        )
        api = GroupApi(
            FindCoordinatorHandler(lambda: process.image, self._internal_topics.ensure),
            MembersHandler(
                self.shards, lambda: process.image, self._new_id, commit_timeout_ms=CALL_MS
            ),
            CommittedOffsetsHandler(self.shards, lambda: process.image, commit_timeout_ms=CALL_MS),
            GroupAdminHandler(self.shards, lambda: process.image, commit_timeout_ms=CALL_MS),
            StreamsHandler(self.shards, no_streams, commit_timeout_ms=CALL_MS),
        )
        self._apis = {each.api.key: each for each in group_apis(api)}
        self._failures = 0
        asyncio._set_running_loop(before)

    def _new_id(self) -> str:
        return f"{self._ids.getrandbits(48):012x}"

    async def _ask_for_topic(self, request: EnsureInternalTopic) -> InternalTopicEnsured | Failure:
        answered = self.loop.create_future()

        def heard(answer: object) -> None:
            if not answered.done():
                answered.set_result(answer)

        handler = ControllerProcess.serve_ensure_internal_topic
        self._process.ask_controller(handler, request, heard)
        answer: InternalTopicEnsured | Failure | None = await answered
        if answer is None:
            raise errors.CoordinatorNotAvailable("the controller is silent")
        self._sometimes["groups: internal topic asked for"] += 1
        return answer

    # ---- what the replica manager and the metadata tell

    def perform(self, effect: Effect) -> None:
        """An effect that is a coordinator's."""
        match effect:
            case LeadershipBegan():
                self._leaderships.on_leadership_began(effect)
            case LeadershipEnded():
                self._leaderships.on_leadership_ended(effect)
            case HighWatermarkMoved():
                self._leaderships.on_high_watermark_moved(effect)
                self._compare(effect.topic_partition.partition)
            case InternalRead(token, data):
                answer: Any = token
                if data.failure is not None:
                    self._sometimes["groups: log not read"] += 1
                answer(data)
            case InternalAppended(token, failure):
                answer = token
                if failure is not None:
                    name = errors.ERRORS_BY_CODE[failure.code].__name__
                    self._sometimes["groups: append refused"] += 1
                    self._sometimes[f"groups: append: {name}"] += 1
                answer(failure)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The image has changed."""
        self.shards.on_metadata(delta)

    def compare_all(self) -> None:
        """I14, for every shard that has nothing under way; how many that are is the caller's."""
        for number in self.shards.shell.runtime.coordinators():
            self._compare(number)

    def _compare(self, number: int) -> None:
        """I14: what a shard has in memory is what its log says, when all of it is committed."""
        led = self.shards.shell.runtime._led.get(number)
        if led is None or led.shard.phase is not ShardPhase.ACTIVE:
            return
        machine = led.shard._machine
        topic = self._process.image.topics_by_name.get(CONSUMER_OFFSETS)
        if machine._uncommitted or machine._open or topic is None:
            return
        ghost = self._cluster.shadows.ghost(topic.topic_id, number)
        is_newest = led.shard.epoch == ghost.newest_epoch
        if is_newest and ghost.committed_end == machine.next_offset and not ghost.is_lossy:
            self._sometimes["groups: memory compared with the log"] += 1
            self._ghost.check_memory(self._process.name, number, led.shard.coordinator)

    # ---- calls

    def serve(self, asked: GroupCall, call: Call) -> None:
        """A call that a client makes."""
        if self._process.is_closing:
            call.stream.refuse()
            return
        task = self.loop.create_task(self._answer(asked, call))
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
            self._sometimes["groups: caller gone"] += 1
            task.cancel()

    async def _answer(self, asked: GroupCall, call: Call) -> None:
        bound = self._apis[asked.api]
        address = asked.address
        context = RequestContext("PLAINTEXT", address, f"{address}:1", client_id=address)
        try:
            given = await bound.decoded(context, asked.message)
        except errors.PylogError as fault:
            self._sometimes[f"groups: {bound.api.name}: {fault.name}"] += 1
            response = (
                Refused(fault.code, str(fault)) if bound.refused is None else bound.refused(fault)
            )
        else:
            self._sometimes[f"groups: {bound.api.name}"] += 1
            response = bound.encode(given)
            if bound.api is OFFSET_COMMIT:
                self._check_committed(asked.message, given.partitions.items())
        call.answer(response)

    def _check_committed(self, message: Any, outcomes: Iterable[tuple[Any, Any]]) -> None:
        """I10: what is answered as committed is."""
        tags = {(each.topic, each.partition): each.metadata for each in message.offsets}
        for tp, fault in outcomes:
            if fault is None:
                self._ghost.acknowledged(self._process.name, message.group_id, tags[tp])

    def stop(self) -> None:
        """The broker closes its logs."""
        self._internal_topics.stop()
        self.shards.shell.stop()
