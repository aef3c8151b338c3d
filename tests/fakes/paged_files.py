"""The real files, of which only those pages are in memory that this object has read."""

from __future__ import annotations

import os

from pylog_broker.storage.files import Buffer, OsFiles

_PAGE = 4096


class PagedFiles(OsFiles):
    """`forgets`: nothing stays in memory."""

    def __init__(self, *, forgets: bool = False) -> None:
        self._forgets = forgets
        self._read: set[tuple[int, int]] = set()  # (inode, page)
        self.waited_for: list[tuple[int, int]] = []
        """(position, length) of each read that may wait for the disk."""

    def pread(self, handle: int, length: int, position: int) -> bytes:
        self.waited_for.append((position, length))
        if not self._forgets:
            self._read.update(self._pages(handle, length, position))
        return super().pread(handle, length, position)

    def pread_nowait(self, handle: int, length: int, position: int) -> Buffer | None:
        if not self._read.issuperset(self._pages(handle, length, position)):
            return None
        return super().pread(handle, length, position)

    def _pages(self, handle: int, length: int, position: int) -> list[tuple[int, int]]:
        end = min(position + length, self.size(handle))
        inode = os.fstat(handle).st_ino
        return [(inode, page) for page in range(position // _PAGE, -(-end // _PAGE))]
