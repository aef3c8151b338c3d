from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pylog.model import TopicPartition
from pylog_connector import errors
from pylog_connector.admission import Pace
from pylog_connector.offsets import PartitionPosition, StreamOffset, TopicPosition
from pylog_connector.planning import (
    Advance,
    PartitionBounds,
    TopicBounds,
    advance,
    initial,
    require_topics,
    stream_ranges,
)
from pylog_connector.positions import EARLIEST, LATEST, Bound, Positions
from pylog_connector.ranges import ReadRange
from pylog_connector.selection import Selection, by_names

ID, OTHER = "x" * 22, "y" * 22
A, AB = by_names("a"), by_names("ab")


def read(topic: str, topic_id: str, partition: int, start: int, end: int) -> ReadRange:
    return ReadRange(topic, topic_id, partition, start, end, known=(start, end))


def at(topic_id: str = ID, **topics: dict[int, int]) -> StreamOffset:
    return StreamOffset(
        {
            name: TopicPosition(topic_id, {p: PartitionPosition(o, 1) for p, o in offsets.items()})
            for name, offsets in topics.items()
        }
    )


def has(topic_id: str = ID, **topics: dict[int, tuple[int, int]]) -> dict[str, TopicBounds]:
    return {
        name: TopicBounds(topic_id, {p: PartitionBounds(*ends, 1) for p, ends in bounds.items()})
        for name, bounds in topics.items()
    }


# ---- the first batch ---------------------------------------------------------------------------


def test_where_a_stream_starts() -> None:
    bounds = has(a={0: (3, 9), 1: (0, 0)})

    def starts(positions: Positions, fail: bool = True) -> StreamOffset:
        bound = Bound("startingOffsets", positions)
        return initial(bound, bounds, A, {}, fail_on_data_loss=fail)

    assert starts(EARLIEST) == at(a={0: 3, 1: 0})
    assert starts(LATEST) == at(a={0: 9, 1: 0})
    assert starts({"a": {0: 5, 1: -1}}) == at(a={0: 5, 1: 0})
    assert starts({"a": {0: 9, 1: -2}}) == at(a={0: 9, 1: 0})
    with pytest.raises(errors.OffsetBeyondEnd, match=r'startingOffsets\.a\."0"=10.* 9;'):
        starts({"a": {0: 10, 1: 0}})
    with pytest.raises(errors.DataLoss, match=r"a-0 .* offset 1, but its first offset is 3"):
        starts({"a": {0: 1, 1: 0}})
    assert starts({"a": {0: 10, 1: 0}}, fail=False) == at(a={0: 9, 1: 0})
    assert starts({"a": {0: 1, 1: 0}}, fail=False) == at(a={0: 3, 1: 0})
    with pytest.raises(errors.InvalidOption, match="missing"):
        starts({"a": {0: 5}})


def test_the_topics_must_exist() -> None:
    require_topics(A, has(a={0: (0, 0)}))
    with pytest.raises(errors.UnknownTopic, match="no topic b, c; create"):
        require_topics(by_names("abc"), has(a={0: (0, 0)}))


# ---- the next batch ----------------------------------------------------------------------------


def test_a_batch_ends_at_the_newest_or_at_the_limit() -> None:
    bounds = has(a={0: (0, 10)}, b={0: (0, 6)})
    start = at(a={0: 5}, b={0: 3})
    assert advance(start, bounds, AB).end == at(a={0: 10}, b={0: 6})
    assert advance(start, bounds, AB, limit=3).end == at(a={0: 6}, b={0: 4})


def test_new_partitions_and_topics_begin_at_zero() -> None:
    bounds = has(a={0: (0, 5), 1: (0, 4)}, b={0: (0, 2)})
    step = advance(at(a={0: 5}), bounds, AB)
    assert step.end == at(a={0: 5, 1: 4}, b={0: 2})
    assert stream_ranges(at(a={0: 5}), step.end) == [
        read("a", ID, 1, 0, 4),
        read("b", ID, 0, 0, 2),
    ]


