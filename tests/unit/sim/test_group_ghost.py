"""The records that a group has processed, and its log: the plain twins of the simulator."""

from __future__ import annotations

import random

from pylog.model import Offset
from pylog_broker.coordinator.generated.consumer_group_current_member_assignment import (
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
from pylog_broker.coordinator.generated.group_metadata import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
)
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
from pylog_broker.coordinator.runtime.decision import Record
from tests.sim.group_ghost import Covered
from tests.sim.group_log import GroupLog, Standing


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
