"""The rows of `pylog top` after two looks at a cluster."""

from __future__ import annotations

from pylog.cli.activity import (
    GroupLook,
    GroupRow,
    Look,
    TopicLook,
    TopicRow,
    group_rows,
    topic_rows,
)
from pylog.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def at(at_ms: int, *ends: int, **groups: GroupLook) -> Look:
    return Look(at_ms, 1, {"t": TopicLook(dict(enumerate(ends)), len(ends), 0, 0)}, groups)


def test_the_first_look_has_no_rates() -> None:
    first = at(0, 5, 7, g=GroupLook("Stable", 1, 12, 2.5, {T0: 0}))
    assert topic_rows(None, first) == [TopicRow("t", 2, 0, 0, None)]
    assert group_rows(None, first) == [GroupRow("g", "Stable", 1, 12, 2.5, None)]


def test_rates_are_what_moved_in_the_time_between() -> None:
    before = at(1_000, 5, 7, g=GroupLook("Stable", 1, 12, 9.0, {T0: 0, T1: 4}))
    now = at(3_000, 25, 7, g=GroupLook("Stable", 2, 2, 1.0, {T0: 20, T1: 10}))
    assert topic_rows(before, now) == [TopicRow("t", 2, 0, 0, 10.0)]
    assert group_rows(before, now) == [GroupRow("g", "Stable", 2, 2, 1.0, 13.0)]


def test_what_is_new_was_cut_or_set_back_moves_by_nothing() -> None:
    before = at(0, 50, g=GroupLook("Empty", 0, 0, 0.0, {T0: 50}))
    now = at(1_000, 20, 30, g=GroupLook("Empty", 0, 50, None, {T0: 0, T1: 30}))
    assert topic_rows(before, now) == [TopicRow("t", 2, 0, 0, 0.0)]
    assert group_rows(before, now) == [GroupRow("g", "Empty", 0, 50, None, 0.0)]
    new = Look(2_000, 1, {"u": TopicLook({0: 9}, 1, 0, 0)}, {})
    assert topic_rows(now, new) == [TopicRow("u", 1, 0, 0, None)]


def test_the_busiest_topic_and_the_group_furthest_behind_come_first() -> None:
    idle, busy = TopicLook({0: 5}, 1, 1, 0), TopicLook({0: 5}, 1, 0, 1)
    behind, unknown = GroupLook("Stable", 1, 9, 4.0, {}), GroupLook("Dead", 0, None, None, {})
    before = Look(0, 1, {"a": idle, "b": busy}, {"a": unknown, "b": behind})
    now = before.__class__(1_000, 1, {"a": idle, "b": busy._replace(ends={0: 6})}, before.groups)
    assert [row.topic for row in topic_rows(before, now)] == ["b", "a"]
    assert [row.group for row in group_rows(before, now)] == ["b", "a"]
