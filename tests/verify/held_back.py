"""How long readers of committed records wait for a transaction that its query has left open.

A partition is held back from the moment on at which its last stable offset stands below its high
watermark, until that offset moves. A new run of the query has to end what the runs before it left
open: the time that counts begins when the first run after that moment has started.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final, NamedTuple

from pylog import Consumer, TopicPartition, errors
from pylog.clock import SYSTEM_CLOCK

LOOK_S: Final = 0.2


class Ends(NamedTuple):
    """A partition's offsets at one moment."""

    last_stable: int
    high_watermark: int


class _Held(NamedTuple):
    last_stable: int
    since_ms: int


class HeldBack:
    """Judges what was seen. Pure: times are given, and do not go back."""

    def __init__(self) -> None:
        self.longest_ms = 0
        """The longest time that a partition was held back after a new run had started."""
        self.longest_of_all_ms = 0
        """The same with the time until that run had started."""
        self._held: dict[TopicPartition, _Held] = {}
        self._starts_ms: list[int] = []

    def started(self, now_ms: int) -> None:
        """A run of the query has started."""
        self._starts_ms.append(now_ms)

    def seen(self, now_ms: int, ends: Mapping[TopicPartition, Ends]) -> None:
        """The offsets of partitions, as their leaders tell them."""
        for tp, (last_stable, high_watermark) in ends.items():
            held = self._held.get(tp)
            if held is not None and held.last_stable == last_stable < high_watermark:
                self._count(now_ms, held)
            elif last_stable < high_watermark:
                self._held[tp] = _Held(last_stable, now_ms)
            else:
                self._held.pop(tp, None)

    def _count(self, now_ms: int, held: _Held) -> None:
        self.longest_of_all_ms = max(self.longest_of_all_ms, now_ms - held.since_ms)
        later = [start for start in self._starts_ms if start >= held.since_ms]
        if later:
            self.longest_ms = max(self.longest_ms, now_ms - later[0])


class HeldBackWatch:
    """Looks at the partitions of a topic all the time, until it is closed."""

    def __init__(self, bootstrap: str, partitions: list[TopicPartition]) -> None:
        self.lock = threading.Lock()
        self.judge = HeldBack()
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def started(self) -> None:
        """A run of the query has started."""
        with self.lock:
            self.judge.started(SYSTEM_CLOCK.monotonic_ms())

    def _run(self) -> None:
        kinds = ("read_committed", "read_uncommitted")
        stable, written = (
            Consumer(
                bootstrap_servers=self._bootstrap,
                isolation_level=kind,
                default_api_timeout_ms=5_000,
            )
            for kind in kinds
        )
        with stable, written:
            while not self._ends.wait(LOOK_S):
                try:  # the stable offsets first: what is written in between is no hold
                    last_stable = stable.end_offsets(*self._partitions)
                    ends = written.end_offsets(*self._partitions)
                except errors.PylogError:
                    continue  # a leader is away
                with self.lock:
                    self.judge.seen(
                        SYSTEM_CLOCK.monotonic_ms(),
                        {tp: Ends(last_stable[tp], ends[tp]) for tp in self._partitions},
                    )

    def close(self) -> None:
        """Look no more."""
        self._ends.set()
        self._thread.join()
