"""The records that a group has processed, and its log: the plain twins of the simulator."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pylog.model import Offset, TopicPartition, topic_id_from_bytes
from pylog_broker.coordinator.generated.consumer_group_current_member_assignment import (
    AssignedTopic,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from pylog_broker.coordinator.generated.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from pylog_broker.coordinator.generated.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from pylog_broker.coordinator.generated.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from pylog_broker.coordinator.generated.group_metadata import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
)
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.runtime.decision import Record
from tests.sim.group_ghost import CommitRequest, Covered, GroupGhost, is_the_same
from tests.sim.group_log import GroupLog, Standing
from tests.sim.violation import Violation


def test_ranges_cover_what_a_set_of_offsets_does() -> None:
    rng = random.Random(5)
    for _ in range(200):
        covered, plain = Covered(), set[int]()
        for _ in range(rng.randint(0, 8)):
            begin = rng.randint(0, 40)
            end = begin + rng.randint(0, 10)
            covered.add(begin, end)
            plain.update(range(begin, end))
        low, high = sorted((rng.randint(0, 50), rng.randint(0, 50)))
        assert covered.missing(low, high) == [n for n in range(low, high) if n not in plain]
        assert covered.ranges == sorted(covered.ranges)


def log_of(*records: tuple[object, object]) -> GroupLog:
    log = GroupLog()
    for offset, (key, value) in enumerate(records):
        log.take(Record(key, value), Offset(offset))
    return log


def test_the_newest_value_of_a_key_counts_and_a_tombstone_ends_it() -> None:
    a, b = OffsetCommitKey("g", "t", 0), OffsetCommitKey("g", "t", 1)
    old, new = OffsetCommitValue(offset=1), OffsetCommitValue(offset=2)
    log = log_of((a, old), (b, old), (a, new), (b, None))
    assert log.positions() == {("g", "t", 0): new}
    left = [(record.key, record.value, offset) for record, offset in log.records()]
    assert left == [(a, new, 2), (b, None, 3)]


def test_a_member_of_a_classic_group_stands_at_its_generation() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="a",
        members=(ClassicMember(member_id="a"),),
    )
    log = log_of((GroupMetadataKey("g"), value))
    assert log.standing("g", "a") == Standing(7, 7)
    assert log.standing("g", "b") is None
    assert log.members("g") == {"a"}
    assert (log.exists("g"), log.is_consumer("g"), log.exists("h")) == (True, False, False)


def test_a_member_of_the_consumer_protocol_stands_at_two_epochs_while_it_is_one() -> None:
    member = ConsumerGroupMemberMetadataKey("g", "a")
    now = ConsumerGroupCurrentMemberAssignmentKey("g", "a")  # equal to the other, but for its type
    log = log_of(
        (ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(3, 0)),
        (member, ConsumerGroupMemberMetadataValue(classic_member_metadata=None)),
        (now, ConsumerGroupCurrentMemberAssignmentValue(3, 2)),
    )
    assert log.standing("g", "a") == Standing(3, 2)
    log.take(Record(member, None), Offset(3))
    assert log.standing("g", "a") is None
    assert log.group_ids() == {"g"}


def classic_group(generation: int, subscription: bytes = b"") -> GroupLog:
    """With the member a."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader="a",
        members=(ClassicMember(member_id="a", subscription=subscription),),
    )
    return log_of((GroupMetadataKey("g"), value))


