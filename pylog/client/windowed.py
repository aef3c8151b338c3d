"""Rates and averages over the last minute, as Apache Kafka's metrics have them. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

WINDOW_MS: Final = 30_000
WINDOWS: Final = 2
"""Rates and averages cover the present window and the one before."""


class Windowed:
    """The count of numbers that came in the last windows, their sum and the largest one."""

    __slots__ = ("_started_ms", "_windows")

    def __init__(self, now_ms: int) -> None:
        self._started_ms = now_ms
        self._windows: deque[list[float]] = deque(maxlen=WINDOWS)  # begin, count, sum, largest

    def record(self, now_ms: int, value: float, count: int = 1) -> None:
        """`count` numbers whose sum is `value`; the largest is kept for single ones."""
        windows = self._windows
        if not windows or now_ms - windows[-1][0] >= WINDOW_MS:
            windows.append([now_ms, 0, 0.0, value])
        window = windows[-1]
        window[1] += count
        window[2] += value
        window[3] = max(window[3], value)

    def _recent(self, now_ms: int) -> list[list[float]]:
        return [w for w in tuple(self._windows) if now_ms - w[0] < WINDOW_MS * WINDOWS]

    def rate(self, now_ms: int) -> float:
        """The sum by the second."""
        recent = self._recent(now_ms)
        if not recent:
            return 0.0
        covered_ms = now_ms - max(self._started_ms, recent[0][0])
        return float(sum(w[2] for w in recent)) * 1000 / max(covered_ms, 1_000)

    def average(self, now_ms: int) -> float:
        """The average of the numbers; NaN without any."""
        recent = self._recent(now_ms)
        count = sum(w[1] for w in recent)
        return sum(w[2] for w in recent) / count if count else float("nan")

    def largest(self, now_ms: int) -> float:
        """NaN without any."""
        return max((w[3] for w in self._recent(now_ms)), default=float("nan"))
