"""Waiting operations: completed exactly once, and gone without a trace."""

from __future__ import annotations

import random

from pylog_broker.delayed.purgatory import DelayedOperation, Purgatory


class Countdown(DelayedOperation[str]):
    """Satisfied when each of its keys was checked often enough."""

    def __init__(self, name: str, story: list[str], needed: int = 1) -> None:
        super().__init__()
        self.name = name
        self.story = story
        self.needed = needed

    def is_satisfied(self, key: str | None) -> bool:
        if key is not None:
            self.needed -= 1
        return self.needed <= 0

    def on_complete(self, expired: bool) -> None:
        self.story.append(f"{self.name} {'expired' if expired else 'completed'}")


class Faulty(Countdown):
    """Raises when asked."""

    def is_satisfied(self, key: str | None) -> bool:
        if key is None:
            return False
        raise ValueError(self.name)


class FaultyEnd(Countdown):
    """Raises when completed."""

    def on_complete(self, expired: bool) -> None:
        super().on_complete(expired)
        raise ValueError(self.name)


def make(story: list[str]) -> Purgatory[str]:
    def failed(operation: DelayedOperation[str], error: Exception) -> None:
        story.append(f"{error} failed")

    return Purgatory(0, failed)


def is_empty(purgatory: Purgatory[str]) -> bool:
    purgatory.advance(10**9)
    return (
        len(purgatory) == 0
        and purgatory.watched_keys == 0
        and purgatory.next_deadline is None
        and len(purgatory._wheel) == 0
    )


def test_completes_at_once_without_waiting() -> None:
    story: list[str] = []
    purgatory = make(story)
    assert purgatory.try_complete_else_watch(Countdown("a", story, 0), ["x"], 100)
    assert story == ["a completed"]
    assert is_empty(purgatory)


def test_a_check_of_one_key_completes_what_it_satisfies_and_removes_it_everywhere() -> None:
    story: list[str] = []
    purgatory = make(story)
    purgatory.try_complete_else_watch(Countdown("a", story), ["x", "y", "x"], 100)
    purgatory.try_complete_else_watch(Countdown("b", story, 2), ["y"], 100)
    assert purgatory.check("z") == 0
    assert purgatory.check("x") == 1
    assert story == ["a completed"]
    assert purgatory.watched_keys == 1
    assert purgatory.check("y") == 0
    assert purgatory.check("y") == 1
    assert story == ["a completed", "b completed"]
    assert is_empty(purgatory)


def test_expires_in_its_millisecond_and_only_once() -> None:
    story: list[str] = []
    purgatory = make(story)
    purgatory.watch(Countdown("a", story), ["x"], 100)
    assert purgatory.advance(99) == 0
    assert purgatory.advance(100) == 1
    assert purgatory.check("x") == 0
    assert story == ["a expired"]
    assert is_empty(purgatory)


def test_a_withdrawn_operation_is_not_completed() -> None:
    story: list[str] = []
    purgatory = make(story)
    operation = Countdown("a", story)
    purgatory.watch(operation, ["x"], 100)
    assert purgatory.withdraw(operation)
    assert not purgatory.withdraw(operation)
    assert not purgatory.complete(operation)
    assert purgatory.check("x") == 0
    assert story == []
    assert is_empty(purgatory)


def test_one_faulty_operation_does_not_keep_the_others_waiting() -> None:
    """B-W3."""
    story: list[str] = []
    purgatory = make(story)
    purgatory.watch(Countdown("a", story), ["x"], 100)
    purgatory.watch(Faulty("f", story), ["x", "y"], 100)
    purgatory.watch(FaultyEnd("g", story), ["x"], 100)
    purgatory.watch(Countdown("b", story), ["x"], 100)
    purgatory.check("x")
    assert story == ["a completed", "f failed", "g completed", "g failed", "b completed"]
    assert is_empty(purgatory)


def test_every_operation_ends_exactly_once_whatever_happens() -> None:
    rng = random.Random(7)
    story: list[str] = []
    purgatory = make(story)
    keys = [f"k{number}" for number in range(20)]
    withdrawn: set[str] = set()
    alive: list[Countdown] = []
    now = 0
    for number in range(5_000):
        operation = Countdown(str(number), story, rng.randrange(0, 4))
        wanted = rng.sample(keys, rng.randrange(1, 4))
        if not purgatory.try_complete_else_watch(operation, wanted, now + rng.randrange(0, 300)):
            alive.append(operation)
        for _ in range(rng.randrange(3)):
            purgatory.check(rng.choice(keys))
        if alive and rng.random() < 0.1:
            victim = alive.pop(rng.randrange(len(alive)))
            if purgatory.withdraw(victim):
                withdrawn.add(victim.name)
        now += rng.randrange(0, 20)
        purgatory.advance(now)
    assert is_empty(purgatory)
    ended = [line.split()[0] for line in story]
    assert len(ended) == len(set(ended))
    assert set(ended) | withdrawn == {str(number) for number in range(5_000)}
    assert not set(ended) & withdrawn


def test_memory_is_flat_over_many_waits_on_keys_that_nobody_checks() -> None:
    """B-W1: completed by one key, each operation leaves its other keys too."""
    story: list[str] = []
    purgatory = make(story)
    for number in range(20_000):
        purgatory.watch(Countdown("a", story), ["busy", f"idle {number % 1_000}"], number + 500)
        purgatory.check("busy")
    assert len(purgatory) == 0
    assert purgatory.watched_keys == 0
    assert len(purgatory._wheel._slots) < 100
