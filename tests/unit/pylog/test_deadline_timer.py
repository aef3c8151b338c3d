"""The timer of a core: at its next deadline, or a little early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from pylog.deadline_timer import DeadlineTimer


class _Handle:
    def __init__(self, delay_s: float, fn: Callable[[], None]) -> None:
        self.delay_ms = delay_s * 1000
        self.fire = fn
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class _Loop:
    def __init__(self) -> None:
        self.handles: list[_Handle] = []

    def call_later(self, delay_s: float, fn: Callable[[], None]) -> Any:
        self.handles.append(_Handle(delay_s, fn))
        return self.handles[-1]

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)


def test_it_is_moved_to_an_earlier_deadline_and_to_no_later_one() -> None:
    loop, looks = _Loop(), list[int]()
    timer = DeadlineTimer(lambda: looks.append(1))
    timer.set(loop.as_loop, 1_000, None)
    assert loop.handles == []
    timer.set(loop.as_loop, 1_000, 1_050)
    timer.set(loop.as_loop, 1_010, 1_090)
    assert [handle.delay_ms for handle in loop.handles] == [50.5]
    timer.set(loop.as_loop, 1_020, 1_030)
    assert loop.handles[0].cancelled
    assert loop.handles[1].delay_ms == 10.5
    assert timer.is_due_by(1_030)
    assert not timer.is_due_by(1_029)
    loop.handles[1].fire()
    assert looks == [1]
    assert not timer.is_due_by(9_999)
    timer.set(loop.as_loop, 1_040, 1_035)  # it is late, and so as soon as can be
    assert loop.handles[2].delay_ms == 0.5
    timer.cancel()
    assert loop.handles[2].cancelled
    assert not timer.is_due_by(9_999)
