"""OffsetCommit, OffsetFetch and OffsetDelete: what of them a broker refuses by itself, and what
reaches the coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest

from pylog.errors import (
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    InvalidRequest,
    NotCoordinator,
    OffsetMetadataTooLarge,
    PylogError,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.model import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.committed_offsets import CommitOffsets, CommittedOffsetsHandler
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import PartitionRecord, TopicRecord
from tests.fakes.classic_clients import Client, G, settle
from tests.fakes.group_coordinators import FakeCoordinators

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "me")
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LIMIT_MS = 5_000
NOBODY = Caller()
ONE = (BrokerId(1),)

T = TypeVar("T")


@pytest.fixture
def handler(coordinators: FakeCoordinators, image: MetadataImage) -> CommittedOffsetsHandler:
    return CommittedOffsetsHandler(coordinators, lambda: image, commit_timeout_ms=LIMIT_MS)


def run(answer: Awaitable[T]) -> T:
    async def main() -> T:
        async with asyncio.timeout(10):
            return await answer

    return asyncio.run(main())


def commit(
    handler: CommittedOffsetsHandler,
    offsets: dict[TopicPartition, int | CommittedOffset],
    *,
    group: str = G,
    caller: Caller = NOBODY,
    timeout_ms: int = 0,
) -> dict[TopicPartition, PylogError | None]:
    wanted = {
        tp: one if isinstance(one, CommittedOffset) else CommittedOffset(one)
        for tp, one in offsets.items()
    }
    request = CommitOffsets(OffsetCommit(group, caller, wanted), timeout_ms)
    return run(handler.commit(CONTEXT, request)).partitions


def committed(handler: CommittedOffsetsHandler, group: str = G) -> dict[TopicPartition, int]:
    found = run(handler.fetch(CONTEXT, OffsetFetch(group, Caller()))).partitions
    return {tp: one.offset for tp, one in found.items() if one is not None}


def told(outcomes: dict[TopicPartition, PylogError | None]) -> list[tuple[Any, int, str]]:
    """Each partition's code and words, in order; 0 without words where all is well."""
    return [
        (tp, 0, "") if fault is None else (tp, fault.code, str(fault))
        for tp, fault in outcomes.items()
    ]


# ---- commits -------------------------------------------------------------------------------------


def test_each_partition_is_told_of_by_itself_in_the_order_of_the_request(
    handler: CommittedOffsetsHandler, image: MetadataImage
) -> None:
    other = TopicId("X" * 21 + "A")
    missing, beyond, negative = TopicPartition("x", 0), TopicPartition("t", 2), T1
    outcomes = commit(
        handler,
        {
            missing: 1,
            U0: CommittedOffset(7, topic_id=image.topics_by_name["u"].topic_id),
            beyond: 1,
            negative: -1,
            T0: CommittedOffset(5, topic_id=other),
        },
    )
    assert told(outcomes) == [
        (missing, UnknownTopicOrPartition.code, "topic x does not exist"),
        (U0, 0, ""),
        (
            beyond,
            UnknownTopicOrPartition.code,
            "topic t has 2 partitions, and none with the number 2",
        ),
        (
            negative,
            InvalidCommitOffsetSize.code,
            "t-1: offset=-1 is below 0; a position is the offset of the next record to read",
        ),
        (
            T0,
            UnknownTopicId.code,
            f"topic t has the id {image.topics_by_name['t'].topic_id}: one with another id is gone",
        ),
    ]
    assert committed(handler) == {U0: 7}


def test_a_negative_partition_is_none_of_the_topics(handler: CommittedOffsetsHandler) -> None:
    [(_, code, words)] = told(commit(handler, {TopicPartition("t", -1): 1}))
    assert (code, words) == (
        UnknownTopicOrPartition.code,
        "topic t has 2 partitions, and none with the number -1",
    )


def test_a_commit_of_nothing_that_can_be_kept_does_not_reach_the_group(
    handler: CommittedOffsetsHandler, coordinators: FakeCoordinators
) -> None:
    assert told(commit(handler, {TopicPartition("x", 0): 1, T0: -5}))[0][1] != 0
    assert coordinators.asked == []
    assert committed(handler) == {}


