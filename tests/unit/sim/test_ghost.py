"""The work that the ghost state allows a cleaner."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from pylog.model import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from pylog.records.batch import read_header
from pylog.records.builder import encode_batch
from pylog_broker.replication.partition_state import PartitionState
from tests.sim.contents import Contents, Original, fingerprint
from tests.sim.ghost import Batch, PartitionGhost, SequenceBook, Violation

DAY_MS = 24 * 3_600_000


def with_a_tombstone() -> PartitionGhost:
    """The ghost of a partition with a tombstone at the offset 0, committed at 1,000 ms, to be kept
    for 500 ms.
    """
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


@pytest.mark.parametrize(
    ("bases", "holes", "lacks"),
    [
        ((0, 1, 2), {}, False),
        ((0, 2), {}, True),
        ((0, 1, 2), {1: frozenset({1})}, True),
        ((2,), {}, False),
        ((0, 2), {0: frozenset({0})}, False),
        ((0, 1, 2, 3), {}, False),
        ((0, 3), {}, False),
    ],
)
def test_a_log_lacks_a_tombstone_when_it_has_what_that_deleted(
    bases: tuple[int, ...], holes: dict[int, frozenset[int]], lacks: bool
) -> None:
    """The records k, k deleted, x, and, where the replica has that, k anew."""
    contents = Contents()
    ghost = PartitionGhost((TopicId("t"), 0), contents)
    pairs = [(b"k", b"v"), (b"k", None), (b"x", b"v"), (b"k", b"w")]
    one = BrokerId(1)
    for offset, (key, value) in enumerate(pairs[: bases[-1] + 1]):
        contents.sent(offset, Original(ghost.key, (key,), (value,), (0,)))
        batch = Batch(offset, offset, 0, offset, -1, -1, -1)
        ghost.committed.append(batch)
        ghost._bases.append(offset)
        ghost._note_keys(batch, 1_000)
        if offset in bases:
            ghost.shadow(one).batches.append(batch)
    ghost.shadow(one).holes = holes
    assert ghost.lacks_tombstones(one) is lacks


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


@pytest.mark.parametrize("emptied", [False, True])
def test_after_an_unclean_election_only_what_the_leader_has_counts(emptied: bool) -> None:
    contents = Contents()
    ghost = PartitionGhost((TopicId("t"), 0), contents)
    for offset in range(3):
        contents.sent(offset, Original(ghost.key, (b"k",), (b"v",), (0,)))
    batches = [numbered(offset, offset) for offset in range(3)]
    one, two = BrokerId(1), BrokerId(2)
    ghost.grow(one, batches)
    ghost.grow(two, batches[:1])
    ghost._commit(one, ghost.shadow(one), 3, 0)
    assert ghost.led_uncleanly(two, 7, emptied=emptied) is not emptied
    assert ghost.committed == ([] if emptied else batches[:1])
    assert (ghost.committed_end, ghost.is_lossy) == (0 if emptied else 1, True)


def test_a_leader_that_retention_had_emptied_has_no_gap() -> None:
    """Before somebody had it elected."""
    ghost = PartitionGhost((TopicId("t"), 0), Contents())
    one = BrokerId(1)
    ghost.led_uncleanly(one, 7, emptied=False)
    ghost.replace(one, 17, [], 17)
    ghost.shadow(one).log_start = 17
    ghost._commit(one, ghost.shadow(one), 17, 0)
    assert (ghost.committed, ghost.committed_end) == ([], 17)
    with pytest.raises(Violation, match="hw 18 is not at the end of a batch"):
        ghost._commit(one, ghost.shadow(one), 18, 0)


def test_what_a_cleaner_took_above_the_mark_of_one_that_leads_uncleanly_is_not_committed() -> None:
    contents = Contents()
    ghost = PartitionGhost((TopicId("t"), 0), contents)
    ghost.may_compact = True
    contents.sent(20, Original(ghost.key, (b"k",), (b"v",), (0,)))
    one = BrokerId(1)
    ghost.led_uncleanly(one, 7, emptied=False)
    ghost.replace(one, 11, [numbered(20, 20)], 21)
    ghost.shadow(one).log_start = 11
    ghost._commit(one, ghost.shadow(one), 11, 0)
    assert (ghost.committed, ghost.committed_end) == ([], 11)
    ghost._commit(one, ghost.shadow(one), 21, 0)
    assert (len(ghost.committed), ghost.committed_end) == (1, 21)


def state(start: int, end: int) -> PartitionState:
    return PartitionState(
        TopicPartition("t", 0),
        TopicId("t"),
        leader=BrokerId(2),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        replicas=(BrokerId(1), BrokerId(2)),
        isr=(BrokerId(2),),
        log_start_offset=Offset(start),
        high_watermark=Offset(start),
        log_end_offset=Offset(end),
    )


@pytest.mark.parametrize(
    ("start", "end", "right"),
    [(0, 4, True), (0, 2, True), (0, 3, False), (0, 5, False), (9, 9, True)],
)
def test_files_that_wait_to_be_cut_begin_with_the_log_or_all_go(
    start: int, end: int, right: bool
) -> None:
    ghost = PartitionGhost((TopicId("t"), 0), Contents())
    ghost.grow(BrokerId(1), [Batch(0, 1, 0, 1, -1, -1, -1), Batch(2, 3, 0, 2, -1, -1, -1)])
    with nullcontext() if right else pytest.raises(Violation, match="I15"):
        ghost.observe_unsettled(BrokerId(1), state(start, end))


@pytest.mark.parametrize("end", [14, 15])
def test_a_log_may_begin_anew_before_its_start_when_another_one_was_made_to_lead(end: int) -> None:
    ghost = PartitionGhost((TopicId("t"), 0), Contents())
    one = BrokerId(1)
    ghost.led_uncleanly(BrokerId(2), 0, emptied=False)
    ghost.deleted_to = 26
    ghost.replace(one, 14, [], end)
    ghost.shadow(one).log_start = 26
    with nullcontext() if end == 14 else pytest.raises(Violation, match="starts at 14, before"):
        ghost.observe(one, state(14, end), 0, 1)


def test_two_batches_in_one_place_are_met() -> None:
    """I8, of what one epoch wrote at one offset; on whichever replica the other one lies."""
    contents = Contents()
    ghost = PartitionGhost((TopicId("t"), 0), contents)
    for number, value in enumerate((b"a", b"b"), 1):
        raw = encode_batch([value], leader_epoch=4)
        contents.sent(fingerprint(raw), Original(ghost.key, (None,), (value,), (0,)))
        batch, gone = ghost.identify(read_header(raw), raw)
        assert (batch.mark, gone) == (fingerprint(raw), frozenset())
        with nullcontext() if number == 1 else pytest.raises(Violation, match="I8: broker 2"):
            ghost.grow(BrokerId(number), [batch])
