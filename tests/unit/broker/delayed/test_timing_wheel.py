"""The timing wheel against a sorted list."""

from __future__ import annotations

import random

import pytest

from pylog_broker.delayed.timing_wheel import TimerEntry, TimingWheel


class SortedTwin:
    """The duties of a wheel, done slowly."""

    def __init__(self, now_ms: int) -> None:
        self.waiting: list[tuple[int, int]] = []

    def add(self, deadline_ms: int, item: int) -> None:
        self.waiting.append((deadline_ms, item))

    def cancel(self, item: int) -> None:
        self.waiting = [entry for entry in self.waiting if entry[1] != item]

    def advance(self, now_ms: int) -> list[int]:
        due = sorted((entry for entry in self.waiting if entry[0] <= now_ms), key=lambda e: e[0])
        self.waiting = [entry for entry in self.waiting if entry[0] > now_ms]
        return [item for _, item in due]


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_a_sorted_list(seed: int) -> None:
    rng = random.Random(seed)
    now = rng.choice([0, 1, 63, 64, 4_095, 10**12])
    wheel: TimingWheel[int] = TimingWheel(now)
    twin = SortedTwin(now)
    entries: dict[int, TimerEntry[int]] = {}
    for item in range(400):
        for _ in range(rng.randrange(3)):
            deadline = now + rng.choice([-5, 0, 1, 63, 64, 65, 500, 4_096, 300_000, 10**9])
            deadline += rng.randrange(0, 70)
            key = item * 10 + len(entries)
            entries[key] = wheel.add(deadline, key)
            twin.add(deadline, key)
        if entries and rng.random() < 0.3:
            key = rng.choice(list(entries))
            was_waiting = any(entry[1] == key for entry in twin.waiting)
            assert entries.pop(key).cancel() is was_waiting
            twin.cancel(key)
        assert len(wheel) == len(twin.waiting)
        earliest = min((entry[0] for entry in twin.waiting), default=None)
        if earliest is None:
            assert wheel.next_deadline is None
        else:
            assert wheel.next_deadline is not None
            assert wheel.next_deadline <= max(earliest, now)
        now += rng.choice([0, 1, 1, 3, 64, 700, 5_000])
        assert wheel.advance(now) == twin.advance(now)


def test_never_early_and_in_its_own_millisecond() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.add(700, "x")
    calls = 0
    while True:
        at = wheel.next_deadline
        assert at is not None
        calls += 1
        expired = wheel.advance(at)
        if expired:
            break
    assert (at, expired, calls) == (700, ["x"], 2)


def test_what_is_due_already_expires_at_the_next_advance() -> None:
    wheel: TimingWheel[str] = TimingWheel(1_000)
    wheel.add(5, "late")
    wheel.add(1_000, "now")
    assert wheel.next_deadline == 1_000
    assert wheel.advance(1_000) == ["late", "now"]


def test_a_time_that_goes_back_changes_nothing() -> None:
    wheel: TimingWheel[str] = TimingWheel(1_000)
    entry = wheel.add(1_001, "x")
    assert wheel.advance(500) == []
    assert entry.pending
    assert wheel.advance(1_001) == ["x"]
    assert not entry.pending
    assert not entry.cancel()


def test_equal_deadlines_expire_in_the_order_of_adding_even_across_levels() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.add(100, "early bird")
    wheel.advance(70)
    wheel.add(100, "latecomer")
    assert wheel.advance(100) == ["early bird", "latecomer"]


def test_cancelled_entries_leave_nothing_behind() -> None:
    wheel: TimingWheel[int] = TimingWheel(0)
    for item in range(100_000):
        wheel.add(item + 500, item).cancel()
        if item % 100 == 0:
            wheel.advance(item)
    assert len(wheel) == 0
    assert wheel.next_deadline is None
    assert wheel._slots == {}
    assert wheel._starts == []
