"""The distribution that this package came with: pylog-spark, which has everything, or pylog-client,
the package alone.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

WHOLE: Final = "pylog-spark"
CLIENT: Final = "pylog-client"
UNKNOWN_VERSION: Final = "unknown"
"""Kafka's word, for software that was not installed as a package."""
_FOLDERS: Final = {"pylog_spark": WHOLE, "pylog_client": CLIENT}


def version() -> str:
    """The version of the installed package; `unknown` where it was not installed (Spark's
    --py-files).
    """
    from importlib import metadata  # costs 10 ms

    for name in (WHOLE, CLIENT):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return UNKNOWN_VERSION


def installed(folder: Path | None = None) -> dict[str, str]:
    """The versions of those that are installed in a folder of packages, by name; by default in that
    of this package. One look at the folder: every command asks.
    """
    found = {}
    with contextlib.suppress(OSError):
        for entry in (folder or Path(__file__).parents[1]).glob("pylog_*.dist-info"):
            name, _, number = entry.stem.partition("-")
            if name in _FOLDERS:
                found[_FOLDERS[name]] = number
    return found


def clash(found: dict[str, str]) -> str:
    """The fault and its remedy when both distributions are installed; empty when they are not."""
    if len(found) < 2:
        return ""
    both = " and ".join(f"{name} {found[name]}" for name in (WHOLE, CLIENT))
    return (
        f"{both} are both installed, and each has overwritten files of the other's package "
        f"'pylog': uninstall both (pip uninstall {WHOLE} {CLIENT}), then install the one that "
        f"you want; {WHOLE} has everything that {CLIENT} has"
    )
