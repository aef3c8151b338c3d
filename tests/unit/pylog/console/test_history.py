"""Courses, rates, changes, charts, and the words for numbers."""

from __future__ import annotations

import itertools

import pytest

from pylog.client.admin.admin_types import LogDirDescription, LogDirReplica
from pylog.console.charts import chart, short
from pylog.console.history import (
    EVENTS_MAX,
    POINTS_MAX,
    SERIES_MAX,
    Changes,
    Courses,
    Series,
    partition_changes,
    rates,
)
from pylog.console.polling import PACE_MAX, Knowledge, next_pace
from pylog.console.rendering import UNKNOWN, moment, number, size, span
from pylog.console.snapshot import Part
from pylog.model import PartitionDescription, TopicDescription, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_a_series_stays_small_and_reaches_back_to_its_beginning() -> None:
    series = Series()
    for at in range(10_000):
        series.add(at, at)
    points = series.points()
    assert len(points) <= POINTS_MAX
    steps = {after[0] - before[0] for before, after in itertools.pairwise(points)}
    assert len(steps) == 1
    assert points[0][0] < 100
    assert points[-1][0] > 9_900


def test_courses_forget_what_is_gone_and_take_no_more_than_they_can() -> None:
    courses: Courses[str] = Courses()
    courses.add(1, {"a": 1, "b": 2})
    courses.add(2, {"b": 3})
    assert (courses.of("a"), courses.of("b")) == ([], [(1, 2.0), (2, 3.0)])
    courses.add(3, {str(number): 0 for number in range(SERIES_MAX + 10)})
    assert len(courses._series) == SERIES_MAX


def test_rates_of_two_moments() -> None:
    assert rates({A: 10, B: 5}, {A: 30, B: 2, TopicPartition("c", 0): 9}, 2_000) == {
        "a": 10.0, "b": 0.0, "c": 0.0,
    }  # fmt: skip


class Hands:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


def disks(**sizes: int) -> dict[int, list[LogDirDescription]]:
    """By broker, of partition a-0: `b1=5` are five bytes on broker 1."""
    return {
        int(broker[1:]): [LogDirDescription("/d", -1, -1, {A: LogDirReplica(size, 0, 0, 0)})]
        for broker, size in sizes.items()
    }


def test_bytes_a_second_are_the_growth_of_a_partitions_largest_replica() -> None:
    clock = Hands()
    knowledge = Knowledge(clock)
    knowledge.learn("disks", disks(b1=1_000, b2=100))
    assert knowledge.snapshot.byte_rates == {}
    clock.now_ms += 2_000
    knowledge.learn("disks", disks(b1=1_400, b2=900))  # the second one is being filled
    assert knowledge.snapshot.byte_rates == {"a": 200.0}
    clock.now_ms += 2_000
    knowledge.fail("disks", "no broker answers")
    assert knowledge.snapshot.byte_rates == {}
    clock.now_ms += 2_000
    knowledge.learn("disks", disks(b1=2_200, b2=2_200))
    assert knowledge.snapshot.byte_rates == {"a": 200.0}
    clock.now_ms += 2_000
    knowledge.learn("disks", disks(b1=500, b2=500))  # retention
    assert knowledge.snapshot.byte_rates == {"a": 0.0}


def test_a_part_keeps_what_was_known_and_since_when_it_fails() -> None:
    part = Part(0).learnt(1, 10).failed(20, "x").failed(30, "y")
    assert part == Part(1, 10, 20, "y")
    assert part.learnt(2, 40) == Part(2, 40)
    assert part.learnt(2, 40, "some") == Part(2, 40, 20, "some")


def topic(leader: int | None, isr: tuple[int, ...], epoch: int = 0) -> TopicDescription:
    partition = PartitionDescription(0, leader, epoch, (1, 2), isr)
    return TopicDescription("t", "id", False, (partition,))


def test_changes_of_partitions_in_words() -> None:
    told: list[tuple[str, str]] = []
    partition_changes(
        {"t": topic(1, (1, 2)), "old": topic(1, (1,))},
        {"t": topic(None, (2,), 3), "new": topic(1, (1,))},
        lambda kind, text: told.append((kind, text)),
    )
    assert told == [
        ("topic", "topic new was created"),
        ("topic", "topic old was deleted"),
        ("election", "t-0: leader 1, now none (leader epoch 3)"),
        ("ISR", "t-0: ISR 1,2, now 2"),
    ]


def test_only_the_newest_changes_are_kept() -> None:
    changes = Changes()
    for at in range(EVENTS_MAX + 5):
        changes.add(at, "k", "t")
    assert [each.at_ms for each in changes][:2] == [EVENTS_MAX + 4, EVENTS_MAX + 3]
    assert len(list(changes)) == EVENTS_MAX


def test_a_poller_that_works_too_much_asks_less_often() -> None:
    pace = 1.0
    for _ in range(20):
        pace = next_pace(pace, 0.5)
    assert pace == PACE_MAX
    assert next_pace(2.0, 0.05) == 2.0
    for _ in range(20):
        pace = next_pace(pace, 0.0)
    assert pace == 1.0


def test_a_chart() -> None:
    assert chart("x", [(0, 1.0)]) is None
    drawn = chart("x", [(0, 0.0), (1_000, 2_500.0), (2_000, 1_250.0)])
    assert drawn is not None
    assert drawn.line == "0.0,120.0 320.0,4.0 640.0,62.0"
    assert (drawn.most, drawn.last, drawn.begin, drawn.end) == (
        "2.5 k", "1.25 k", "00:00:00", "00:00:02",
    )  # fmt: skip
    assert chart("x", [(0, 0.0), (0, 0.0)]) is not None
    assert short(3) == "3"


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, UNKNOWN), (-1, UNKNOWN), (0, "0 B"), (1023, "1023 B"), (80_000_000_000, "74.5 GiB"),
     (1 << 62, "4096.0 PiB")],
)  # fmt: skip
def test_sizes(count: int | None, text: str) -> None:
    assert size(count) == text


def test_numbers_times_and_spans() -> None:
    assert [number(n) for n in (None, 1234567, 9.96, 12.3)] == [UNKNOWN, "1,234,567", "10.0", "12"]
    assert moment(0) == "1970-01-01 00:00:00.000"
    assert moment(-1) == UNKNOWN
    assert moment(1 << 62) == f"{1 << 62} ms"
    assert [span(s) for s in (None, 1.25, 60, 600, 20_000, 10**9)] == [
        UNKNOWN, "1.2 s", "60 s", "10 min", "6 h", "11574 d",
    ]  # fmt: skip