def test_a_member_of_a_classic_group_subscribes_to_what_its_strategy_was_told() -> None:
    log = classic_group(1, b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")
    assert (log.subscribes("g", "a", "t"), log.subscribes("g", "a", "u")) == (True, False)
    assert not log.subscribes("g", "b", "t")


def test_a_member_of_the_consumer_protocol_subscribes_to_names_and_to_what_was_found() -> None:
    member = ConsumerGroupMemberMetadataKey("g", "a")
    by_name = ConsumerGroupMemberMetadataValue(subscribed_topic_names=("t",))
    by_regex = ConsumerGroupMemberMetadataValue(subscribed_topic_regex="t.*")
    group = (ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(3, 0))
    log = log_of(group, (member, by_name))
    assert (log.subscribes("g", "a", "t"), log.subscribes("g", "a", "u")) == (True, False)
    log.take(Record(member, by_regex), Offset(2))
    assert not log.subscribes("g", "a", "t")
    found = ConsumerGroupRegularExpressionValue(topics=("t",))
    log.take(Record(ConsumerGroupRegularExpressionKey("g", "t.*"), found), Offset(3))
    assert log.subscribes("g", "a", "t")
    log.take(Record(member, None), Offset(4))
    assert not log.subscribes("g", "a", "t")


def consumer_group(assigned: dict[str, bytes]) -> GroupLog:
    """Each member has partition 1 of that topic."""
    log = log_of((ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(3, 0)))
    for offset, (name, topic_id) in enumerate(assigned.items(), 1):
        now = ConsumerGroupCurrentMemberAssignmentKey("g", name)
        has = (AssignedTopic(topic_id, (1,)),)
        log.take(
            Record(now, ConsumerGroupCurrentMemberAssignmentValue(3, 2, 0, has)), Offset(offset)
        )
    return log


def owner(name: str, granted_id: str = "") -> Any:
    group = SimpleNamespace(granted_id=lambda _tp: granted_id)
    return SimpleNamespace(group_id="g", member_id=name, group=group)


OLD, NEW = b"o" * 16, b"n" * 16


@pytest.mark.parametrize(
    ("one", "other", "log", "same"),
    [
        (owner("a"), owner("b"), classic_group(1), True),  # both by name, in a classic group
        (owner("a", "T"), owner("b", "T"), consumer_group({}), True),
        (owner("a", "T"), owner("b", "U"), consumer_group({}), False),
        (owner("a"), owner("b"), consumer_group({"a": NEW, "b": NEW}), True),
        # b goes on by the name of the topic that it was given
        (owner("a", topic_id_from_bytes(NEW)), owner("b"), consumer_group({"b": OLD}), False),
        (owner("a", topic_id_from_bytes(NEW)), owner("b"), consumer_group({"b": NEW}), True),
    ],
)
def test_a_partition_of_a_topic_that_was_made_anew_is_another_one(
    one: Any, other: Any, log: GroupLog, same: bool
) -> None:
    tp = TopicPartition("t", 1)
    assert is_the_same(one, other, tp, log) is same
    assert is_the_same(other, one, tp, log) is same


def ghost_of(*members: Any) -> GroupGhost:
    topics = {"t": SimpleNamespace(topic_id="T")}
    cluster: Any = SimpleNamespace(
        sometimes=Counter(), image=SimpleNamespace(topics_by_name=topics)
    )
    ghost = GroupGhost(cluster, GroupConfig())
    ghost.members.extend(members)
    return ghost


def commit(generation: int) -> CommitRequest:
    offsets = {TopicPartition("t", 0): 5}
    return CommitRequest("a/1", "a", "g", "a", generation, 0, offsets, frozenset())


def test_a_commit_is_of_the_generation_in_the_log_or_of_a_later_one_that_was_joined() -> None:
    ghost = ghost_of()
    ghost.joined("g", "a", 4)
    ghost.joined("g", "a", 6)
    ghost.joined("g", "b", 7)
    log = classic_group(5)
    for taken in (5, 6):
        ghost._check_epoch(log, commit(taken))
    for refused in (4, 7):
        with pytest.raises(Violation, match=r"is taken; the member is at Standing\(epoch=5"):
            ghost._check_epoch(log, commit(refused))
    with pytest.raises(Violation, match="is taken; the member is at None"):
        ghost._check_epoch(log_of(), commit(6))


@pytest.mark.parametrize(("topic", "is_kept"), [("t", True), ("nowhere", False)])
def test_a_position_is_kept_for_a_member_that_subscribes(topic: str, is_kept: bool) -> None:
    member: Any = SimpleNamespace(
        alive=True,
        name="a",
        group_id="g",
        member_id="a",
        generation=3,
        owned=(TopicPartition("t", 0),),
    )
    ghost = ghost_of(member)
    log = log_of(
        (ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(3, 0)),
        (
            ConsumerGroupMemberMetadataKey("g", "a"),
            ConsumerGroupMemberMetadataValue(subscribed_topic_names=(topic,)),
        ),
        (
            ConsumerGroupCurrentMemberAssignmentKey("g", "a"),
            ConsumerGroupCurrentMemberAssignmentValue(3, 2),
        ),
    )
    if is_kept:
        with pytest.raises(Violation, match="a reads t-0, whose position is forgotten"):
            ghost._may_be_forgotten(log, ("g", "t", 0))
    else:
        ghost._may_be_forgotten(log, ("g", "t", 0))
