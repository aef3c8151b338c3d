"""The share groups of a simulated broker: the product's parts, put together as the product does it.

The coordinator of groups, the coordinator of their state and the leader of the partitions that they
read live on the broker's loop in simulated time. Brokers ask each other by bytes, over connections
that may break at any time. Each step of a partition is looked at by the ghost state, and what an
answer promises is compared with what is committed before it leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.model import CONSUMER_OFFSETS, Offset, TopicId
from pylog.rpc.apis import SHARE_ACKNOWLEDGE, SHARE_FETCH
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.find_coordinator import FindCoordinatorHandler
from pylog_broker.controller.settings import SHARE_GROUP_STATE
from pylog_broker.coordinator.runtime.shard import ShardPhase
from pylog_broker.kafka.broker_apis import AnyBoundBrokerApi, BrokerApi
from pylog_broker.kafka.produce_calls import ACKS_ALL, produce_api
from pylog_broker.metadata.admin import CreateTopics, TopicsCreated
from pylog_broker.metadata.image import MetadataDelta
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.node.coordinators import Coordinators, CoordinatorShell
from pylog_broker.node.group_coordinators import GroupShards
from pylog_broker.node.share import share_groups
from pylog_broker.node.share.led_partitions import LedSharePartition, LedSharePartitions
from pylog_broker.node.share.share_groups import BrokerShareGroups
from pylog_broker.protobuf.group_apis import find_coordinator_api
from pylog_broker.protobuf.share_apis import share_apis
from pylog_broker.replication.effects import (
    Effect,
    HighWatermarkMoved,
    InternalAppended,
    InternalRead,
    LeadershipBegan,
    LeadershipEnded,
)
from pylog_broker.replication.fetch_messages import Fetch, PartitionData
from pylog_broker.replication.offset_messages import DeleteRecords, OffsetAnswer, OffsetQuery
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce
from pylog_broker.share.sessions import SharePartitionKey
from pylog_broker.share.share_partition import AcknowledgementBatch
from tests.sim.controller_node import ControllerProcess
from tests.sim.coordinator_shell import Clock, Engine, NotedManager, UnaryCall, UnaryCalls
from tests.sim.disk import TornWrite
from tests.sim.peers import PeerCall, PeerCalls
from tests.sim.rpc import Call, Rpc
from tests.sim.share_ghost import ShareGhost
from tests.sim.share_locks import Acknowledged, Given, Step
from tests.sim.variant import overridden

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess

CALL_MS = 1_500
"""The time for which a request to a coordinator may wait for other replicas."""
SESSIONS_MAX = 200


class _Manager(NotedManager):
    """The replica manager, for the leader of share groups too."""

    def fetch(
        self, now_ms: int, request: Fetch, done: Callable[[Sequence[PartitionData]], None]
    ) -> list[Effect]:
        """See `ReplicaManager`."""
        return self._core.fetch(now_ms, request, done)

    def list_offsets(
        self,
        now_ms: int,
        queries: Sequence[OffsetQuery],
        done: Callable[[Sequence[OffsetAnswer]], None],
    ) -> list[Effect]:
        """See `ReplicaManager`."""
        return self._core.list_offsets(now_ms, queries, done)

    def delete_records(self, now_ms: int, request: DeleteRecords, done: object) -> list[Effect]:
        """A pruning: what the share coordinator calls redundant may go."""
        for name, offset in request.offsets:
            topic_id = self._topic_id(name)
            if topic_id is not None:
                ghost = self._process.cluster.shadows.ghost(topic_id, name.partition)
                ghost.deleted_to = max(ghost.deleted_to, offset)
                self._process.cluster.sometimes["shares: state log pruned"] += 1
        return self._core.delete_records(now_ms, request, done)

    def cancel(self, token: object) -> None:
        """See `ReplicaManager`."""
        self._core.cancel(token)


class _Engine(Engine):
    """The engine; a task that a torn write ends is cancelled."""

    def __init__(self, process: BrokerProcess) -> None:
        super().__init__(process)
        self.manager = _Manager(process)

    def tell(self, event: Callable[[int], list[Effect]]) -> None:
        """Let the manager hear of something."""
        try:
            super().tell(event)
        except TornWrite:
            if asyncio.current_task() is None:
                raise
            self._process.torn_write()
            raise asyncio.CancelledError from None


class _ByBytes(PeerCalls):
    """Calls to other brokers, as they are written and read."""

    async def call(self, broker: Any, api: BrokerApi[Any, Any], request: Any, **how: Any) -> Any:
        """See `BrokerCalls`."""
        version = api.version
        body = memoryview(b"".join(api.encode_request(request, version)))
        asked = api.decode_request(body, 0, version)
        answer = await super().call(broker, api, asked, **how)
        told = memoryview(b"".join(api.encode_response(answer, version)))
        return api.decode_response(told, 0, version)


class _BatchesHere:
    """`BatchesHere`: dead letters that this broker appends, which the ghost state hears of."""

    def __init__(self, process: BrokerProcess, engine: _Engine, ghost: ShareGhost) -> None:
        self._process = process
        self._engine = engine
        self._ghost = ghost

    async def produce(
        self, _context: RequestContext, batches: Sequence[PartitionBatch], timeout_ms: int
    ) -> Sequence[PartitionAck]:
        """See `BatchesHere`."""
        for each in batches:
            self._ghost.sends_letters(self._process.name, each.topic_partition, each.batch)
        answered = asyncio.get_running_loop().create_future()

        def done(acks: Sequence[PartitionAck]) -> None:
            if not answered.done():
                answered.set_result(acks)

        request = Produce(ACKS_ALL, timeout_ms, tuple(batches))
        wall_ms = self._process.node.clock.now_ms()
        manager = self._engine.manager
        self._engine.tell(lambda now_ms: manager.produce(now_ms, wall_ms, request, done))
        acks: Sequence[PartitionAck] = await answered
        for ack in acks:
            what = "written" if ack.failure is None else "refused"
            self._process.cluster.sometimes[f"shares: dead letters {what}"] += 1
        return acks


class _Watched(LedSharePartitions):
    """The partitions that this broker leads, under the eyes of the ghost state."""

    def __init__(self, process: BrokerProcess, ghost: ShareGhost, *parts: Any) -> None:
        super().__init__(*parts)
        self._process = process
        self._ghost = ghost
        self._step = Step()

    def settle(self, led: LedSharePartition) -> None:
        """Something has changed."""
        until_ms = self._ghost.look(self._process, led, self._step)
        if until_ms is not None:
            wait_ms = until_ms - self._process.now_ms()
            self._process.timer(wait_ms, self._ghost.locks_must_have_ended, led, until_ms)
        super().settle(led)

    def acknowledge(
        self,
        led: LedSharePartition,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        *,
        may_renew: bool,
    ) -> asyncio.Future[None]:
        """See `LedSharePartitions`."""
        before, self._step = self._step, Acknowledged(member_id, tuple(batches))
        try:
            return super().acknowledge(led, member_id, batches, may_renew=may_renew)
        except errors.PylogError as error:
            self._process.cluster.sometimes[f"shares: acknowledgement: {error.name}"] += 1
            raise
        finally:
            self._step = before

    def release(self, led: LedSharePartition, member_id: str, *, delivered: bool) -> None:
        """See `LedSharePartitions`."""
        before, self._step = self._step, Given(member_id, delivered)
        try:
            super().release(led, member_id, delivered=delivered)
        finally:
            self._step = before

    def end(self, led: LedSharePartition, error: errors.PylogError) -> None:
        """See `LedSharePartitions`."""
        if led.ended is None:
            self._ghost.ended(led, error)
        super().end(led, error)


class ShareService(UnaryCalls):
    """The service for share groups of one life of a broker, from its registration on."""

    def __init__(self, process: BrokerProcess) -> None:
        super().__init__(process, "shares")
        cluster = process.cluster
        assert cluster.shares is not None
        assert cluster.swarm.shares is not None
        self._cluster = cluster
        self._ghost = cluster.shares.ghost
        self._tells_of_connections = cluster.swarm.shares.tells_of_connections
        self._ports: dict[Rpc, int] = {}
        clock: Any = Clock(process)
        engine: Any = _Engine(process)
        nobody: Any = None  # the pool, which is the loop's own
        calls: Any = _ByBytes(process, "shares", lambda peer: peer.shares)

        def image() -> Any:
            return process.image

        self.groups = GroupShards(cluster.shares.config, engine, clock, nobody, image)
        watched = partial(_Watched, process, self._ghost)
        with overridden(share_groups, "LedSharePartitions", watched):
            self.shares = BrokerShareGroups(
                replace(cluster.broker_config(), **cluster.shares.broker_settings),
                cluster.shares.config.settings,
                engine,
                clock,
                nobody,
                calls,
                image,
                self._internal_topics.ensure,
                process.broker_id,
                self._create_topics,
                nobody,
            )
        here: Any = _BatchesHere(process, engine, self._ghost)
        self.shares.batches_here = here
        self._leaderships = Coordinators(
            {CONSUMER_OFFSETS: self.groups.shell, **self.shares.shells}
        )
        bound = (
            find_coordinator_api(FindCoordinatorHandler(image, self._internal_topics.ensure)),
            *share_apis(self.shares.api(self.groups, RequestCounters())),
        )
        self._apis = {each.api.key: each for each in bound}
        self._by_peers: dict[int, AnyBoundBrokerApi] = {
            each.api.key: each for each in (*self.shares.broker_apis(), produce_api(here, image))
        }

    async def _create_topics(self, request: CreateTopics) -> TopicsCreated:
        """Ask the controller for a dead-letter topic."""
        answer: TopicsCreated | Failure | None
        answer = await self._asked(ControllerProcess.serve_create_topics, request)
        if answer is None:
            raise errors.CoordinatorNotAvailable("the controller is silent")
        if isinstance(answer, Failure):
            raise errors.from_code(answer.code, answer.message)
        self._sometimes["shares: dead-letter topic asked for"] += 1
        return answer

    @property
    def shells(self) -> tuple[CoordinatorShell[Any], ...]:
        """The shells of the coordinators of groups, and of their state."""
        return (self.groups.shell, self.shares.shell)

    # ---- what the replica manager and the metadata tell

    def perform(self, effect: Effect) -> None:
        """An effect that is a coordinator's."""
        match effect:
            case LeadershipBegan():
                self._leaderships.on_leadership_began(effect)
            case LeadershipEnded():
                topic = effect.topic_partition.topic
                if topic == SHARE_GROUP_STATE:
                    self.note_end(self.shares.shell, effect)
                elif topic == CONSUMER_OFFSETS:
                    self.note_end(self.groups.shell, effect)
                self._leaderships.on_leadership_ended(effect)
            case HighWatermarkMoved():
                self._leaderships.on_high_watermark_moved(effect)
                name = effect.topic_partition
                if name.topic == SHARE_GROUP_STATE:
                    self._compare_state(name.partition)
                elif name.topic == CONSUMER_OFFSETS:
                    self._compare_groups(name.partition)
            case InternalRead(token, data):
                answer: Any = token
                if data.failure is not None:
                    self._sometimes["shares: log not read"] += 1
                answer(data)
            case InternalAppended(token, failure):
                answer = token
                if failure is not None:
                    self._sometimes["shares: append refused"] += 1
                answer(failure)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The image has changed."""
        self.groups.on_metadata(delta)
        self.shares.on_metadata(delta)

    # ---- memory

    def compare_all(self) -> None:
        """I14, for every shard that has nothing under way."""
        for number in self.shares.shell.runtime.coordinators():
            self._compare_state(number)
        for number in self.groups.shell.runtime.coordinators():
            self._compare_groups(number)

    def _compare_state(self, number: int) -> None:
        coordinator = self._at_rest(self.shares.shell, SHARE_GROUP_STATE, number)
        if coordinator is not None:
            self._sometimes["shares: state compared with the log"] += 1
            self._ghost.check_state(self._process.name, number, coordinator)

    def _compare_groups(self, number: int) -> None:
        coordinator = self._at_rest(self.groups.shell, CONSUMER_OFFSETS, number)
        if coordinator is not None:
            self._sometimes["shares: groups compared with the log"] += 1
            self._ghost.check_groups(self._process.name, number, coordinator)

    def _at_rest(self, shell: CoordinatorShell[Any], topic: str, number: int) -> Any:
        """The shard's coordinator, when all that it has decided is committed, and nobody else has
        decided since.
        """
        led = shell.runtime._led.get(number)
        found = self._process.image.topics_by_name.get(topic)
        if led is None or led.shard.phase is not ShardPhase.ACTIVE or found is None:
            return None
        machine = led.shard._machine
        if machine._uncommitted or machine._open:
            return None
        ghost = self._cluster.shadows.ghost(found.topic_id, number)
        is_newest = led.shard.epoch == ghost.newest_epoch
        if not is_newest or ghost.committed_end != machine.next_offset:
            return None
        if ghost.lacks_tombstones(self._process.broker_id):
            self._sometimes["shares: memory of a log without its tombstones"] += 1
            return None
        return led.shard.coordinator

    # ---- calls

    def serve_peer(self, asked: PeerCall, call: Call) -> None:
        """A call that another broker makes."""
        self._begin(self._answer_peer(asked, call), call)

    async def _answer_peer(self, asked: PeerCall, call: Call) -> None:
        bound = self._by_peers[asked.api]
        context = RequestContext("REPLICATION", "peer", "peer:1")
        try:
            answer = await bound.handle(context, asked.request)
        except errors.PylogError as fault:
            answer = bound.refused(asked.request, fault)
        call.answer(answer)

    def _context(self, asked: UnaryCall, call: Call) -> RequestContext:
        return self._context_of(asked.address, call.stream)

    def _context_of(self, address: str, stream: Rpc) -> RequestContext:
        port = self._ports.setdefault(stream, len(self._ports) + 1)
        return RequestContext("PLAINTEXT", address, f"{address}:{port}", client_id=address)

    def connection_closed(self, address: str, stream: Rpc) -> None:
        """A member's connection has ended; over gRPC nobody hears of that."""
        if stream in self._ports and self._tells_of_connections:
            self._sometimes["shares: member's connection ended"] += 1
            self.shares.on_connection_closed(self._context_of(address, stream).place)

    def _check(self, asked: UnaryCall, given: Any) -> None:
        """I10: what is answered as acknowledged is."""
        message = asked.message
        if asked.api not in (SHARE_FETCH.key, SHARE_ACKNOWLEDGE.key):
            return
        failed = {
            (each.topic_id, each.partition)
            for each in given.partitions
            if (each.acknowledge_failure if asked.api == SHARE_FETCH.key else each.failure)
        }
        for each in message.partitions:
            if (each.topic_id, each.partition) in failed or not each.acknowledgements:
                continue
            topic_id = TopicId(each.topic_id)
            key = SharePartitionKey(message.group_id, topic_id, each.partition)
            for acked in each.acknowledgements:
                first, last = Offset(acked.first_offset), Offset(acked.last_offset)
                self._ghost.answered(self._process.name, key, first, last, acked.types)

    def stop(self) -> None:
        """The broker closes its logs."""
        self._internal_topics.stop()
        self.shares.stop()
        self.groups.shell.stop()
