"""ListGroups, DescribeGroups, ConsumerGroupDescribe and DeleteGroups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from pylog.errors import (
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InvalidGroupId,
    InvalidRequest,
    NonEmptyGroup,
    NotCoordinator,
)
from pylog.model import TopicPartition
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.group_admin import (
    AT_A_TIME,
    DeletedGroup,
    DescribedClassic,
    DescribedModern,
    GroupAdminHandler,
    ListGroups,
)
from pylog_broker.coordinator.groups.consumer.messages import ConsumerHeartbeat
from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    ListedGroup,
    OffsetCommit,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from tests.fakes.classic_clients import Client, settle
from tests.fakes.group_coordinators import FakeCoordinators

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "me")
LIMIT_MS = 5_000
LONG = "g" * 256
TOO_LONG = Failure(InvalidGroupId.code, "group_id has 256 characters; the limit is 255")

T = TypeVar("T")


@pytest.fixture
def handler(coordinators: FakeCoordinators, image: MetadataImage) -> GroupAdminHandler:
    """Over the classic group g, the group new of the new protocol, and old, which has commits and
    nobody in it.
    """
    shard = coordinators.shard
    for name, topic in image.topics_by_name.items():
        shard.topics[name] = SubscribedTopic(name, topic.topic_id, len(topic.partitions))
    member = Client(shard, "c")
    member.ask_to_join()
    settle(member)
    beat = ConsumerHeartbeat(
        "new", "m", 0, rebalance_timeout_ms=1_000, subscribed_names=("t",), owned=frozenset()
    )
    shard.answer(lambda c, r: c.consumer_heartbeat(r, beat))
    commit = OffsetCommit("old", Caller(), {TopicPartition("t", 0): CommittedOffset(1)})
    shard.answer(lambda c, r: c.commit_offsets(shard.wall_ms, r, commit))
    return GroupAdminHandler(coordinators, lambda: image, commit_timeout_ms=LIMIT_MS)


def run(answer: Awaitable[T]) -> T:
    async def main() -> T:
        async with asyncio.timeout(10):
            return await answer

    return asyncio.run(main())


def names(handler: GroupAdminHandler, request: ListGroups) -> set[str]:
    return {each.group_id for each in run(handler.list_groups(CONTEXT, request))}


def test_groups_are_listed_by_state_and_type_in_any_case(handler: GroupAdminHandler) -> None:
    assert run(handler.list_groups(CONTEXT, ListGroups(types=("classic",)))) == [
        ListedGroup("g", GroupType.CLASSIC, "consumer", "Stable"),
        ListedGroup("old", GroupType.CLASSIC, "", "Empty"),
    ]
    assert names(handler, ListGroups()) == {"g", "new", "old"}
    assert names(handler, ListGroups(("empty",), ())) == {"old"}
    assert names(handler, ListGroups(("EMPTY", "stable"), ("Classic",))) == {"g", "old"}
    assert names(handler, ListGroups((), ("consumer", "share"))) == {"new"}
    assert names(handler, ListGroups(("dead",), ("streams",))) == set()


def test_a_state_or_type_that_no_group_has_is_named(handler: GroupAdminHandler) -> None:
    with pytest.raises(InvalidRequest, match=r"no group has the state 'Alive'; it is one of Assig"):
        run(handler.list_groups(CONTEXT, ListGroups(("Stable", "Alive"))))
    with pytest.raises(InvalidRequest) as fault:
        run(handler.list_groups(CONTEXT, ListGroups((), ("x" * 1_000,))))
    assert str(fault.value) == (
        f"no group has the type '{'x' * 80}'; it is one of classic, consumer, share, streams"
    )
    with pytest.raises(InvalidRequest, match="101 states in one request; the limit is 100"):
        run(handler.list_groups(CONTEXT, ListGroups(("Stable",) * 101)))


def test_a_broker_that_still_loads_lists_nothing(
    handler: GroupAdminHandler, coordinators: FakeCoordinators
) -> None:
    coordinators.fault = CoordinatorLoadInProgress("1 partitions are being read")
    with pytest.raises(CoordinatorLoadInProgress):
        run(handler.list_groups(CONTEXT, ListGroups()))


def test_each_classic_group_is_described_or_says_why_not(handler: GroupAdminHandler) -> None:
    found, new, missing, empty, long = run(
        handler.describe(CONTEXT, ("g", "new", "x", "", LONG, "g"))
    )
    assert found.failure is None
    assert found.described is not None
    assert (found.described.state, len(found.described.members)) == ("Stable", 1)
    assert new == DescribedClassic(
        "new",
        Failure(GroupIdNotFound.code, "group 'new' is no group of the classic protocol"),
    )
    assert missing == DescribedClassic("x", Failure(GroupIdNotFound.code, "there is no group 'x'"))
    assert empty == DescribedClassic("", Failure(GroupIdNotFound.code, "there is no group ''"))
    assert long == DescribedClassic(LONG, TOO_LONG)


def test_each_group_of_the_new_protocol_is_described_with_the_names_of_its_topics(
    handler: GroupAdminHandler, image: MetadataImage
) -> None:
    found, classic, empty, long = run(
        handler.describe_consumer(CONTEXT, ("new", "g", "", LONG, "new"))
    )
    assert found.failure is None
    assert found.described is not None
    assert [each.member_id for each in found.described.members] == ["m"]
    assert found.topics == {image.topics_by_name["t"].topic_id: "t"}
    assert classic == DescribedModern(
        "g", Failure(GroupIdNotFound.code, "group 'g' is no group of the consumer protocol")
    )
    assert empty == DescribedModern("", Failure(InvalidGroupId.code, "group_id is empty"))
    assert long == DescribedModern(LONG, TOO_LONG)


def test_a_group_goes_when_nobody_is_in_it(handler: GroupAdminHandler) -> None:
    asked = ("old", "g", "x", LONG, "old")
    assert run(handler.delete_groups(CONTEXT, asked)) == [
        DeletedGroup("old"),
        DeletedGroup("g", Failure(NonEmptyGroup.code, "group 'g' has members: stop them first")),
        DeletedGroup("x", Failure(GroupIdNotFound.code, "there is no group 'x'")),
        DeletedGroup(LONG, TOO_LONG),
    ]
    assert names(handler, ListGroups()) == {"g", "new"}


def test_a_group_of_another_broker_does_not_keep_the_others_from_being_told(
    handler: GroupAdminHandler, coordinators: FakeCoordinators
) -> None:
    coordinators.fault = NotCoordinator("another broker coordinates it")
    failure = Failure(NotCoordinator.code, "another broker coordinates it")
    assert run(handler.describe(CONTEXT, ("g", LONG))) == [
        DescribedClassic("g", failure),
        DescribedClassic(LONG, TOO_LONG),
    ]
    assert run(handler.delete_groups(CONTEXT, ("old",))) == [DeletedGroup("old", failure)]


def test_many_groups_are_asked_for_some_at_a_time_and_too_many_not_at_all(
    handler: GroupAdminHandler, coordinators: FakeCoordinators
) -> None:
    asked = tuple(f"x{n}" for n in range(2 * AT_A_TIME + 1))
    assert [each.group_id for each in run(handler.describe(CONTEXT, asked))] == [*asked]
    assert coordinators.asked == [(each, LIMIT_MS) for each in asked]
    many = tuple(f"x{n}" for n in range(10_001))
    for call in (handler.describe, handler.describe_consumer, handler.delete_groups):
        with pytest.raises(InvalidRequest, match="10001 groups in one request"):
            run(call(CONTEXT, many))
