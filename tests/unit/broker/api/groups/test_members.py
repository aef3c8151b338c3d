"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and ConsumerGroupHeartbeat: what a broker refuses of
them, adds to them, and how long they may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import count
from typing import Any, TypeVar

import pytest

from pylog.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    InvalidTopic,
    MemberIdRequired,
    NotCoordinator,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.model import TopicId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.members import MemberLeft, MembersHandler
from pylog_broker.api.groups.names import STANDING_MS_MAX
from pylog_broker.coordinator.groups.classic.messages import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaving,
    MemberProtocol,
    Synced,
    SyncGroup,
)
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.messages import ConsumerHeartbeat
from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic, TopicIdPartition
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from tests.fakes.classic_clients import RANGE, state
from tests.fakes.group_coordinators import FakeCoordinators
from tests.fakes.group_shard import GroupShard

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "app")
LIMIT_MS = 5_000
JOIN = JoinGroup("g", "", None, "", "", 10_000, 30_000, "consumer", (RANGE,), "")
SYNC = SyncGroup("g", "m", None, 1, "consumer", "range", {})
BEAT = ConsumerHeartbeat(
    "g", "m", 0, rebalance_timeout_ms=30_000, subscribed_names=("t",), owned=frozenset()
)
MIB = 1 << 20

T = TypeVar("T")


@pytest.fixture
def handler(coordinators: FakeCoordinators, image: MetadataImage) -> MembersHandler:
    numbers = count(1)
    for name, topic in image.topics_by_name.items():
        known = SubscribedTopic(name, topic.topic_id, len(topic.partitions))
        coordinators.shard.topics[name] = known
    return MembersHandler(
        coordinators, lambda: image, lambda: f"id{next(numbers)}", commit_timeout_ms=LIMIT_MS
    )


def run(answer: Awaitable[T]) -> T:
    async def main() -> T:
        async with asyncio.timeout(10):
            return await answer

    return asyncio.run(main())


def join(handler: MembersHandler, **changes: Any) -> Joined:
    """A member that joins, with the id that it is told where it has none."""
    request = JOIN._replace(**changes)
    joined = run(handler.join(CONTEXT, request))
    if isinstance(joined.error, MemberIdRequired):
        joined = run(handler.join(CONTEXT, request._replace(member_id=joined.member_id)))
    return joined


# ---- the classic protocol ------------------------------------------------------------------------


def test_a_member_is_named_after_its_client_and_told_where_it_comes_from(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    joined = run(handler.join(CONTEXT, JOIN._replace(client_id="a lie", client_host="another")))
    assert (joined.member_id, joined.generation) == ("app-id1", -1)
    assert isinstance(joined.error, MemberIdRequired)
    joined = run(handler.join(CONTEXT, JOIN._replace(member_id="app-id1")))
    assert (joined.member_id, joined.leader, joined.generation) == ("app-id1", "app-id1", 1)
    answer = coordinators.shard.answer(lambda c, r: c.describe_classic(r, "g"))
    assert [(m.client_id, m.client_host) for m in answer.members] == [("app", "10.0.0.1")]
    assert run(handler.join(CONTEXT, JOIN._replace(group_id="h", instance_id="one"))).member_id == (
        "one-id3"
    )
    assert coordinators.asked == [("g", None), ("g", None), ("h", None)], "a join waits for others"


def test_the_longest_client_id_makes_a_member_id_that_is_taken(handler: MembersHandler) -> None:
    context = CONTEXT._replace(client_id="c" * 255)
    told = run(handler.join(context, JOIN))
    joined = run(handler.join(context, JOIN._replace(member_id=told.member_id)))
    assert joined.error is None


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"group_id": ""}, InvalidGroupId, "group_id is empty"),
        (
            {"group_id": "g" * MIB},
            InvalidGroupId,
            "group_id has 1048576 characters; the limit is 255",
        ),
        (
            {"member_id": "m" * 513},
            InvalidRequest,
            "member_id has 513 characters; the limit is 512",
        ),
        (
            {"instance_id": "i" * MIB},
            InvalidRequest,
            "instance_id has 1048576 characters; the limit is 249",
        ),
        (
            {"protocol_type": "p" * 513},
            InvalidRequest,
            "protocol_type has 513 characters; the limit is 512",
        ),
        (
            {"protocols": (MemberProtocol("p" * 513, b""),)},
            InvalidRequest,
            "protocol has 513 characters; the limit is 512",
        ),
        ({"protocols": (RANGE,) * 101}, InvalidRequest, "101 protocols; the limit is 100"),
        (
            {"protocols": (MemberProtocol("range", b"x" * 10 * MIB),)},
            InvalidRequest,
            "metadata of a member: 10485760 bytes; the limit is 1048576",
        ),
        (
            {"session_timeout_ms": 5_999},
            InvalidSessionTimeout,
            "session_timeout_ms=5999 is not from 6000 to 1800000 (group.min.session.timeout.ms and "
            "group.max.session.timeout.ms of the broker)",
        ),
        (
            {"session_timeout_ms": 1_800_001},
            InvalidSessionTimeout,
            "session_timeout_ms=1800001 is not from 6000 to 1800000 (group.min.session.timeout.ms "
            "and group.max.session.timeout.ms of the broker)",
        ),
        (
            {"protocols": ()},
            InconsistentGroupProtocol,
            "group 'g': a protocol type and one assignment strategy at least are needed to join",
        ),
        (
            {"protocol_type": ""},
            InconsistentGroupProtocol,
            "group 'g': a protocol type and one assignment strategy at least are needed to join",
        ),
        ({"member_id": "m"}, UnknownMemberId, "group 'g' has no member 'm'"),
    ],
)
def test_a_join_that_cannot_be_is_refused_by_name(
    handler: MembersHandler, changes: Any, error: type[PylogError], words: str
) -> None:
    with pytest.raises(error) as fault:
        run(handler.join(CONTEXT, JOIN._replace(**changes)))
    assert str(fault.value) == words