def test_a_commit_of_no_partition_says_whether_the_member_may_commit(
    handler: CommittedOffsetsHandler, coordinators: FakeCoordinators
) -> None:
    assert commit(handler, {}) == {}
    with pytest.raises(IllegalGeneration):
        commit(handler, {}, caller=Caller("m", None, 3))
    assert [group for group, _ in coordinators.asked] == [G, G]


def test_metadata_over_the_brokers_limit_is_refused_and_nothing_is_half_written(
    handler: CommittedOffsetsHandler,
) -> None:
    most = "m" * 4_096
    outcomes = commit(
        handler,
        {T0: CommittedOffset(1, metadata=most), T1: CommittedOffset(2, metadata=most + "m")},
    )
    assert told(outcomes) == [
        (T0, 0, ""),
        (
            T1,
            OffsetMetadataTooLarge.code,
            "t-1: the metadata of the commit has 4097 characters, more than the broker's "
            "offset.metadata.max.bytes=4096",
        ),
    ]
    assert committed(handler) == {T0: 1}


def test_a_position_behind_the_end_is_kept_as_kafka_does(handler: CommittedOffsetsHandler) -> None:
    assert commit(handler, {T0: 2**63 - 1}) == {T0: None}
    assert committed(handler) == {T0: 2**63 - 1}


def test_members_commit_for_the_group_and_others_do_not(
    handler: CommittedOffsetsHandler, coordinators: FakeCoordinators
) -> None:
    member = Client(coordinators.shard, "c")
    member.ask_to_join()
    settle(member)
    caller = Caller(member.member_id, None, member.generation)
    # Kafka's coordinator does not ask whose a partition is: a member may commit any.
    assert commit(handler, {T0: 3, U0: 4}, caller=caller) == {T0: None, U0: None}
    old = caller._replace(epoch=member.generation - 1)
    for other, error in (
        (old, IllegalGeneration),
        (caller._replace(member_id="somebody"), UnknownMemberId),
        (Caller(), UnknownMemberId),
    ):
        with pytest.raises(error, match=G):
            commit(handler, {T0: 9, U0: 9}, caller=other)
    assert committed(handler) == {T0: 3, U0: 4}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"group": ""}, InvalidGroupId, "group_id is empty"),
        (
            {"group": "g" * 256},
            InvalidGroupId,
            "group_id has 256 characters; the limit is 255",
        ),
        (
            {"caller": Caller("m" * (1 << 20))},
            InvalidRequest,
            "member_id has 1048576 characters; the limit is 512",
        ),
        (
            {"caller": Caller("m", "i" * 250, 1)},
            InvalidRequest,
            "instance_id has 250 characters; the limit is 249",
        ),
        (
            {"offsets": {TopicPartition("t", n): 1 for n in range(20_001)}},
            InvalidRequest,
            "20001 partitions in one request; the limit is 20000",
        ),
    ],
)
def test_a_commit_that_cannot_be_is_refused_as_a_whole(
    handler: CommittedOffsetsHandler,
    coordinators: FakeCoordinators,
    changes: dict[str, Any],
    error: type[PylogError],
    words: str,
) -> None:
    given: dict[str, Any] = {"offsets": {T0: 1}, **changes}
    with pytest.raises(error) as fault:
        commit(handler, given.pop("offsets"), **given)
    assert str(fault.value) == words
    assert coordinators.asked == []


def test_a_group_id_of_250_characters_is_as_good_as_any(handler: CommittedOffsetsHandler) -> None:
    assert commit(handler, {T0: 1}, group="g" * 250) == {T0: None}
    assert committed(handler, "g" * 250) == {T0: 1}


@pytest.mark.parametrize("error", [NotCoordinator, CoordinatorLoadInProgress])
def test_a_broker_that_does_not_coordinate_the_group_says_so(
    handler: CommittedOffsetsHandler, coordinators: FakeCoordinators, error: type[PylogError]
) -> None:
    coordinators.fault = error("here not, or not yet")
    with pytest.raises(error, match=r"^here not, or not yet$"):
        commit(handler, {T0: 1})


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"), [(0, LIMIT_MS), (-1, LIMIT_MS), (100, 100), (2**31 - 1, LIMIT_MS)]
)
def test_a_commit_waits_for_other_replicas_no_longer_than_the_broker_allows(
    handler: CommittedOffsetsHandler, coordinators: FakeCoordinators, asked_ms: int, given_ms: int
) -> None:
    commit(handler, {T0: 1}, timeout_ms=asked_ms)
    assert coordinators.asked == [(G, given_ms)]


