"""Reading a log: from memory where the newest batches are, else from the segments.

Everything here raises KafkaStorageError; what `read` is asked for may have rotted (DamagedBatch).
"""

from __future__ import annotations

from pylog.model import OffsetAndTimestamp, RangeSplit, TransactionSpan
from pylog_broker.storage.files import Files
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.log.guard import FaultGuard
from pylog_broker.storage.producers.transaction_scan import scan_transactions
from pylog_broker.storage.recovery.gaps import Gaps
from pylog_broker.storage.segments.local_range import LocalRange, local_range
from pylog_broker.storage.segments.range_split import split
from pylog_broker.storage.segments.segment_list import SegmentList
from pylog_broker.storage.segments.segment_reader import SegmentReader
from pylog_broker.storage.segments.time_lookup import first_at_or_after, first_from, largest
from pylog_broker.storage.tail_cache import TailCache, TailRead


class LogReader:
    """The readers' view of a log's parts. Knows no bounds: `Log` has checked them."""

    def __init__(
        self,
        files: Files,
        segments: SegmentList,
        tail: TailCache,
        gaps: Gaps,
        guard: FaultGuard,
    ) -> None:
        self._files = files
        self._segments = segments
        self._tail = tail
        self._guard = guard
        self._gaps = gaps

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one: bool, nowait: bool
    ) -> TailRead:
        """Whole batches from the one that holds `offset`; with `nowait` it may raise PagesCold."""
        if offset >= upper_bound:
            return TailRead(b"", offset, offset)
        found = self._tail.read(offset, max_bytes, upper_bound=upper_bound, min_one=min_one)
        if found is not None:
            return found
        if offset == self._segments.active.end_offset:
            return TailRead(b"", offset, offset)
        with self._guard.io("reading", reads=True):
            for segment in self._segments.from_offset(offset):
                self._segments.opened(segment)
                found = SegmentReader(
                    self._files, segment, nowait=nowait, gaps=self._gaps.allowed
                ).read(offset, max(max_bytes, 0), upper_bound=upper_bound, min_one=min_one)
                if found is not None:
                    return found
        return TailRead(b"", offset, offset)

    def bytes_between(self, offset: int, upper_bound: int) -> int:
        """At least the bytes from `offset` to `upper_bound`, by the files."""
        if offset >= upper_bound:
            return 0
        with self._guard.io("telling how much there is", reads=True):
            return sum(
                segment.size
                - (segment.offsets.lookup(offset) if segment.base_offset < offset else 0)
                for segment in self._segments.from_offset(offset)
                if segment.base_offset < upper_bound
            )

    def first_at_or_after(
        self, timestamp_ms: int, start: int, end: int, *, nowait: bool
    ) -> OffsetAndTimestamp | None:
        """The first record in [start, end) at or after a time; with `nowait` it may raise
        PagesCold.
        """
        with self._guard.io("looking up a time", reads=True):
            return first_at_or_after(
                self._files,
                self._segments.newer_than(timestamp_ms),
                timestamp_ms,
                start=start,
                end=end,
                nowait=nowait,
            )

    def first_from(self, start: int, end: int, *, nowait: bool) -> OffsetAndTimestamp | None:
        """The first record in [start, end); with `nowait` it may raise PagesCold."""
        with self._guard.io("looking up the time of an offset", reads=True):
            return first_from(
                self._files,
                self._segments.from_offset(start),
                start=start,
                end=end,
                nowait=nowait,
            )

    def split(
        self, start: int, end: int, piece_bytes: int, pieces_max: int, *, even: bool, nowait: bool
    ) -> RangeSplit:
        """The bytes of [start, end) and its first pieces; with `nowait` it may raise PagesCold."""
        with self._guard.io("telling the bytes of a range", reads=True):
            return split(
                self._files,
                self._segments.from_offset(start),
                start=start,
                end=end,
                piece_bytes=piece_bytes,
                pieces_max=pieces_max,
                even=even,
                opened=self._segments.opened,
                nowait=nowait,
            )

    def transactions(
        self, start: int, end: int, headers_max: int, *, nowait: bool
    ) -> tuple[list[TransactionSpan], int]:
        """The transactions of [start, end) by its batches (see `transaction_scan`); with `nowait`
        it may raise PagesCold.
        """
        with self._guard.io("looking up transactions", reads=True):
            return scan_transactions(
                self._files,
                self._segments.from_offset(start),
                start=start,
                end=end,
                headers_max=headers_max,
                opened=self._segments.opened,
                nowait=nowait,
            )

    def local_range(
        self, start: int, end: int, upper_bound: int, files_max: int, *, nowait: bool
    ) -> LocalRange:
        """The places of [start, end) below `upper_bound` in the files; with `nowait` it may raise
        PagesCold.
        """
        with self._guard.io("looking up where a range is", reads=True):
            return local_range(
                self._files,
                self._segments.from_offset(start),
                start=start,
                end=end,
                upper_bound=upper_bound,
                files_max=files_max,
                opened=self._segments.opened,
                nowait=nowait,
            )

    def largest(self, start: int, end: int, *, nowait: bool) -> OffsetAndTimestamp | None:
        """The first record in [start, end) with the largest timestamp; with `nowait` it may raise
        PagesCold.
        """
        with self._guard.io("looking up the largest time", reads=True):
            return largest(self._files, self._segments, start=start, end=end, nowait=nowait)

    def aborted_transactions(self, offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [offset, upper_bound), by their markers."""
        found: list[AbortedTransaction] = []
        with self._guard.io("looking up aborted transactions", reads=True):
            for segment in self._segments.from_offset(offset):
                more, is_all = self._segments.txn_index_of(segment).overlapping(offset, upper_bound)
                found += more
                if is_all:
                    break
        return found
