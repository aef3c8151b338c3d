"""The setting `log.dirs`: what it may hold, and which directories a broker makes of it. Pure.

Several brokers share one value, so each gets a directory of its own below an absolute entry, as it
does below the data root. A relative entry lies in the broker's own directory: `.` is that
directory itself, which is what a broker without the setting has.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import PurePosixPath
from posixpath import normpath

from pylog.errors import InvalidConfig


def check_log_dirs(entries: Sequence[str]) -> None:
    """InvalidConfig that names the entry which cannot be used, and what to do."""
    for entry in entries:
        if not entry.strip() or "\0" in entry:
            raise InvalidConfig(f"log.dirs: {entry!r} is no path; remove it")
        if normpath(entry).split("/")[0] == "..":
            raise InvalidConfig(
                f"log.dirs: {entry!r} leads out of the broker's directory; give an absolute path"
            )
    for one, other in combinations(entries, 2):
        check_apart(normpath(one), normpath(other), one, other)


def check_apart(one: str, other: str, entry: str, other_entry: str) -> None:
    """InvalidConfig when two paths are the same, or one holds the other; named as given."""
    if one == other:
        spelled = f"{entry!r}" if entry == other_entry else f"{entry!r} and {other_entry!r}"
        raise InvalidConfig(f"log.dirs: {spelled} is twice the same directory; give it once")
    first, second = PurePosixPath(one), PurePosixPath(other)
    if first.is_relative_to(second) or second.is_relative_to(first):
        inner, outer = (
            (entry, other_entry) if first.is_relative_to(second) else (other_entry, entry)
        )
        raise InvalidConfig(
            f"log.dirs: {inner!r} lies in {outer!r}; give directories that stand beside each "
            "other, each on a disk of its own"
        )


def directories_of(root: str, broker: int, entries: Sequence[str]) -> list[str]:
    """The log directories of one broker, in the order of the setting."""
    own = f"{root}/broker-{broker}"
    if not entries:
        return [own]
    return [
        f"{normpath(entry)}/broker-{broker}"
        if entry.startswith("/")
        else normpath(f"{own}/{entry}")
        for entry in entries
    ]


def roots_of(root: str, entries: Sequence[str]) -> list[str]:
    """The roots under which directories of brokers are searched: the data root, and the absolute
    entries."""
    return list(dict.fromkeys([root, *(normpath(e) for e in entries if e.startswith("/"))]))
