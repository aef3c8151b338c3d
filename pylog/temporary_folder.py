"""A temporary folder that goes when its owner does, at the latest at the next one's start.

The owner holds the lock of a file in it, which the kernel gives back however a process ends. So a
folder whose lock is free belonged to somebody who was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

PREFIX: Final = "pylog-"
LOCK_NAME: Final = ".owner.lock"


class TemporaryFolder:
    """A new folder of this process, at `path`; what killed processes left behind is removed."""

    def __init__(self) -> None:
        _remove_left_behind(Path(tempfile.gettempdir()))
        # It gets the name by which it could be found when its lock is held.
        made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        self._lock = os.open(made / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = made.rename(made.with_name(made.name.removeprefix(".")))

    def remove(self) -> None:
        """Remove it with all that is in it. Idempotent."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _remove_left_behind(root: Path) -> None:
    for folder in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another's, or somebody else removes it just now
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
        return
    lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
