"""FindCoordinator: the leader of a key's partition, as far as this process has heard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

import pytest

from pylog.errors import CoordinatorNotAvailable, InvalidGroupId, InvalidRequest
from pylog.model import (
    CONSUMER_OFFSETS,
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.find_coordinator import (
    NO_BROKER,
    CoordinatorType,
    FindCoordinatorHandler,
    FindCoordinators,
    FoundCoordinator,
)
from pylog_broker.controller.settings import SHARE_GROUP_STATE, TRANSACTION_STATE
from pylog_broker.coordinator.runtime.runtime import partition_for
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, InternalTopicEnsured, MetadataBatch
from pylog_broker.metadata.records import (
    Endpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    usual_listeners,
)

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "me")
TOPIC = TopicId("T" * 21 + "A")
ONE, TWO = BrokerId(1), BrokerId(2)
PARTITIONS = 4
BY_PARTITION = {partition_for(f"g{n}", PARTITIONS): f"g{n}" for n in range(100)}
"""A group of each partition."""

T = TypeVar("T")


def run(answer: Awaitable[T]) -> T:
    async def main() -> T:
        return await answer

    return asyncio.run(main())


def broker(number: BrokerId, *, fenced: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=number,
        broker_epoch=BrokerEpoch(number),
        incarnation_id=f"i{number}",
        host_id="h",
        rack=None,
        listeners=usual_listeners(Endpoint("h", 1), Endpoint("h", 2)),
        directory_id=f"d{number}",
        boot_id="boot",
        fenced=fenced,
    )


def partition(number: int, leader: BrokerId) -> PartitionRecord:
    return PartitionRecord(
        TOPIC, number, (ONE, TWO), (ONE, TWO), leader, LeaderEpoch(0), PartitionEpoch(0)
    )


WHOLE: tuple[MetadataRecord, ...] = (
    TopicRecord(CONSUMER_OFFSETS, TOPIC),
    *(partition(number, ONE if number < 2 else TWO) for number in range(PARTITIONS)),
)


class World:
    """The metadata that a process has, and a controller that makes the topic when it is asked."""

    def __init__(self, *records: MetadataRecord) -> None:
        self.image = MetadataImage()
        self.commit(broker(ONE), broker(TWO), *records)
        self.asked: list[str] = []
        self.refusal: Failure | None = None
        self.is_heard_at_once = True
        self.handler = FindCoordinatorHandler(lambda: self.image, self.ensure)

    def commit(self, *records: MetadataRecord) -> None:
        first = Offset(self.image.offset + 1)
        self.image.apply(MetadataBatch(ControllerEpoch(1), first, records))

    async def ensure(self, name: str) -> InternalTopicEnsured | Failure:
        self.asked.append(name)
        if self.refusal is not None:
            return self.refusal
        if self.is_heard_at_once:
            self.commit(*WHOLE)
        return InternalTopicEnsured(name, TOPIC, PARTITIONS)

    def find(
        self, *keys: str, type: CoordinatorType = CoordinatorType.GROUP
    ) -> list[FoundCoordinator]:
        return run(self.handler.handle(CONTEXT, FindCoordinators(type, keys)))


def not_available(words: str) -> Failure:
    return Failure(CoordinatorNotAvailable.code, words)


def test_the_leader_of_a_groups_partition_coordinates_it() -> None:
    world = World(*WHOLE)
    keys = [BY_PARTITION[number] for number in (3, 0, 1, 2)]
    assert world.find(*keys) == [
        FoundCoordinator(keys[0], TWO),
        FoundCoordinator(keys[1], ONE),
        FoundCoordinator(keys[2], ONE),
        FoundCoordinator(keys[3], TWO),
    ]
    assert world.asked == []
    assert world.find() == []


def test_a_group_without_a_name_can_be_found_and_one_with_too_long_a_name_cannot() -> None:
    world = World(*WHOLE)
    empty, most, longer = world.find("", "g" * 255, "g" * 256)
    assert empty.failure is None
    assert most.failure is None
    assert longer == FoundCoordinator(
        "g" * 256,
        NO_BROKER,
        Failure(InvalidGroupId.code, "group_id has 256 characters; the limit is 255"),
    )


@pytest.mark.parametrize("gone", ["fenced", "unregistered", "leaderless"])
def test_a_partition_without_a_leader_that_lives_has_no_coordinator(gone: str) -> None:
    world = World(*WHOLE)
    match gone:
        case "fenced":
            world.commit(replace(broker(TWO, fenced=True), broker_epoch=BrokerEpoch(9)))
        case "unregistered":
            del world.image.brokers[TWO]
        case _:
            world.commit(partition(3, NO_LEADER))
    there, absent = BY_PARTITION[0], BY_PARTITION[3]
    assert world.find(there, absent) == [
        FoundCoordinator(there, ONE),
        FoundCoordinator(
            absent,
            NO_BROKER,
            not_available(
                f"{CONSUMER_OFFSETS}-3, which has {absent!r}, has no leader at the moment"
            ),
        ),
    ]


def test_the_topic_is_made_when_somebody_looks_for_the_first_group() -> None:
    world = World()
    key = BY_PARTITION[0]
    assert world.find(key) == [FoundCoordinator(key, ONE)]
    assert world.find(key) == [FoundCoordinator(key, ONE)]
    assert world.asked == [CONSUMER_OFFSETS]


def test_a_topic_that_this_broker_has_not_heard_of_yet_is_asked_for_again() -> None:
    world = World()
    world.is_heard_at_once = False
    just_made = not_available(f"{CONSUMER_OFFSETS} has just been made; ask again")
    assert world.find("a", "b") == [
        FoundCoordinator("a", NO_BROKER, just_made),
        FoundCoordinator("b", NO_BROKER, just_made),
    ]


def test_why_the_topic_cannot_be_made_is_told_and_passes() -> None:
    world = World()
    world.refusal = Failure(CoordinatorNotAvailable.code, "1 of 3 brokers are registered")
    [found] = world.find("g")
    assert found.failure == not_available("1 of 3 brokers are registered")


def test_what_cannot_be_found_is_refused_by_name() -> None:
    world = World(*WHOLE)
    with pytest.raises(InvalidRequest, match="10001 keys in one request; the limit is 10000"):
        world.find(*["g"] * 10_001)


def test_the_ids_of_a_sink_have_one_coordinator() -> None:
    world = World(
        TopicRecord(TRANSACTION_STATE, TOPIC),
        *(partition(number, ONE if number < 2 else TWO) for number in range(PARTITIONS)),
    )
    for sink in ("__sink/q/a", "__sink/q/b", "__sink/q/topic/c", f"__sink/{'q' * 249}/{'s' * 249}"):
        leader = ONE if partition_for(sink, PARTITIONS) < 2 else TWO
        keys = [f"{sink}/{number}" for number in range(8)]
        assert world.find(*keys, type=CoordinatorType.TRANSACTION) == [
            FoundCoordinator(key, leader) for key in keys
        ]
    for key in ("payments/1", "__sink", "__sink/", "__sink/q"):  # nothing breaks of the others
        assert world.find(key, type=CoordinatorType.TRANSACTION)[0].failure is None
    (refused,) = world.find("__sink/" + "q" * 600, type=CoordinatorType.TRANSACTION)
    assert refused.failure is not None
    assert "transactional_id has 607 characters; the limit is 518" in refused.failure.message


def test_share_state_is_coordinated_by_partition() -> None:
    world = World(
        TopicRecord(SHARE_GROUP_STATE, TOPIC),
        *(partition(number, ONE if number < 2 else TWO) for number in range(PARTITIONS)),
    )
    key = f"g:with:colons:{TOPIC}:7"
    leader = ONE if partition_for(key, PARTITIONS) < 2 else TWO
    names = (key, "g", f"g:{TOPIC}:x", ":T:1", f"{'g' * 256}:{TOPIC}:1")
    found, *refused = world.find(*names, type=CoordinatorType.SHARE)
    assert found == FoundCoordinator(key, leader)
    codes = [each.failure.code for each in refused if each.failure is not None]
    assert codes == [InvalidRequest.code] * 2 + [InvalidGroupId.code] * 2