def test_members_without_a_common_strategy_are_refused_and_the_group_stays(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    first = join(handler)
    run(handler.sync(CONTEXT, SYNC._replace(member_id=first.member_id)))
    with pytest.raises(InconsistentGroupProtocol) as fault:
        join(handler, protocols=(MemberProtocol("sticky", b""),))
    assert str(fault.value) == (
        "group 'g' is of protocol type 'consumer' and its members have in common ['range']; "
        "'consumer' with ['sticky'] does not go with them"
    )
    assert state(coordinators.shard) == "Stable"


def test_a_group_that_is_full_says_so(image: MetadataImage) -> None:
    config = GroupConfig(initial_rebalance_delay_ms=0, max_size=1)
    coordinators = FakeCoordinators(GroupShard(config))
    numbers = count(1)
    handler = MembersHandler(
        coordinators, lambda: image, lambda: f"id{next(numbers)}", commit_timeout_ms=LIMIT_MS
    )
    join(handler)
    with pytest.raises(GroupMaxSizeReached, match=r"has 1 members, as many as group\.max\.size"):
        join(handler)


def test_the_words_of_a_member_are_cut(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    assert join(handler, reason="r" * MIB).error is None


def test_a_member_that_joins_waits_for_the_others(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    first = join(handler)
    run(handler.sync(CONTEXT, SYNC._replace(member_id=first.member_id)))

    async def main() -> tuple[Joined, Joined]:
        told = await handler.join(CONTEXT, JOIN)
        waiting = asyncio.ensure_future(
            handler.join(CONTEXT, JOIN._replace(member_id=told.member_id))
        )
        await asyncio.sleep(0)
        assert not waiting.done()
        beat = Heartbeat("g", first.member_id, None, first.generation)
        with pytest.raises(RebalanceInProgress, match="group 'g' is collecting its members"):
            await handler.heartbeat(CONTEXT, beat)
        again = await handler.join(CONTEXT, JOIN._replace(member_id=first.member_id))
        return again, await waiting

    leader, follower = run(main())
    assert (leader.generation, follower.generation) == (2, 2)
    assert len(leader.members) == 2
    assert follower.members == ()


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"group_id": ""}, InvalidGroupId, "group_id is empty"),
        ({"member_id": "m" * 513}, InvalidRequest, "member_id has 513 characters; .* 512"),
        ({"instance_id": "i" * 250}, InvalidRequest, "instance_id has 250 characters; .* 249"),
        ({"protocol": "p" * 513}, InvalidRequest, "protocol has 513 characters; .* 512"),
        ({"protocol_type": "p" * 513}, InvalidRequest, "protocol_type has 513 characters"),
        (
            {"assignments": {"a": b"x" * 2 * MIB, "b": b"x" * (2 * MIB + 1)}},
            InvalidRequest,
            "assignments: 4194305 bytes; the limit is 4194304",
        ),
        ({}, UnknownMemberId, "group 'g' has no member 'm'"),
    ],
)
def test_a_sync_that_cannot_be_is_refused_by_name(
    handler: MembersHandler, changes: Any, error: type[PylogError], words: str
) -> None:
    with pytest.raises(error, match=words):
        run(handler.sync(CONTEXT, SYNC._replace(**changes)))


