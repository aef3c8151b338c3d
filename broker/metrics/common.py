"""The part of a scrape that brokers and drivers share."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from importlib import metadata
from typing import Final

from pylog import errors
from pylog_broker.metrics import names
from pylog_broker.metrics.counters import PARTS, Histogram, RequestCounters
from pylog_broker.metrics.exposition import Page
from pylog_broker.net.quotas import ConnectionQuotas, Refusal

DISK_PATIENCE_SECONDS: Final = 1.0
"""A disk that does not say in this time how full it is is left out."""


def version() -> str:
    """This package's version; `unknown` where it was not installed (Spark's --py-files)."""
    try:
        return metadata.version("pylog-spark")
    except metadata.PackageNotFoundError:
        return "unknown"


def add_connections(page: Page, quotas: ConnectionQuotas) -> None:
    """Add the number of connections, and of refused ones."""
    page.add_all(
        names.CONNECTIONS, {(listener,): count for listener, count in quotas.by_listener.items()}
    )
    page.add_all(
        names.CONNECTIONS_REFUSED,
        {
            (listener, why.value): quotas.refused.get((listener, why), 0)
            for listener in quotas.by_listener
            for why in Refusal
        },
    )


async def add_disks(page: Page, directories: Sequence[str]) -> None:
    """Add the free and total space of the directories' disks. Asked on a thread: a disk may take
    its time."""
    loop = asyncio.get_running_loop()
    free: dict[tuple[object, ...], int] = {}
    total: dict[tuple[object, ...], int] = {}
    for directory in directories:
        try:
            usage = await asyncio.wait_for(
                loop.run_in_executor(None, shutil.disk_usage, directory), DISK_PATIENCE_SECONDS
            )
        except (OSError, TimeoutError):
            continue
        free[directory,], total[directory,] = usage.free, usage.total
    page.add_all(names.DISK_FREE, free)
    page.add_all(names.DISK_TOTAL, total)


def add_common(
    page: Page, counters: RequestCounters, loop_lag: Histogram, info: tuple[str, str, str, str]
) -> None:
    """Requests, errors, the loop's lag, and who this is."""
    page.add_all(names.INFO, {info: 1})
    page.add_histograms(
        names.REQUEST_SECONDS, {(request,): h for request, h in counters.seconds.items()}
    )
    page.add_all(
        names.REQUEST_PARTS,
        {
            (request, part): getattr(spent, part)
            for request, spent in counters.seconds.items()
            for part in PARTS
        },
    )
    page.add_all(
        names.REQUEST_ERRORS,
        {
            (request, errors.from_code(code).name): count
            for (request, code), count in counters.errors.items()
        },
    )
    page.add_histograms(names.LOOP_LAG, {(): loop_lag})
