"""The places of a range of offsets in the files of its segments, for a reader on the same machine.

Such a reader gets the files themselves and reads them without asking again. The places must
therefore hold for good: batches below the high watermark never change, and neither do their places
in an open file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pylog_broker.storage.files import Files
from pylog_broker.storage.segments.segment import Segment
from pylog_broker.storage.segments.segment_reader import SegmentReader


class FileRange(NamedTuple):
    """Whole batches in one segment file, from byte `begin` to byte `end` (exclusive)."""

    path: str
    begin: int
    end: int


class LocalRange(NamedTuple):
    """Files that hold every batch of the range from where it was asked for to `end_offset`
    (exclusive). A few batches before the range may be among them.
    """

    end_offset: int
    files: tuple[FileRange, ...] = ()


def local_range(
    files: Files,
    segments: Iterable[Segment],
    *,
    start: int,
    end: int,
    upper_bound: int,
    files_max: int,
    opened: Callable[[Segment], None],
    nowait: bool = False,
) -> LocalRange:
    """The places of the batches of `start <= offset < end`, none that reaches to `upper_bound`.

    `segments` begin with the one that may hold `start`; `opened` hears of each that is about to be
    read. It ends early behind `files_max` files, and before a file that is known to be damaged.
    With `nowait` it may raise PagesCold.
    """
    limit = reached = min(end, upper_bound)
    found: list[FileRange] = []
    for segment in segments:
        if segment.base_offset >= limit:
            break
        if segment.end_offset <= start:
            continue
        if segment.holes or len(found) == files_max:
            reached = segment.base_offset
            break
        opened(segment)
        begin = segment.position_of(start) if segment.base_offset < start else 0
        stop = segment.size
        if segment.end_offset > limit:
            stop, first = _stop(files, segment, end, upper_bound, nowait)
            reached = min(first, limit)
        if stop > begin:
            found.append(FileRange(segment.log_path, begin, stop))
        if reached < limit:
            break
    return LocalRange(reached, tuple(found)) if reached > start else LocalRange(start)


def _stop(
    files: Files, segment: Segment, end: int, upper_bound: int, nowait: bool
) -> tuple[int, int]:
    """The position and the first offset of the first batch that is not to be read."""
    reader = SegmentReader(files, segment, nowait=nowait)
    for position, header in reader.headers(min(end, upper_bound) - 1):
        if header.base_offset >= end or header.last_offset >= upper_bound:
            return position, header.base_offset
    return segment.size, segment.end_offset
