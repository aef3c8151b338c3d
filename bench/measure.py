"""Medians of several runs, printed as one table.

Absolute figures move with the machine; a row is worth something only beside the bare limit that was
measured in the same run.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

RUNS = 5


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of a row's runs, with the smallest and largest."""

    name: str
    unit: str
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return (
            f"{self.name:<58} {_short(self.median):>10} {self.unit:<8}"
            f" ({_short(self.low)} to {_short(self.high)})"
        )


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """`elapsed()` in seconds since the block began."""
    started = time.perf_counter()
    yield lambda: time.perf_counter() - started


def median(name: str, unit: str, run: Callable[[], float], *, runs: int = RUNS) -> Figure:
    """Run `runs` times, print the row, return it."""
    values = [run() for _ in range(runs)]
    figure = Figure(name, unit, statistics.median(values), min(values), max(values))
    sys.stdout.write(f"{figure}\n")
    sys.stdout.flush()
    return figure
