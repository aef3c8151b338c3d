"""Lines about peers that are not what a listener is for: one in a while, however many knock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog.clock import Clock

REPORT_INTERVAL_MS: Final = 10_000
"""One line in so long; lines that come in between are counted."""


class StrangerReports:
    """Passes a line on to `report`, at most once per interval."""

    def __init__(self, clock: Clock, report: Callable[[str], None]) -> None:
        self._clock = clock
        self._report = report
        self._reported_ms: int | None = None
        self._unreported = 0

    def tell(self, line: str) -> None:
        """Say it, or count it."""
        now_ms = self._clock.monotonic_ms()
        if self._reported_ms is not None and now_ms - self._reported_ms < REPORT_INTERVAL_MS:
            self._unreported += 1
            return
        more = f" ({self._unreported} more since the last line)" if self._unreported else ""
        self._reported_ms, self._unreported = now_ms, 0
        self._report(line + more)
