"""The part of a scrape that brokers and drivers share."""

from __future__ import annotations

from importlib import metadata

from broker.metrics import names
from broker.metrics.counters import Histogram, RequestCounters
from broker.metrics.exposition import Page
from pylog import errors


def version() -> str:
    """This package's version; `unknown` where it was not installed (Spark's --py-files)."""
    try:
        return metadata.version("pylog-spark")
    except metadata.PackageNotFoundError:
        return "unknown"


def add_common(
    page: Page, counters: RequestCounters, loop_lag: Histogram, info: tuple[str, str, str, str]
) -> None:
    """Requests, errors, the loop's lag, and who this is."""
    page.add_all(names.INFO, {info: 1})
    page.add_histograms(
        names.REQUEST_SECONDS, {(request,): h for request, h in counters.seconds.items()}
    )
    page.add_all(
        names.REQUEST_ERRORS,
        {
            (request, errors.from_code(code).name): count
            for (request, code), count in counters.errors.items()
        },
    )
    page.add_histograms(names.LOOP_LAG, {(): loop_lag})