# ---- what is committed ---------------------------------------------------------------------------


def test_positions_are_told_as_they_are_asked_for(handler: CommittedOffsetsHandler) -> None:
    position = CommittedOffset(7, LeaderEpoch(3), "here")
    commit(handler, {T0: position})
    some = run(handler.fetch(CONTEXT, OffsetFetch(G, Caller(), (T1, T0))))
    assert list(some.partitions) == [T1, T0]
    assert some.partitions[T1] is None
    assert run(handler.fetch(CONTEXT, OffsetFetch(G, Caller(), ()))).partitions == {}
    assert list(run(handler.fetch(CONTEXT, OffsetFetch(G, Caller()))).partitions) == [T0]
    # Very old consumers committed without a group's name: what they left can be looked at.
    assert run(handler.fetch(CONTEXT, OffsetFetch("", Caller()))).partitions == {}


def test_a_position_in_a_topic_that_was_made_anew_is_none(
    handler: CommittedOffsetsHandler, coordinators: FakeCoordinators, image: MetadataImage
) -> None:
    here = image.topics_by_name["t"].topic_id
    commit(handler, {T0: CommittedOffset(7, topic_id=here), T1: CommittedOffset(8)})
    before = MetadataImage()
    gone = TopicId("G" * 21 + "A")
    before.apply(
        MetadataBatch(
            ControllerEpoch(1),
            Offset(0),
            (
                TopicRecord("u", gone),
                PartitionRecord(gone, 0, ONE, ONE, ONE[0], LeaderEpoch(0), PartitionEpoch(0)),
            ),
        )
    )
    old = CommittedOffsetsHandler(coordinators, lambda: before, commit_timeout_ms=LIMIT_MS)
    commit(old, {U0: CommittedOffset(493, topic_id=gone)})
    asked = run(handler.fetch(CONTEXT, OffsetFetch(G, Caller(), (U0, T0, T1)))).partitions
    assert {tp: one and one.offset for tp, one in asked.items()} == {U0: None, T0: 7, T1: 8}
    assert committed(handler) == {T0: 7, T1: 8}


def test_a_question_that_cannot_be_is_refused(
    handler: CommittedOffsetsHandler, coordinators: FakeCoordinators
) -> None:
    with pytest.raises(InvalidGroupId, match="256 characters"):
        run(handler.fetch(CONTEXT, OffsetFetch("g" * 256, Caller())))
    with pytest.raises(InvalidRequest, match="member_id has 513"):
        run(handler.fetch(CONTEXT, OffsetFetch(G, Caller("m" * 513))))
    with pytest.raises(InvalidRequest, match="20001 partitions"):
        run(handler.fetch(CONTEXT, OffsetFetch(G, Caller(), (T0,) * 20_001)))
    assert coordinators.asked == []


# ---- deletions -----------------------------------------------------------------------------------


def test_positions_are_forgotten_one_by_one(handler: CommittedOffsetsHandler) -> None:
    commit(handler, {T0: 1, T1: 2})
    missing = TopicPartition("x", 0)
    deleted = run(handler.delete(CONTEXT, OffsetDelete(G, (missing, T0, U0)))).partitions
    assert told(deleted) == [
        (missing, UnknownTopicOrPartition.code, "topic x does not exist"),
        (T0, 0, ""),
        (U0, 0, ""),
    ]
    assert committed(handler) == {T1: 2}


def test_a_group_whose_positions_cannot_be_forgotten_is_named(
    handler: CommittedOffsetsHandler,
) -> None:
    with pytest.raises(GroupIdNotFound, match="no group 'g'"):
        run(handler.delete(CONTEXT, OffsetDelete(G, (TopicPartition("x", 0),))))
    with pytest.raises(InvalidGroupId, match="empty"):
        run(handler.delete(CONTEXT, OffsetDelete("", (T0,))))
    with pytest.raises(InvalidRequest, match="20001 partitions"):
        run(handler.delete(CONTEXT, OffsetDelete(G, (T0,) * 20_001)))
