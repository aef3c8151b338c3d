"""Metrics that all processes share: CPU, memory, descriptors, garbage collection, loop lag."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pylog.clock import ticks
from pylog_broker.metrics.counters import Histogram

LAG_INTERVAL_SECONDS: Final = 0.5


def process_metrics() -> Callable[[], str]:
    """A function that gives them in the text format; to be called on any thread.

    `process_*` and `python_*` as all Python programs with Prometheus' client show them.
    """
    from prometheus_client import (
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
        ProcessCollector,
        generate_latest,
    )

    registry = CollectorRegistry()
    for collector in (ProcessCollector, GCCollector, PlatformCollector):
        collector(registry=registry)

    return lambda: generate_latest(registry).decode()


class LoopLag:
    """Measures how late the running loop comes to what is due."""

    def __init__(self) -> None:
        self.seconds = Histogram()
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; costs two short wake-ups a second."""
        self._due = ticks() + LAG_INTERVAL_SECONDS
        self._timer = self._loop.call_later(LAG_INTERVAL_SECONDS, self._on_time)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_time(self) -> None:
        self.seconds.observe(max(0.0, ticks() - self._due))
        self.start()
