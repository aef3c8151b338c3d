"""The events that a client keeps until its program polls: delivery reports, errors."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from pylog.clock import SYSTEM_CLOCK


class Events:
    """Calls that wait for a poll. Thread safe: one lock for the queue and for what is counted."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._calls: deque[tuple[bool, Callable[[], Any]]] = deque()

    def put(self, call: Callable[[], Any], *, counts: bool = False) -> None:
        """Have a poll make this call; `counts`: it is about a message."""
        with self.changed:
            self._calls.append((counts, call))
            self.changed.notify_all()

    def messages(self) -> int:
        """The number of waiting calls that are about messages."""
        return sum(counts for counts, _ in self._calls)

    def wait(self, until: Callable[[], bool], timeout_s: float) -> bool:
        """Return when there is a call, or `until()` holds; False after `timeout_s` seconds."""
        with self.changed:
            limit = None if timeout_s == float("inf") else timeout_s
            return self.changed.wait_for(lambda: bool(self._calls) or until(), limit)

    def serve(self) -> int:
        """Make the calls that wait; the number of them. An error of one is raised, and the others
        wait for the next poll.
        """
        served = 0
        while True:
            with self.changed:
                if not self._calls:
                    return served
                _, call = self._calls.popleft()
            served += 1
            call()


class Deadline:
    """A moment; a timeout below 0, or none, never comes."""

    def __init__(self, timeout: float | None) -> None:
        ever = timeout is None or timeout < 0
        self._at_s = float("inf") if ever else _now_s() + float(timeout or 0)

    def left_s(self) -> float:
        """Seconds that are left."""
        return max(self._at_s - _now_s(), 0.0)

    def has_passed(self) -> bool:
        """Whether none is left."""
        return self._at_s <= _now_s()


def _now_s() -> float:
    return SYSTEM_CLOCK.monotonic_ms() / 1000
