"""Whether a data directory is a place for data: bad places are refused, doubtful ones told; and
which mount of a file system it is on.

`judge` is pure; `look_at` gathers what it needs from the machine.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

from pylog.private_folders import make_private, tighten
from pylog_broker.log_dirs import check_apart, roots_of
from pylog_broker.storage.directories.directory import unwritable
from pylog_broker.storage.errors import DirectoryUnwritable

_VOLATILE: Final = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_NETWORK: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "glusterfs", "ceph"})
_SPARKS_OWN: Final = re.compile(
    r"/(?:app-\d{14}-\d{4}|blockmgr-[0-9a-f-]{36}|appcache/application_\d+_\d+"
    r"|spark-[0-9a-f]{8}-[0-9a-f-]{27})(?=/|$)"
)
"""Directories that Spark makes for an application and removes with it."""


@dataclass(frozen=True, slots=True)
class Place:
    """The machine's answers about a directory that exists."""

    path: str
    owner: int
    mode: int
    file_system: str  # as /proc/mounts names its type; empty: unknown
    user: int  # who we are


def judge(place: Place, *, own: bool) -> list[str]:
    """Warnings about the place; DirectoryUnwritable says why it cannot be used, and the cure.

    `own`: the process's own directory, not the root that holds it. A root may be open to others
    (volumes of containers are), its contents may not.
    """
    path = place.path
    inside = _SPARKS_OWN.search(path)
    if inside is not None:
        raise DirectoryUnwritable(
            f"{path} lies in {path[: inside.end()]}, which Spark removes with its application; set "
            "spark.pylog.data.dir to a directory that stays"
        )
    if not stat.S_ISDIR(place.mode):
        raise DirectoryUnwritable(f"{path} is not a directory; move it away, or use another path")
    warnings = []
    if place.mode & stat.S_IWOTH and not place.mode & stat.S_ISVTX:
        why = (
            f"{path} can be written by every user of this machine, who could change records: "
            f"chmod o-w {path}"
        )
        if own:
            raise DirectoryUnwritable(why)
        warnings.append(why)
    if not own:
        return warnings + _doubts(place)
    if place.owner != place.user and place.user != 0:
        raise DirectoryUnwritable(
            f"{path} belongs to user {place.owner}, this is user {place.user}: chown it, or run "
            "as its owner"
        )
    if place.owner != place.user:
        warnings.append(
            f"{path} belongs to user {place.owner}, but this runs as root: that user will not be "
            "able to read what is written now"
        )
    return warnings


def _doubts(place: Place) -> list[str]:
    if place.file_system in _VOLATILE:
        return [
            f"{place.path} is on {place.file_system}: everything in it is gone after a reboot, "
            "also what was synced"
        ]
    if place.file_system in _NETWORK:
        return [
            f"{place.path} is on {place.file_system}: locks and syncs of network file systems do "
            "not always keep their promises; use a local disk"
        ]
    return []


def look_at(root: str, directories: list[str], log_dirs: Sequence[str] = ()) -> list[str]:
    """`judge` of a data root, which is made, of the entries of `log.dirs`, and of the broker's own
    directories, where they exist.

    An entry whose disk does not answer is left to the code that opens it. The rights of other users
    in the broker's own directories are removed; a root is its operator's.
    """
    try:
        make_private(root)
    except OSError as error:
        raise unwritable(root, error) from error
    warnings = judge(_place(root), own=False)
    for entry in roots_of(root, log_dirs)[1:]:
        warnings += _of_entry(entry, own=False)
    for directory in directories:
        warnings += _of_entry(directory, own=True) if log_dirs else _of_own(directory)
        warnings += _tightened(directory)
    return warnings


def _tightened(directory: str) -> list[str]:
    """Earlier versions made it readable by everybody. Not the files in it: nobody gets there."""
    try:
        mode = tighten(directory)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return []
        return [f"{directory} may be readable by other users, and that cannot be changed: {error}"]
    if mode is None:
        return []
    return [f"{directory} had the mode {mode:o}, so that others could read records: it is 700 now"]


def _of_own(directory: str) -> list[str]:
    return judge(_place(directory), own=True) if Path(directory).exists() else []


def _of_entry(path: str, *, own: bool) -> list[str]:
    try:
        return judge(_place(path), own=own)
    except FileNotFoundError:
        return []
    except NotADirectoryError as error:
        raise DirectoryUnwritable(
            f"{path}, of log.dirs, lies below what is not a directory; move that away, or use "
            "another path"
        ) from error
    except OSError as error:
        return [f"{path}, of log.dirs, cannot be looked at: {error}"]


def refuse_nested(directories: Sequence[str]) -> None:
    """InvalidConfig when two log directories are one, or one holds the other, links resolved."""
    for one, other in combinations(directories, 2):
        check_apart(os.path.realpath(one), os.path.realpath(other), one, other)


def _place(path: str) -> Place:
    status = Path(path).stat()
    return Place(path, status.st_uid, status.st_mode, file_system_of(path), os.geteuid())


def file_system_of(path: str, mounts: str | None = None) -> str:
    """The type of the file system that holds `path`; empty where the machine does not tell."""
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text()
        except OSError:
            return ""
    best, found = -1, ""
    real = os.path.realpath(path)
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[1])
        if len(point) >= best and Path(real).is_relative_to(point):
            best, found = len(point), fields[2]
    return found


def mount_id_of(path: str, sysfs: str = "/sys") -> str:
    """Changes whenever the file system of `path` is mounted anew, also on the same boot; not with
    bind mounts, which share what is in memory. Empty where the machine does not tell.

    The kernel makes a directory of the file system's own for as long as it is mounted, and numbers
    such directories on and on.
    """
    place = Path(path)
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        device = place.stat().st_dev
        name = Path(f"{sysfs}/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
        number = Path(f"{sysfs}/fs/{file_system_of(str(place))}/{name}").stat().st_ino
    except OSError:
        return ""
    return f"{name}:{number}"
