"""The twin of a partition's transactions."""

from __future__ import annotations

import pytest

from pylog.model import TopicId
from tests.sim.contents import Marker
from tests.sim.partition_transactions import (
    ABORTED,
    COMMITTED,
    MARKER,
    OPEN,
    Begun,
    Ended,
    PartitionTransactions,
)
from tests.sim.violation import Violation

COMMIT, ABORT = Marker(True, 3), Marker(False, 3)


def _transactions() -> PartitionTransactions:
    return PartitionTransactions((TopicId("id"), 0))


def test_records_are_open_until_the_marker() -> None:
    found = _transactions()
    found.add(5, 6, 1, 0, None)
    assert [found.status(offset) for offset in (4, 5, 6, 7)] == ["", OPEN, OPEN, ""]
    assert found.open == [Begun(1, 0, 5)]
    found.add(7, 7, 1, 1, COMMIT)
    assert [found.status(offset) for offset in (5, 6, 7)] == [COMMITTED, COMMITTED, MARKER]
    assert found.open == []
    assert found.ended == [Ended(Begun(1, 0, 5), 7, True)]


def test_readers_see_what_is_committed() -> None:
    found = _transactions()
    found.add(0, 0, 1, 0, None)
    found.add(1, 1, 2, 0, None)
    found.add(2, 2, 1, 1, ABORT)
    found.add(3, 3, 2, 1, COMMIT)
    hidden = [found.is_hidden(offset, read_committed=True) for offset in range(4)]
    assert hidden == [True, False, True, True]
    hidden = [found.is_hidden(offset, read_committed=False) for offset in range(4)]
    assert hidden == [False, False, True, True]
    assert found.status(0) == ABORTED


def test_stable_is_what_lies_before_the_oldest_open_transaction() -> None:
    found = _transactions()
    assert found.last_stable_offset(4) == 4
    found.add(4, 4, 1, 0, None)
    found.add(5, 5, 2, 0, None)
    assert found.last_stable_offset(4) == 4
    assert found.last_stable_offset(6) == 4
    found.add(6, 6, 1, 1, COMMIT)
    assert found.last_stable_offset(6) == 4  # the marker is not committed there
    assert found.last_stable_offset(7) == 5
    found.add(7, 7, 2, 1, ABORT)
    assert found.last_stable_offset(8) == 8


def test_the_next_transaction_has_the_epoch_of_the_marker() -> None:
    found = _transactions()
    found.add(0, 0, 1, 0, None)
    found.add(1, 1, 1, 1, COMMIT)
    found.add(2, 2, 1, 1, None)
    assert found.open == [Begun(1, 1, 2)]
    with pytest.raises(Violation, match="I12"):
        found.add(3, 3, 1, 1, COMMIT)  # it comes again


def test_a_marker_without_a_transaction_changes_nothing() -> None:
    found = _transactions()
    found.add(0, 0, 1, 4, ABORT)
    assert found.ended == []
    assert found.markers == [(1, 4, ABORT)]


@pytest.mark.parametrize("ends", [None, COMMIT])
def test_nothing_of_an_epoch_comes_behind_a_later_one(ends: Marker | None) -> None:
    found = _transactions()
    found.add(0, 0, 1, 0, None)
    found.add(1, 1, 1, 1, ABORT)
    with pytest.raises(Violation, match="I12"):
        found.add(2, 2, 1, 0, ends)


def test_a_marker_of_a_later_epoch_than_the_next_ends_nothing() -> None:
    found = _transactions()
    found.add(0, 0, 1, 0, None)
    with pytest.raises(Violation, match="I12"):
        found.add(1, 1, 1, 2, COMMIT)
