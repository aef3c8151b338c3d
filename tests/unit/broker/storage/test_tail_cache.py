"""The newest batches in memory: the same answers as the log, within two bounds."""

from __future__ import annotations

from pylog_broker.storage.tail_cache import TailBudget, TailCache


def filled(count: int, *, limit: int = 10_000, budget: TailBudget | None = None) -> TailCache:
    """Batches of 2 records and 10 bytes: batch n holds offsets 2n and 2n+1."""
    tail = TailCache(limit, budget or TailBudget(1 << 20))
    for number in range(count):
        tail.add(2 * number, 2 * number + 1, b"%05d" % number, memoryview(b"rest."))
    return tail


def test_read() -> None:
    tail = filled(5)
    assert tail.read(3, 25, upper_bound=10, min_one=True) == (b"00001rest.00002rest.", 2, 6)
    assert tail.read(3, 1, upper_bound=10, min_one=True) == (b"00001rest.", 2, 4)
    assert tail.read(3, 1, upper_bound=10, min_one=False) == (b"", 3, 3)
    assert tail.read(3, 99, upper_bound=4, min_one=True) == (b"00001rest.", 2, 4)
    assert tail.read(2, 99, upper_bound=3, min_one=True) == (b"", 2, 2)
    assert tail.bytes_between(3, 10) == 40
    assert tail.bytes_between(3, 6) == 20
    assert tail.bytes_between(9, 9) == 0


def test_its_own_bound() -> None:
    tail = filled(5000, limit=30)
    assert (len(tail), tail.bytes_used, tail.first_offset) == (3, 30, 9994)
    assert tail.read(9993, 99, upper_bound=10_000, min_one=True) is None
    assert tail.bytes_between(9993, 10_000) is None
    found = tail.read(9995, 99, upper_bound=10_000, min_one=True)
    assert found is not None
    assert (found.first_offset, found.next_offset) == (9994, 10_000)


def test_the_common_bound_takes_from_the_longest_unused() -> None:
    budget = TailBudget(100)
    old, new = filled(6, budget=budget), filled(6, budget=budget)
    assert (old.bytes_used, new.bytes_used, budget.bytes_used) == (40, 60, 100)
    for number in range(6, 20):
        new.add(2 * number, 2 * number + 1, b"%05d" % number, b"rest.")
    assert (old.bytes_used, new.bytes_used, budget.bytes_used) == (0, 100, 100)
    new.clear()
    assert budget.bytes_used == 0
    assert new.first_offset is None


def test_a_batch_larger_than_the_bound_is_not_kept() -> None:
    tail = filled(3, limit=25)
    tail.add(6, 6, b"x" * 26, b"")
    assert len(tail) == 0
    assert tail.read(6, 99, upper_bound=7, min_one=True) is None


def test_truncate() -> None:
    budget = TailBudget(1000)
    tail = filled(5, budget=budget)
    tail.truncate(7)
    assert (len(tail), tail.bytes_used, budget.bytes_used) == (3, 30, 30)
    tail.add(6, 8, b"other", b"")
    assert tail.read(6, 99, upper_bound=9, min_one=True) == (b"other", 6, 9)
    tail.truncate(0)
    assert (len(tail), budget.bytes_used) == (0, 0)


def test_zero_means_nothing_is_kept() -> None:
    assert len(filled(3, limit=0)) == 0
