"""Walking the batches of a segment file: header by header, with or without their CRCs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from pylog.errors import CorruptMessage
from pylog.records.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_matches, read_header
from pylog_broker.storage.files import Buffer, Files

_HEADER_WINDOW: Final = 16 * 1024
"""Read at once when only headers matter: many small batches, or little more than one large one's
header."""
_VERIFY_WINDOW: Final = 1024 * 1024
_BATCH_MAX: Final = 2**31 - 1


class Reads(Protocol):
    """The one call that a scan makes on a file: `Files`, or a reader that does not wait for the
    disk.
    """

    def pread(self, handle: int, length: int, position: int) -> Buffer:
        """`length` bytes from `position`; fewer only at the end of the file."""


class BadBatch(Exception):
    """The bytes at `position` are not a whole, valid batch."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position
        self.reason = reason


def scan(
    files: Reads, handle: int, start: int, end: int, *, verify: bool
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch between two positions of a file.

    BadBatch where a header is not one, a batch does not end by `end`, offsets run backwards, or
    (with `verify`) a CRC does not match.
    """
    window = memoryview(b"")
    window_start = position = start
    step = _VERIFY_WINDOW if verify else _HEADER_WINDOW
    previous = -1
    while position < end:
        at = position - window_start
        if at + HEADER_SIZE > len(window):
            window = memoryview(files.pread(handle, min(step, end - position), position))
            window_start, at = position, 0
        try:
            header = read_header(window, at)
        except CorruptMessage as error:
            raise BadBatch(position, str(error)) from error
        size = header.size
        if position + size > end:
            missing = position + size - end
            raise BadBatch(position, f"the batch of {size} bytes lacks its last {missing}")
        if header.last_offset_delta < 0 or header.base_offset <= previous:
            raise BadBatch(
                position, f"offset {header.base_offset} does not follow offset {previous}"
            )
        if verify:
            if at + size > len(window):
                window = memoryview(files.pread(handle, max(size, step), position))
                window_start, at = position, 0
            if not crc_matches(window, at, header):
                raise BadBatch(position, "the batch's CRC does not match its bytes")
        yield position, header
        previous = header.last_offset
        position += size


def only_zeros(files: Files, handle: int, start: int, end: int) -> bool:
    """Whether nothing but zeros stands between two positions of a file."""
    while start < end:
        window = files.pread(handle, min(_VERIFY_WINDOW, end - start), start)
        if not window or window.strip(b"\0"):
            return False
        start += len(window)
    return True


def find_valid_batch(
    files: Files, handle: int, start: int, end: int, *, above_offset: int
) -> int | None:
    """The position of some valid batch of a later offset in a damaged stretch, None without one.

    Says whether a damaged batch is a torn tail (nothing valid follows) or rot in the middle. Every
    place that has a magic byte where a header has it is tried; the CRC makes a chance hit unlikely.
    """
    position = start
    while position + HEADER_SIZE <= end:
        window = files.pread(handle, min(_VERIFY_WINDOW, end - position), position)
        hit = window.find(MAGIC, 16)
        while hit >= 0 and hit - 16 + HEADER_SIZE <= len(window):
            if _is_valid(files, handle, position + hit - 16, end, window, hit - 16, above_offset):
                return position + hit - 16
            hit = window.find(MAGIC, hit + 1)
        if position + len(window) >= end:
            return None
        position += len(window) - HEADER_SIZE + 1
    return None


def _is_valid(
    files: Files, handle: int, position: int, end: int, window: bytes, at: int, above_offset: int
) -> bool:
    try:
        header = read_header(window, at)
    except CorruptMessage:
        return False
    plausible = (
        above_offset <= header.base_offset <= above_offset + _BATCH_MAX
        and header.last_offset_delta >= 0
        and header.size <= end - position
    )
    return plausible and crc_matches(files.pread(handle, header.size, position), 0, header)
