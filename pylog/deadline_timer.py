"""One timer of an event loop for a core that says when it must be looked at next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class DeadlineTimer:
    """Calls `on_time` on the loop, not later than the earliest deadline that it was given.

    It is moved to an earlier deadline and never to a later one: a look too early costs little, and
    moving it at every request would cost more. Lives on the loop; any thread may ask `is_due_by`.
    """

    __slots__ = ("_deadline_ms", "_handle", "_on_time")

    def __init__(self, on_time: Callable[[], None]) -> None:
        self._on_time = on_time
        self._handle: asyncio.TimerHandle | None = None
        self._deadline_ms = 0

    def set(self, loop: asyncio.AbstractEventLoop, now_ms: int, deadline_ms: int | None) -> None:
        """Come by then at the latest; None: no deadline is known."""
        if deadline_ms is None:
            return
        if self._handle is not None:
            if self._deadline_ms <= deadline_ms:
                return
            self._handle.cancel()
        self._deadline_ms = deadline_ms
        # Clocks are read in whole milliseconds: half a one more, so that the time has come.
        delay_s = max(deadline_ms - now_ms + 0.5, 0.5) / 1000
        self._handle = loop.call_later(delay_s, self._fire)

    def is_due_by(self, time_ms: int) -> bool:
        """Whether it comes by then anyway."""
        return self._handle is not None and self._deadline_ms <= time_ms

    def cancel(self) -> None:
        """Come no more, until it is set again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._on_time()
