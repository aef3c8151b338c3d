"""Whole batches out of a segment file, each checked against its CRC.

The check is cheap beside the read, and keeps rotten bytes from ever being served.
"""

from __future__ import annotations

import logging
from struct import Struct
from typing import Final

from crc32c import crc32c

from broker.storage.errors import CorruptSegment
from broker.storage.files import Files
from broker.storage.segments.segment import Segment
from broker.storage.tail_cache import TailRead
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

_SLACK: Final = 8 * 1024
"""Read besides the wanted bytes: about one index interval lies before the wanted batch."""

_PLACE: Final = Struct(">qi4xbI2xi")
"""Of a batch's header: base offset, length, magic, CRC, last offset delta. The whole of it costs
more than the check of a small batch."""

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
                self._files.pread(handle, self.length, self.position)
            finally:
                self._files.close(handle)
        except OSError:
            return


class SegmentReader:
    """Reads batches of one segment. Every method raises CorruptSegment, OSError, and PagesCold
    with `nowait`.
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

        At most `max_bytes`, or one batch with `min_one`; none that reaches to `upper_bound`.
        """
        entry = self._segment.offsets.entry_at(offset)
        try:
            return self._read(entry, offset, max_bytes, upper_bound, min_one)
        except CorruptSegment as error:
            if entry is None:
                raise
            path = self._segment.log_path
            logger.warning("the index of %s may be wrong: made again (%s)", path, error)
            self._segment.rebuild_indexes()
            entry = self._segment.offsets.entry_at(offset)
            return self._read(entry, offset, max_bytes, upper_bound, min_one)

    def _read(
        self,
        entry: tuple[int, int] | None,
        offset: int,
        max_bytes: int,
        upper_bound: int,
        min_one: bool,
    ) -> TailRead | None:
        indexed, position = entry or (None, 0)
        expected = self._segment.base_offset
        while position < self._segment.size:
            window = self._pread(position, max_bytes + _SLACK)
            at = 0
            while at + HEADER_SIZE <= len(window):
                header = self._header(window, at, position, expected, indexed)
                expected, indexed = header.next_offset, None
                if header.last_offset >= offset:
                    if header.last_offset >= upper_bound:
                        self.batch(position + at, header)  # or is its length rotten?
                        return TailRead(b"", offset, offset)
                    if header.size > max_bytes and not min_one:
                        return TailRead(b"", offset, offset)
                    if at + header.size > len(window):
                        position, at = position + at, 0
                        window = self._pread(position, max(header.size, max_bytes))
                    return self._take(window, at, position, header, max_bytes, upper_bound)
                at += header.size
            position += at
        return None

    def _take(
        self,
        window: Buffer,
        begin: int,
        position: int,
        header: BatchHeader,
        max_bytes: int,
        upper_bound: int,
    ) -> TailRead:
        view = memoryview(window)
        at, size, crc, next_offset = begin, header.size, header.crc, header.last_offset + 1
        while True:
            if crc32c(view[at + CRC_START : at + size]) != crc:
                self._check(window, at, position, read_header(window, at))
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
                or position + at + size > self._segment.size
                or not (base_offset == taken_to or (self._gaps and base_offset > taken_to))
                or next_offset > self._segment.end_offset
            ):
                self._header(window, at, position, taken_to)  # raises, and says what is wrong
            end = at + size
            if next_offset > upper_bound or end - begin > max_bytes or end > len(window):
                break
        return TailRead(view[begin:at], header.base_offset, taken_to)

    def batch(self, position: int, header: BatchHeader) -> bytes:
        """The bytes of the batch at `position`."""
        data = self._pread(position, header.size)
        self._check(data, 0, position, header)
        return bytes(data)

    def _pread(self, position: int, length: int) -> Buffer:
        """Never beyond what the segment says it holds; that much must be there."""
        length = min(length, self._segment.size - position)
        handle = self._segment.handle()
        if self._nowait:
            found = self._files.pread_nowait(handle, length, position)
            if found is None:
                raise PagesCold(self._files, self._segment.log_path, position, length)
            data = found
        else:
            data = self._files.pread(handle, length, position)
        if len(data) < length:
            raise self._corrupt(position, f"the file ends {length - len(data)} bytes too early")
        return data

    def _header(
        self, window: Buffer, at: int, position: int, expected: int, indexed: int | None = None
    ) -> BatchHeader:
        """The header at `position + at`, where offset `expected` should follow, or a batch that
        ends with `indexed`. The CRC does not cover offsets; what is before and behind does.
        """
        try:
            header = read_header(window, at)
        except CorruptMessage as error:
            raise self._corrupt(position + at, str(error)) from error
        if position + at + header.size > self._segment.size:
            raise self._corrupt(position + at, f"a batch of {header.size} bytes does not fit")
        if indexed is not None:
            fits = header.last_offset == indexed
        else:
            fits = header.base_offset == expected or (self._gaps and header.base_offset > expected)
        if not fits or header.last_offset >= self._segment.end_offset:
            raise self._corrupt(
                position + at,
                f"offsets {header.base_offset} to {header.last_offset} where {expected} should "
                "follow",
            )
        return header

    def _check(self, window: Buffer, at: int, position: int, header: BatchHeader) -> None:
        if not crc_matches(window, at, header):
            raise self._corrupt(
                position + at,
                f"the batch of offsets {header.base_offset} to {header.last_offset} does not "
                "match its CRC",
            )

    def _corrupt(self, position: int, reason: str) -> CorruptSegment:
        return CorruptSegment(
            f"{self._segment.log_path} is damaged at position {position}: {reason}"
        )
