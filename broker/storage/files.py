"""The only way storage touches a disk: the `Files` protocol, and the real one.

Paths are plain strings with `/`. Handles are small numbers. Nothing is buffered in user space:
what `append` returned from is in the page cache and survives a kill of the process; only `fsync`
(and `fsync_dir` for names) makes it survive a loss of power. Errors are `OSError`s with their
`errno`; `Log` decides what they mean. The simulator has a second implementation in memory.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import Final, Literal, NamedTuple, Protocol

from pylog.errors import KafkaStorageError
from pylog.private_folders import FILE_MODE, make_private
from pylog_broker.storage.errors import DiskFull, ShortOfResources

Buffer = bytes | bytearray | memoryview

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a write that pass when somebody makes room."""

OF_THE_MOMENT: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN}
)
"""The process or the machine is short of something, but the disk said nothing bad."""

PASSES: Final = NO_ROOM | OF_THE_MOMENT
"""Errors after which the same may work later."""


class SyncFailed(OSError):
    """fsync refused, for whatever reason: what was written is in doubt for good. The kernel may
    have dropped the pages that it could not write, and says so only once.
    """


def is_of_the_moment(error: BaseException | None) -> bool:
    """Whether the OSError that this is, or was raised from, is one of OF_THE_MOMENT. A refused
    fsync never is.
    """
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None and error.errno in OF_THE_MOMENT and not isinstance(error, SyncFailed)


def refused(error: OSError, what: str, directory: str) -> KafkaStorageError:
    """The error for clients when `what` was refused by the disk of `directory`; raise it from the
    error. PassingStorageError when it may work later.
    """
    if error.errno in NO_ROOM:
        return DiskFull(
            f"{what}: no room on the disk of {directory} ({error.strerror}); free some space"
        )
    if is_of_the_moment(error):
        return ShortOfResources(f"{what}: {error}; try again later")
    return KafkaStorageError(f"{what}: {error}")


FileKind = Literal["file", "directory", "symlink", "other"]

_VECTORS_MAX: Final = 512  # Linux takes 1024 buffers per writev; stay well below

_NOT_IN_MEMORY: Final = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class FileStat(NamedTuple):
    """The kind, size and times of a path (a symbolic link is not followed)."""

    kind: FileKind
    size: int
    modified_ns: int


