"""Whole batches out of a segment file, each checked against its CRC.

The check is cheap beside the read, and keeps rotten bytes from ever being served. Each batch that
is whole before and behind them is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from struct import Struct
from typing import Final

from crc32c import crc32c

from pylog.errors import CorruptMessage
from pylog.records.batch import (
    CRC_START,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    Buffer,
    crc_matches,
    read_header,
)
from pylog_broker.storage.errors import DamagedBatch
from pylog_broker.storage.files import Files
from pylog_broker.storage.segments.damage import Hole
from pylog_broker.storage.segments.scan import BadBatch, scan
from pylog_broker.storage.segments.segment import Segment
from pylog_broker.storage.tail_cache import TailRead

_SLACK: Final = 8 * 1024
"""Read besides the wanted bytes: about one index interval lies before the wanted batch."""

WARMED_AT_LEAST: Final = 1024 * 1024
"""A look-up by time brings so much of a cold file into memory at once: it looks at a header here
and there, and one that has to go on through a segment would else come back for each of them."""

_PLACE: Final = Struct(">qi4xbI2xi")
"""Five fields of a batch's header: base offset, length, magic, CRC, last offset delta. To unpack
the whole header costs more than the check of a small batch."""

logger = logging.getLogger(__name__)


class PagesCold(Exception):
    """The bytes are not in memory. Call `warm` on another thread, then read again without nowait.

    The file is opened anew by `warm`, so the log may close, cut or remove it meanwhile.
    """

    def __init__(self, files: Files, path: str, position: int, length: int) -> None:
        super().__init__(f"{path}: {length} bytes at {position} are not in memory")
        self._files = files
        self.path = path
        self.position = position
        self.length = length

    def warm(self) -> None:
        """Bring the bytes into memory. Errors are left to the read that follows."""
        try:
            handle = self._files.open(self.path)
            try:
                end = self.position + self.length
                for position in range(self.position, end, WARMED_AT_LEAST):
                    self._files.pread(handle, min(WARMED_AT_LEAST, end - position), position)
            finally:
                self._files.close(handle)
        except OSError:
            return


class SegmentReader:
    """Reads batches of one segment, around what has rotted. Every method raises DamagedBatch for
    that, BadBatch where the file cannot be read at all, OSError, and PagesCold with `nowait`.
    """

    __slots__ = ("_files", "_gaps", "_nowait", "_segment")

    def __init__(
        self, files: Files, segment: Segment, *, nowait: bool = False, gaps: bool = False
    ) -> None:
        """`gaps`: offsets may be missing between batches, as compaction leaves them."""
        self._files = files
        self._segment = segment
        self._nowait = nowait
        self._gaps = gaps

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one: bool
    ) -> TailRead | None:
        """Whole batches from the one that holds `offset` (or the first after it, where compaction
        left a gap); None when the segment has none so late.

        At most `max_bytes`, or one batch with `min_one`; none that reaches to `upper_bound`, none
        from behind one that has rotted.
        """
        segment = self._segment
        made_again = False
        while True:
            entry = segment.offsets.entry_at(offset)
            if segment.holes:
                self._refuse_lost(offset)
            try:
                return self._read(entry, offset, max_bytes, upper_bound, min_one)
            except BadBatch as bad:
                if segment.look_for_damage(bad.position, gaps=self._gaps):
                    continue
                if made_again:
                    raise
                path, made_again = segment.log_path, True
                logger.warning("the index of %s may be wrong: made again (%s)", path, bad)
                segment.rebuild_indexes()

    def _refuse_lost(self, offset: int) -> None:
        hole = self._segment.hole_at(offset)
        if hole is not None:
            raise self._lost(hole)

    def _lost(self, hole: Hole) -> DamagedBatch:
        return DamagedBatch(
            f"{self._segment.log_path} is damaged at position {hole.position}: {hole.reason}; "
            f"offsets {hole.offset} to {hole.end_offset - 1} cannot be read, seek to "
            f"{hole.end_offset} to go on",
            next_offset=hole.end_offset,
        )

    def _begin(self, entry: tuple[int, int] | None, offset: int) -> tuple[int, int, int | None]:
        """(position, offset expected there, last offset of the batch there by the index)."""
        segment = self._segment
        indexed, position = entry or (None, 0)
        expected = segment.base_offset
        for hole in segment.holes:
            if hole.end_offset <= offset and hole.end_position > position:
                position, expected, indexed = hole.end_position, hole.end_offset, None
        return position, expected, indexed

    def _limit(self, position: int) -> int:
        """The position up to which batches follow each other from `position` on."""
        for hole in self._segment.holes:
            if hole.position >= position:
                return hole.position
        return self._segment.size

    def _read(
        self,
        entry: tuple[int, int] | None,
        offset: int,
        max_bytes: int,
        upper_bound: int,
        min_one: bool,
    ) -> TailRead | None:
        position, expected, indexed = self._begin(entry, offset)
        limit = self._limit(position)
        while position < limit:
            window = self._pread(position, max_bytes + _SLACK, limit)
            at = 0
            while at + HEADER_SIZE <= len(window):
                header = self._header(window, at, position, expected, limit, indexed)
                expected, indexed = header.next_offset, None
                if header.last_offset >= offset:
                    if header.last_offset >= upper_bound:
                        self._batch(position + at, header)  # or is its length rotten?
                        return TailRead(b"", offset, offset)
                    if header.size > max_bytes and not min_one:
                        return TailRead(b"", offset, offset)
                    if at + header.size > len(window):
                        position, at = position + at, 0
                        self._refuse_too_long(position, header)
                        window = self._pread(position, max(header.size, max_bytes), limit)
                    return self._take(window, at, position, header, max_bytes, upper_bound, limit)
                at += header.size
            position += at
        return None

    def _refuse_too_long(self, position: int, header: BatchHeader) -> None:
        """Before so much is read: a batch ends where the next one begins that the index knows."""
        behind = self._segment.offsets.position_behind(position)
        if behind is not None and position + header.size > behind:
            raise BadBatch(position, f"a batch of {header.size} bytes reaches into the next one")

    def _take(
        self,
        window: Buffer,
        begin: int,
        position: int,
        header: BatchHeader,
        max_bytes: int,
        upper_bound: int,
        limit: int,
    ) -> TailRead:
        view = memoryview(window)
        at, size, crc, next_offset = begin, header.size, header.crc, header.last_offset + 1
        taken_to = header.base_offset
        while True:
            if crc32c(view[at + CRC_START : at + size]) != crc:
                if at == begin:
                    self._check(window, at, position, header)
                break  # the next read begins here, and tells
            at += size
            taken_to = next_offset
            if at + HEADER_SIZE > len(window) or at - begin >= max_bytes:
                break
            base_offset, length, magic, crc, last_offset_delta = _PLACE.unpack_from(window, at)
            size = length + LENGTH_END
            next_offset = base_offset + last_offset_delta + 1
            if (
                magic != MAGIC
                or size < HEADER_SIZE
                or position + at + size > limit
                or not (base_offset == taken_to or (self._gaps and base_offset > taken_to))
                or next_offset > self._segment.end_offset
            ):
                break  # likewise
            end = at + size
            if next_offset > upper_bound or end - begin > max_bytes or end > len(window):
                break
        if self._gaps:
            self._refuse_overlap(window, at, position, taken_to, limit)
        return TailRead(view[begin:at], header.base_offset, taken_to)

    def _refuse_overlap(
        self, window: Buffer, at: int, position: int, taken_to: int, limit: int
    ) -> None:
        """Refuse a last batch that overlaps the next one: where there may be gaps, only the next
        batch proves that the last one's offsets are right."""
        if position + at + HEADER_SIZE > limit:
            return
        if at + HEADER_SIZE > len(window):
            window, position, at = self._pread(position + at, HEADER_SIZE, limit), position + at, 0
        base_offset, _, magic, _, _ = _PLACE.unpack_from(window, at)
        if magic == MAGIC and base_offset < taken_to:
            raise BadBatch(
                position + at, f"offset {base_offset} where {taken_to} should follow at the least"
            )

    def headers(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from the one that holds `offset`, or one before it. The
        CRC is not checked, see `whole`; batches known to have rotted are left out.
        """
        segment = self._segment
        position, expected = segment.position_of(offset), segment.base_offset
        files = _Warm(self._files, segment, position) if self._nowait else self._files
        while position < segment.size:
            for hole in segment.holes:
                if position in (hole.position, hole.end_position):
                    position, expected = hole.end_position, hole.end_offset
            limit = self._limit(position)
            try:
                for at, header in scan(files, segment.handle(), position, limit, verify=False):
                    if header.base_offset < expected or header.next_offset > segment.end_offset:
                        raise BadBatch(at, f"offset {header.base_offset} is not of this place")
                    position, expected = at + header.size, header.next_offset
                    yield at, header
            except BadBatch as bad:
                if not segment.look_for_damage(bad.position):
                    raise

    def whole(self, position: int, header: BatchHeader) -> bytes | None:
        """The bytes of the batch at `position`; None when it has rotted."""
        try:
            return self._batch(position, header)
        except BadBatch as bad:
            if not self._segment.look_for_damage(bad.position):
                raise
            return None

    def _batch(self, position: int, header: BatchHeader) -> bytes:
        self._refuse_too_long(position, header)
        data = self._pread(position, header.size, self._segment.size)
        self._check(data, 0, position, header)
        return bytes(data)

    def _pread(self, position: int, length: int, limit: int) -> Buffer:
        """Never beyond `limit`; that much must be there."""
        length = min(length, limit - position)
        handle = self._segment.handle()
        if self._nowait:
            found = self._files.pread_nowait(handle, length, position)
            if found is None:
                raise PagesCold(self._files, self._segment.log_path, position, length)
            data = found
        else:
            data = self._files.pread(handle, length, position)
        if len(data) < length:
            raise BadBatch(position, f"the file ends {length - len(data)} bytes too early")
        return data

    def _header(
        self,
        window: Buffer,
        at: int,
        position: int,
        expected: int,
        limit: int,
        indexed: int | None = None,
    ) -> BatchHeader:
        """The header at `position + at`, where offset `expected` should follow, or a batch that
        ends with `indexed`. The CRC does not cover offsets; their neighbours tell whether they fit.
        """
        try:
            header = read_header(window, at)
        except CorruptMessage as error:
            raise BadBatch(position + at, str(error)) from error
        if position + at + header.size > limit:
            raise BadBatch(position + at, f"a batch of {header.size} bytes does not fit")
        if indexed is not None:
            fits = header.last_offset == indexed
        else:
            fits = header.base_offset == expected or (self._gaps and header.base_offset > expected)
        if not fits or header.last_offset >= self._segment.end_offset:
            raise BadBatch(
                position + at,
                f"offsets {header.base_offset} to {header.last_offset} where {expected} should "
                "follow",
            )
        return header

    def _check(self, window: Buffer, at: int, position: int, header: BatchHeader) -> None:
        if not crc_matches(window, at, header):
            raise BadBatch(
                position + at,
                f"the batch of offsets {header.base_offset} to {header.last_offset} does not "
                "match its CRC",
            )


class _Warm:
    """Reads of one segment that raise PagesCold where they would wait.

    Each asks for as many bytes more as were looked at before: so a look-up that goes through a
    whole segment begins again a few times only.
    """

    __slots__ = ("_begin", "_files", "_segment")

    def __init__(self, files: Files, segment: Segment, begin: int) -> None:
        self._files = files
        self._segment = segment
        self._begin = begin

    def pread(self, handle: int, length: int, position: int) -> Buffer:
        found = self._files.pread_nowait(handle, length, position)
        if found is None:
            more = max(length, WARMED_AT_LEAST, position - self._begin)
            more = min(more, self._segment.size - position)
            raise PagesCold(self._files, self._segment.log_path, position, more)
        return found
