"""`Files` in memory, with a disk that loses power, runs full, fails and rots on demand.

A kill keeps everything; `lose_power` keeps what was synced: a file's bytes by `fsync`, its name by
`fsync_dir`. Not for the simulator, which has a disk with partial losses of its own.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field

from pylog_broker.storage.files import Buffer, FileStat


@dataclass
class MemoryFile:
    """Bytes now, and bytes that would survive a loss of power."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    changes: int = 0


@dataclass
class Fault:
    """The next `times` calls of `operation` on a path that contains `part` fail."""

    operation: str
    part: str
    errno: int
    times: int = 1
    bytes_first: int = 0


class MemoryFiles:
    """Names are full paths; a directory is a name that ends with `/`."""

    def __init__(self) -> None:
        self.names: dict[str, MemoryFile] = {"/": MemoryFile()}
        self.synced_names: dict[str, MemoryFile] = dict(self.names)
        self.capacity: int | None = None
        self.faults: list[Fault] = []
        self.cold = False
        self.locked: set[str] = set()
        self.handles: dict[int, tuple[str, MemoryFile]] = {}
        self._next = 3
        self._clock = 0

    # ---- what a test does to the disk

    def kill(self) -> None:
        """The process dies: handles and locks are gone."""
        self.handles.clear()
        self.locked.clear()

    def lose_power(self) -> None:
        """Only what was synced stays."""
        self.kill()
        self.names = dict(self.synced_names)
        for file in self.names.values():
            file.data = bytearray(file.synced)

    def fail(
        self, operation: str, part: str, code: int, *, times: int = 1, bytes_first: int = 0
    ) -> None:
        """Let an operation fail; an append writes `bytes_first` bytes before."""
        self.faults.append(Fault(operation, part, code, times, bytes_first))

    def _check(self, operation: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.operation == operation and fault.part in path and fault.times:
                fault.times -= 1
                return fault
        return None

    def _raise(self, operation: str, path: str) -> None:
        fault = self._check(operation, path)
        if fault is not None:
            raise OSError(fault.errno, "injected")

    def _used(self) -> int:
        return sum(len(file.data) for file in self.names.values())

    def _changed(self, file: MemoryFile) -> None:
        self._clock += 1
        file.changes = self._clock

    # ---- Files

    def open(self, path: str, *, create: bool = False) -> int:
        self._raise("open", path)
        file = self.names.get(path)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            if f"{path.rpartition('/')[0]}/" not in self.names:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            if self.capacity is not None and self._used() >= self.capacity:
                raise OSError(errno.ENOSPC, "no space left")
            file = self.names[path] = MemoryFile()
            self._changed(file)
        handle = self._next
        self._next += 1
        self.handles[handle] = (path, file)
        return handle

    def close(self, handle: int) -> None:
        path, _ = self.handles.pop(handle)
        if path.endswith(".lock"):
            self.locked.discard(path)

    def append(self, handle: int, buffers: Sequence[Buffer]) -> int:
        path, file = self.handles[handle]
        data = b"".join(buffers)
        fault = self._check("append", path)
        if fault is not None:
            file.data += data[: fault.bytes_first]
            raise OSError(fault.errno, "injected")
        if self.capacity is not None and self._used() + len(data) > self.capacity:
            file.data += data[: max(0, self.capacity - self._used())]
            raise OSError(errno.ENOSPC, "no space left")
        file.data += data
        self._changed(file)
        return len(data)

    def write_at(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        path, file = self.handles[handle]
        data = b"".join(buffers)
        fault = self._check("write_at", path)
        kept = data if fault is None else data[: fault.bytes_first]
        file.data[position : position + len(kept)] = kept
        if fault is not None:
            raise OSError(fault.errno, "injected")
        self._changed(file)
        return len(data)

    def pread(self, handle: int, length: int, position: int) -> bytes:
        path, file = self.handles[handle]
        self._raise("pread", path)
        return bytes(file.data[position : position + length])

    def pread_nowait(self, handle: int, length: int, position: int) -> bytes | None:
        return None if self.cold else self.pread(handle, length, position)

    def truncate(self, handle: int, size: int) -> None:
        path, file = self.handles[handle]
        self._raise("truncate", path)
        del file.data[size:]
        file.data += bytes(size - len(file.data))
        self._changed(file)

    def fsync(self, handle: int) -> None:
        path, file = self.handles[handle]
        self._raise("fsync", path)
        file.synced = bytes(file.data)

    def fsync_dir(self, path: str) -> None:
        self._raise("fsync_dir", path)
        inside = f"{path}/"

        def is_child(name: str) -> bool:
            return name.startswith(inside) and "/" not in name[len(inside) :].rstrip("/")

        for name in [name for name in self.synced_names if is_child(name)]:
            if name not in self.names:
                below = [other for other in self.synced_names if other.startswith(name)]
                for other in below if name.endswith("/") else [name]:
                    del self.synced_names[other]
        self.synced_names |= {name: file for name, file in self.names.items() if is_child(name)}

    def rename(self, old: str, new: str) -> None:
        self._raise("rename", old)
        if old in self.names:
            self.names[new] = self.names.pop(old)
            return
        if f"{old}/" not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        for name in [name for name in self.names if name.startswith(f"{old}/")]:
            self.names[new + name[len(old) :]] = self.names.pop(name)

    def unlink(self, path: str) -> None:
        self._raise("unlink", path)
        self.names.pop(path, None)

    def rmdir(self, path: str) -> None:
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        del self.names[f"{path}/"]

    def mkdir(self, path: str) -> None:
        self._raise("mkdir", path)
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            self.names.setdefault(f"/{'/'.join(parts[:depth])}/", MemoryFile())

    def listdir(self, path: str) -> list[str]:
        if f"{path}/" not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        inside = f"{path}/"
        return sorted(
            {name[len(inside) :].split("/")[0] for name in self.names if name.startswith(inside)}
            - {""}
        )

    def stat(self, path: str) -> FileStat | None:
        if f"{path.rstrip('/')}/" in self.names:
            return FileStat("directory", 0, 0)
        file = self.names.get(path)
        return None if file is None else FileStat("file", len(file.data), file.changes)

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def size(self, handle: int) -> int:
        return len(self.handles[handle][1].data)

    def read_all(self, path: str) -> bytes:
        self._raise("read_all", path)
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return bytes(self.names[path].data)

    def write_atomic(self, path: str, data: bytes) -> None:
        self.unlink(f"{path}.tmp")
        handle = self.open(f"{path}.tmp", create=True)
        try:
            self.append(handle, [data])
            self.fsync(handle)
        finally:
            self.close(handle)
        self.rename(f"{path}.tmp", path)
        self.fsync_dir(path.rpartition("/")[0])

    def try_lock(self, path: str) -> int | None:
        if path in self.locked:
            return None
        handle = self.open(path, create=True)
        self.locked.add(path)
        return handle