class Files(Protocol):
    """The calls that storage makes on a file system."""

    def open(self, path: str, *, create: bool = False) -> int:
        """A handle that reads anywhere and writes at the end. `create` makes a missing file."""

    def close(self, handle: int) -> None:
        """Give the handle back, also when this raises; never an error of OF_THE_MOMENT. Does not
        sync.
        """

    def append(self, handle: int, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end of the file; the number of bytes.

        Loops on short writes. After an error some of the bytes may be there: truncate.
        """

    def write_at(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        """As `append`, but from `position` on, in a file that was made longer ahead of its bytes.

        A handle that was written so once is never given to `append`.
        """

    def pread(self, handle: int, length: int, position: int) -> bytes:
        """`length` bytes from `position`; fewer only at the end of the file."""

    def pread_nowait(self, handle: int, length: int, position: int) -> Buffer | None:
        """Like `pread`, but None when that would wait for the disk."""

    def truncate(self, handle: int, size: int) -> None:
        """Make the file `size` bytes long: cut it, or add zeros."""

    def fsync(self, handle: int) -> None:
        """Make the file's bytes durable. An error is final: never call it again and believe."""

    def fsync_dir(self, path: str) -> None:
        """Make the names in the directory durable."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory a new name, replacing a file of that name."""

    def unlink(self, path: str) -> None:
        """Remove a file; missing is fine."""

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def mkdir(self, path: str) -> None:
        """Make a directory and its parents; existing is fine."""

    def listdir(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def stat(self, path: str) -> FileStat | None:
        """The status of the path, or None when it is not there."""

    def exists(self, path: str) -> bool:
        """Whether the path is there."""

    def size(self, handle: int) -> int:
        """The size of an open file."""

    def read_all(self, path: str) -> bytes:
        """The whole file; FileNotFoundError when it is not there."""

    def write_atomic(self, path: str, data: bytes) -> None:
        """Replace the file's content, durably: after a crash it is the old or the new one."""

    def try_lock(self, path: str) -> int | None:
        """A handle that holds the lock until it is closed or the process ends; None if taken."""


def sync(files: Files, handle: int) -> None:
    """`Files.fsync` of what will not be written again. SyncFailed."""
    try:
        files.fsync(handle)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error


class OsFiles:
    """The operating system's files. New files are for their owner alone."""

    def open(self, path: str, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        return os.open(path, flags | os.O_CREAT if create else flags, FILE_MODE)

    def close(self, handle: int) -> None:
        os.close(handle)

    def append(self, handle: int, buffers: Sequence[Buffer]) -> int:
        wanted = 0
        for buffer in buffers:
            wanted += len(buffer)
        if len(buffers) <= _VECTORS_MAX:
            written = os.writev(handle, buffers)
            if written == wanted:
                return wanted
        else:
            written = 0
        pending = memoryview(b"".join(buffers))
        while written < wanted:
            step = os.write(handle, pending[written:])
            if step == 0:
                raise OSError(errno.EIO, "a write of more than 0 bytes wrote nothing")
            written += step
        return wanted

    def write_at(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        if flags & os.O_APPEND:  # Linux would write at the end, whatever the position
            fcntl.fcntl(handle, fcntl.F_SETFL, flags & ~os.O_APPEND)
        pending = memoryview(b"".join(buffers))
        written = 0
        while written < len(pending):
            step = os.pwrite(handle, pending[written:], position + written)
            if step == 0:
                raise OSError(errno.EIO, "a write of more than 0 bytes wrote nothing")
            written += step
        return written

    def pread(self, handle: int, length: int, position: int) -> bytes:
        data = os.pread(handle, length, position)
        if len(data) == length:
            return data
        parts = [data]
        missing = length - len(data)
        while missing and parts[-1]:  # a single read stops at 2 GiB or at a signal
            parts.append(os.pread(handle, missing, position + length - missing))
            missing -= len(parts[-1])
        return b"".join(parts)

    def pread_nowait(self, handle: int, length: int, position: int) -> Buffer | None:
        buffer = bytearray(length)
        try:
            got = os.preadv(handle, [buffer], position, os.RWF_NOWAIT)
        except OSError as error:
            if error.errno in _NOT_IN_MEMORY:
                return None
            raise
        if got == length:
            return memoryview(buffer).toreadonly()
        if position + got >= self.size(handle):
            return memoryview(buffer)[:got].toreadonly()
        return None

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def fsync(self, handle: int) -> None:
        os.fsync(handle)

    def fsync_dir(self, path: str) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: str, new: str) -> None:
        Path(old).replace(new)

    def unlink(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def rmdir(self, path: str) -> None:
        Path(path).rmdir()

    def mkdir(self, path: str) -> None:
        make_private(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 (see `stat`)

    def stat(self, path: str) -> FileStat | None:
        # A start asks about each file of each log: to make a Path takes as long as to ask.
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        mode = status.st_mode
        kind: FileKind = "other"
        if S_ISREG(mode):
            kind = "file"
        elif S_ISDIR(mode):
            kind = "directory"
        elif S_ISLNK(mode):
            kind = "symlink"
        return FileStat(kind, status.st_size, status.st_mtime_ns)

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def read_all(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 (see `stat`)
            return file.readall()

    def write_atomic(self, path: str, data: bytes) -> None:
        temporary = f"{path}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        handle = os.open(temporary, flags, FILE_MODE)
        try:
            self.append(handle, [data])
            os.fsync(handle)
        finally:
            os.close(handle)
        self.rename(temporary, path)
        self.fsync_dir(str(Path(path).parent))

    def try_lock(self, path: str) -> int | None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except OSError:
            os.close(handle)
            raise
        return handle
