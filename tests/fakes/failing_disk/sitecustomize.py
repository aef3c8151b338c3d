"""A disk that fails on demand under real broker processes.

Python imports this at the start of every process that has this folder in its PYTHONPATH. While the
file that `PYLOG_TEST_FAILING_DISK` names holds `{"prefix": ..., "errno": ..., "operations": []}`,
these operations of `OsFiles` (none: all of them) on paths below that prefix raise that error.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONTROL = os.environ.get("PYLOG_TEST_FAILING_DISK", "")

BY_PATH = (
    "open", "fsync_dir", "rename", "unlink", "rmdir", "mkdir", "listdir", "stat", "exists",
    "read_all", "write_atomic", "try_lock",
)  # fmt: skip
BY_HANDLE = ("append", "pread", "pread_nowait", "truncate", "fsync", "size")


def _guarded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def call(self: object, target: Any, *args: Any, **more: Any) -> Any:
        try:
            fault = json.loads(Path(CONTROL).read_text())
        except (FileNotFoundError, ValueError):
            return real(self, target, *args, **more)
        path = str(Path(f"/proc/self/fd/{target}").readlink()) if name in BY_HANDLE else target
        if path.startswith(fault["prefix"]) and name in (fault["operations"] or (name,)):
            raise OSError(fault["errno"], os.strerror(fault["errno"]), path)
        return real(self, target, *args, **more)

    return call


if CONTROL:
    from pylog_broker.storage.files import OsFiles

    for operation in BY_PATH + BY_HANDLE:
        setattr(OsFiles, operation, _guarded(operation, getattr(OsFiles, operation)))
