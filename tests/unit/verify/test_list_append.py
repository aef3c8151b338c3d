"""The checker of transactions finds each anomaly, and none where there is none."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from tests.verify.list_append import Outcome, Transaction, check, count_g0

FINAL = {"a": [(0, 1), (2, 4), (4, 5)], "b": [(0, 2), (3, 6)]}


def history() -> list[Transaction]:
    """Transactions 0 and 3 of one process, 1 and 2 of another; 1 is aborted."""
    first = Transaction("p", Outcome.OK, [("a", 1), ("b", 2)], {1: 0, 2: 0})
    aborted = Transaction("q", Outcome.FAIL, [("b", 3)], {3: 1})
    second = Transaction("q", Outcome.OK, [("a", 4)], {4: 2}, {"a": [(0, 1)], "b": [(0, 2)]})
    third = Transaction("p", Outcome.INFO, [("a", 5), ("b", 6)], {5: 4}, {"a": [(0, 1), (2, 4)]})
    return [first, aborted, second, third]


def test_a_clean_history_is_clean() -> None:
    assert check(history(), FINAL) == {}
    assert count_g0(history(), FINAL) == 0


def lose(h: list[Transaction], f: dict[str, list[tuple[int, int]]]) -> None:
    f["a"].remove((2, 4))
    h[3].polled["a"].remove((2, 4))


MUTATIONS: dict[str, Callable[[list[Transaction], dict[str, list[tuple[int, int]]]], object]] = {
    "inconsistent-offset": lambda h, f: h[2].polled["a"].__setitem__(0, (0, 4)),
    "duplicate": lambda h, f: f["a"].append((7, 4)),
    "phantom": lambda h, f: f["a"].append((7, 77)),
    "misrouted": lambda h, f: f["b"].append((7, 5)),
    "G1a": lambda h, f: f["b"].insert(1, (1, 3)),
    "precommitted-read": lambda h, f: h[3].polled["a"].append((4, 5)),
    "lost-write": lose,
    "torn": lambda h, f: f["b"].remove((3, 6)),
    "G1c": lambda h, f: h[0].polled["a"].append((2, 4)),
    "nonmonotonic-poll": lambda h, f: h[3].polled["a"].append((0, 1)),
    "poll-skip": lambda h, f: h[3].polled["a"].remove((0, 1)),
    "nonmonotonic-send": lambda h, f: h[3].sent.insert(1, h[3].sent.pop(0)) or h[0].sent.append(
        ("a", 99)) or f["a"].append((9, 99)),
}  # fmt: skip


@pytest.mark.parametrize("anomaly", MUTATIONS)
def test_each_anomaly_is_found(anomaly: str) -> None:
    mutated, final = history(), copy.deepcopy(FINAL)
    MUTATIONS[anomaly](mutated, final)
    assert anomaly in check(mutated, final)


def test_writes_in_different_orders_are_counted_and_allowed() -> None:
    pair = [
        Transaction("p", Outcome.OK, [("a", 1), ("b", 2)]),
        Transaction("q", Outcome.OK, [("a", 3), ("b", 4)]),
    ]
    final = {"a": [(0, 1), (1, 3)], "b": [(0, 4), (1, 2)]}
    assert check(pair, final) == {}
    assert count_g0(pair, final) == 1


def test_a_long_chain_is_no_cycle() -> None:
    chain = [
        Transaction("p", Outcome.OK, [("a", n)], {}, {"a": [(n - 1, n - 1)]} if n else {})
        for n in range(5_000)
    ]
    final = {"a": [(n, n) for n in range(5_000)]}
    assert check(chain, final) == {}
