"""StreamsGroupHeartbeat and StreamsGroupDescribe: what a broker refuses of them and adds to them,
and the internal topics that it has made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

import pytest

from pylog import errors
from pylog.model import NewTopic, TopicId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups import streams as module
from pylog_broker.api.groups.streams import DescribedStreams, StreamsHandler
from pylog_broker.coordinator.generated.streams_group_topology import (
    CopartitionGroup,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic
from pylog_broker.coordinator.groups.streams.messages import (
    Endpoint,
    StatusCode,
    StreamsHeartbeat,
)
from pylog_broker.coordinator.groups.streams.tasks import NO_TASKS, TaskId, Tasks
from tests.fakes.group_coordinators import FakeCoordinators
from tests.fakes.group_shard import GroupShard
from tests.fakes.streams_members import COUNTS, WORDS, at_once

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "app")
LIMIT_MS = 5_000
JOIN = StreamsHeartbeat(
    "g", "m", 0, rebalance_timeout_ms=30_000, topology=WORDS, owned=NO_TASKS, process_id="p"
)
T = TypeVar("T")


class Maker:
    """Notes what is to be made."""

    def __init__(self) -> None:
        self.asked: list[NewTopic] = []
        self.why: dict[str, str] = {}

    def create(self, topics: Iterable[NewTopic]) -> None:
        self.asked += topics

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self.why[name] for name in names if name in self.why}


@pytest.fixture
def coordinators() -> FakeCoordinators:
    """One shard that knows the topic t."""
    shard = GroupShard(at_once())
    shard.topics["t"] = SubscribedTopic("t", TopicId("T" * 22), 2)
    return FakeCoordinators(shard)


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def handler(coordinators: FakeCoordinators, maker: Maker) -> StreamsHandler:
    return StreamsHandler(coordinators, maker, commit_timeout_ms=LIMIT_MS)


def run(call: Awaitable[T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(10):
            return await call

    return asyncio.run(bounded())


def test_a_member_is_known_by_its_connection(
    handler: StreamsHandler, coordinators: FakeCoordinators
) -> None:
    answer = run(handler.heartbeat(CONTEXT, JOIN._replace(client_id="lies", client_host="lies")))
    assert answer.member_epoch == 1
    (found, lost) = run(handler.describe(CONTEXT, ["g", "no", "g"]))
    assert found.described is not None
    (member,) = found.described.members
    assert (member.client_id, member.client_host) == ("app", "10.0.0.1")
    assert lost.failure is not None
    assert (lost.group_id, lost.failure.code) == ("no", errors.GroupIdNotFound.code)
    assert {limit for _, limit in coordinators.asked} == {LIMIT_MS}


def test_internal_topics_are_asked_for_and_failures_are_told(
    handler: StreamsHandler, maker: Maker
) -> None:
    changelog = TopicInfo("g-changelog", 0, 3, (TopicConfig("cleanup.policy", "compact"),))
    parts = (
        COUNTS.subtopologies[0],
        COUNTS.subtopologies[1]._replace(state_changelog_topics=(changelog,)),
    )
    join = JOIN._replace(topology=COUNTS._replace(subtopologies=parts))
    answer = run(handler.heartbeat(CONTEXT, join))
    assert maker.asked == [
        NewTopic("g-changelog", 2, 3, config={"cleanup.policy": "compact"}),
        NewTopic("g-repartition", 2, -1),
    ]
    (status,) = answer.status
    assert status.detail == "Internal topics are missing: g-changelog, g-repartition"
    maker.why = {"g-changelog": "too few brokers", "other": "?"}
    (status,) = run(handler.heartbeat(CONTEXT, join._replace(topology=None, member_epoch=1))).status
    assert status.code is StatusCode.MISSING_INTERNAL_TOPICS
    assert status.detail.endswith("; Creation failed: g-changelog (too few brokers).")


def with_parts(*parts: Subtopology) -> dict[str, Any]:
    return {"topology": WORDS._replace(subtopologies=parts)}


MANY = Tasks(frozenset(TaskId("0", number) for number in range(20_001)))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"group_id": ""}, errors.InvalidRequest, "group_id is empty"),
        ({"group_id": "g" * 256}, errors.InvalidGroupId, "256 characters"),
        ({"member_id": "m" * 513}, errors.InvalidRequest, "member_id has 513 characters"),
        ({"process_id": "m" * 513}, errors.InvalidRequest, "process_id has 513 characters"),
        ({"endpoint": Endpoint("h" * 513, 1)}, errors.InvalidRequest, "user_endpoint has 513"),
        ({"client_tags": (("a", "b"),) * 101}, errors.InvalidRequest, "101 client_tags"),
        ({"client_tags": (("a" * 600, "b"),)}, errors.InvalidRequest, "client_tags has 600"),
        ({"owned": MANY, "member_epoch": 1}, errors.InvalidRequest, "20001 partitions in one"),
        (
            with_parts(*(Subtopology(str(n), ("t",)) for n in range(1_001))),
            errors.InvalidRequest,
            "1001 subtopologies; the limit is 1000",
        ),
        (
            with_parts(Subtopology("0", ("t",), ("x" * 600_000,))),
            errors.InvalidRequest,
            "topology: 600",
        ),
        (
            with_parts(Subtopology("s" * 513, ("t",))),
            errors.InvalidRequest,
            "subtopology_id has 513 characters",
        ),
        (
            with_parts(Subtopology("0", ("__consumer_offsets",), (), (), ("__transaction_state",))),
            errors.StreamsInvalidTopology,
            "Use of Kafka internal topics __consumer_offsets,__transaction_state in a Kafka "
            "Streams topology is prohibited.",
        ),
        (
            with_parts(Subtopology("0", ("a ",), (), (TopicInfo("d/"),))),
            errors.StreamsInvalidTopology,
            "Topic names a ,d/ are not valid topic names.",
        ),
        (
            with_parts(Subtopology("0", ("t",), (), (TopicInfo("c", 0, 40_000),))),
            errors.StreamsInvalidTopology,
            "topic c: replication_factor=40000 is not from 0 to 32767",
        ),
        (
            with_parts(
                Subtopology("0", ("t",), copartition_groups=(CopartitionGroup((-1,), (), ()),))
            ),
            errors.StreamsInvalidTopology,
            "by a number that the subtopology does not have",
        ),
    ],
)
def test_what_is_too_much_or_means_nothing_is_refused_by_name(
    handler: StreamsHandler,
    coordinators: FakeCoordinators,
    changes: dict[str, Any],
    error: type[errors.PylogError],
    words: str,
) -> None:
    with pytest.raises(error) as told:
        run(handler.heartbeat(CONTEXT, JOIN._replace(**changes)))
    assert words in str(told.value)
    assert coordinators.asked == []
    assert type(told.value) is error


def test_names_of_groups_are_checked_one_by_one(handler: StreamsHandler) -> None:
    (empty, long) = run(handler.describe(CONTEXT, ["", "g" * 256]))
    for each in (empty, long):
        assert isinstance(each, DescribedStreams)
        assert each.failure is not None
        assert each.failure.code == errors.InvalidGroupId.code
    with pytest.raises(errors.InvalidRequest, match="10001 groups in one request"):
        run(handler.describe(CONTEXT, [str(n) for n in range(10_001)]))


def test_the_largest_topology_fits_one_append() -> None:
    assert module.TOPOLOGY_BYTES_MAX < 1_000_000
