"""The only place that reads a clock. Everything else takes `now_ms` or a Clock.

Two times that are never compared with each other: monotonic (for waits, leases and time-outs) and
wall (for record timestamps and retention). The simulator has a Clock of its own.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The source of a shell's time."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread."""


class SystemClock:
    """The machine's clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()

wall_ns = time.time_ns
"""`Clock.wall_ms` in nanoseconds, for the one caller (`Producer.send`) to which a method call in
Python would cost as much as its work.
"""

busy_ns = time.thread_time_ns
"""Processor time that the calling thread took so far, in nanoseconds."""

ticks = time.perf_counter
"""Seconds with all the precision there is, for how long something took; comparable only within one
process, and never with the clocks above."""
