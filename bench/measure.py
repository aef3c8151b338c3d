"""Medians of several runs, printed as one table.

Absolute figures move with the machine; a row is worth something only beside the bare limit that was
measured in the same run.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
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
    return printed(name, unit, [run() for _ in range(runs)])


def alternating(
    unit: str, rows: Mapping[str, Callable[[], float]], *, runs: int = RUNS
) -> list[Figure]:
    """Rows that are to be compared, run in turns: what else the machine does meets all of them.
    Every second round is the other way round: what warms up with each run favours nobody.

    A first round warms up what is compiled and connected once in a process; it is told apart.
    """
    for name, run in rows.items():
        sys.stdout.write(f"first run: {name}: {_short(run())} {unit}\n")
    values: dict[str, list[float]] = {name: [] for name in rows}
    turns = list(rows.items())
    for _ in range(runs):
        for name, run in turns:
            values[name].append(run())
        turns.reverse()
    return [printed(name, unit, values[name]) for name in rows]


def printed(name: str, unit: str, values: list[float]) -> Figure:
    """Print the row of these runs, return it."""
    figure = Figure(name, unit, statistics.median(values), min(values), max(values))
    sys.stdout.write(f"{figure}\n")
    sys.stdout.flush()
    return figure
