"""A partition that gets far more than its share is told, once."""

from __future__ import annotations

import pytest

from pylog.model import TopicPartition
from pylog_broker.node.skew import BYTES_MIN, Skew, SkewWatch


def ends(*records: int, topic: str = "t") -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): end for number, end in enumerate(records)}


def kibibytes(_: TopicPartition, start: int, end: int) -> int:
    """Each record takes 1 KiB."""
    return (end - start) << 10


def test_a_skewed_topic_is_told_once_until_it_is_even_again() -> None:
    watch = SkewWatch()
    assert watch.look(ends(0, 0, 0, 0, 0), kibibytes) == []
    told = watch.look(ends(1_000, 90_000, 3_000, 3_000, 3_000), kibibytes)
    assert told == [Skew(TopicPartition("t", 1), 90_000 << 10, 100_000 << 10, 5)]
    assert watch.by_topic == {"t": told[0]}
    assert "t-1 got 92160000 of the 102400000 bytes" in str(told[0])
    assert "4.5 times the mean" in str(told[0])
    assert watch.look(ends(2_000, 180_000, 6_000, 6_000, 6_000), kibibytes) == []
    even = ends(12_000, 190_000, 16_000, 16_000, 16_000)
    assert watch.look(even, kibibytes) == []
    assert watch.by_topic["t"].times == 1.0
    assert not watch.by_topic["t"].is_large
    again = ends(12_000, 290_000, 16_000, 16_000, 16_000)
    assert [skew.times for skew in watch.look(again, kibibytes)] == [5.0]


def test_few_large_values_skew_where_the_records_are_even() -> None:
    watch = SkewWatch()
    watch.look(ends(0, 0, 0), kibibytes)

    def sizes(name: TopicPartition, start: int, end: int) -> int:
        return (end - start) * (18 << 20 if name.partition == 2 else 1 << 20)

    (told,) = watch.look(ends(10, 10, 10), sizes)
    assert told.partition == TopicPartition("t", 2)
    assert told.bytes / told.all_bytes == 0.9


def test_few_bytes_and_a_single_partition_say_nothing() -> None:
    watch = SkewWatch()
    watch.look(ends(0, 0) | ends(0, topic="single"), kibibytes)
    few = BYTES_MIN // 1024 - 1
    assert watch.look(ends(few, 0) | ends(1 << 30, topic="single"), kibibytes) == []
    assert watch.by_topic == {}


@pytest.mark.parametrize(
    ("growth", "told"),
    [
        ((200, 800), [1]),
        ((210, 790), []),
        ((100, 90, 810), [2]),
        ((110, 100, 790), []),
        ((40, 30, 30, 30, 30, 30, 30, 30, 750), [8]),
        ((4, 7, 3, 3, 3, 3, 3, 3, 3), []),
        ((4, 30, 3, 3, 3, 3, 3, 3, 3), [1]),
    ],
)
def test_four_fifths_of_a_topic_or_four_times_its_mean_are_told(
    growth: tuple[int, ...], told: list[int]
) -> None:
    watch = SkewWatch()
    watch.look(ends(*(0 for _ in growth)), kibibytes)
    found = watch.look(ends(*(records * 10_000 for records in growth)), kibibytes)
    assert [skew.partition.partition for skew in found] == told


def test_a_new_partition_and_one_that_was_truncated_count_from_where_they_are() -> None:
    watch = SkewWatch()
    watch.look(ends(50_000, 50_000), kibibytes)
    assert watch.look(ends(40_000, 65_000, 1 << 40), kibibytes) != []
    assert watch.by_topic["t"].times == 2.0
    assert watch.look(ends(40_000, 65_000, 1 << 40), kibibytes) == []
    assert watch.by_topic == {}
