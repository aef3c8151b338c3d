"""The facts about a full segment, from the ends of its files alone."""

from __future__ import annotations

from struct import Struct
from typing import Final

from pylog.errors import CorruptMessage
from pylog.model import NO_TIMESTAMP
from pylog.records.batch import HEADER_SIZE, BatchHeader, read_header
from pylog_broker.storage.errors import InvalidOffset
from pylog_broker.storage.files import Files
from pylog_broker.storage.indexes import offset_index, time_index
from pylog_broker.storage.segments.scan import BadBatch, scan
from pylog_broker.storage.segments.segment import Segment, SegmentFacts

_INTERVALS_MAX: Final = 16
"""So far the last entry may be from the end: after a start a whole interval has to pass for the
next one, so each start leaves one gap larger by up to an interval. Behind it all is read here."""


def read_facts(
    files: Files, segment: Segment, size: int
) -> tuple[SegmentFacts, BatchHeader, BatchHeader] | None:
    """The facts, and the headers of the first and the last batch; None when the ends of the
    indexes and the batches behind them do not fit together, so that all must be read.

    Raises OSErrors of the log file only.
    """
    base = segment.base_offset
    try:
        indexed = _last_entry(files, segment.index_path, offset_index.ENTRY)
        newest = _last_entry(files, segment.time_index_path, time_index.ENTRY)
    except (OSError, InvalidOffset):
        return None
    position = indexed[1] if indexed else 0
    largest = (newest[0], base + newest[1]) if newest else (NO_TIMESTAMP, base)
    first = last = None
    end = base
    try:
        first = read_header(files.pread(segment.handle(), HEADER_SIZE, 0))
        for at, header in scan(files, segment.handle(), position, size, verify=True):
            if indexed and at == position and header.last_offset != base + indexed[0]:
                return None
            if at - position > _INTERVALS_MAX * segment.index_interval_bytes:
                return None  # this batch should have an entry
            if not segment.takes_offset(header.last_offset) or header.base_offset < end:
                return None
            last, end = header, header.last_offset + 1
            if header.max_timestamp > largest[0]:
                return None  # the seal is missing
    except (BadBatch, CorruptMessage):
        return None
    if last is None or largest[1] >= end:
        return None
    return SegmentFacts(size, end, *largest, first.max_timestamp), first, last


def _last_entry(files: Files, path: str, entry: Struct) -> tuple[int, int] | None:
    handle = files.open(path)
    try:
        size = files.size(handle)
        if size % entry.size:
            raise InvalidOffset(f"{path}: {size} bytes are no multiple of {entry.size}")
        if not size:
            return None
        first, second = entry.unpack(files.pread(handle, entry.size, size - entry.size))
        return first, second
    finally:
        files.close(handle)
