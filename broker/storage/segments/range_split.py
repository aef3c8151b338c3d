"""The bytes that a range of offsets has, and the offsets that cut it into pieces of a size.

Bytes are those of whole batches as the log stores them, control batches and aborted ones among
them: those are read from the disk and sent, too. Segments know their sizes and the index leads
close to any place, so that a look-up reads some headers, however long the range is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from pylog.model import NO_RANGE, RangePiece, RangeSplit
from pylog.records.batch import BatchHeader
from pylog_broker.storage.files import Files
from pylog_broker.storage.segments.segment import Segment
from pylog_broker.storage.segments.segment_reader import SegmentReader


class _Edge(NamedTuple):
    """The begin of a batch: its distance from the first segment's begin in bytes, its first offset,
    and its size. Behind the last batch of the range: the range's end, and no size.
    """

    place: int
    offset: int
    size: int


def split(
    files: Files,
    segments: Iterable[Segment],
    *,
    start: int,
    end: int,
    piece_bytes: int,
    pieces_max: int,
    even: bool,
    opened: Callable[[Segment], None],
    nowait: bool = False,
) -> RangeSplit:
    """The bytes of the batches that hold `start <= offset < end`, and the first `pieces_max` pieces
    of at most `piece_bytes` (0: none); a batch that is larger is a piece of its own.

    With `even` pieces are about equally large. `segments` begin with the one that may hold `start`;
    `opened` hears of each that is about to be read. With `nowait` it may raise PagesCold.
    """
    if start >= end:
        return NO_RANGE
    places = _Places(files, segments, start, end, opened, nowait)
    first, last = places.first, places.last
    pieces: list[RangePiece] = []
    edge = first
    while piece_bytes > 0 and edge.place < last.place and len(pieces) < pieces_max:
        left = last.place - edge.place
        wanted = -(-left // -(-left // piece_bytes)) if even else piece_bytes
        behind = places.edge_before(edge.place + wanted)
        if behind.place <= edge.place:
            behind = places.edge_before(edge.place + edge.size)
        pieces.append(RangePiece(behind.offset, behind.place - edge.place))
        edge = behind
    behind = places.edge_before(edge.place + edge.size)
    following = RangePiece(behind.offset, edge.size) if pieces and edge.size else None
    return RangeSplit(last.place - first.place, tuple(pieces), following)


class _Places:
    """The batches of a range by their distance from the first segment's begin."""

    def __init__(
        self,
        files: Files,
        segments: Iterable[Segment],
        start: int,
        end: int,
        opened: Callable[[Segment], None],
        nowait: bool,
    ) -> None:
        self._end = end
        self._opened = opened
        self._segments: list[Segment] = []
        for segment in segments:
            if segment.base_offset >= end:
                break
            self._segments.append(segment)
        self._readers = [SegmentReader(files, each, nowait=nowait) for each in self._segments]
        self._begins = [*accumulate((each.size for each in self._segments), initial=0)]
        self.last = _Edge(self._begins[-1], end, 0)
        self.last = self._last()
        self.first = self._first(start)

    def _first(self, start: int) -> _Edge:
        """The batch that holds `start`, or the first behind it."""
        for number, segment in enumerate(self._segments):
            if segment.end_offset > start:
                for position, header in self._headers(number, start):
                    if header.last_offset >= start:
                        return self._edge(number, position, header.base_offset, header.size)
        return self.last

    def _last(self) -> _Edge:
        """Behind the last batch that begins before the end."""
        if not self._segments or self._segments[-1].end_offset <= self._end:
            return self.last
        number = len(self._segments) - 1
        for position, header in self._headers(number, self._end - 1):
            if header.base_offset >= self._end:
                return _Edge(self._begins[number] + position, self._end, 0)
        return self.last

    def _headers(self, number: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        self._opened(self._segments[number])
        return self._readers[number].headers(offset)

    def edge_before(self, place: int) -> _Edge:
        """The last place between two batches at `place` or before it."""
        if place >= self.last.place:
            return self.last
        number = bisect_right(self._begins, place) - 1
        segment, position = self._segments[number], place - self._begins[number]
        indexed = segment.offsets.near(position, 1)
        begin = segment.base_offset
        if indexed and indexed[0][1] <= position:
            begin = indexed[0][0]
        for at, header in self._headers(number, begin):
            if at + header.size > position:
                return self._edge(number, at, header.base_offset, header.size)
        return self._begin_of(number + 1)  # what is left of the segment has rotted

    def _begin_of(self, number: int) -> _Edge:
        for later in range(number, len(self._segments)):
            for position, header in self._headers(later, self._segments[later].base_offset):
                return self._edge(later, position, header.base_offset, header.size)
        return self.last

    def _edge(self, number: int, position: int, offset: int, size: int) -> _Edge:
        place = self._begins[number] + position
        return _Edge(place, offset, size) if place < self.last.place else self.last
