"""Positions of groups: committed, told, deleted, expired; and groups as such."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    InvalidGroupId,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
)
from pylog.model import LeaderEpoch, TopicId, TopicPartition
from pylog_broker.coordinator.expiry import Expiry
from pylog_broker.coordinator.generated.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from pylog_broker.coordinator.generated.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
)
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    DeleteGroups,
    DescribedGroup,
    DescribedMember,
    GroupsDeleted,
    ListedGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from pylog_broker.coordinator.groups.offsets import size_of
from pylog_broker.coordinator.runtime.decision import RECORD_EXTRA_BYTES, Record
from tests.fakes.classic_clients import RANGE, Client, stable
from tests.fakes.group_shard import GroupShard

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
TOPIC_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")
HOUR_MS = 3_600_000
BRIEF = GroupConfig(
    initial_rebalance_delay_ms=0,
    offsets_retention_ms=HOUR_MS,
    offsets_retention_check_interval_ms=60_000,
)


def commit(shard: GroupShard, group: str, offsets: dict[TopicPartition, int], **more: Any) -> Any:
    wanted = {tp: CommittedOffset(offset) for tp, offset in offsets.items()}
    request = OffsetCommit(group, Caller(), wanted, **more)
    return shard.answer(lambda c, r: c.commit_offsets(shard.wall_ms, r, request))


def fetched(shard: GroupShard, group: str, *partitions: TopicPartition) -> dict[Any, Any]:
    request = OffsetFetch(group, Caller(), partitions or None)
    answer = shard.answer(lambda c, r: c.fetch_offsets(r, request))
    assert isinstance(answer, OffsetsFetched)
    return answer.partitions


def listed(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.list_groups(r))


@given(st.integers(1, 3), st.text(st.characters(codec="utf-8"), max_size=300))
def test_a_position_is_never_larger_than_it_is_taken_for(partitions: int, text: str) -> None:
    group, topic = text[:255] or "g", "t" * 249
    wanted = {
        TopicPartition(topic, 2**31 - 1 - n): CommittedOffset(
            2**63 - 1, LeaderEpoch(2**31 - 1), text, TOPIC_ID
        )
        for n in range(partitions)
    }
    shard = GroupShard()
    request = OffsetCommit(group, Caller(), wanted)
    shard.answer(lambda c, r: c.commit_offsets(shard.wall_ms, r, request))
    written = sum(len(key) + len(value or b"") for key, value in shard.log)
    count = len(shard.log)
    assert written + count * RECORD_EXTRA_BYTES <= size_of(group, wanted)


def test_what_is_committed_is_told_also_by_the_next_coordinator() -> None:
    shard = GroupShard()
    position = CommittedOffset(7, LeaderEpoch(3), "here", TOPIC_ID)
    request = OffsetCommit("g", Caller(), {T0: position})
    answer = shard.answer(lambda c, r: c.commit_offsets(shard.wall_ms, r, request))
    assert answer == OffsetsCommitted({T0: None})
    assert fetched(shard, "g") == {T0: position}
    shard.start()
    assert fetched(shard, "g", T0, T1) == {T0: position, T1: None}
    assert fetched(shard, "other", T0) == {T0: None}


def test_a_commit_makes_a_group_without_members() -> None:
    shard = GroupShard()
    commit(shard, "g", {T0: 1})
    assert listed(shard) == [ListedGroup("g", GroupType.CLASSIC, "", "Empty")]


def test_an_answer_waits_for_the_commit_of_its_record_and_so_does_who_asks() -> None:
    shard = GroupShard()
    shard.commits = False
    request = OffsetCommit("g", Caller(), {T0: CommittedOffset(7)})
    first = shard.ask(lambda c, r: c.commit_offsets(shard.wall_ms, r, request))
    second = shard.ask(lambda c, r: c.fetch_offsets(r, OffsetFetch("g", Caller())))
    assert shard.replies == {}
    shard.commit()
    assert shard.replies[first] == OffsetsCommitted({T0: None})
    assert shard.replies[second].partitions == {T0: CommittedOffset(7)}


def test_metadata_that_is_too_large_is_refused_for_its_partition_alone() -> None:
    shard = GroupShard()
    offsets = {T0: CommittedOffset(1, metadata="x" * 4097), T1: CommittedOffset(2)}
    request = OffsetCommit("g", Caller(), offsets)
    answer = shard.answer(lambda c, r: c.commit_offsets(0, r, request))
    assert isinstance(answer.partitions[T0], OffsetMetadataTooLarge)
    assert "4097" in str(answer.partitions[T0])
    assert answer.partitions[T1] is None
    assert fetched(shard, "g") == {T1: CommittedOffset(2)}


def test_a_commit_that_is_more_than_a_batch_may_have_is_refused_whole() -> None:
    shard = GroupShard(BRIEF)
    offsets = {
        TopicPartition("t", number): CommittedOffset(1, metadata="\u00e9" * 2000)
        for number in range(260)
    }
    over = shard.answer(lambda c, r: c.commit_offsets(0, r, OffsetCommit("g", Caller(), offsets)))
    assert {type(fault) for fault in over.partitions.values()} == {InvalidCommitOffsetSize}
    assert "commit of 260 partitions" in str(over.partitions[T0])
    fewer = dict([*offsets.items()][:240])
    taken = shard.answer(lambda c, r: c.commit_offsets(0, r, OffsetCommit("g", Caller(), fewer)))
    assert set(taken.partitions.values()) == {None}


@pytest.mark.parametrize(
    ("group", "caller", "error"),
    [("", Caller(), InvalidGroupId), ("g", Caller("m", None, 3), IllegalGeneration)],
)
def test_a_commit_that_cannot_be_is_refused_by_name(
    group: str, caller: Caller, error: type[Exception]
) -> None:
    shard = GroupShard()
    request = OffsetCommit(group, caller, {T0: CommittedOffset(1)})
    assert isinstance(shard.answer(lambda c, r: c.commit_offsets(0, r, request)), error)
    assert shard.log == []


# ---- deleting ------------------------------------------------------------------------------------


def test_positions_are_deleted_by_partition_and_not_while_members_read_them() -> None:
    shard, clients = stable(1)
    clients[0].commit(5)
    request = OffsetDelete("g", (T0, U0))
    answer = shard.answer(lambda c, r: c.delete_offsets(r, request))
    assert isinstance(answer.partitions[T0], GroupSubscribedToTopic)
    assert answer.partitions[U0] is None
    clients[0].leave()
    assert shard.answer(lambda c, r: c.delete_offsets(r, request)) == OffsetsDeleted(
        {T0: None, U0: None}
    )
    assert fetched(shard, "g") == {}
    nobody = OffsetDelete("nobody", (T0,))
    assert isinstance(shard.answer(lambda c, r: c.delete_offsets(r, nobody)), GroupIdNotFound)


def test_positions_of_members_that_speak_of_no_topics_are_not_deleted() -> None:
    shard = GroupShard(BRIEF)
    worker = Client(shard, "w", protocol_type="connect", protocols=(RANGE,))
    worker.ask_to_join()
    request = OffsetDelete("g", (T0,))
    assert isinstance(shard.answer(lambda c, r: c.delete_offsets(r, request)), NonEmptyGroup)


def test_a_group_is_deleted_with_all_it_has_unless_it_has_members() -> None:
    shard, clients = stable(1)
    commit(shard, "h", {T0: 1, T1: 2})
    request = DeleteGroups(("g", "h", "nobody"))
    answer = shard.answer(lambda c, r: c.delete_groups(r, request))
    assert isinstance(answer, GroupsDeleted)
    assert {name: type(error) for name, error in answer.groups.items()} == {
        "g": NonEmptyGroup,
        "h": type(None),
        "nobody": GroupIdNotFound,
    }
    shard.start()
    assert [each.group_id for each in listed(shard)] == ["g"]
    assert fetched(shard, "h") == {}
    assert clients[0].heartbeat() is None


def test_positions_go_with_their_topic() -> None:
    shard = GroupShard()
    commit(shard, "g", {T0: 1, U0: 2})
    commit(shard, "h", {T1: 3})
    shard.tell(lambda c: c.on_topics_deleted({"t"}))
    assert fetched(shard, "g") == {U0: CommittedOffset(2)}
    shard.start()
    assert fetched(shard, "h") == {}


# ---- expiring ------------------------------------------------------------------------------------


def test_positions_that_nobody_has_needed_expire_and_the_group_with_them() -> None:
    shard = GroupShard(BRIEF)
    commit(shard, "g", {T0: 1})
    shard.advance(HOUR_MS // 2)
    commit(shard, "g", {T1: 2})
    shard.advance(HOUR_MS // 2 + 60_000)
    assert fetched(shard, "g") == {T1: CommittedOffset(2)}
    shard.advance(HOUR_MS // 2)
    assert listed(shard) == []
    assert shard.log[-1][1] is None
    shard.start()
    assert listed(shard) == []


def test_positions_of_a_group_with_members_stay_but_for_topics_that_they_have_left() -> None:
    shard, clients = stable(1, BRIEF)
    caller = Caller(clients[0].member_id, None, clients[0].generation)
    offsets = {T0: CommittedOffset(1), U0: CommittedOffset(2)}
    request = OffsetCommit("g", caller, offsets)
    shard.ask(lambda c, r: c.commit_offsets(shard.wall_ms, r, request))
    for _ in range(2 * HOUR_MS // 9_000):
        shard.advance(9_000)
        clients[0].heartbeat()
    assert fetched(shard, "g") == {T0: CommittedOffset(1)}


def test_positions_of_an_empty_group_count_from_when_it_became_empty() -> None:
    shard, clients = stable(1, BRIEF)
    clients[0].commit(1)
    for _ in range(HOUR_MS // 9_000):
        shard.advance(9_000)
        clients[0].heartbeat()
    clients[0].leave()
    shard.advance(HOUR_MS - 60_000)
    shard.start()  # the record says since when
    assert fetched(shard, "g") == {T0: CommittedOffset(1)}
    shard.advance(2 * 60_000)
    assert listed(shard) == []


def test_a_commit_that_says_how_long_it_is_kept_is_kept_so_long() -> None:
    shard = GroupShard(replace(BRIEF, offsets_retention_ms=HOUR_MS * 24))
    commit(shard, "g", {T0: 1}, retention_ms=HOUR_MS)
    shard.advance(HOUR_MS - 60_000)
    shard.start()
    assert fetched(shard, "g") == {T0: CommittedOffset(1)}
    shard.advance(2 * 60_000)
    assert fetched(shard, "g") == {}


def test_positions_stay_when_the_clock_was_set_forward() -> None:
    """P18."""
    shard = GroupShard(BRIEF)
    commit(shard, "g", {T0: 1})
    commit(shard, "h", {T0: 1}, retention_ms=24 * HOUR_MS)
    trusted: dict[int, int | None] = {HOUR_MS: shard.wall_ms, 24 * HOUR_MS: None}
    shard.expiry = Expiry(trusted.get)
    shard.start()
    shard.advance(240 * HOUR_MS)
    assert fetched(shard, "g") == fetched(shard, "h") == {T0: CommittedOffset(1)}
    trusted[HOUR_MS] = shard.wall_ms
    shard.advance(60_000)
    assert [each.group_id for each in listed(shard)] == ["h"]


# ---- groups as such ------------------------------------------------------------------------------


def test_a_group_is_described_with_its_members() -> None:
    shard, clients = stable(1)
    described = shard.answer(lambda c, r: c.describe_classic(r, "g"))
    assert described == DescribedGroup(
        "g",
        "Stable",
        "consumer",
        "range",
        (DescribedMember(clients[0].member_id, None, "c0", "host", RANGE.metadata, b"c0"),),
    )
    nobody = shard.answer(lambda c, r: c.describe_classic(r, "nobody"))
    assert isinstance(nobody, GroupIdNotFound)


# ---- bytes ---------------------------------------------------------------------------------------


def test_a_commit_of_before_0_9_is_read_as_one_of_today() -> None:
    codec = GroupCodec()
    key, value = codec.encode(
        Record(OffsetCommitKey("g", "t", 1), OffsetCommitValue(offset=5, commit_timestamp=9))
    )
    assert value is not None
    old = b"\0\0" + key[2:]
    legacy = b"\0\0" + (5).to_bytes(8, "big") + b"\0\0" + (9).to_bytes(8, "big")
    record = codec.decode(old, legacy)
    assert record == Record(
        OffsetCommitKey("g", "t", 1), OffsetCommitValue(offset=5, commit_timestamp=9)
    )
    assert codec.decode(b"\x7f\x00", b"") is None


def test_records_that_serve_kafka_brokers_alone_stay_in_the_log_and_disturb_nothing() -> None:
    shard = GroupShard()
    commit(shard, "g", {T0: 1})
    for key, value in (
        (ConsumerGroupPartitionMetadataKey("x"), ConsumerGroupPartitionMetadataValue()),
        (ConsumerGroupRegularExpressionKey("c", "a.*"), None),
    ):
        shard.log.append(GroupCodec().encode(Record(key, value)))
    shard.start()
    assert [each.group_id for each in listed(shard)] == ["g"]
    commit(shard, "g", {T0: 2})
    assert fetched(shard, "g") == {T0: CommittedOffset(2)}
