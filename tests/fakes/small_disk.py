"""A file system of a few MiB, for tests of what a full or read-only disk does."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = 4096


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def needs_small_disks() -> None:
    """Skip the test where no file system can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")


@contextmanager
def small_disk(at: Path, kib: int) -> Iterator[Path]:
    """A tmpfs of that size at `at`. Skips the test where mounting is not allowed."""
    needs_small_disks()
    at.mkdir(parents=True, exist_ok=True)
    try:
        _mount("-t", "tmpfs", "-o", f"size={kib}k", "pylog-test", str(at))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small file system cannot be mounted here: {error}")
    try:
        yield at
    finally:
        # Lazily: a process that is being killed may still have files open.
        subprocess.run(["umount", "-l", str(at)], check=True, capture_output=True)


def read_only(at: Path) -> None:
    """Remount the disk; not possible while somebody has a file open for writing."""
    _mount("-o", "remount,ro", str(at))


def fill(at: Path, *, leave: int = 0) -> Path:
    """Take all the room but `leave` bytes; the file to remove to give it back. Others that write
    there meanwhile may have taken some of it.
    """
    ballast = at / "ballast"
    free = os.statvfs(at)
    size = max(0, free.f_bavail * free.f_frsize - leave) // PAGE * PAGE
    with ballast.open("wb", buffering=0) as out:
        try:
            out.write(bytes(size))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return ballast
