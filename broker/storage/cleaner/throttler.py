"""The pauses that keep reading and writing to a rate. Pure; Kafka's Throttler."""

from __future__ import annotations

from typing import Final

CHECK_INTERVAL_MS: Final = 300


class Throttler:
    """Observations are looked at every 300 ms, and a rate that was too high is waited off: so a
    short burst passes, the mean over the waits does not. `rate` (a second) may be set anew at any
    time. Not for several threads at once.
    """

    def __init__(self, rate: float, now_ms: int) -> None:
        self.rate = rate
        self._begin_ms = float(now_ms)
        self._observed = 0

    def wait_ms(self, amount: int, now_ms: int) -> float:
        """So much was read or written; how long to wait before more is, in ms."""
        self._observed += amount
        elapsed_ms = now_ms - self._begin_ms
        if elapsed_ms < 0:
            return -elapsed_ms  # another one's wait is not over
        if elapsed_ms <= CHECK_INTERVAL_MS or not self._observed:
            return 0.0
        wait_ms = max(0.0, self._observed * 1000 / self.rate - elapsed_ms)
        self._begin_ms = now_ms + wait_ms
        self._observed = 0
        return wait_ms
