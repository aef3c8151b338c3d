"""Waiting in tests for what other processes and threads do."""

from __future__ import annotations

from collections.abc import Callable

from pylog.clock import SYSTEM_CLOCK

LOOK_S = 0.02


def eventually(seconds: float, condition: Callable[[], bool], what: str) -> float:
    """Milliseconds until `condition` holds; AssertionError that says `what` when it takes longer.

    Where nothing is promised about time, give it so much that a busy machine makes no difference.
    """
    begin_ms = SYSTEM_CLOCK.monotonic_ms()
    while not condition():
        waited_ms = SYSTEM_CLOCK.monotonic_ms() - begin_ms
        assert waited_ms < seconds * 1000, f"not within {seconds} s: {what}"
        SYSTEM_CLOCK.sleep(LOOK_S)
    return SYSTEM_CLOCK.monotonic_ms() - begin_ms
