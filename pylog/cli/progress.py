"""A progress bar on standard error: only where a person watches."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from pylog.cli.terminal import is_plain

Advance = Callable[[int], None]
"""So many more are done."""


@contextlib.contextmanager
def progress(what: str, total: int | None, *, unit: str, hidden: bool = False) -> Iterator[Advance]:
    """Shows how far `what` is; `total` None: only how much, and how fast.

    Nothing at all unless standard error is a terminal that takes escape sequences. `unit` is
    "bytes" or "records".
    """
    if hidden or is_plain(sys.stderr):
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    counts: list[ProgressColumn] = (
        [DownloadColumn(), TransferSpeedColumn()] if unit == "bytes" else [MofNCompleteColumn()]
    )
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        *counts,
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
