"""Small ext4 file systems in image files, mounted by loop, and what can befall them. Needs root.

Each fault is one that the file system itself offers: nothing is done to the block device below it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import subprocess
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
_BLOCK: Final = 1024  # mkfs's choice for a file system below 512 MiB
_CLONE_NEWNS: Final = 0x20000
_EXT4_IOC_SHUTDOWN: Final = 0x8004587D
_SHUTDOWN_WITHOUT_FLUSH: Final = 2


class DisksUnavailable(Exception):
    """No file system can be mounted here; the message says why."""


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise DisksUnavailable(f"{command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        raise OSError(errno.EIO, f"{' '.join(command)}: {error.stderr.strip()}") from error


def need_root() -> None:
    """DisksUnavailable for everybody else."""
    if os.geteuid() != 0:
        raise DisksUnavailable("only root can mount file systems; run this as root")


def keep_mounts_private() -> None:
    """Hide the mounts of this process and its children from all others. They are gone with the last
    of these processes, however they end. Call it before there is a second thread.
    """
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS) != 0:
        raise DisksUnavailable(f"no mounts of one's own: {os.strerror(ctypes.get_errno())}")
    _run("mount", "--make-rprivate", "/")


class SmallDisk:
    """A file system of its own at `at`; use as a context manager."""

    def __init__(self, image: Path, at: Path, *, mib: int = 24) -> None:
        self.image, self.at, self._mib = image, at, mib
        self.mounted = False

    def __enter__(self) -> SmallDisk:
        """Make and mount it. DisksUnavailable where that cannot be done."""
        need_root()
        self.at.mkdir(parents=True, exist_ok=True)
        self.image.parent.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as out:
            out.truncate(self._mib * MIB)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self.image))
        try:
            self.mount()
        except OSError as error:
            raise DisksUnavailable(f"no loop device can be mounted here: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self.mounted:
            self.unmount()
        self.image.unlink(missing_ok=True)

    def __str__(self) -> str:
        return str(self.at)

    def mount(self) -> None:
        """Mount it, for the first time or again; ext4 replays its journal."""
        _run("mount", "-o", "loop", str(self.image), str(self.at))
        self.mounted = True

    def unmount(self) -> None:
        """Take it out of sight at once, also while files are open: those stay usable."""
        _run("umount", "-l", str(self.at))
        self.mounted = False

    # ---- faults ---------------------------------------------------------------------------------

    def abort(self) -> None:
        """As after an error of the disk below: nothing can be written any more (EROFS), what was
        not synced will be gone after the next mount, and what is in memory can be read.
        """
        _run("mount", "-o", "remount,abort", str(self.at))

    def shut_down(self) -> None:
        """Every operation fails with EIO, reads too; what was not synced is gone."""
        handle = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, _EXT4_IOC_SHUTDOWN, struct.pack("I", _SHUTDOWN_WITHOUT_FLUSH))
        finally:
            os.close(handle)

    def make_read_only(self) -> None:
        """OSError while somebody has a file open for writing."""
        _run("mount", "-o", "remount,ro", str(self.at))

    def make_writable(self) -> None:
        """The reverse."""
        _run("mount", "-o", "remount,rw", str(self.at))

    # ---- room -----------------------------------------------------------------------------------

    def fill(self, *, leave: int = 0) -> None:
        """A ballast file takes all the room but `leave` bytes."""
        with (self.at / "ballast").open("ab", buffering=0) as out:
            os.fsync(out.fileno())  # what was removed before is free only now
            while self.free > leave:
                try:
                    os.posix_fallocate(out.fileno(), out.seek(0, os.SEEK_END), self.free - leave)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    break
            while not leave and self._append_until_full(out.fileno()):
                os.fsync(out.fileno())  # what was reserved and not used is free only now

    @property
    def free(self) -> int:
        """Bytes that the file system says are left."""
        found = os.statvfs(self.at)
        return found.f_bavail * found.f_frsize

    def _append_until_full(self, handle: int) -> int:
        """The number of bytes that there was room for."""
        written = 0
        try:
            while True:
                written += os.write(handle, bytes(_BLOCK))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        return written

    def empty(self) -> None:
        """Give the ballast's room back."""
        (self.at / "ballast").unlink(missing_ok=True)
