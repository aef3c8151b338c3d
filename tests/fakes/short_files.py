"""Files of a process that is short of something for one moment: one operation is refused, once.

`refuse_one_of` makes any `Files` so. A refused operation has not happened, but for an append, which
has written a part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from pylog_broker.storage.files import Buffer, Files

OPERATIONS: Final = (
    "open", "append", "write_at", "pread", "pread_nowait", "truncate", "fsync_dir",
    "rename", "unlink", "rmdir", "mkdir", "listdir", "stat", "exists", "size", "read_all",
    "write_atomic", "try_lock",
)  # fmt: skip
"""All but `fsync`, for what that refuses is never asked for again, and `close`, which never refuses
for want of something.
"""


class Shortage:
    """Counts operations, and refuses the one of that number."""

    def __init__(self, number: int, code: int) -> None:
        self.seen = 0
        self.refused = ""
        """The operation that was refused, and on what."""
        self._number = number
        self._code = code
        self._looking = 0

    @contextmanager
    def not_now(self) -> Iterator[None]:
        """Count nothing within the block: the test looks."""
        self._looking += 1
        try:
            yield
        finally:
            self._looking -= 1

    def refuses(self, operation: str, target: object) -> OSError | None:
        """The error of the next operation, None when it may go on."""
        if self._looking:
            return None
        self.seen += 1
        if self.seen - 1 != self._number:
            return None
        self.refused = f"{operation}({target})"
        return OSError(self._code, os.strerror(self._code), str(target))


def refuse_one_of(files: Files, shortage: Shortage) -> None:
    """Have `shortage` asked before each operation of `files`, also those within others."""
    for name in OPERATIONS:
        setattr(files, name, partial(_asked, name, getattr(files, name), shortage))


def _asked(
    name: str, real: Callable[..., Any], shortage: Shortage, target: Any, *args: Any, **more: Any
) -> Any:
    error = shortage.refuses(name, target)
    if error is None:
        return real(target, *args, **more)
    with shortage.not_now():
        if name == "append":
            real(target, _half(*args))
    raise error


def _half(buffers: Sequence[Buffer]) -> list[Buffer]:
    data = b"".join(buffers)
    return [data[: len(data) // 2]]
