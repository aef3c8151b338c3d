"""The choice between compiled kernels and plain Python: loading must be worth its time.

From the cache they take a third of a second of processor time, uncached seconds; plain Python
encodes a million records in that time (`joined`), or decodes a hundred thousand. So a process that
reads loads them where many records come at once, one that writes when it has spent as much on plain
Python. Pure but for the imports; `kernels` loads ahead of need.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final

from pylog.records.native import Switch

SMALL_BATCH_RECORDS: Final = 3
"""Up to here plain Python beats the kernels, whose call costs about a microsecond."""
COLD_BATCH_RECORDS: Final = 256
"""The most records of a batch for which nobody loads the kernels: half a millisecond of work."""
COLD_READ_BYTES: Final = 64 * 1024
"""The same for what is read at once, of any number of batches: what a tail reader fetches is
smaller, even after a pause."""

FOR_LISTS: Final = ("native.encode_kernels", "native.decode_kernels")


_NUMBA: Final = find_spec("numba") is not None


class _Progress:
    """How far this process's kernels for lists are compiled. Each flag only ever becomes true."""

    begun = False  # by a thread of their own
    done = False


def is_there() -> bool:
    """Whether this process can compile at all: numba is optional where pylog is only a client."""
    return _NUMBA


def is_small(records: int) -> bool:
    """Whether it is a matter for plain Python to read a batch of so many records.

    Any batch is without numba, and while the kernels are on their way, as a caller that waited for
    them would wait longer.
    """
    if not _NUMBA:
        return True
    if _Progress.done:
        return records <= SMALL_BATCH_RECORDS
    return records <= COLD_BATCH_RECORDS or _Progress.begun


def is_loaded() -> bool:
    """Whether the kernels for lists are there, and may be used."""
    return _Progress.done and Switch.on


def is_small_read(size: int) -> bool:
    """Whether batches of `size` bytes together are a matter for plain Python, whatever they
    hold: everything is where the kernels may not make objects.
    """
    return (size < COLD_READ_BYTES and not _Progress.done) or not Switch.on


def load() -> None:
    """Compile or load the kernels for lists, unless they are there."""
    if not _Progress.done:
        for name in FOR_LISTS:
            import_module(f"pylog.records.{name}")
        _Progress.done = True


def begin() -> bool:
    """Whether the caller is the one who has `load` called in a thread of its own."""
    if _Progress.done or _Progress.begun or not Switch.on:
        return False
    _Progress.begun = True
    return True
