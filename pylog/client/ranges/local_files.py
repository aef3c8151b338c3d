"""Blocks of whole batches out of segment files that a broker on this machine has handed over.

The reader's thread reads here without asking anybody. Every block is checked: its batches are
whole, their CRCs match, their offsets follow each other below the end that the broker told. After
the bytes were read, and before they are given on, the reader looks whether the broker has said that
the read is over: what was read before that is what the broker would have answered.

`pread`, and no mapping of the file into memory: a file that is truncated under a mapping kills the
process (SIGBUS), and a read of it is just short.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from pylog.records.batch import CRC_START, HEADER_SIZE, LENGTH_END, MAGIC, Buffer
from pylog.records.transactions import without_aborted

BLOCK_BYTES: Final = 2 << 20
"""Read at once: as much as becomes one record batch for Spark. A larger batch is read whole."""
REPORT: Final = Struct(">QB")
"""To the broker at the end: the bytes that were read, and 1 when they were no whole batches."""

_PLACE: Final = Struct(">qi4xbI2xi")
"""Of a batch's header: base offset, length, magic, CRC, last offset delta."""


class OpenFile(NamedTuple):
    """A descriptor, and the bytes of it that may be read."""

    descriptor: int
    begin: int
    end: int


class Aborted(NamedTuple):
    """An aborted transaction: its producer, its first record, and its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class LocalRead:
    """The blocks of a range of offsets, one after the other.

    One thread reads; the loop's thread may close the files at any time, between two blocks.
    `position` is where the next block begins, `end` where the files end. `fault` says why it
    stopped before, and is empty when it did not.
    """

    def __init__(
        self,
        connection: socket.socket,
        files: Sequence[OpenFile],
        position: int,
        end: int,
        aborted: Sequence[Aborted] = (),
    ) -> None:
        """It owns the connection and the descriptors from now on."""
        self.connection = connection
        self.position = position
        self.end = end
        self.fault = ""
        self.is_damaged = False
        self.bytes_read = 0
        self._files = list(files)
        self._aborted = sorted(aborted, key=lambda each: each.last_offset)
        self._at = 0  # of the first of `_files`
        self._next = -1  # the least base offset of the next batch
        self._lock = threading.Lock()
        if self._files:
            self._at = self._files[0].begin

    def next_block(self) -> Buffer | None:
        """Whole batches, without those of aborted transactions; maybe none of them holds a record.
        None at the end of the files, and with a `fault`.
        """
        with self._lock:
            while self._files and not self.fault:
                first = self._files[0]
                if self._at >= first.end:
                    os.close(first.descriptor)
                    del self._files[0]
                    self._at = self._files[0].begin if self._files else 0
                    continue
                block = self._block(first)
                if block is not None:
                    return block
            if not self.fault:
                self.position = self.end
            self._close_files()
            return None

    def _block(self, file: OpenFile) -> Buffer | None:
        """The next block of the file; None when it holds nothing of the range, or with a fault."""
        try:
            data = os.pread(file.descriptor, min(BLOCK_BYTES, file.end - self._at), self._at)
            whole = _first_size(data)
            if len(data) < whole <= file.end - self._at:
                data = os.pread(file.descriptor, whole, self._at)
        except OSError as error:
            self._damaged(f"its files cannot be read: {error}")
            return None
        if self._is_over():
            return None
        begin, end = self._check(data)
        if not end:
            if not self.fault:
                self._damaged(f"no whole batch follows offset {self.position}")
            return None
        self._at += end
        if begin == end:  # all before the range
            return None
        self.bytes_read += end - begin
        start, self.position = self.position, self._next
        return self._without_aborted(memoryview(data)[begin:end], start, self._next)

    def _check(self, data: bytes) -> tuple[int, int]:
        """The part of `data` that is whole batches of the range. (0, 0) with a fault."""
        view, size = memoryview(data), len(data)
        at = begin = 0
        while at + HEADER_SIZE <= size:
            base, length, magic, crc, delta = _PLACE.unpack_from(data, at)
            end, following = at + length + LENGTH_END, base + delta + 1
            if end > size and magic == MAGIC and length > 0:
                break
            if (
                magic != MAGIC
                or length < HEADER_SIZE - LENGTH_END
                or delta < 0
                or base < self._next
                or crc32c(view[at + CRC_START : end]) != crc
            ):
                self._damaged(f"the batch behind offset {max(self._next, base) - 1} is damaged")
                return 0, 0
            at, self._next = end, following
            if following <= self.position:
                begin = at
        return begin, at

    def _without_aborted(self, block: Buffer, start: int, end: int) -> Buffer:
        if not self._aborted:
            return block
        self._aborted = [each for each in self._aborted if each.last_offset >= start]
        here = [(pid, first) for pid, first, _ in self._aborted if first < end]
        return without_aborted(block, here)

    # ---- its end --------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        """Whether the broker has said so, or is gone."""
        try:
            self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        self.fault = self.fault or "over"
        return True

    def _damaged(self, what: str) -> None:
        self.fault, self.is_damaged = what, True

    def stop(self) -> bool:
        """Close the files from another thread than the reader's; False when that reads just now,
        which looks for the end itself.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self.fault = self.fault or "over"
            self._close_files()
        finally:
            self._lock.release()
        return True

    def close(self) -> None:
        """Close the files; the reader's thread calls this."""
        with self._lock:
            self.fault = self.fault or "closed"
            self._close_files()

    def _close_files(self) -> None:
        for file in self._files:
            os.close(file.descriptor)
        self._files = []

    def report(self) -> bytes:
        """The last word to the broker."""
        return REPORT.pack(self.bytes_read, self.is_damaged)

    def __del__(self) -> None:
        self._close_files()


def _first_size(data: bytes) -> int:
    """The size of the first batch, as its header says."""
    if len(data) < HEADER_SIZE:
        return HEADER_SIZE
    return int(_PLACE.unpack_from(data)[1]) + LENGTH_END
