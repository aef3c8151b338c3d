"""The judge of how long a transaction that was left open holds readers back."""

from __future__ import annotations

from pylog import TopicPartition
from tests.verify.held_back import Ends, HeldBack

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_time_counts_from_the_first_run_after_the_hold_began() -> None:
    judge = HeldBack()
    judge.started(0)
    judge.seen(1_000, {A: Ends(5, 9), B: Ends(4, 4)})
    judge.seen(3_000, {A: Ends(5, 12), B: Ends(4, 4)})
    assert (judge.longest_ms, judge.longest_of_all_ms) == (0, 2_000)
    judge.started(4_000)
    judge.started(8_000)
    judge.seen(9_000, {A: Ends(5, 12), B: Ends(4, 4)})
    assert (judge.longest_ms, judge.longest_of_all_ms) == (5_000, 8_000)
    judge.seen(9_500, {A: Ends(12, 12), B: Ends(4, 4)})
    judge.seen(99_000, {A: Ends(12, 12), B: Ends(4, 4)})
    assert judge.longest_ms == 5_000


def test_an_offset_that_moves_holds_nobody_back() -> None:
    judge = HeldBack()
    for second in range(60):
        judge.started(second * 1_000)
        judge.seen(second * 1_000, {A: Ends(second, second + 10)})
    assert (judge.longest_ms, judge.longest_of_all_ms) == (0, 0)


def test_a_leader_that_is_away_ends_no_hold() -> None:
    judge = HeldBack()
    judge.seen(0, {A: Ends(5, 9)})
    judge.started(1_000)
    judge.seen(2_000, {B: Ends(1, 1)})
    judge.seen(31_000, {A: Ends(5, 9)})
    assert judge.longest_ms == 30_000