@pytest.mark.parametrize(
    ("start", "bounds", "subscribed", "condition", "words", "end"),
    [
        pytest.param(
            at(a={0: 5}), has(a={0: (7, 9)}), A,
            errors.DataLoss, ["a-0", "offset 5", "first offset is 7", "2 records"], at(a={0: 9}),
            id="older than retention",
        ),
        pytest.param(
            at(a={0: 5}), has(a={0: (0, 5), 1: (2, 3)}), A,
            errors.DataLoss, ["a-1 is new", "offset 0", "first offset is 2"], at(a={0: 5, 1: 3}),
            id="new partition that lost its start",
        ),
        pytest.param(
            at(a={0: 5}), has(a={0: (0, 2)}), A,
            errors.DataLoss, ["end of a-0 went back from 5 to 2"], at(a={0: 2}),
            id="end went back",
        ),
        pytest.param(
            at(a={0: 5}), has(OTHER, a={0: (1, 8)}), A,
            errors.DataLoss, ["topic a was deleted and created again", ID, OTHER],
            at(OTHER, a={0: 8}),
            id="re-created and longer",
        ),
        pytest.param(
            at(a={0: 5}, b={0: 1}), has(b={0: (0, 2)}), AB,
            errors.DataLoss, ["topic a was deleted"], at(b={0: 2}),
            id="deleted",
        ),
        pytest.param(
            at(b={0: 1}), has(b={0: (0, 2)}), AB,
            errors.UnknownTopic, ["no topic a"], at(b={0: 2}),
            id="never there",
        ),
        pytest.param(
            at(a={0: 5}, b={0: 1}), has(b={0: (0, 2)}), by_names("b"),
            errors.CheckpointMismatch, ["topic a", "does not read any more"], at(b={0: 2}),
            id="checkpoint of other topics",
        ),
        pytest.param(
            at(a={0: 5, 1: 5}), has(a={0: (0, 6)}), A,
            errors.DataLoss, ["partition a-1 no longer exists"], at(a={0: 6}),
            id="partition gone",
        ),
        pytest.param(
            at(a={0: 5}), {"a": TopicBounds(ID, {0: PartitionBounds(0, 9, 1, epoch_end=4)})}, A,
            errors.DataLoss, ["cut at 4", "read up to 5", "offsets 4 to 4"], at(a={0: 9}),
            id="cut and grown anew",
        ),
    ],
)  # fmt: skip
def test_losses_fail_or_warn(
    start: StreamOffset,
    bounds: dict[str, TopicBounds],
    subscribed: Selection,
    condition: type[errors.ConnectorError],
    words: list[str],
    end: StreamOffset,
) -> None:
    with pytest.raises(condition) as error:
        advance(start, bounds, subscribed)
    for word in words:
        assert word in str(error.value), str(error.value)
    step = advance(start, bounds, subscribed, fail_on_data_loss=False)
    assert step.end == end
    assert len(step.warnings) == 1
    assert "failOnDataLoss=false" not in step.warnings[0] or "Checkpoint" in condition.__name__
    stream_ranges(start, step.end, fail_on_data_loss=False)


def test_an_epoch_that_ends_at_the_position_is_no_loss() -> None:
    bounds = {"a": TopicBounds(ID, {0: PartitionBounds(0, 9, 2, epoch_end=5)})}
    end = advance(at(a={0: 5}), bounds, A).end
    assert end.topics["a"].partitions[0] == PartitionPosition(9, 2)


def test_what_was_read_beyond_an_open_transaction_is_waited_for() -> None:
    """A query that read uncommitted records goes on with committed ones."""
    bounds = {"a": TopicBounds(ID, {0: PartitionBounds(0, 5, 1, high_watermark=9)})}
    start = at(a={0: 8})
    assert advance(start, bounds, A) == Advance(start, begins={"a": {0: 8}})
    ended = {"a": TopicBounds(ID, {0: PartitionBounds(0, 12, 1, high_watermark=12)})}
    assert advance(start, ended, A).end == at(a={0: 12})
    with pytest.raises(errors.DataLoss, match=r"the end of a-0 went back from 10 to 5"):
        advance(at(a={0: 10}), bounds, A)


def test_available_now_stops_at_its_target() -> None:
    target = at(a={0: 5, 1: 4})
    grown = has(a={0: (0, 50), 1: (0, 4), 2: (0, 7)})
    assert advance(at(a={0: 0, 1: 0}), grown, A, target=target).end == at(a={0: 5, 1: 4, 2: 0})
    done = at(a={0: 5, 1: 4})
    assert not advance(done, grown, A, target=target).end.moved(done)
    # A replayed plan of an earlier run may lie beyond the target.
    beyond = at(a={0: 9, 1: 4})
    assert not advance(beyond, grown, A, target=target).end.moved(beyond)


