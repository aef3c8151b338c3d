"""What the ghost state allows a cleaner."""

from __future__ import annotations

from pylog.model import TopicId
from tests.sim.contents import Contents, Original
from tests.sim.ghost import Batch, PartitionGhost

DAY_MS = 24 * 3_600_000


def with_a_tombstone() -> PartitionGhost:
    """Of the offset 0, committed at 1,000 ms, to be kept for 500 ms."""
    contents = Contents()
    key = (TopicId("t"), 0)
    ghost = PartitionGhost(key, contents)
    ghost.delete_retention_ms = 500
    contents.sent(7, Original(key, (b"k",), (None,), 0))
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
