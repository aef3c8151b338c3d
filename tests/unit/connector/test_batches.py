from __future__ import annotations

import pytest

from pylog.model import TopicPartition
from pylog_connector import errors
from pylog_connector.batches import batch_ranges
from pylog_connector.planning import Bounds, PartitionBounds, TopicBounds
from pylog_connector.positions import EARLIEST, LATEST, Bound, Positions
from pylog_connector.ranges import Others, ReadRange
from pylog_connector.selection import Selection, by_names, by_partitions

ID = "x" * 22
A = by_names("a")


def has(*ends: tuple[int, int]) -> Bounds:
    return {"a": TopicBounds(ID, {p: PartitionBounds(*at, 1) for p, at in enumerate(ends)})}


def plan(
    starting: Positions,
    ending: Positions,
    bounds: Bounds,
    *,
    selection: Selection = A,
    fail: bool = True,
) -> list[ReadRange]:
    return batch_ranges(
        Bound("startingOffsets", starting),
        Bound("endingOffsets", ending),
        bounds,
        selection,
        {},
        fail_on_data_loss=fail,
    )


def test_symbolic_ends_are_left_to_the_tasks_and_empty_partitions_to_others() -> None:
    assert plan(EARLIEST, LATEST, has((3, 9), (0, 0), (0, 4), (2, 2))) == [
        ReadRange(
            "a", "", 0, EARLIEST, LATEST, (3, 9), from_earliest=True, others=Others((1,), 4, 2)
        ),
        ReadRange(
            "a", "", 2, EARLIEST, LATEST, (0, 4), from_earliest=True, others=Others((3,), 5, 2)
        ),
    ]
    (only,) = plan(EARLIEST, LATEST, has((0, 0), (0, 0)))
    assert (only.partition, only.others) == (0, Others((1,), 2, 1))


def test_assigned_partitions_do_not_grow() -> None:
    chosen = by_partitions('{"a":[0,1]}')
    (only,) = plan(EARLIEST, LATEST, has((0, 5), (0, 0)), selection=chosen)
    assert only.others == Others((1,))
    (only,) = plan(EARLIEST, LATEST, has((0, 5)), selection=by_partitions('{"a":[0]}'))
    assert only.others is None


def test_explicit_offsets() -> None:
    bounds = has((3, 9), (0, 0))
    assert plan({"a": {0: 4, 1: 0}}, {"a": {0: 9, 1: 0}}, bounds) == [
        ReadRange("a", ID, 0, 4, 9, (4, 9))
    ]
    assert plan({"a": {0: 4, 1: 0}}, LATEST, bounds) == [
        ReadRange("a", ID, 0, 4, LATEST, (4, 9)),
        ReadRange("a", ID, 1, 0, LATEST, (0, 0)),
    ]
    assert plan({"a": EARLIEST}, {"a": {0: 9, 1: -1}}, bounds) == [
        ReadRange("a", ID, 0, EARLIEST, 9, (3, 9), from_earliest=True),
        ReadRange("a", "", 1, EARLIEST, LATEST, (0, 0), from_earliest=True),
    ]


@pytest.mark.parametrize(
    ("starting", "ending", "condition", "words"),
    [
        ({"a": {0: 10}}, LATEST, errors.OffsetBeyondEnd, ['startingOffsets.a."0"=10', "at 9"]),
        (EARLIEST, {"a": {0: 10}}, errors.OffsetBeyondEnd, ['endingOffsets.a."0"=10', "at 9"]),
        ({"a": {0: 8}}, {"a": {0: 5}}, errors.StartAfterEnd, ["is 8", "is 5"]),
        (EARLIEST, {"a": {0: 2}}, errors.StartAfterEnd, ["is 3", "is 2"]),
        ({"a": {0: 1}}, LATEST, errors.DataLoss, ["offset 1", "first offset is 3"]),
        ({"b": {0: 1}}, LATEST, errors.UnknownTopic, ["startingOffsets.b"]),
        (EARLIEST, {"a": {0: 5, 1: 5}}, errors.InvalidOption, ['endingOffsets.a."1"']),
    ],
)
def test_batches_that_cannot_be(
    starting: Positions, ending: Positions, condition: type[errors.ConnectorError], words: list[str]
) -> None:
    with pytest.raises(condition) as error:
        plan(starting, ending, has((3, 9)))
    for word in words:
        assert word in str(error.value)


