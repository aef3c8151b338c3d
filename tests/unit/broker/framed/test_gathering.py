"""Calls that may wait for others: few begin at once, many begin together, and none is overtaken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pylog_broker.framed.gathering import ALONE_MAX, SPAN_SECONDS, TOGETHER_MAX, Gathering


class Begun:
    """Calls by number, in the order in which they began."""

    def __init__(self) -> None:
        self.gathering = Gathering()
        self.numbers: list[int] = []
        self.last = asyncio.Event()

    def add(self, *numbers: int, at: float) -> None:
        for number in numbers:
            self.gathering.add(lambda number=number: self._begin(number), at)  # type: ignore[misc]

    def are_many(self) -> None:
        """Calls enough that those of the span from 1.0 on wait."""
        self.add(*range(-ALONE_MAX, 1), at=1.0 - SPAN_SECONDS)
        assert self.numbers == [*range(-ALONE_MAX, 1)]
        self.numbers.clear()
        self.last.clear()

    def _begin(self, number: int) -> None:
        self.numbers.append(number)
        self.last.set()


def scene(play: Callable[[Begun], Awaitable[None]]) -> None:
    async def test() -> None:
        await play(Begun())

    asyncio.run(test())


def test_few_calls_of_a_span_make_nobody_wait() -> None:
    async def play(begun: Begun) -> None:
        for turn in range(10):
            begun.add(*range(ALONE_MAX), at=1.0 + turn * 1.1 * SPAN_SECONDS)
        assert begun.numbers == [*range(ALONE_MAX)] * 10

    scene(play)


def test_many_of_the_span_before_make_the_next_ones_wait_for_its_end() -> None:
    async def play(begun: Begun) -> None:
        begun.are_many()
        begun.add(1, at=1.0)
        begun.add(2, at=1.0 + SPAN_SECONDS / 2)
        assert begun.numbers == []
        await asyncio.wait_for(begun.last.wait(), 10)
        assert begun.numbers == [1, 2]

    scene(play)


def test_after_a_quiet_span_a_call_begins_at_once() -> None:
    async def play(begun: Begun) -> None:
        begun.are_many()
        begun.add(1, at=1.0 + SPAN_SECONDS)
        assert begun.numbers == [1]

    scene(play)


def test_a_call_of_a_later_span_does_not_overtake_those_whose_timer_is_late() -> None:
    async def play(begun: Begun) -> None:
        begun.are_many()
        begun.add(1, at=1.0)
        begun.add(2, at=1.0 + SPAN_SECONDS)
        assert begun.numbers == [1, 2]

    scene(play)


def test_the_first_call_that_does_not_wait_takes_the_others_along() -> None:
    async def play(begun: Begun) -> None:
        begun.are_many()
        begun.add(1, 2, at=1.0)
        begun.gathering.begin_all()
        assert begun.numbers == [1, 2]
        begun.gathering.begin_all()
        assert begun.numbers == [1, 2]

    scene(play)


def test_a_large_number_waits_no_longer() -> None:
    async def play(begun: Begun) -> None:
        begun.are_many()
        begun.add(*range(TOGETHER_MAX - 1), at=1.0)
        assert begun.numbers == []
        begun.add(TOGETHER_MAX - 1, at=1.0)
        assert begun.numbers == [*range(TOGETHER_MAX)]
        begun.add(TOGETHER_MAX, at=1.0)
        assert begun.numbers == [*range(TOGETHER_MAX)]

    scene(play)


def test_a_call_that_begins_may_add_another() -> None:
    async def play(begun: Begun) -> None:
        begun.are_many()
        begun.gathering.add(lambda: begun.add(7, at=1.0), 1.0)
        begun.gathering.begin_all()
        assert begun.numbers == []
        begun.gathering.begin_all()
        assert begun.numbers == [7]

    scene(play)


@pytest.mark.parametrize("count", [0, 3])
def test_what_is_closed_begins_nothing(count: int) -> None:
    async def play(begun: Begun) -> None:
        begun.are_many()
        begun.add(*range(count), at=1.0)
        begun.gathering.close()
        begun.gathering.begin_all()
        assert begun.numbers == []

    scene(play)