def test_a_follower_that_brings_assignments_changes_nothing(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    """As in Kafka: only the leader's count. Members that the leader leaves out have nothing, and
    strangers in them are nobody.
    """
    first = join(handler)
    leader_sync = SYNC._replace(member_id=first.member_id, generation=2)

    async def main() -> tuple[Synced, Synced]:
        told = await handler.join(CONTEXT, JOIN)
        waiting = asyncio.ensure_future(
            handler.join(CONTEXT, JOIN._replace(member_id=told.member_id))
        )
        await asyncio.sleep(0)
        await handler.join(CONTEXT, JOIN._replace(member_id=first.member_id))
        await waiting
        follower = SYNC._replace(
            member_id=told.member_id, generation=2, assignments={told.member_id: b"mine"}
        )
        syncing = asyncio.ensure_future(handler.sync(CONTEXT, follower))
        await asyncio.sleep(0)
        assert not syncing.done()
        assert state(coordinators.shard) == "CompletingRebalance"
        brought = {first.member_id: b"leader's", "stranger": b"x"}
        return await handler.sync(CONTEXT, leader_sync._replace(assignments=brought)), await syncing

    leader, follower = run(main())
    assert (leader.assignment, follower.assignment) == (b"leader's", b"")
    described = coordinators.shard.answer(lambda c, r: c.describe_classic(r, "g"))
    assert [each.assignment for each in described.members] == [b"leader's", b""]


def test_a_member_that_is_behind_or_replaced_hears_so(handler: MembersHandler) -> None:
    old = join(handler, instance_id="one")
    new = join(handler, instance_id="one")
    with pytest.raises(FencedInstanceId, match="'one' of group 'g' is used by a later member"):
        run(handler.heartbeat(CONTEXT, Heartbeat("g", old.member_id, "one", 1)))
    with pytest.raises(IllegalGeneration, match="says 9: it has missed a rebalance"):
        run(handler.heartbeat(CONTEXT, Heartbeat("g", new.member_id, "one", 9)))


@pytest.mark.parametrize(
    ("standing_ms", "timeout_ms"),
    [
        (0, LIMIT_MS),
        (-1, LIMIT_MS),
        (3_000, LIMIT_MS + 3_000),
        (2**31 - 1, LIMIT_MS + STANDING_MS_MAX),
    ],
)
def test_a_heartbeat_is_answered_in_time_whatever_it_says(
    handler: MembersHandler, coordinators: FakeCoordinators, standing_ms: int, timeout_ms: int
) -> None:
    request = Heartbeat("g", "m", None, 1, standing_ms)
    with pytest.raises(UnknownMemberId):
        run(handler.heartbeat(CONTEXT, request))
    beat = BEAT._replace(standing_ms=standing_ms, member_id="n", member_epoch=5)
    with pytest.raises(PylogError):
        run(handler.consumer_heartbeat(CONTEXT, beat))
    assert coordinators.asked == [("g", timeout_ms)] * 2


def test_a_heartbeat_that_cannot_be_is_refused(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    for request, error in (
        (Heartbeat("", "m", None, 1), InvalidGroupId),
        (Heartbeat("g" * 256, "m", None, 1), InvalidGroupId),
        (Heartbeat("g", "m" * 513, None, 1), InvalidRequest),
        (Heartbeat("g", "m", "i" * 250, 1), InvalidRequest),
    ):
        with pytest.raises(error):
            run(handler.heartbeat(CONTEXT, request))
    assert coordinators.asked == []


def test_those_that_leave_are_told_of_one_by_one(handler: MembersHandler) -> None:
    one = join(handler)
    request = LeaveGroup(
        "g", (Leaving("stranger", None), Leaving(one.member_id, None, "bye"), Leaving("", "two"))
    )
    assert run(handler.leave(CONTEXT, request)) == [
        MemberLeft(
            "stranger",
            None,
            Failure(UnknownMemberId.code, "group 'g' has no member 'stranger'"),
        ),
        MemberLeft(one.member_id, None),
        MemberLeft(
            "", "two", Failure(UnknownMemberId.code, "group 'g' has no static member 'two'")
        ),
    ]


def test_leaving_that_cannot_be_is_refused(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    for request, error, words in (
        (LeaveGroup("", ()), InvalidGroupId, "empty"),
        (LeaveGroup("g", (Leaving("m", None),) * 10_001), InvalidRequest, "10001 members"),
        (LeaveGroup("g", (Leaving("m" * 513, None),)), InvalidRequest, "member_id has 513"),
        (LeaveGroup("g", (Leaving("", "i" * 250),)), InvalidRequest, "instance_id has 250"),
    ):
        with pytest.raises(error, match=words):
            run(handler.leave(CONTEXT, request))
    assert coordinators.asked == []
    with pytest.raises(UnknownMemberId):
        run(handler.leave(CONTEXT, LeaveGroup("g", ())))


# ---- the consumer protocol -----------------------------------------------------------------------


def test_a_member_of_the_new_protocol_hears_the_names_of_its_topics(
    handler: MembersHandler, image: MetadataImage
) -> None:
    topic = image.topics_by_name["t"].topic_id
    answered = run(handler.consumer_heartbeat(CONTEXT, BEAT))
    assert answered.answer.assigned == {TopicIdPartition(topic, n) for n in range(2)}
    assert answered.topics == {topic: "t"}
    beat = ConsumerHeartbeat("g", "m", answered.answer.member_epoch)
    assert run(handler.consumer_heartbeat(CONTEXT, beat)).topics == {}


def test_a_topic_that_is_gone_meanwhile_has_no_name(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    gone = TopicId("G" * 21 + "A")
    coordinators.shard.topics["gone"] = SubscribedTopic("gone", gone, 1)
    answered = run(handler.consumer_heartbeat(CONTEXT, BEAT._replace(subscribed_names=("gone",))))
    assert answered.answer.assigned == {TopicIdPartition(gone, 0)}
    assert answered.topics == {}


def test_a_member_without_an_id_is_given_one(handler: MembersHandler) -> None:
    answered = run(handler.consumer_heartbeat(CONTEXT, BEAT._replace(member_id="")))
    assert answered.answer.member_id == "id1"


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"group_id": ""}, InvalidRequest, "^group_id is empty$"),
        ({"group_id": "g" * 256}, InvalidGroupId, "group_id has 256 characters"),
        ({"member_id": "m" * MIB}, InvalidRequest, "member_id has 1048576 characters"),
        ({"instance_id": "i" * 250}, InvalidRequest, "instance_id has 250 characters"),
        ({"rack_id": "r" * 513}, InvalidRequest, "rack_id has 513 characters"),
        ({"server_assignor": "a" * 513}, InvalidRequest, "server_assignor has 513 characters"),
        (
            {"subscribed_regex": "x" * 8_001},
            InvalidRequest,
            "subscribed_topic_regex has 8001 characters",
        ),
        (
            {"subscribed_names": ("t",) * 10_001},
            InvalidRequest,
            "10001 topics in one request; the limit is 10000",
        ),
        ({"subscribed_names": ("a b",)}, InvalidTopic, "a b"),
        (
            {"owned": frozenset(TopicIdPartition(TopicId("x"), n) for n in range(20_001))},
            InvalidRequest,
            "20001 partitions in one request",
        ),
    ],
)
def test_a_heartbeat_of_the_new_protocol_that_cannot_be_is_refused(
    handler: MembersHandler,
    coordinators: FakeCoordinators,
    changes: Any,
    error: type[PylogError],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        run(handler.consumer_heartbeat(CONTEXT, BEAT._replace(**changes)))
    assert coordinators.asked == []


def test_a_broker_that_does_not_coordinate_the_group_says_so(
    handler: MembersHandler, coordinators: FakeCoordinators
) -> None:
    coordinators.fault = NotCoordinator("__consumer_offsets-3 has another leader")
    calls: tuple[Awaitable[Any], ...] = (
        handler.join(CONTEXT, JOIN),
        handler.sync(CONTEXT, SYNC),
        handler.heartbeat(CONTEXT, Heartbeat("g", "m", None, 1)),
        handler.leave(CONTEXT, LeaveGroup("g", (Leaving("m", None),))),
        handler.consumer_heartbeat(CONTEXT, BEAT),
    )
    for call in calls:
        with pytest.raises(NotCoordinator, match="another leader"):
            run(call)
