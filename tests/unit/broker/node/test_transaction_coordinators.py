"""Markers find their partitions, and batches the coordinator of their transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, cast

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    ProducerEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
)
from pylog_broker.controller.settings import TRANSACTION_STATE
from pylog_broker.coordinator.runtime.runtime import Sent
from pylog_broker.coordinator.transactions.messages import (
    AddPartitions,
    PartitionsAdded,
    SendMarkers,
)
from pylog_broker.coordinator.transactions.transaction import Identity
from pylog_broker.kafka.calls import BrokerCalls
from pylog_broker.kafka.generated.add_partitions_to_txn import AddPartitionsToTxnResponse
from pylog_broker.kafka.generated.write_txn_markers import WriteTxnMarkersResponse
from pylog_broker.kafka.transaction_calls import (
    added_from_wire,
    addition_to_wire,
    markers_to_wire,
    transaction_apis,
    written_from_wire,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, MetadataBatch
from pylog_broker.metadata.records import MetadataRecord, PartitionRecord, TopicRecord
from pylog_broker.node import transaction_coordinators
from pylog_broker.node.coordinators import CoordinatorShell
from pylog_broker.node.transaction_coordinators import CoordinatorCalls, MarkerSenders
from pylog_broker.replication.produce_messages import WriteMarker

ME, OTHER = BrokerId(1), BrokerId(2)
OWNER = Identity(ProducerId(7), ProducerEpoch(1))
A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NAME = TopicPartition(TRANSACTION_STATE, 0)
EPOCH = LeaderEpoch(5)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinators, "BACK_OFF_SECONDS_MIN", 0.001)
    monkeypatch.setattr(transaction_coordinators, "BACK_OFF_SECONDS_MAX", 0.001)


class Metadata:
    """An image with two topics; partition 0 of each is led here, partition 1 by broker 2."""

    def __init__(self, *topics: str) -> None:
        self.image = MetadataImage()
        for topic in topics:
            number = len(self.image.topics_by_name)
            topic_id = TopicId(f"{number}" * 21 + "A")
            self.commit(
                TopicRecord(topic, topic_id),
                *(self._partition(topic_id, each, BrokerId(each + 1)) for each in range(2)),
            )

    def _partition(self, topic: TopicId, number: int, leader: BrokerId) -> PartitionRecord:
        both = (ME, OTHER)
        return PartitionRecord(topic, number, both, both, leader, LeaderEpoch(0), PartitionEpoch(0))

    def commit(self, *records: MetadataRecord) -> None:
        first = Offset(self.image.offset + 1)
        self.image.apply(MetadataBatch(ControllerEpoch(1), first, records))


class Shell:
    """Decides in one epoch, and hears which partitions were told."""

    def __init__(self) -> None:
        self.runtime = self
        self.epoch = EPOCH
        self.told: list[Any] = []

    def decides(self, partition: int, epoch: LeaderEpoch) -> bool:
        return epoch == self.epoch

    def tell_shard(self, number: int, epoch: LeaderEpoch, operation: Any) -> None:
        operation(self, 0)

    def on_markers_written(self, _wall_ms: int, name: str, owner: Any, told: Any) -> None:
        self.told.append((name, owner, set(told)))


class World:
    """Answers each attempt with what stands next in `script`, then with success."""

    def __init__(self, *script: int) -> None:
        self.metadata = Metadata("t", TRANSACTION_STATE)
        self.script = list(script)
        self.here: list[WriteMarker] = []
        self.there: list[Any] = []
        self.shell = Shell()
        self.senders = MarkerSenders(
            ME, cast("CoordinatorShell[Any]", self.shell), lambda: self.metadata.image,
            cast(BrokerCalls, self), self.write, SYSTEM_CLOCK,
        )  # fmt: skip

    def _next(self) -> Failure | None:
        code = self.script.pop(0) if self.script else 0
        return Failure(code, "scripted") if code else None

    async def write(self, markers: Sequence[WriteMarker]) -> list[Failure | None]:
        self.here += markers
        return [self._next() for _ in markers]

    async def call(self, broker: BrokerId, api: Any, request: Any, **_: Any) -> Any:
        """The other broker, which decodes what it gets."""
        self.there.append(broker)
        bound = {each.api: each for each in transaction_apis(self.add, self.write_there)}
        return await bound[api].handle(cast(Any, None), request)

    async def write_there(self, markers: Sequence[WriteMarker]) -> list[Failure | None]:
        return [self._next() for _ in markers]

    async def add(self, request: AddPartitions) -> PartitionsAdded:
        failure = self._next()
        if failure is not None:
            raise errors.from_code(failure.code, failure.message)
        return PartitionsAdded(dict.fromkeys(request.partitions))

    def send(self, *partitions: TopicPartition) -> None:
        message = SendMarkers("x", OWNER, True, frozenset(partitions), 2)
        self.senders.send(Sent(NAME, EPOCH, message))

    async def sent(self) -> None:
        while len(self.senders):
            await asyncio.sleep(0)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(bounded())


def test_markers_go_to_the_leaders_here_and_elsewhere() -> None:
    async def test() -> None:
        world = World()
        world.send(A, B)
        await world.sent()
        assert world.here == [WriteMarker(A, *OWNER, True, EPOCH, 2)]
        assert world.there == [OTHER]
        assert world.shell.told == [("x", OWNER, {A, B})]

    run(test)


def test_markers_are_sent_until_each_partition_has_its_own() -> None:
    async def test() -> None:
        not_leader, timeout = errors.NotLeaderOrFollower.code, errors.RequestTimedOut.code
        world = World(not_leader, timeout, timeout, 0)
        world.send(A)
        await world.sent()
        assert len(world.here) == 4
        assert world.shell.told == [("x", OWNER, {A})]

    run(test)


def test_a_log_that_is_beyond_the_marker_has_it() -> None:
    async def test() -> None:
        world = World(errors.InvalidProducerEpoch.code)
        world.send(A)
        await world.sent()
        assert world.shell.told == [("x", OWNER, {A})]

    run(test)


def test_a_coordinator_that_another_has_followed_sends_no_more() -> None:
    async def test() -> None:
        world = World(errors.TransactionCoordinatorFenced.code)
        world.send(A)
        await world.sent()
        assert world.shell.told == []
        world = World(*[errors.RequestTimedOut.code] * 3)
        world.send(A)
        await asyncio.sleep(0)
        world.shell.epoch = LeaderEpoch(6)
        await world.sent()
        assert world.shell.told == []

    run(test)


def test_a_partition_that_is_gone_needs_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinators, "GONE_SECONDS", 0.05)

    async def test() -> None:
        world = World()
        gone = TopicPartition("gone", 0)
        world.send(A, gone)
        await world.sent()
        assert world.shell.told == [("x", OWNER, {A}), ("x", OWNER, {gone})]

    run(test)


def test_the_same_end_is_sent_once_at_a_time() -> None:
    async def test() -> None:
        world = World()
        world.send(A)
        world.send(A)
        await world.sent()
        assert len(world.here) == 1
        world.send(B)
        world.senders.stop()
        await world.sent()

    run(test)


def coordinators(world: World) -> CoordinatorCalls:
    return CoordinatorCalls(
        ME, lambda: world.metadata.image, cast(BrokerCalls, world), world.add, SYSTEM_CLOCK
    )


Added = Mapping[TopicPartition, errors.PylogError | None]


def added(world: World, transactional_id: str) -> Awaitable[Added]:
    return coordinators(world).add(AddPartitions(transactional_id, OWNER, (A, B)))


def test_the_coordinator_is_asked_here_and_elsewhere() -> None:
    async def test() -> None:
        world = World()
        for transactional_id in ("a", "b"):  # of either partition
            assert await added(world, transactional_id) == {A: None, B: None}
        assert world.there == [OTHER]

    run(test)


def test_the_coordinator_of_a_sink_is_asked_for_all_of_its_ids() -> None:
    async def test() -> None:
        for sink, there in (("__sink/q/b", []), ("__sink/q/a", [OTHER] * 8)):
            world = World()
            for number in range(8):
                assert await added(world, f"{sink}/{number}") == {A: None, B: None}
            assert world.there == there

    run(test)


def test_the_coordinator_is_asked_again_while_it_moves_or_is_busy() -> None:
    async def test() -> None:
        for transactional_id in ("a", "b"):
            world = World(
                errors.NotCoordinator.code,
                errors.CoordinatorLoadInProgress.code,
                errors.ConcurrentTransactions.code,
            )
            assert await added(world, transactional_id) == {A: None, B: None}
            assert world.script == []

    run(test)


def test_what_the_coordinator_refuses_is_told() -> None:
    async def test() -> None:
        world = World(errors.ProducerFenced.code)
        with pytest.raises(errors.ProducerFenced):
            await added(world, "b")
        world = World(errors.ProducerFenced.code)
        given = await added(world, "a")
        assert all(isinstance(each, errors.ProducerFenced) for each in given.values())

    run(test)


def test_a_coordinator_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinators, "ASK_SECONDS_MAX", 0.05)

    async def test() -> None:
        world = World(*[errors.NotCoordinator.code] * 10_000)
        with pytest.raises(errors.CoordinatorNotAvailable, match="of 'a' did not answer"):
            await added(world, "a")

    run(test)


def test_the_topic_of_the_coordinators_may_be_heard_of_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transaction_coordinators, "ASK_SECONDS_MAX", 0.05)

    async def test() -> None:
        world, known = World(), World().metadata
        world.metadata = Metadata("t")
        with pytest.raises(errors.CoordinatorNotAvailable, match="no topic __transaction_state"):
            await added(world, "a")
        monkeypatch.setattr(transaction_coordinators, "ASK_SECONDS_MAX", 15.0)
        asked = asyncio.ensure_future(added(world, "a"))
        await asyncio.sleep(0)
        assert not asked.done()
        world.metadata = known
        assert await asked == {A: None, B: None}

    run(test)


def test_messages_between_brokers_there_and_back() -> None:
    asked = AddPartitions("x", OWNER, (A, B), 2)
    wire = addition_to_wire(asked)
    assert [each.partitions for each in wire.transactions[0].topics] == [[0, 1]]
    answer = AddPartitionsToTxnResponse(0, 0, [])
    assert isinstance(added_from_wire(asked, answer)[A], errors.UnknownServerError)
    markers = [WriteMarker(each, *OWNER, False, 5, 2) for each in (A, B)]
    (marker,) = markers_to_wire(markers).markers
    assert (marker.transaction_result, marker.coordinator_epoch) == (False, 5)
    assert marker.transaction_version == 2
    from_nobody = written_from_wire(markers, WriteTxnMarkersResponse([]))
    assert [each.code for each in from_nobody if each is not None] == [-1, -1]
