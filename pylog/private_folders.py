"""Folders and files for their owner alone (0700, 0600), whatever the umask says.

Records, and what is said about them, are nobody else's business on a machine with several users.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def make_private(path: str | os.PathLike[str]) -> None:
    """Make a folder and those above it that are missing. One that is there stays as it is.

    OSError, also where something else has the name.
    """
    folder = Path(path)
    try:
        folder.mkdir(FOLDER_MODE)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(FOLDER_MODE, exist_ok=True)
    except FileExistsError:
        if not folder.is_dir():
            raise


def tighten(path: str | os.PathLike[str]) -> int | None:
    """Take from a folder of ours what others may do with it: nobody then reaches what is in it. The
    mode that it had; None when nothing was to be done. OSError.
    """
    folder = Path(path)
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if not mode & 0o077 or status.st_uid != os.geteuid():
        return None
    folder.chmod(mode & ~0o077)
    return mode


def open_private(path: str, flags: int) -> int:
    """As an `opener` of `open`: what is made is for its owner alone."""
    return os.open(path, flags, FILE_MODE)