def test_where_loss_is_allowed_the_tasks_read_what_is_there() -> None:
    bounds = has((3, 5), (0, 2), (0, 0))
    assert plan({"a": {0: 3, 1: 7, 2: 0}}, {"a": {0: 9, 1: 9, 2: 4}}, bounds, fail=False) == [
        ReadRange("a", ID, 0, 3, 9, (3, 5), lenient=True),
        ReadRange("a", ID, 1, 7, 9, (7, 7), lenient=True),
        ReadRange("a", ID, 2, 0, 4, (0, 0), lenient=True),
    ]
    assert plan({"a": {0: 9}}, LATEST, has((3, 5)), fail=False) == [
        ReadRange("a", ID, 0, 9, LATEST, (9, 9), lenient=True)
    ]
    assert plan(EARLIEST, {"a": {0: 2}}, has((3, 5)), fail=False) == []
    with pytest.raises(errors.StartAfterEnd):
        plan({"a": {0: 9}}, {"a": {0: 8}}, has((3, 5)), fail=False)


def test_a_batch_may_begin_before_the_first_offset_when_loss_is_allowed() -> None:
    (only,) = plan({"a": {0: 1}}, LATEST, has((3, 9)), fail=False)
    assert (only.start, only.end) == (1, LATEST)


# ---- times -------------------------------------------------------------------------------------


def timed(
    start: Positions, end: Positions, bounds: Bounds, *offsets: int, lenient: bool = False
) -> list[ReadRange]:
    """`offsets` are what start and end were looked up to be, partition by partition."""
    starting = Bound("startingTimestamp", start, times=True, lenient=lenient)
    ending = Bound("endingTimestamp", end, times=True, lenient=True)
    places = {"a": sorted(bounds["a"].partitions)}
    queries = starting.queries(places) + ending.queries(places)
    found = dict(zip(queries, offsets, strict=True))
    return batch_ranges(starting, ending, bounds, A, found)


def test_times_become_offsets_and_open_ends_stay_open() -> None:
    assert timed(100, 200, has((3, 9), (0, 5)), 4, 1, 7, -1) == [
        ReadRange("a", ID, 0, 4, 7, (4, 7), others=Others((), 2, 2, 100, 200)),
        ReadRange("a", ID, 1, 1, LATEST, (1, 5), end_time=200, others=Others((), 3, 2, 100, 200)),
    ]
    assert [(r.start, r.end) for r in timed(-2, -1, has((3, 9)))] == [(EARLIEST, LATEST)]


def test_a_start_at_latest_is_the_end_at_planning() -> None:
    (only,) = timed(-1, -1, has((3, 9)))
    assert (only.start, only.end, only.size) == (9, LATEST, 0)
    (only,) = timed(500, -1, has((3, 9)), -1, lenient=True)
    assert (only.start, only.end) == (9, LATEST)
    assert only.others == Others((), 1, 1, 500, None)


def test_every_partition_starts_at_its_latest() -> None:
    assert timed(-1, -1, has((3, 9), (0, 2), (0, 0))) == [
        ReadRange("a", ID, 0, 9, LATEST, (9, 9), others=Others((), 3, 3)),
        ReadRange("a", ID, 1, 2, LATEST, (2, 2), others=Others((), 4, 3)),
        ReadRange("a", ID, 2, 0, LATEST, (0, 0), others=Others((), 5, 3)),
    ]
    both = has((3, 9), (0, 2))
    assert [r.start for r in timed({"a": LATEST}, -1, both)] == [9, 2]
    assert [r.start for r in timed({"a": {0: -1, 1: -2}}, -1, both)] == [9, EARLIEST]
    assert [r.start for r in timed(500, -1, both, -1, -1, lenient=True)] == [9]


def test_a_time_may_lie_before_what_is_left_but_not_behind_its_end() -> None:
    # Retention moved on between the two look-ups.
    (only,) = timed(100, -1, has((3, 9)), 1)
    assert only.start == 3
    with pytest.raises(
        errors.StartAfterEnd, match="startingTimestamp is 300, which is offset 8, and"
    ):
        timed(300, 200, has((3, 9)), 8, 4)
    with pytest.raises(errors.NoOffsetAtTime, match="startingTimestamp=300: a-0"):
        timed(300, -1, has((3, 9)), -1)


def test_found_is_asked_for_each_partition() -> None:
    bound = Bound("startingOffsetsByTimestamp", {"a": {0: 5, 1: -2}}, times=True)
    found = {(TopicPartition("a", 0), 5): 4}
    ranges = batch_ranges(bound, Bound("endingOffsets", LATEST), has((0, 9), (1, 3)), A, found)
    assert [(r.partition, r.start) for r in ranges] == [(0, 4), (1, EARLIEST)]
