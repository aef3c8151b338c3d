"""Simulated time: one heap of events, random sub-streams, and the trace of what happened.

Everything in a run follows from one integer seed. Ties in time are broken by a counter, random
numbers come from named sub-streams (a new kind of fault does not shift the others), and the trace
is hashed, so that two runs can be compared cheaply.
"""

from __future__ import annotations

import heapq
import random
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.sim.histories import Histories

US_PER_MS = 1_000
US_PER_S = 1_000_000


class Trace:
    """The newest events for a failure report, and a running hash of all of them."""

    def __init__(self, keep: int = 200, echo: Callable[[str], None] | None = None) -> None:
        self._events: deque[tuple[int, str, tuple[object, ...]]] = deque(maxlen=keep)
        self._echo = echo
        self.hash = 0
        self.count = 0

    def add(self, now_us: int, kind: str, fields: tuple[object, ...]) -> None:
        """Note one event; `fields` must print the same in every run."""
        self._events.append((now_us, kind, fields))
        self.count += 1
        self.hash = zlib.crc32(f"{now_us} {kind} {fields!r}".encode(), self.hash)
        if self._echo is not None:
            self._echo(_line(now_us, kind, fields))

    def lines(self) -> list[str]:
        """The newest events, oldest first."""
        return [_line(*event) for event in self._events]


def _line(now_us: int, kind: str, fields: tuple[object, ...]) -> str:
    words = " ".join(str(field) for field in fields)
    return f"{now_us / US_PER_S:10.6f} {kind:<12} {words}"


class Scheduler:
    """Runs callbacks in order of simulated time."""

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.seed = seed
        self.now_us = 0
        self.events = 0
        self.trace = trace if trace is not None else Trace()
        self.histories = Histories()
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._counter = 0
        self.is_closed = False
        self.unstarted: dict[object, Callable[[], None]] = {}
        """Functions that close coroutines that have not begun; Python warns of those that never
        do."""

    def close(self) -> None:
        """The run is over, and what has not begun will not."""
        self.is_closed = True
        for close in self.unstarted.values():
            close()
        self.unstarted.clear()

    def rng(self, name: str) -> random.Random:
        """A generator of its own for `name`; strings are seeded by SHA-512, not by hash()."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, time_us: int, fn: Callable[..., None], *args: Any) -> None:
        """Call `fn(*args)` at `time_us`, or now if that has passed."""
        self._counter += 1
        heapq.heappush(self._heap, (max(time_us, self.now_us), self._counter, fn, args))

    def after(self, delay_us: int, fn: Callable[..., None], *args: Any) -> None:
        """Call `fn(*args)` `delay_us` from now."""
        self.at(self.now_us + delay_us, fn, *args)

    def note(self, kind: str, *fields: object) -> None:
        """Add to the trace."""
        self.trace.add(self.now_us, kind, fields)

    def told(self, name: str, what: str, value: object) -> None:
        """The core of the process `name` was told something, or wants it done: for a report."""
        self.histories.add(self.now_us, name, what, value)

    def step(self) -> bool:
        """Run the next event; False when there is none."""
        if not self._heap:
            return False
        self.now_us, _, fn, args = heapq.heappop(self._heap)
        self.events += 1
        fn(*args)
        return True

    def run_until(self, time_us: int) -> None:
        """Run all events up to and including `time_us`."""
        while self._heap and self._heap[0][0] <= time_us:
            self.step()
        self.now_us = max(self.now_us, time_us)
