"""A partition that gets far more than its share is told, once."""

from __future__ import annotations

from pylog.model import TopicPartition
from pylog_broker.node.skew import RECORDS_MIN, Skew, SkewWatch


def ends(*records: int, topic: str = "t") -> dict[TopicPartition, int]:
    return {TopicPartition(topic, number): end for number, end in enumerate(records)}


def test_a_skewed_topic_is_told_once_until_it_is_even_again() -> None:
    watch = SkewWatch()
    assert watch.look(ends(0, 0, 0, 0, 0)) == []
    told = watch.look(ends(1_000, 90_000, 3_000, 3_000, 3_000))
    assert told == [Skew(TopicPartition("t", 1), 90_000, 100_000, 5, 4.5)]
    assert watch.by_topic == {"t": 4.5}
    assert "t-1 got 90000 of the 100000 records" in str(told[0])
    assert "4.5 times the mean" in str(told[0])
    assert watch.look(ends(2_000, 180_000, 6_000, 6_000, 6_000)) == []
    even = ends(12_000, 190_000, 16_000, 16_000, 16_000)
    assert watch.look(even) == []
    assert watch.by_topic == {"t": 1.0}
    again = ends(12_000, 290_000, 16_000, 16_000, 16_000)
    assert [skew.times for skew in watch.look(again)] == [5.0]


def test_few_records_and_a_single_partition_say_nothing() -> None:
    watch = SkewWatch()
    watch.look(ends(0, 0) | ends(0, topic="single"))
    assert watch.look(ends(RECORDS_MIN - 1, 0) | ends(1 << 30, topic="single")) == []
    assert watch.by_topic == {}


def test_of_two_partitions_one_that_gets_all_is_skewed() -> None:
    watch = SkewWatch()
    watch.look(ends(0, 0))
    assert [skew.partition.partition for skew in watch.look(ends(0, RECORDS_MIN))] == [1]


def test_a_new_partition_and_one_that_was_truncated_count_from_where_they_are() -> None:
    watch = SkewWatch()
    watch.look(ends(50_000, 50_000))
    assert watch.look(ends(40_000, 60_000, 1 << 40)) != []
    assert watch.by_topic == {"t": 2.0}
    assert watch.look(ends(40_000, 60_000, 1 << 40)) == []
    assert watch.by_topic == {}
