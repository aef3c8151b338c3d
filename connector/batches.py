"""The ranges of offsets that a batch read covers. Pure.

Spark plans a DataFrame once and may run it many times; ends that are not fixed offsets are
therefore left to the tasks, so that a frame which is used again sees what was written since.
"""

from __future__ import annotations

from dataclasses import replace

from pylog.model import TopicPartition
from pylog_connector.errors import OffsetBeyondEnd, StartAfterEnd
from pylog_connector.planning import (
    ALLOW,
    UNKNOWN,
    Bounds,
    PartitionBounds,
    Story,
    assigned,
    too_old,
)
from pylog_connector.positions import EARLIEST, LATEST, Bound, Found
from pylog_connector.ranges import Others, ReadRange
from pylog_connector.selection import Selection


def batch_ranges(
    starting: Bound,
    ending: Bound,
    bounds: Bounds,
    selection: Selection,
    found: Found,
    *,
    fail_on_data_loss: bool = True,
    story: Story = lambda _: UNKNOWN,
) -> list[ReadRange]:
    """One range for each partition that has something to read, in order.

    Partitions that are empty, or that do not exist yet, come as `Others` of a range where the
    options speak of all partitions of a topic; a topic without any record keeps one range for them.
    Raises UnknownTopic and InvalidOption for JSON that does not fit the topics, NoOffsetAtTime,
    StartAfterEnd, OffsetBeyondEnd and DataLoss.
    """
    places = assigned(bounds)
    starting.check(places, str(selection))
    ending.check(places, str(selection))
    ranges = []
    for topic, partitions in sorted(places.items()):
        planned = []
        for partition in partitions:
            at, bound = TopicPartition(topic, partition), bounds[topic].partitions[partition]
            whole = _range(starting, ending, at, bound, bounds[topic].topic_id, found)
            whole = replace(whole, lenient=not fail_on_data_loss)
            _check(starting, ending, at, whole, bound, story)
            planned.append(whole)
        ranges += _grouped(planned, starting.rule(topic), starting.times, ending, selection)
    return ranges


def _range(
    starting: Bound,
    ending: Bound,
    at: TopicPartition,
    bound: PartitionBounds,
    topic_id: str,
    found: Found,
) -> ReadRange:
    begin, end = starting.offset(at, found), ending.offset(at, found)
    if starting.times and begin != EARLIEST:
        begin = bound.latest if begin == LATEST else max(begin, bound.earliest)
    time = ending.at(*at) if ending.times and end == LATEST else LATEST
    first = bound.earliest if begin == EARLIEST else begin
    late = begin == EARLIEST and end == LATEST
    return ReadRange(
        *at[:1],
        "" if late else topic_id,
        at.partition,
        begin,
        end,
        known=(first, max(first, bound.latest if end == LATEST else min(end, bound.latest))),
        from_earliest=begin == EARLIEST,
        end_time=time if time >= 0 else None,
    )


def _grouped(
    planned: list[ReadRange], rule: int | None, times: bool, ending: Bound, selection: Selection
) -> list[ReadRange]:
    """A topic's ranges without the empty ones, which others look after where ends are late."""
    full = [r for r in planned if r.size]
    topic = planned[0].topic if planned else ""
    end_rule = ending.rule(topic)
    late = end_rule is not None and (ending.times or end_rule == LATEST)
    if not planned or rule is None or not late:
        # Empty now, but with a late end: what is written later is read by its own task.
        return [r for r in planned if r.size or r.end == LATEST or r.end > r.known[1]]
    empty = [r.partition for r in planned if not r.size]
    if rule == LATEST:
        full, empty = planned, []  # each from where it ends now, which only its own range tells
    if not full:
        full, empty = planned[:1], empty[1:]
    first = len(planned) if selection.grows() else 0
    return [
        _with_others(
            whole,
            Others(
                tuple(empty[n :: len(full)]),
                first + n if selection.grows() else 0,
                len(full) if selection.grows() else 0,
                rule if times and rule >= 0 else None,
                end_rule if ending.times and end_rule is not None and end_rule >= 0 else None,
            ),
        )
        for n, whole in enumerate(full)
    ]


def _with_others(whole: ReadRange, others: Others) -> ReadRange:
    return replace(whole, others=others if others.empty or others.step else None)


def _check(
    starting: Bound,
    ending: Bound,
    at: TopicPartition,
    whole: ReadRange,
    bound: PartitionBounds,
    story: Story,
) -> None:
    for where, offset in ((starting, whole.start), (ending, whole.end)):
        if where.group is not None and bound.holds(offset):
            continue  # of a reader of all records, beyond an open transaction
        if offset > bound.latest and not where.times and not whole.lenient:
            raise OffsetBeyondEnd(
                f"{where.named(at, offset)}: the partition ends at {bound.latest}; "
                f"{'' if where.group is not None else 'use -1 for its end, or '}{ALLOW}"
            )
    if 0 <= whole.start < bound.earliest and not whole.lenient:
        raise too_old(at, whole.start, bound.earliest, story)
    first = bound.earliest if whole.start == EARLIEST else whole.start
    lost = whole.lenient and whole.start == EARLIEST
    if whole.end != LATEST and first > whole.end and not lost:
        raise StartAfterEnd(
            f"{at}: {starting.option} is {_told(starting, at, first)} and {ending.option} is "
            f"{_told(ending, at, whole.end)}; the start may not lie behind the end"
        )


def _told(bound: Bound, at: TopicPartition, offset: int) -> str:
    if bound.times and bound.at(*at) >= 0:
        return f"{bound.at(*at)}, which is offset {offset},"
    return str(offset)
