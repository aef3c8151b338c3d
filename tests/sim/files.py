"""The product's `Files` over a simulated disk, for the life of one process.

Handles and locks belong to the process: when it dies, `die` gives the locks back and any later use
is a bug of the simulator.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence

from pylog_broker.storage.files import Buffer, FileStat
from tests.sim.disk import Directory, Disk, Inode, mount_of, split
from tests.sim.workers import Pool

OF_HANDLES = (errno.ENOMEM, errno.EINTR)
OF_NAMES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR)


class SimFiles:
    """A machine's disk as one process sees it."""

    def __init__(self, disk: Disk, *, cold_share: float = 0.0, rng: random.Random) -> None:
        self.disk = disk
        self.pool: Pool | None = None
        """The pool whose threads wait at the disk."""
        self.alive = True
        self.has_missed_a_disk = False
        """Whether this process has met a disk that does not work, or is not mounted."""
        self.syncs = 0
        self._cold_share = cold_share
        self._rng = rng
        self._handles: dict[int, tuple[str, str, Inode]] = {}
        self._locks: dict[int, str] = {}
        self._next = 3

    def die(self) -> None:
        """The process is gone."""
        self.alive = False
        for path in self._locks.values():
            self.disk.locked.discard(path)
        self._handles.clear()
        self._locks.clear()

    def _pass(self, path: str, codes: tuple[int, ...] = OF_NAMES, *, long: bool = False) -> None:
        """Before every access. It may take a while, on a thread of the pool; and it may fail for a
        reason of the moment.
        """
        if self.pool is not None:
            self.pool.at_the_disk(long=long)
        if self.disk.short_share and self.disk.is_short(path):
            raise OSError(self._rng.choice(codes), "not just now", path)

    def _reach(self, path: str) -> None:
        """Raise EIO for a path on a disk that does not work."""
        assert self.alive, f"a dead process reaches for {path}"
        if mount_of(path) in self.disk.broken_mounts:
            self.has_missed_a_disk = True
            raise OSError(errno.EIO, "input/output error", path)

    def _is_away(self, path: str) -> bool:
        """Whether it would be on a disk that is not mounted. EIO as of `_reach`."""
        self._reach(path)
        mount = mount_of(path)
        if mount not in self.disk.absent_mounts or path == mount:
            return False
        self.has_missed_a_disk = True
        return True

    def _enter(self, path: str) -> None:
        """For what a process changes or reads. EIO, ENOENT, and errors of the moment."""
        self._pass(path)
        if self._is_away(path):
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)

    def open(self, path: str, *, create: bool = False) -> int:
        self._enter(path)
        inode = self.disk.create(path) if create else self.disk.file(path)
        return self._new_handle(path, inode)

    def _new_handle(self, path: str, inode: Inode) -> int:
        assert self.alive, f"{path} opened by a dead process"
        handle = self._next
        self._next += 1
        parent, name = split(path)
        self._handles[handle] = (parent, name, inode)
        return handle

    def _inode(self, handle: int) -> Inode:
        assert self.alive, "a dead process uses its files"
        found = self._handles.get(handle)
        if found is None:
            raise OSError(errno.EBADF, "bad handle")
        self._reach(found[0])
        return found[2]

    def close(self, handle: int) -> None:
        assert self.alive, "a dead process uses its files"
        if handle not in self._handles:
            raise OSError(errno.EBADF, "bad handle")
        del self._handles[handle]
        path = self._locks.pop(handle, None)
        if path is not None:
            self.disk.locked.discard(path)

    def _enter_open(self, handle: int, *, long: bool = False) -> None:
        found = self._handles.get(handle)
        self._pass("" if found is None else found[0], OF_HANDLES, long=long)

    def append(self, handle: int, buffers: Sequence[Buffer]) -> int:
        self._enter_open(handle)
        inode = self._inode(handle)
        data = b"".join(buffers)
        inode.modified_ms = self.disk.wall_ms()
        if self._fails("append", handle):
            inode.append(data[: self._rng.randint(0, len(data))])
            raise OSError(errno.EIO, "input/output error")
        self.disk.append(inode, data, self._handles[handle][0])
        return len(data)

    def write_at(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        self._enter_open(handle)
        inode = self._inode(handle)
        data = b"".join(buffers)
        inode.modified_ms = self.disk.wall_ms()
        if self._fails("append", handle):
            inode.write_at(data[: self._rng.randint(0, len(data))], position)
            raise OSError(errno.EIO, "input/output error")
        self.disk.write_at(inode, data, position, self._handles[handle][0])
        return len(data)

    def _fails(self, act: str, handle: int) -> bool:
        if not self.disk.failing:
            return False
        directory, name, _ = self._handles[handle]
        return self.disk.fail(act, directory, name)

    def pread(self, handle: int, length: int, position: int) -> bytes:
        self._enter_open(handle)
        inode = self._inode(handle)
        if self._fails("read", handle):
            raise OSError(errno.EIO, "input/output error")
        return bytes(inode.data[position : position + length])

    def pread_nowait(self, handle: int, length: int, position: int) -> bytes | None:
        if self._cold_share and self._rng.random() < self._cold_share:
            return None
        return self.pread(handle, length, position)

    def truncate(self, handle: int, size: int) -> None:
        self._enter_open(handle)
        inode = self._inode(handle)
        if size < len(inode.data):
            parent, name, _ = self._handles[handle]
            self.disk.note_cut(parent, name)
        inode.modified_ms = self.disk.wall_ms()
        inode.truncate(size)

    def fsync(self, handle: int) -> None:
        self.syncs += 1
        if self.pool is not None:
            self.pool.at_the_disk(long=True)
        inode = self._inode(handle)
        if self._fails("fsync", handle):
            # The kernel drops what it could not write; the next sync would succeed over nothing.
            # That is so whatever reason it gives.
            inode.drop_pages(self._rng)
            directory, name, _ = self._handles[handle]
            self.disk.note_cut(directory, name)
            code = self._rng.choice((errno.EIO, errno.EIO, *OF_HANDLES))
            raise OSError(code, "input/output error")
        inode.fsync()

    def fsync_dir(self, path: str) -> None:
        self._enter(path)
        self.syncs += 1
        self.disk.directory(path).fsync()

    def rename(self, old: str, new: str) -> None:
        self._enter(old)
        self._enter(new)
        self.disk.rename(old, new)
        for handle, (parent, name, inode) in self._handles.items():
            if parent == old or parent.startswith(f"{old}/"):
                # an open file is where its inode is, not where it was opened
                self._handles[handle] = (new + parent[len(old) :], name, inode)

    def unlink(self, path: str) -> None:
        self._pass(path, OF_HANDLES)
        if not self._is_away(path) and self.disk.find(path) is not None:
            self.disk.unlink(path)

    def rmdir(self, path: str) -> None:
        self._enter(path)
        self.disk.rmdir(path)

    def mkdir(self, path: str) -> None:
        self._pass(path, OF_HANDLES)
        assert not self._is_away(path), f"{path} is made where a disk is not mounted"
        self.disk.mkdir(path)

    def listdir(self, path: str) -> list[str]:
        self._enter(path)
        if mount_of(path) in self.disk.absent_mounts:
            return []
        return sorted(self.disk.directory(path).entries)

    def stat(self, path: str) -> FileStat | None:
        self._pass(path, OF_HANDLES)
        node = None if self._is_away(path) else self.disk.find(path)
        if node is None:
            return None
        if isinstance(node, Directory):
            return FileStat("directory", 0, 0)
        # two changes within a millisecond differ by their number
        return FileStat("file", len(node.data), node.modified_ms * 1_000_000 + node.changes)

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def size(self, handle: int) -> int:
        return len(self._inode(handle).data)

    def read_all(self, path: str) -> bytes:
        self._enter(path)
        return bytes(self.disk.file(path).data)

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        self.unlink(temporary)
        handle = self.open(temporary, create=True)
        self.append(handle, [data])
        self.fsync(handle)
        self.close(handle)
        self.rename(temporary, path)
        self.fsync_dir(split(path)[0])

    def try_lock(self, path: str) -> int | None:
        self._enter(path)
        if path in self.disk.locked:
            return None
        handle = self._new_handle(path, self.disk.create(path))
        self.disk.locked.add(path)
        self._locks[handle] = path
        return handle
