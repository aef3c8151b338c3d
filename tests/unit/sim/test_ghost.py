"""What the ghost state allows a cleaner."""

from __future__ import annotations

import pytest

from pylog.model import BrokerId, TopicId
from tests.sim.contents import Contents, Original
from tests.sim.ghost import Batch, PartitionGhost, SequenceBook, Violation

DAY_MS = 24 * 3_600_000


def with_a_tombstone() -> PartitionGhost:
    """Of the offset 0, committed at 1,000 ms, to be kept for 500 ms."""
    contents = Contents()
    key = (TopicId("t"), 0)
    ghost = PartitionGhost(key, contents)
    ghost.delete_retention_ms = 500
    contents.sent(7, Original(key, (b"k",), (None,), (0,)))
    batch = Batch(0, 0, 0, 7, -1, -1, -1)
    ghost.committed.append(batch)
    ghost._bases.append(0)
    ghost._note_keys(batch, 1_000)
    return ghost


def test_a_tombstone_stays_for_its_time() -> None:
    ghost = with_a_tombstone()
    assert ghost.why_not_gone(0, 1_499) == "it deletes key b'k', and was committed 499 ms ago"
    assert ghost.why_not_gone(0, 1_500) is None


def test_a_cleaner_may_believe_a_clock_that_is_ahead() -> None:
    ghost = with_a_tombstone()
    ghost.cleaned_by(1_100 + DAY_MS, DAY_MS)
    assert ghost.why_not_gone(0, 1_100) is None


def test_a_clock_that_is_behind_dates_a_tombstone_too_early() -> None:
    ghost = with_a_tombstone()
    ghost.cleaned_by(1_100, -300)
    assert ghost.why_not_gone(0, 1_199) is not None
    assert ghost.why_not_gone(0, 1_200) is None


def numbered(base: int, sequence: int, *, producer: int = 5) -> Batch:
    return Batch(base, base, 0, base, producer, 0, sequence)


def test_a_producer_of_which_nothing_is_committed_begins_with_0() -> None:
    for deleted_to in (0, 100):
        with pytest.raises(Violation, match="sequence 1 instead of 0"):
            SequenceBook().add(numbered(0, 1), deleted_to)


def test_a_producer_whose_records_are_deleted_may_go_on_anywhere() -> None:
    book = SequenceBook()
    book.add(numbered(0, 0), 0)
    with pytest.raises(Violation, match="sequence 3 instead of 1"):
        book.add(numbered(1, 3), 0)
    book.add(numbered(1, 3), 1)
    assert book.forgotten == {5}


def test_after_an_unclean_election_only_what_the_leader_has_counts() -> None:
    contents = Contents()
    ghost = PartitionGhost((TopicId("t"), 0), contents)
    for offset in range(3):
        contents.sent(offset, Original(ghost.key, (b"k",), (b"v",), (0,)))
    batches = [numbered(offset, offset) for offset in range(3)]
    one, two = BrokerId(1), BrokerId(2)
    ghost.grow(one, batches)
    ghost.grow(two, batches[:1])
    ghost._commit(one, ghost.shadow(one), 3, 0)
    assert ghost.led_uncleanly(two, 7)
    assert (ghost.committed, ghost.committed_end, ghost.is_lossy) == (batches[:1], 1, True)
