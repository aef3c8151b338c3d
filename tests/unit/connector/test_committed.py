"""The start of a query that takes over from a group: the option's text, and the offsets it
gives.
"""

from __future__ import annotations

import pytest

from pylog.model import OffsetAndMetadata, TopicPartition
from pylog_connector.batches import batch_ranges
from pylog_connector.committed import Committed, CommittedStart, committed_start, is_committed
from pylog_connector.errors import (
    DataLoss,
    InvalidOption,
    NoCommittedOffset,
    OffsetBeyondEnd,
    OptionNotApplicable,
)
from pylog_connector.offsets import PartitionPosition, StreamOffset
from pylog_connector.options import SourceOptions, source_options
from pylog_connector.planning import Bounds, PartitionBounds, TopicBounds, initial
from pylog_connector.positions import EARLIEST, LATEST, Bound
from pylog_connector.selection import by_names

SELECTION = by_names(["a"])
T0, T1 = TopicPartition("a", 0), TopicPartition("a", 1)


def bounds(**partition: PartitionBounds) -> Bounds:
    return {"a": TopicBounds("id", {int(name[1:]): has for name, has in partition.items()})}


TWO = bounds(p0=PartitionBounds(2, 10, 4), p1=PartitionBounds(0, 7, 1))


def begin(start: CommittedStart, has: Bounds, committed: Committed, **more: bool) -> StreamOffset:
    flags = {"fail_on_data_loss": True, **more}
    return initial(start.bound(has, committed), has, SELECTION, {}, **flags)


@pytest.mark.parametrize(
    ("text", "group", "fallback"),
    [
        ("committed:g", "g", None),
        (" Committed: g one ", "g one", None),
        ("committed:g,earliest", "g", EARLIEST),
        ("committed:g , LATEST ", "g", LATEST),
        ("committed:a,b,earliest", "a,b", EARLIEST),
        ("committed:committed:g", "committed:g", None),
    ],
)
def test_texts(text: str, group: str, fallback: int | None) -> None:
    assert is_committed(text)
    assert committed_start("startingOffsets", text) == CommittedStart(
        "startingOffsets", group, fallback
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("committed:", "names no group"),
        ("committed: ", "names no group"),
        ("committed:,earliest", "names no group"),
        ("committed:g,", "'' is no fallback"),
        ("committed:g,error", "'error' is no fallback; write committed:<group>, or"),
    ],
)
def test_wrong_texts(text: str, says: str) -> None:
    with pytest.raises(InvalidOption) as error:
        committed_start("startingOffsets", text)
    assert f"startingOffsets={text!r}" in str(error.value)
    assert says in str(error.value)


def given(streaming: bool = True, **options: str) -> SourceOptions:
    named = {name.replace("__", "."): value for name, value in options.items()}
    read = {"pylog.bootstrap.servers": "h:1", "subscribe": "a", **named}
    return source_options(read, streaming=streaming)


def test_options() -> None:
    start = CommittedStart("startingOffsets", "g", LATEST)
    for streaming in (True, False):
        assert given(streaming, startingOffsets="committed:g,latest").starting == start
    # Times count before offsets, as always.
    timed = given(startingOffsets="committed:g", startingTimestamp="5").starting
    assert isinstance(timed, Bound)
    with pytest.raises(InvalidOption, match="endingOffsets='committed:g': use earliest, latest"):
        given(False, endingOffsets="committed:g")
    assert given(pylog__commit__group="g").commit_group == "g"
    with pytest.raises(OptionNotApplicable, match=r"pylog.commit.group='g': a batch read has no"):
        given(False, pylog__commit__group="g")
    with pytest.raises(InvalidOption, match=r"pylog.commit.group=' ' names no group"):
        given(pylog__commit__group=" ")


def test_a_group_is_followed_with_the_epochs_that_it_knows() -> None:
    """An older epoch than the partition's is asked about at the first look: the log may have been
    cut.
    """
    start = CommittedStart("startingOffsets", "g")
    committed = {T0: OffsetAndMetadata(5, "x", 3), T1: OffsetAndMetadata(7)}
    assert dict(begin(start, TWO, committed).topics["a"].partitions) == {
        0: PartitionPosition(5, 3),
        1: PartitionPosition(7, 1),
    }


def test_a_partition_without_a_position() -> None:
    committed = {T0: OffsetAndMetadata(5), TopicPartition("b", 0): OffsetAndMetadata(1)}
    with pytest.raises(NoCommittedOffset) as error:
        begin(CommittedStart("startingOffsets", "g"), TWO, committed)
    assert str(error.value).startswith(
        "[PYLOG_NO_COMMITTED_OFFSET] startingOffsets=committed:g: group 'g' has committed no "
        "offset in a-1; commit offsets there, or write committed:g,earliest or "
    )
    many = {"a": TopicBounds("id", {p: PartitionBounds(0, 1) for p in range(5)})}
    with pytest.raises(NoCommittedOffset, match=r"no offset of group 'g' exists in .* and 2 more"):
        begin(CommittedStart("startingOffsets", "g"), many, {})
    for fallback, offset in ((EARLIEST, 0), (LATEST, 7)):
        start = CommittedStart("startingOffsets", "g", fallback)
        assert begin(start, TWO, committed).topics["a"].partitions[1].offset == offset


def test_a_position_that_the_log_does_not_hold() -> None:
    start = CommittedStart("startingOffsets", "g", EARLIEST)
    gone, beyond = {T0: OffsetAndMetadata(1)}, {T0: OffsetAndMetadata(11)}
    with pytest.raises(DataLoss, match="a-0 was to be read from offset 1, but its first offset"):
        begin(start, TWO, gone)
    with pytest.raises(
        OffsetBeyondEnd,
        match=r"startingOffsets=committed:g,earliest, whose committed offset in a-0 is 11: the n",
    ):
        begin(start, TWO, beyond)
    for committed, offset in ((gone, 2), (beyond, 10)):
        lenient = begin(start, TWO, committed, fail_on_data_loss=False)
        assert lenient.topics["a"].partitions[0].offset == offset


def test_a_position_beyond_an_open_transaction() -> None:
    """The group read uncommitted records; the query, which does not, goes on where it ended."""
    has = bounds(p0=PartitionBounds(0, 4, 1, high_watermark=9))
    start = CommittedStart("startingOffsets", "g")
    committed = {T0: OffsetAndMetadata(8)}
    assert begin(start, has, committed).topics["a"].partitions[0].offset == 8
    ranges = batch_ranges(
        start.bound(has, committed), Bound("endingOffsets", LATEST), has, SELECTION, {}
    )
    assert [(r.start, r.end) for r in ranges] == [(8, LATEST)]


def test_a_batch_begins_at_the_groups_positions() -> None:
    committed = {T0: OffsetAndMetadata(5)}
    for fallback, offset in ((EARLIEST, EARLIEST), (LATEST, 7)):
        start = CommittedStart("startingOffsets", "g", fallback).bound(TWO, committed)
        ranges = batch_ranges(start, Bound("endingOffsets", LATEST), TWO, SELECTION, {})
        assert [(r.partition, r.start, r.end) for r in ranges] == [
            (0, 5, LATEST),
            (1, offset, LATEST),
        ]
