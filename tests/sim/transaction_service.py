"""The transactions of a simulated broker: the product's shards, their shell, those who send markers
and ask coordinators, and the handlers.

They run as those of groups do. Brokers ask each other over connections that may break at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.model import ProducerId
from pylog.rpc import apis
from pylog_broker.api.api import TransactionApi
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.find_coordinator import FindCoordinatorHandler
from pylog_broker.api.producer_ids import InitProducerIdHandler
from pylog_broker.api.transactions.markers import MarkersHandler
from pylog_broker.api.transactions.offsets import TxnOffsetsHandler
from pylog_broker.api.transactions.producers import TransactionsHandler
from pylog_broker.api.transactions.sinks import SinksHandler
from pylog_broker.api.transactions.transaction_admin import TransactionAdminHandler
from pylog_broker.api.transactions.verification import BatchVerification
from pylog_broker.controller.settings import TRANSACTION_STATE
from pylog_broker.coordinator.runtime.shard import ShardPhase
from pylog_broker.coordinator.transactions.messages import AddPartitions, PartitionsAdded
from pylog_broker.kafka.broker_apis import AnyBoundBrokerApi
from pylog_broker.kafka.transaction_calls import transaction_apis as broker_transaction_apis
from pylog_broker.node.coordinators import Coordinators, CoordinatorShell
from pylog_broker.node.transaction_coordinators import (
    CoordinatorCalls,
    MarkerSenders,
    TransactionShards,
)
from pylog_broker.protobuf import offsets
from pylog_broker.protobuf import sinks as sink_messages
from pylog_broker.protobuf.group_apis import find_coordinator_api
from pylog_broker.protobuf.sink_apis import sink_apis
from pylog_broker.protobuf.transaction_apis import transaction_apis
from pylog_broker.protobuf.unary import Bound
from pylog_broker.replication.effects import (
    Effect,
    HighWatermarkMoved,
    InternalAppended,
    InternalRead,
    LeadershipBegan,
    LeadershipEnded,
)
from pylog_broker.replication.produce_messages import WriteMarker
from tests.sim.coordinator_shell import Clock, Engine, UnaryCall, UnaryCalls
from tests.sim.peers import PeerCall, PeerCalls
from tests.sim.rpc import Call
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess


class TransactionService(UnaryCalls):
    """The service for transactions of one life of a broker, from its registration on."""

    def __init__(self, process: BrokerProcess) -> None:
        super().__init__(process, "transactions")
        cluster, me = process.cluster, process.broker_id
        assert cluster.transactions is not None
        self._cluster = cluster
        self._ghost = cluster.transactions.ghost
        self._of_known_runs: set[int] = set()
        """Aborts under way of runs that the log had when they were asked for, by `id`."""
        clock: Any = Clock(process)
        engine: Any = Engine(process)
        pool: Any = None
        calls: Any = PeerCalls(process, "transactions", lambda peer: peer.transactions)
        groups: Any = process.groups
        manager = engine.manager
        self.shards = shards = TransactionShards(
            cluster.transactions.config, engine, clock, pool, self._image
        )
        self._leaderships = Coordinators({TRANSACTION_STATE: shards.shell})
        producers = TransactionsHandler(
            shards, self._image, self._take_id, self._internal_topics.ensure
        )
        markers = MarkersHandler(manager, engine.perform, clock, self._mark_groups)
        shards.senders = MarkerSenders(me, shards.shell, self._image, calls, markers.write, clock)
        coordinator = CoordinatorCalls(me, self._image, calls, self._added, clock)
        self.verification = BatchVerification(manager, coordinator, verifies_version_1=True)
        self._add = producers.add
        self._by_peers: dict[int, AnyBoundBrokerApi] = {
            each.api.key: each for each in broker_transaction_apis(self._added, markers.write)
        }
        quota: Any = None  # of producers without a transactional id
        ids = InitProducerIdHandler(self._take_id, quota, clock, producers)
        bound = [
            find_coordinator_api(FindCoordinatorHandler(self._image, self._internal_topics.ensure)),
            Bound(
                apis.INIT_PRODUCER_ID,
                offsets.init_from,
                ids.handle,
                offsets.id_given,
                offsets.no_id,
            ),
        ]
        commits: Any = _NoOffsets()
        if groups is not None:
            commits = TxnOffsetsHandler(groups.offsets, groups.shards, manager, coordinator)
        admin = TransactionAdminHandler(shards, manager)
        lease_ms = cluster.transactions.config.sink_lease_ms
        sinks = SinksHandler(shards, self._take_id, lease_ms, self._image)
        bound += transaction_apis(TransactionApi(producers, commits, markers, admin, sinks))
        bound += sink_apis(sinks)
        self._apis = {each.api.key: each for each in bound}

    def _image(self) -> Any:
        return self._process.image

    async def _take_id(self) -> ProducerId:
        assert self._process.loop is not None
        answered = self._process.loop.create_future()

        def heard(given: object) -> None:
            if not answered.done():
                answered.set_result(given)

        self._process.clients.new_producer_id(heard)
        given: ProducerId | None = await answered
        if given is None:
            raise errors.CoordinatorNotAvailable("the controller gives no producer ids")
        self._cluster.note_producer_id(given)
        return given

    async def _mark_groups(self, marker: WriteMarker) -> None:
        groups = self._process.groups
        if groups is None:
            raise AssertionError(marker)
        await groups.shards.write_marker(marker)

    async def _added(self, request: AddPartitions) -> PartitionsAdded:
        """The answer to a leader's question, here or elsewhere; I10."""
        given = await self._add(request)
        for partition, fault in given.partitions.items():
            if fault is None:
                identity = (request.identity.producer_id, request.identity.epoch)
                self._ghost.answered_added(self._process.name, identity, partition)
        return given

    @property
    def shells(self) -> tuple[CoordinatorShell[Any], ...]:
        """The shell of its coordinators."""
        return (self.shards.shell,)

    # ---- what the replica manager tells

    def perform(self, effect: Effect) -> None:
        """An effect that is a coordinator's."""
        match effect:
            case LeadershipBegan():
                if self._ghost.has_prepared():
                    self._sometimes["transactions: coordinator changed during prepare"] += 1
                self._leaderships.on_leadership_began(effect)
            case LeadershipEnded():
                self.note_end(self.shards.shell, effect)
                self._leaderships.on_leadership_ended(effect)
            case HighWatermarkMoved():
                self._leaderships.on_high_watermark_moved(effect)
                self._compare(effect.topic_partition.partition)
            case InternalRead(token, data):
                answer: Any = token
                answer(data)
            case InternalAppended(token, failure):
                answer = token
                if failure is not None:
                    self._sometimes["transactions: append refused"] += 1
                answer(failure)

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
        topic = self._process.image.topics_by_name.get(TRANSACTION_STATE)
        if machine._uncommitted or machine._open or topic is None:
            return
        ghost = self._cluster.shadows.ghost(topic.topic_id, number)
        if led.shard.epoch == ghost.newest_epoch and ghost.committed_end == machine.next_offset:
            self._sometimes["transactions: memory compared with the log"] += 1
            self._ghost.check_memory(self._process.name, number, led.shard.coordinator)

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

    async def _answer(self, asked: UnaryCall, call: Call) -> None:
        asked = asked._replace()  # a request that the network has doubled comes twice
        if asked.api == apis.ABORT_SINK_BATCH.key and self._knows_run(asked):
            self._of_known_runs.add(id(asked))
        try:
            await super()._answer(asked, call)
        finally:
            self._of_known_runs.discard(id(asked))

    def _knows_run(self, asked: UnaryCall) -> bool:
        sinks = self._cluster.sinks
        return sinks is not None and sinks.ghost.knows_run(sink_messages.abort_from(asked.message))

    def _check(self, asked: UnaryCall, given: Any) -> None:
        name, message = self._process.name, asked.message
        if asked.api == apis.INIT_PRODUCER_ID.key:
            self._ghost.answered_begun(name, (given.producer_id, given.producer_epoch))
        elif asked.api == apis.END_TXN.key:
            identity = (message.producer_id, message.producer_epoch)
            self._ghost.answered_ended(name, identity, commits=message.committed)
        elif self._cluster.sinks is not None:
            self._check_sink(name, asked, given)

    def _check_sink(self, name: str, asked: UnaryCall, given: Any) -> None:
        assert self._cluster.sinks is not None
        ghost, message = self._cluster.sinks.ghost, asked.message
        if asked.api == apis.BEGIN_SINK_TASK.key:
            ghost.answered_begun(name, sink_messages.begin_from(message), given)
        elif asked.api == apis.PREPARE_SINK_TASK.key:
            ghost.answered_prepared(name, sink_messages.prepared_from(message).member)
        elif asked.api == apis.DECIDE_SINK_BATCH.key:
            ghost.answered_decided(name, sink_messages.decision_from(message).sink, given.batch)
        elif asked.api == apis.ABORT_SINK_BATCH.key and id(asked) in self._of_known_runs:
            ghost.answered_aborted(name, sink_messages.abort_from(message))

    def stop(self) -> None:
        """The broker closes its logs."""
        self._internal_topics.stop()
        self.shards.stop()


class _NoOffsets:
    """The stand-in for groups where there are none."""

    async def commit(self, _context: object, request: object) -> None:
        """Nobody asks for that."""
        raise Violation("raised", f"{request} where there are no groups")
