"""Offsets by time: the same answer as a search through every record, also when timestamps are out
of order (KAFKA's `fetchOffsetByTimestamp`, KIP-734 for the largest timestamp).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.storage.errors import CorruptSegment
from broker.storage.files import Files
from broker.storage.segments.scan import BadBatch, scan
from broker.storage.segments.segment import Segment
from broker.storage.segments.segment_reader import SegmentReader
from pylog.model import LeaderEpoch, Offset, OffsetAndTimestamp
from pylog.records.batch import BatchHeader
from pylog.records.reader import first_record_at_or_after


def first_at_or_after(
    files: Files, segments: Iterable[Segment], timestamp: int, *, start: int, end: int
) -> OffsetAndTimestamp | None:
    """The first record with an offset in [start, end) that is not older than `timestamp`.

    A segment whose largest timestamp is older is not opened; in the others the time index tells
    where to begin.
    """
    for segment in segments:
        if segment.base_offset >= end:
            break
        if segment.max_timestamp < timestamp or segment.end_offset <= start:
            continue
        from_offset = max(start, _begin_at(segment, timestamp))
        found = _first_in(files, segment, timestamp, from_offset, start, end)
        if found is not None:
            return found
    return None


def _begin_at(segment: Segment, timestamp: int) -> int:
    """An offset before which every record is older; a time index that is wrong is made again."""
    entry = segment.times.entry_at(timestamp)
    if entry is not None:
        found = segment.locate(entry[1])
        if found is None or (found[1].max_timestamp, found[1].last_offset) != entry:
            segment.rebuild_indexes()
    return segment.times.lookup(timestamp)


def largest(
    files: Files, segments: Iterable[Segment], *, start: int, end: int
) -> OffsetAndTimestamp | None:
    """The first of the records in [start, end) that have the largest timestamp."""
    best: tuple[int, Segment] | None = None
    for segment in segments:
        if segment.end_offset <= start or segment.base_offset >= end:
            continue
        inside = segment.base_offset >= start and segment.end_offset <= end
        largest_here = segment.max_timestamp if inside else _largest_in(files, segment, start, end)
        if largest_here >= 0 and (best is None or largest_here > best[0]):
            best = (largest_here, segment)
    if best is None:
        return None
    timestamp, segment = best
    return _first_in(files, segment, timestamp, max(start, segment.base_offset), start, end)


def _first_in(
    files: Files, segment: Segment, timestamp: int, from_offset: int, start: int, end: int
) -> OffsetAndTimestamp | None:
    reader = SegmentReader(files, segment)
    for position, header in _headers(files, segment, from_offset):
        if header.base_offset >= end:
            return None
        if header.max_timestamp < timestamp or header.last_offset < start:
            continue
        batch = reader.batch(position, header)
        found = first_record_at_or_after(batch, timestamp, from_offset=start)
        if found is not None:
            offset, found_timestamp = found
            if offset >= end:
                return None
            return OffsetAndTimestamp(
                Offset(offset), found_timestamp, LeaderEpoch(header.partition_leader_epoch)
            )
    return None


def _largest_in(files: Files, segment: Segment, start: int, end: int) -> int:
    """The largest timestamp of a segment's records in [start, end), when it reaches outside."""
    timestamps = [-1]
    reader = SegmentReader(files, segment)
    for position, header in _headers(files, segment, start):
        if header.base_offset >= end:
            break
        if header.base_offset >= start and header.last_offset < end:
            timestamps.append(header.max_timestamp)
            continue
        # The bound lies inside this batch: only its records can tell.
        batch = reader.batch(position, header)
        next_timestamp = 0
        while True:
            found = first_record_at_or_after(batch, next_timestamp, from_offset=start)
            if found is None or found[0] >= end:
                break
            timestamps.append(found[1])
            next_timestamp = found[1] + 1
    return max(timestamps)


def _headers(files: Files, segment: Segment, from_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    try:
        position = segment.position_of(from_offset)
        yield from scan(files, segment.handle(), position, segment.size, verify=False)
    except BadBatch as error:
        raise CorruptSegment(
            f"{segment.log_path} is damaged at position {error.position}: {error.reason}"
        ) from error
