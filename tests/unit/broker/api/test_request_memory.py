"""Connections that read on when a broker's memory for requests is used up, and those closed for
it."""

from __future__ import annotations

import random

from pylog import errors
from pylog_broker.api.request_memory import (
    LOOKS_ABOVE_LIMIT_MAX,
    LOOKS_FOR_ANSWERS_MAX,
    LOOKS_WITHOUT_PROGRESS_MAX,
    SMALL_BYTES,
    RequestMemory,
)

LARGE = 10 * SMALL_BYTES


class Reader:
    """A connection that asks for more whenever it may."""

    def __init__(self, memory: RequestMemory, *, goes_on: bool = True) -> None:
        self.memory = memory
        self.goes_on = goes_on
        self.held = 0
        self.wants = 0
        self.resumed = 0

    def ask(self, more: int) -> bool:
        self.wants = more
        if not self.memory.may_take(self, more):
            return False
        if more > SMALL_BYTES:
            self.held += more
            self.memory.hold(self, self.held)
        return True

    def whole(self) -> None:
        """The request is handed over, and answered at once."""
        self.held = 0
        self.memory.hold(self, 0)

    def resume(self) -> None:
        self.resumed += 1
        self.ask(self.wants)

    def could_go_on(self) -> bool:
        return self.goes_on

    def refuse(self, fault: errors.PylogError) -> None:
        raise AssertionError


def test_below_the_limit_everybody_reads() -> None:
    memory = RequestMemory(2 * LARGE)
    assert Reader(memory).ask(LARGE)
    assert Reader(memory).ask(LARGE)
    assert (memory.used, memory.is_full, memory.waiting) == (2 * LARGE, True, 0)


def test_batches_in_flight_count_and_make_room_when_they_are_answered() -> None:
    memory = RequestMemory(2 * LARGE)
    memory.handed_over(2 * LARGE)
    first, second = Reader(memory), Reader(memory)
    assert not first.ask(LARGE)
    assert not second.ask(LARGE)
    memory.answered(LARGE)
    assert (first.held, second.held, memory.waiting) == (LARGE, 0, 1)
    memory.answered(LARGE)
    assert (second.held, memory.used, memory.waiting) == (LARGE, 2 * LARGE, 0)


def test_where_only_half_requests_are_left_one_goes_ahead_of_the_limit() -> None:
    memory = RequestMemory(2 * LARGE)
    first, second = Reader(memory), Reader(memory)
    assert first.ask(LARGE)
    assert second.ask(LARGE)
    assert first.ask(LARGE)
    assert not second.ask(LARGE)
    assert first.ask(LARGE)  # until it is whole
    assert memory.used == 4 * LARGE
    first.whole()
    assert (second.held, memory.waiting, memory.used) == (2 * LARGE, 0, 2 * LARGE)


def test_nobody_goes_ahead_while_answers_may_make_room() -> None:
    memory = RequestMemory(2 * LARGE)
    memory.handed_over(LARGE)
    reader = Reader(memory)
    assert reader.ask(LARGE)
    assert not reader.ask(LARGE)
    memory.answered(LARGE)
    assert reader.held == 2 * LARGE


def test_after_a_look_one_goes_ahead_though_little_is_in_flight() -> None:
    memory = RequestMemory(4 * LARGE)
    memory.handed_over(LARGE)
    reader = Reader(memory)
    assert reader.ask(3 * LARGE)
    assert not reader.ask(LARGE)
    assert memory.look() == []
    assert reader.held == 4 * LARGE


def test_where_much_is_in_flight_a_large_request_waits_for_answers_but_not_for_ever() -> None:
    memory = RequestMemory(2 * LARGE)
    memory.handed_over(2 * LARGE)
    reader = Reader(memory)
    assert not reader.ask(LARGE)
    for _ in range(LOOKS_FOR_ANSWERS_MAX):
        assert memory.look() == []
    assert reader.held == 0
    assert memory.look() == []
    assert reader.held == LARGE


def test_small_requests_are_read_at_each_look() -> None:
    memory = RequestMemory(LARGE)
    Reader(memory).ask(LARGE)
    small = Reader(memory)
    assert not small.ask(SMALL_BYTES)
    assert memory.look() == []
    assert small.resumed == 1
    assert memory.waiting == 1  # it asked again


def test_who_goes_ahead_and_is_not_done_in_time_is_closed() -> None:
    memory = RequestMemory(LARGE)
    slow, other = Reader(memory), Reader(memory)
    slow.ask(LARGE)
    assert slow.ask(LARGE)
    assert not other.ask(LARGE)
    for _ in range(LOOKS_ABOVE_LIMIT_MAX - 1):
        assert memory.look() == []
    assert memory.look() == [slow]
    memory.forget(slow)
    assert (other.held, memory.used) == (LARGE, LARGE)


def test_a_request_that_is_whole_and_waits_lets_the_next_go_ahead() -> None:
    memory = RequestMemory(LARGE)
    waits, other = Reader(memory), Reader(memory)
    waits.ask(LARGE)
    assert waits.ask(LARGE)
    assert not other.ask(LARGE)
    memory.came_whole(waits)
    for _ in range(LOOKS_ABOVE_LIMIT_MAX - 1):
        assert memory.look() == []
    assert other.held == LARGE


def test_who_holds_memory_and_does_not_go_on_is_closed_when_others_wait() -> None:
    memory = RequestMemory(3 * LARGE)
    still, moving = Reader(memory, goes_on=False), Reader(memory)
    still.ask(2 * LARGE)
    for _ in range(2 * LOOKS_WITHOUT_PROGRESS_MAX):
        assert memory.look() == []  # nobody waits
    moving.ask(LARGE)
    memory.handed_over(1)
    assert not moving.ask(LARGE)
    memory._ahead = still  # as if it were its turn
    for _ in range(LOOKS_WITHOUT_PROGRESS_MAX - 1):
        assert memory.look() == []
    assert memory.look() == [still]


def test_many_half_requests_that_stand_still_are_closed_together() -> None:
    memory = RequestMemory(100 * LARGE)
    stuck = [Reader(memory, goes_on=False) for _ in range(100)]
    for reader in stuck:
        assert reader.ask(LARGE)
    newcomer = Reader(memory)
    assert newcomer.ask(LARGE)  # it goes ahead
    waiting = Reader(memory)
    assert not waiting.ask(LARGE)
    closed = [memory.look() for _ in range(LOOKS_WITHOUT_PROGRESS_MAX)]
    assert closed == [[]] * (LOOKS_WITHOUT_PROGRESS_MAX - 1) + [stuck]
    for reader in stuck:
        memory.forget(reader)
    assert waiting.held == LARGE


def test_everybody_is_done_in_the_end_and_the_limit_holds() -> None:
    """Readers of random sizes, in random order: nobody waits for ever, and above the limit there
    is one request at most.
    """
    for seed in range(50):
        rng = random.Random(seed)
        memory = RequestMemory(20 * LARGE)
        left = {Reader(memory): rng.randrange(1, 8) for _ in range(30)}
        most = 0
        for _ in range(5_000):
            if not left:
                break
            reader = rng.choice(list(left))
            if reader in memory._waiting:
                continue
            if reader.held >= left[reader] * LARGE:
                reader.whole()
                del left[reader]
            else:
                reader.ask(LARGE)
            most = max(most, memory.used)
            assert memory.receiving == sum(memory._held.values())
        assert not left, seed
        assert (memory.used, memory.waiting) == (0, 0)
        assert most <= memory.bytes_max + 8 * LARGE
