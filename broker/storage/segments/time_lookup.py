"""Offsets by time: the same answer as a search through every record, also when timestamps are out
of order (KAFKA's `fetchOffsetByTimestamp`, KIP-734 for the largest timestamp). A hole is
left out: nobody knows its times.
"""

from __future__ import annotations

from collections.abc import Iterable

from pylog.model import NO_TIMESTAMP, LeaderEpoch, Offset, OffsetAndTimestamp, TimestampType
from pylog.records.batch import BatchHeader
from pylog.records.reader import first_record_at_or_after
from pylog_broker.storage.files import Files
from pylog_broker.storage.segments.segment import Segment
from pylog_broker.storage.segments.segment_reader import SegmentReader


def first_at_or_after(
    files: Files,
    segments: Iterable[Segment],
    timestamp: int,
    *,
    start: int,
    end: int,
    nowait: bool = False,
) -> OffsetAndTimestamp | None:
    """The first record with an offset in [start, end) that is not older than `timestamp`; with
    `nowait` it may raise PagesCold.

    A segment whose largest timestamp is older is not opened; in the others the time index tells
    where to begin.
    """
    for segment in segments:
        if segment.base_offset >= end:
            break
        if segment.max_timestamp < timestamp or segment.end_offset <= start:
            continue
        reader = SegmentReader(files, segment, nowait=nowait)
        from_offset = max(start, _begin_at(reader, segment, timestamp))
        found = _first_in(reader, timestamp, from_offset, start, end)
        if found is not None:
            return found
    return None


def _begin_at(reader: SegmentReader, segment: Segment, timestamp: int) -> int:
    """An offset before which every record is older; a time index that is wrong is made again."""
    entry = segment.times.entry_at(timestamp)
    if entry is None:
        return segment.base_offset
    for position, header in reader.headers(entry[1]):
        if header.last_offset < entry[1]:
            continue
        wrong = (header.max_timestamp, header.last_offset) != entry
        if wrong and reader.whole(position, header) is not None:
            break
        return entry[1]  # right; or of a batch that has rotted, so that nothing tells
    if segment.hole_at(entry[1]) is not None:
        return entry[1]
    segment.rebuild_indexes()
    return segment.times.lookup(timestamp)


def first_from(
    files: Files, segments: Iterable[Segment], *, start: int, end: int, nowait: bool = False
) -> OffsetAndTimestamp | None:
    """The first record with an offset in [start, end), with its time; with `nowait` it may raise
    PagesCold.

    Headers tell it, unless `start` lies inside a batch. Where compaction took the first records of
    a batch, the time is that of its first one, which was there.
    """
    for segment in segments:
        if segment.base_offset >= end:
            break
        if segment.end_offset <= start:
            continue
        reader = SegmentReader(files, segment, nowait=nowait)
        for position, header in reader.headers(start):
            if header.base_offset >= end:
                return None
            if header.last_offset < start or header.is_control or not header.record_count:
                continue
            found = _first_of(reader, position, header, start)
            if found is not None:
                return found if found.offset < end else None
    return None


def _first_of(
    reader: SegmentReader, position: int, header: BatchHeader, start: int
) -> OffsetAndTimestamp | None:
    """None when `start` lies behind the batch's last record, or the batch has rotted."""
    epoch = LeaderEpoch(header.partition_leader_epoch)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        first = max(start, header.base_offset)
        return OffsetAndTimestamp(Offset(first), header.max_timestamp, epoch)
    if header.base_offset >= start:
        return OffsetAndTimestamp(Offset(header.base_offset), header.base_timestamp, epoch)
    batch = reader.whole(position, header)
    found = first_record_at_or_after(batch, NO_TIMESTAMP, from_offset=start) if batch else None
    return None if found is None else OffsetAndTimestamp(Offset(found[0]), found[1], epoch)


def largest(
    files: Files, segments: Iterable[Segment], *, start: int, end: int, nowait: bool = False
) -> OffsetAndTimestamp | None:
    """The first of the records in [start, end) that have the largest timestamp; with `nowait` it
    may raise PagesCold.
    """
    by_segment: dict[int, tuple[int, SegmentReader, int]] = {}
    for segment in segments:
        if segment.end_offset <= start or segment.base_offset >= end:
            continue
        base = segment.base_offset
        reader = SegmentReader(files, segment, nowait=nowait)
        inside = base >= start and segment.end_offset <= end
        largest_here = segment.max_timestamp if inside else _largest_in(reader, start, end)
        by_segment[base] = (largest_here, reader, max(start, base))
    while by_segment:
        base, (timestamp, reader, begin) = max(by_segment.items(), key=_by_time_then_first)
        if timestamp < 0:
            return None
        found = _first_in(reader, timestamp, begin, start, end)
        if found is not None:
            return found
        # That record has rotted, or a cleaner has taken it and left its batch: look for the
        # largest of those that are left.
        largest_here = _largest_in(reader, begin, end)
        if largest_here >= timestamp:
            del by_segment[base]
        else:
            by_segment[base] = (largest_here, reader, begin)
    return None


def _by_time_then_first(item: tuple[int, tuple[int, SegmentReader, int]]) -> tuple[int, int]:
    base, (timestamp, _, _) = item
    return timestamp, -base


def _first_in(
    reader: SegmentReader, timestamp: int, from_offset: int, start: int, end: int
) -> OffsetAndTimestamp | None:
    for position, header in reader.headers(from_offset):
        if header.base_offset >= end:
            return None
        if header.max_timestamp < timestamp or header.last_offset < start:
            continue
        batch = reader.whole(position, header)
        if batch is None:
            continue
        found = first_record_at_or_after(batch, timestamp, from_offset=start)
        if found is not None:
            offset, found_timestamp = found
            if offset >= end:
                return None
            return OffsetAndTimestamp(
                Offset(offset), found_timestamp, LeaderEpoch(header.partition_leader_epoch)
            )
    return None


def _largest_in(reader: SegmentReader, start: int, end: int) -> int:
    """The largest timestamp of a segment's records in [start, end), when it reaches outside."""
    timestamps = [-1]
    for position, header in reader.headers(start):
        if header.base_offset >= end:
            break
        if not header.record_count:
            continue
        if header.base_offset >= start and header.last_offset < end:
            timestamps.append(header.max_timestamp)
            continue
        # The bound lies inside this batch: only its records can tell.
        batch = reader.whole(position, header)
        if batch is None:
            continue
        next_timestamp = 0
        while True:
            found = first_record_at_or_after(batch, next_timestamp, from_offset=start)
            if found is None or found[0] >= end:
                break
            timestamps.append(found[1])
            next_timestamp = found[1] + 1
    return max(timestamps)
