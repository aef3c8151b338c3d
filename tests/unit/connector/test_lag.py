from __future__ import annotations

from pylog.model import TopicPartition
from pylog_connector.lag import NOTHING_TOLD, PARTITIONS_TOLD_MAX, Lag, Unread
from pylog_connector.offsets import PartitionPosition, StreamOffset, TopicPosition
from pylog_connector.planning import Bounds, PartitionBounds, TopicBounds

ID = "t" * 22
A0, A1, A2 = (TopicPartition("a", p) for p in range(3))


def lag(*partitions: tuple[int, int]) -> Lag:
    """By where the batch ends and where the log does."""
    bounds: Bounds = {
        "a": TopicBounds(ID, {p: PartitionBounds(0, b) for p, (_, b) in enumerate(partitions)})
    }
    positions = {p: PartitionPosition(a) for p, (a, _) in enumerate(partitions)}
    return Lag.of(bounds, StreamOffset({"a": TopicPosition(ID, positions)}))


def test_partitions_that_are_behind_are_told_with_what_is_known_of_them() -> None:
    found = lag((3, 3), (2, 9), (0, 5))
    assert found.behind == {A1: (2, 9), A2: (0, 5)}
    told = found.told(Unread({A1: 90_000, A2: 99_500, A0: 5}, {A1: 70, A2: 80}), 100_000)
    assert told == {
        "a": {"0": 3, "1": 9, "2": 5},
        "avgOffsetsBehindLatest": 4.0,
        "maxOffsetsBehindLatest": 7,
        "minOffsetsBehindLatest": 0,
        "recordsBehindLatest": 12,
        "secondsBehindLatest": 10.0,
        "bytesBehindLatest": 150,
        "partitionsBehindLatest": {
            "a": {
                "1": {"records": 7, "bytes": 70, "seconds": 10.0},
                "2": {"records": 5, "bytes": 80, "seconds": 0.5},
            }
        },
    }


def test_a_sum_of_which_a_part_is_not_known_is_left_out() -> None:
    told = lag((2, 9), (0, 5)).told(Unread({}, {A0: 70}), 100_000)
    assert "bytesBehindLatest" not in told
    assert "secondsBehindLatest" not in told
    assert told["partitionsBehindLatest"] == {
        "a": {"0": {"records": 7, "bytes": 70}, "1": {"records": 5}}
    }


def test_the_furthest_partitions_are_told_and_no_more() -> None:
    count = PARTITIONS_TOLD_MAX + 50
    told = lag(*[(0, p + 1) for p in range(count)]).told(NOTHING_TOLD, 0)
    shown = told["partitionsBehindLatest"]["a"]
    assert sorted(map(int, shown)) == list(range(50, count))


def test_a_clock_that_is_behind_a_producers_makes_no_negative_age() -> None:
    told = lag((0, 1)).told(Unread({A0: 5_000}, {A0: 1}), 4_000)
    assert told["secondsBehindLatest"] == 0.0