def test_available_now_when_planned_offsets_vanish() -> None:
    shrunk = has(a={0: (0, 3)})
    with pytest.raises(errors.DataLoss, match="went back from 5, where"):
        advance(at(a={0: 0}), shrunk, A, target=at(a={0: 5}))
    step = advance(at(a={0: 0}), shrunk, A, target=at(a={0: 5}), fail_on_data_loss=False)
    assert step.end == at(a={0: 3})
    again = has(OTHER, a={0: (2, 9)})
    step = advance(at(a={0: 0}), again, A, target=at(a={0: 5}), fail_on_data_loss=False)
    assert step.end == at(OTHER, a={0: 2})  # what came after the target waits for the next run


# ---- ranges ------------------------------------------------------------------------------------


def test_the_first_batch_is_replayed_from_its_own_start() -> None:
    end = at(a={0: 9, 1: 3}).booted_at(at(a={0: 4, 1: 3}))
    moved_meanwhile = at(a={0: 20, 1: 3})
    assert stream_ranges(moved_meanwhile, end) == [read("a", ID, 0, 4, 9)]
    # In the second batch the same offset is the start: its boot means nothing any more.
    assert stream_ranges(end, at(a={0: 11, 1: 3})) == [read("a", ID, 0, 9, 11)]


def test_a_recreated_topic_is_read_from_its_start() -> None:
    assert stream_ranges(at(a={0: 5}), at(OTHER, a={0: 8})) == [read("a", OTHER, 0, 0, 8)]


def test_a_plan_that_goes_back() -> None:
    with pytest.raises(errors.DataLoss, match="would end at 2, before its start 5"):
        stream_ranges(at(a={0: 5}), at(a={0: 2}))
    assert stream_ranges(at(a={0: 5}), at(a={0: 2}), fail_on_data_loss=False) == []


offsets = st.dictionaries(st.integers(0, 8), st.integers(0, 50), min_size=1, max_size=6)


@given(
    st.dictionaries(st.sampled_from("abc"), offsets, max_size=3),
    st.dictionaries(st.sampled_from("abc"), offsets, min_size=1, max_size=3),
    st.one_of(st.none(), st.integers(1, 30)),
)
def test_batch_after_batch_covers_everything_once(
    starts: dict[str, dict[int, int]], ends: dict[str, dict[int, int]], limit: int | None
) -> None:
    """Until idle: the ranges of all batches join without gap or overlap, and none is empty."""
    for topic, known in starts.items():
        assume(topic in ends and all(p in ends[topic] for p in known))
        assume(all(known[p] <= ends[topic][p] for p in known))
    bounds = has(**{t: {p: (0, o) for p, o in known.items()} for t, known in ends.items()})
    position = at(**starts)
    read: dict[tuple[str, int], int] = {
        (t, p): o for t, known in starts.items() for p, o in known.items()
    }
    for _ in range(400):
        end = advance(position, bounds, by_names(ends), limit=limit).end
        if not end.moved(position):
            break
        for planned in stream_ranges(position, end):
            assert planned.start < planned.end
            assert read.get((planned.topic, planned.partition), 0) == planned.start
            read[planned.topic, planned.partition] = planned.end
        position = end
    else:
        pytest.fail("the stream never becomes idle")
    for topic, known in ends.items():
        for partition, last in known.items():
            assert read.get((topic, partition), 0) == last


def test_a_batch_can_be_made_smaller() -> None:
    bounds = {"a": TopicBounds(ID, {p: PartitionBounds(0, 9, 1) for p in range(3)})}
    step = advance(at(a={0: 5, 1: 9, 2: 7}), bounds, A)
    zero, two = TopicPartition("a", 0), TopicPartition("a", 2)
    assert step.lags() == {zero: (5, 9), two: (7, 9)}
    assert step.up_to({zero: 6}).topics["a"].partitions == {
        0: PartitionPosition(6, 1),
        1: PartitionPosition(9, 1),
        2: PartitionPosition(7, 1),
    }
    assert step.up_to({zero: 99, two: 0}).topics["a"].partitions == {
        0: PartitionPosition(9, 1),
        1: PartitionPosition(9, 1),
        2: PartitionPosition(7, 1),
    }
    early = advance(at(a={0: 5}), bounds, A, pace=Pace(min_offsets=99, max_delay_ms=9, last_ms=0))
    assert early.lags() == {}
