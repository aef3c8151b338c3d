"""Calls that may wait for others of their kind.

A call that comes alone costs several times what it costs among others: the broker wakes for it, and
finds nothing of what it needs in the processor's caches. Thousands of members that only say that
they are there come one by one. While they are many, those of one span are handled together, or
with the first call that does not wait: none is handled before one that came earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

SPAN_SECONDS: Final = 0.05
"""The longest that a call waits for others: a hundredth of the usual interval of heartbeats."""
ALONE_MAX: Final = 4
"""So many of one span do not make the next ones wait."""
TOGETHER_MAX: Final = 32
"""So many wait no longer: fewer than one connection may have open."""


class Gathering:
    """Lives on the broker's loop. Times are those of `ticks`, in seconds.

    Invariant: a timer runs if and only if calls wait.
    """

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._span_ends = 0.0
        self._came = 0  # in this span
        self._are_many = False  # came in the span before

    def add(self, begin: Callable[[], None], now: float) -> None:
        """Begin a call: at once when few come, else with the others of this span."""
        if now >= self._span_ends:
            self._are_many = self._came > ALONE_MAX and now < self._span_ends + SPAN_SECONDS
            self._came = 0
            self._span_ends = now + SPAN_SECONDS
        self._came += 1
        if not self._are_many:
            self.begin_all()  # the timer of a span may be late
            begin()
            return
        self._waiting.append(begin)
        if len(self._waiting) >= TOGETHER_MAX:
            self.begin_all()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._span_ends - now, self.begin_all)

    def begin_all(self) -> None:
        """Begin those that wait."""
        waiting = self._forget_all()
        for begin in waiting:
            begin()

    def close(self) -> None:
        """Forget those that wait."""
        self._forget_all()

    def _forget_all(self) -> list[Callable[[], None]]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        return waiting
