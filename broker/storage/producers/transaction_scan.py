"""The committed transactions of a range of offsets, by the headers of its batches.

Bounded: a call reads so many headers and says how far it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pylog.model import TransactionName, TransactionSpan
from pylog_broker.storage.files import Files
from pylog_broker.storage.producers.producer_state import read_marker
from pylog_broker.storage.segments.segment import Segment
from pylog_broker.storage.segments.segment_reader import SegmentReader


def scan_transactions(
    files: Files,
    segments: Iterable[Segment],
    *,
    start: int,
    end: int,
    headers_max: int,
    opened: Callable[[Segment], None],
    nowait: bool = False,
) -> tuple[list[TransactionSpan], int]:
    """The transactions with commit markers in [start, end), those that are open where it stops, and
    that offset. `first` is the first record that was met. With `nowait` it may raise PagesCold.
    """
    found: list[TransactionSpan] = []
    open_now: dict[int, TransactionSpan] = {}
    reached, left = start, headers_max
    for segment in segments:
        if segment.base_offset >= end or left <= 0:
            break
        if segment.end_offset <= start or not segment.size:
            continue
        opened(segment)
        reader = SegmentReader(files, segment, nowait=nowait)
        for position, header in reader.headers(max(start, segment.base_offset)):
            if header.base_offset >= end or left <= 0:
                break
            if header.last_offset < start:
                continue
            left -= 1
            reached = header.next_offset
            producer_id = header.producer_id
            if producer_id < 0 or not header.is_transactional:
                continue
            if not header.is_control:
                name = TransactionName(producer_id, header.producer_epoch)
                known = open_now.get(producer_id)
                if known is None or known.name != name:  # else compaction has taken its marker
                    open_now[producer_id] = TransactionSpan(name, header.base_offset)
                continue
            batch = reader.whole(position, header)
            marker = None if batch is None else read_marker(batch, header)
            span = open_now.pop(producer_id, None)
            if marker is not None and marker.aborts:
                continue
            if span is None:
                # From version 2 on a marker has the epoch behind that of its batches.
                name = TransactionName(producer_id, header.producer_epoch - 1)
                span = TransactionSpan(name, header.base_offset)
            found.append(span._replace(marker=header.last_offset))
    return [*found, *open_now.values()], min(reached, end) if left <= 0 else end
