"""`MemoryFiles` whose process dies at the n-th operation that changes anything."""

from __future__ import annotations

from collections.abc import Sequence

from pylog_broker.storage.files import Buffer
from tests.fakes.memory_files import MemoryFiles


class Crash(BaseException):
    """The process dies here; no handler of the product may catch it."""


class CrashingFiles(MemoryFiles):
    """`countdown` operations are still done; the one after them is done in part or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.countdown: int | None = None
        self.operations = 0

    def _count(self) -> bool:
        """Whether the process dies at this operation."""
        self.operations += 1
        if self.countdown is None:
            return False
        self.countdown -= 1
        return self.countdown < 0

    def open(self, path: str, *, create: bool = False) -> int:
        if create and path not in self.names and self._count():
            raise Crash
        return super().open(path, create=create)

    def append(self, handle: int, buffers: Sequence[Buffer]) -> int:
        if self._count():
            data = b"".join(buffers)
            super().append(handle, [data[: len(data) // 2]])
            raise Crash
        return super().append(handle, buffers)

    def write_at(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        if self._count():
            data = b"".join(buffers)
            super().write_at(handle, [data[: len(data) // 2]], position)
            raise Crash
        return super().write_at(handle, buffers, position)

    def truncate(self, handle: int, size: int) -> None:
        if self._count():
            raise Crash
        super().truncate(handle, size)

    def rename(self, old: str, new: str) -> None:
        if self._count():
            raise Crash
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        if path in self.names and self._count():
            raise Crash
        super().unlink(path)

    def fsync(self, handle: int) -> None:
        if self._count():
            raise Crash
        super().fsync(handle)

    def fsync_dir(self, path: str) -> None:
        if self._count():
            raise Crash
        super().fsync_dir(path)
