"""Consistent cuts in plans: the ends of micro-batches and batch reads that `pylog.consistent.cut`
asks for.

`cut_finder` looks for the cuts. Here they are put into what `planning` proposes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pylog.model import TopicPartition
from pylog_connector.cut_finder import CutFinder, Describe
from pylog_connector.offsets import StreamOffset
from pylog_connector.planning import Advance, Bounds
from pylog_connector.positions import EARLIEST, LATEST, Bound, Found

logger = logging.getLogger("pylog.connector")

MARKER_WAITS_S: Final = (0.01, 0.02, 0.04, 0.08)
"""The pauses before ends are looked up again where they split a transaction: the markers of one
that is decided are on their way. After these the end is lowered."""

START_LOOKBACK_MAX: Final = 10_000
"""A query that starts at latest begins so many offsets before it at most, so as not to begin inside
a transaction."""

STARVED_MS: Final = 10_000
"""For so long a query that has something to read may find no cut before the log says so."""


class ConsistentEnds:
    """The ends of one query's batches. `is_short`: the last one stopped before what there was,
    where a moment later there may be more.
    """

    def __init__(self, describe: Describe) -> None:
        self._finder = CutFinder(describe)
        self._starved_ms: int | None = None
        self._told = False
        self._is_patient = True
        self.is_short = False

    def give_up(self) -> None:
        """Waiting did not help if the last end is short; it is tried again after one that is not:
        an open transaction holds others up as long as it likes.
        """
        self._is_patient = not self.is_short
        self.is_short = False

    def end(
        self, step: Advance, end: StreamOffset, bounds: Bounds, now_ms: int
    ) -> StreamOffset | None:
        """The end of the batch at `end` or before it, or behind it where limits are smaller than a
        transaction. None when a topic was deleted or made anew meanwhile. `now_ms`: of one
        monotonic clock.
        """
        self.is_short = False
        starts, latest = _flat(step.begins), _flat(step.latest)
        ends = {at: offset for at, offset in _offsets(end).items() if at in starts}
        if ends == starts:
            return end
        is_limited = ends != latest
        if is_limited:
            logs = {
                at: (bounds[at.topic].topic_id, bounds[at.topic].partitions[at.partition].epoch)
                for at in starts
            }
            found = self._finder.admitted(starts, latest, ends, logs)
        else:
            found = self._finder.below(starts, ends)
        if found is None:
            return None
        stands_still = found.ends == starts
        self._is_patient = self._is_patient or found.whole
        may_grow = not found.whole and (stands_still or not is_limited)
        self.is_short = may_grow and self._is_patient
        self._note(starts, latest, now_ms, stands_still=stands_still)
        return _at(end, found.ends)

    def _note(
        self,
        starts: Mapping[TopicPartition, int],
        latest: Mapping[TopicPartition, int],
        now_ms: int,
        *,
        stands_still: bool,
    ) -> None:
        if not stands_still:
            self._starved_ms, self._told = None, False
        elif self._starved_ms is None:
            self._starved_ms = now_ms
        elif not self._told and now_ms - self._starved_ms >= STARVED_MS:
            self._told = True
            waiting = [at for at, start in sorted(starts.items()) if start < latest[at]]
            logger.warning(
                "no consistent cut for %d s, and %d partitions have something to read, %s first: "
                "transactions there overlap without a gap, or one of them does not end (pylog "
                "transactions find-hanging)",
                (now_ms - self._starved_ms) // 1000,
                len(waiting),
                waiting[0],
            )

    def start(self, position: StreamOffset, bounds: Bounds) -> StreamOffset | None:
        """The start at the newest offsets that begins inside no transaction, unless that has more
        than `START_LOOKBACK_MAX` offsets. None as above.
        """
        ends = _offsets(position)
        starts = {
            at: min(
                end,
                max(bounds[at.topic].partitions[at.partition].earliest, end - START_LOOKBACK_MAX),
            )
            for at, end in ends.items()
        }
        if not ends:
            return position
        found = self._finder.below(starts, ends)
        return None if found is None else _at(position, found.ends)

    def batch_end(
        self, starting: Bound, ending: Bound, bounds: Bounds, found: Found
    ) -> Bound | None:
        """The end of a batch read, with offsets in the place of `latest`. None as above."""
        self.is_short = False
        starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        values: dict[str, dict[int, int]] = {}
        for topic, has in bounds.items():
            values[topic] = {}
            for partition, bound in has.partitions.items():
                at = TopicPartition(topic, partition)
                value = ending.at(*at)
                values[topic][partition] = value
                if value != LATEST:
                    continue
                begin = starting.offset(at, found)
                start = {EARLIEST: bound.earliest, LATEST: bound.latest}.get(begin, begin)
                starts[at] = max(start, bound.earliest)
                ends[at] = max(starts[at], bound.latest)
        if starts == ends:
            cut: Mapping[TopicPartition, int] = ends
        else:
            below = self._finder.below(starts, ends)
            if below is None:
                return None
            self.is_short = not below.whole
            cut = below.ends
        for at, offset in cut.items():
            values[at.topic][at.partition] = offset
        return Bound(ending.option, values)


def _flat(offsets: Mapping[str, Mapping[int, int]]) -> dict[TopicPartition, int]:
    return {TopicPartition(t, p): offset for t, of in offsets.items() for p, offset in of.items()}


def _offsets(position: StreamOffset) -> dict[TopicPartition, int]:
    return {
        TopicPartition(name, p): at.offset
        for name, topic in position.topics.items()
        for p, at in topic.partitions.items()
    }


def _at(position: StreamOffset, ends: Mapping[TopicPartition, int]) -> StreamOffset:
    topics = {
        name: replace(
            topic,
            partitions={
                p: replace(at, offset=ends.get(TopicPartition(name, p), at.offset))
                for p, at in topic.partitions.items()
            },
        )
        for name, topic in position.topics.items()
    }
    return replace(position, topics=topics)
