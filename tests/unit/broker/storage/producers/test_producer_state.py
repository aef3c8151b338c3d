"""Sequences, duplicates, epochs and open transactions of producers."""

from __future__ import annotations

import random

import pytest

from pylog.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    PylogError,
    TransactionCoordinatorFenced,
    UnknownProducerId,
)
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import SEQUENCE_MAX, BatchHeader, read_header
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL, Origin
from pylog_broker.storage.producers.producer_state import (
    Marker,
    ProducerEntry,
    ProducerStates,
)
from tests.fakes.logs import WALL_MS, batch_of, open_log, read_all
from tests.fakes.memory_files import MemoryFiles


def header_of(
    sequence: int, count: int = 1, *, epoch: int = 0, pid: int = 1, transactional: bool = False
) -> BatchHeader:
    values = [b"v"] * count
    return read_header(
        batch_of(*values, producer=(pid, epoch, sequence), transactional=transactional)
    )


def marker(pid: int = 1, epoch: int = 0) -> BatchHeader:
    return read_header(
        encode_control_batch(
            ControlType.ABORT,
            producer_id=pid,
            producer_epoch=epoch,
            coordinator_epoch=0,
            timestamp_ms=0,
        )
    )


def states(*headers: BatchHeader) -> ProducerStates:
    """Each batch applied behind the one before."""
    result = ProducerStates()
    offset = 0
    for header in headers:
        result.apply(header, offset)
        offset += header.record_count
    return result


@pytest.mark.parametrize(
    ("before", "batch", "log_start", "outcome"),
    [
        ([], header_of(0), 0, "append"),
        ([], header_of(3), 0, OutOfOrderSequenceNumber),
        ([], header_of(3), 1, UnknownProducerId),  # the log has lost its beginning
        ([], header_of(0), 1, "append"),
        ([], header_of(SEQUENCE_MAX), 1, UnknownProducerId),
        ([header_of(0, 3)], header_of(3), 0, "append"),
        ([header_of(0, 3)], header_of(4), 0, OutOfOrderSequenceNumber),
        ([header_of(0, 3)], header_of(2), 0, OutOfOrderSequenceNumber),
        ([header_of(0, 3)], header_of(0, 3), 0, (0, 2)),
        ([header_of(0, 3)], header_of(0, 2), 0, OutOfOrderSequenceNumber),
        ([header_of(0, 3)], header_of(0), 9, OutOfOrderSequenceNumber),
        ([header_of(0, 3), header_of(3, 2)], header_of(0, 3), 0, (0, 2)),
        ([header_of(0, 3), header_of(3, 2)], header_of(3, 2), 0, (3, 4)),
        ([header_of(n) for n in range(5)], header_of(0), 0, (0, 0)),
        ([header_of(n) for n in range(6)], header_of(0), 0, OutOfOrderSequenceNumber),
        ([header_of(n) for n in range(6)], header_of(1), 0, (1, 1)),
        ([header_of(0, epoch=5)], header_of(1, epoch=4), 0, InvalidProducerEpoch),
        ([header_of(0, epoch=5)], header_of(0, epoch=4), 0, InvalidProducerEpoch),
        ([header_of(0, epoch=5)], header_of(0, epoch=6), 0, "append"),
        ([header_of(0, epoch=5)], header_of(1, epoch=6), 0, OutOfOrderSequenceNumber),
        ([header_of(0), header_of(0, epoch=1)], header_of(0, epoch=1), 0, (1, 1)),
        ([header_of(0), header_of(0, epoch=1)], header_of(0), 0, InvalidProducerEpoch),
        ([header_of(SEQUENCE_MAX)], header_of(0), 0, "append"),
        ([header_of(SEQUENCE_MAX - 1, 4)], header_of(2), 0, "append"),
        ([header_of(SEQUENCE_MAX - 1, 4)], header_of(SEQUENCE_MAX - 1, 4), 0, (0, 3)),
        ([header_of(0, pid=2)], header_of(0), 0, "append"),
        ([marker(epoch=3)], header_of(0, epoch=2), 0, InvalidProducerEpoch),
        ([marker(epoch=3)], header_of(7, epoch=3), 0, OutOfOrderSequenceNumber),
        ([marker(epoch=3)], header_of(7, epoch=3), 1, UnknownProducerId),
        ([marker(epoch=3)], header_of(0, epoch=3), 0, "append"),
    ],
)
def test_the_rules(
    before: list[BatchHeader],
    batch: BatchHeader,
    log_start: int,
    outcome: str | tuple[int, int] | type[PylogError],
) -> None:
    known = states(*before)
    if isinstance(outcome, type):
        with pytest.raises(outcome, match="producer 1"):
            known.check(batch, log_start_offset=log_start)
        return
    found = known.check(batch, log_start_offset=log_start)
    if found is None:
        assert outcome == "append"
    else:
        assert (found.first_offset, found.last_offset) == outcome


def test_a_batch_without_producer_changes_nothing() -> None:
    known = states(read_header(batch_of(b"v")))
    assert len(known) == 0


def test_last_stable_offset() -> None:
    known = states(
        header_of(0, transactional=True),  # 0, open
        header_of(0, pid=2, transactional=True),  # 1, open
        header_of(1, transactional=True),  # 2
        marker(),  # 3 ends producer 1's
    )
    assert known.last_stable_offset(0) == 0
    assert known.last_stable_offset(3) == 0  # the marker is not committed yet
    assert known.last_stable_offset(4) == 1
    known.apply(marker(pid=2), 4)
    assert known.last_stable_offset(4) == 1
    assert known.last_stable_offset(5) == 5
    known.clear()
    assert known.last_stable_offset(9) == 9


def test_a_duplicate_answers_with_the_first_offsets() -> None:
    log = open_log(MemoryFiles())
    first, second = batch_of(b"a", b"b", producer=(9, 0, 0)), batch_of(b"c", producer=(9, 0, 2))
    epoch = LeaderEpoch(0)
    log.append_as_leader(first, leader_epoch=epoch, wall_ms=WALL_MS)
    log.append_as_leader(second, leader_epoch=epoch, wall_ms=WALL_MS)
    again = log.append_as_leader(first, leader_epoch=epoch, wall_ms=WALL_MS)
    assert again.duplicate
    assert (again.base_offset, again.last_offset, log.log_end_offset) == (0, 1, 3)
    with pytest.raises(OutOfOrderSequenceNumber, match="sequence 9; expected 3"):
        log.append_as_leader(
            batch_of(b"x", producer=(9, 0, 9)), leader_epoch=epoch, wall_ms=WALL_MS
        )
    with pytest.raises(InvalidRecord):
        log.append_as_leader(
            batch_of(b"x", producer=(9, 0, -1)), leader_epoch=epoch, wall_ms=WALL_MS
        )
    assert log.log_end_offset == 3


def test_markers_and_transactions_in_a_log() -> None:
    log = open_log(MemoryFiles())
    log.append_as_leader(
        batch_of(b"a", producer=(1, 0, 0), transactional=True),
        leader_epoch=LeaderEpoch(0),
        wall_ms=WALL_MS,
        origin=Origin(transaction_verified=True),
    )
    assert log.last_stable_offset(Offset(1)) == 0
    log.move_log_start(Offset(1))
    assert log.last_stable_offset(Offset(1)) == 1, "the log begins in the open transaction"
    end = encode_control_batch(
        ControlType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=WALL_MS,
    )
    with pytest.raises(InvalidRecord, match="control"):
        log.append_as_leader(end, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    log.append_as_leader(end, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL)
    assert log.last_stable_offset(Offset(2)) == 2


def test_what_may_come_while_a_transaction_is_open() -> None:
    known = states(header_of(0, transactional=True))
    assert known.check(header_of(1, transactional=True), log_start_offset=0) is None
    with pytest.raises(InvalidTxnState, match="transaction of epoch 0 is open"):
        known.check(header_of(1), log_start_offset=0)
    with pytest.raises(InvalidTxnState, match="epoch 1: its transaction of epoch 0 is open"):
        known.check(header_of(0, epoch=1, transactional=True), log_start_offset=0)
    assert known.has_open(1, 0)
    assert not known.has_open(1, 1)
    assert not known.has_open(2, 0)
    known.apply(marker(epoch=1), 5, Marker(False, 7))
    assert not known.has_open(1, 0)
    with pytest.raises(InvalidProducerEpoch, match="its transaction has ended"):
        known.check(header_of(1, transactional=True), log_start_offset=0)
    assert known.check(header_of(0, epoch=1, transactional=True), log_start_offset=0) is None


@pytest.mark.parametrize("version", [1, 2])
def test_which_markers_are_wanted(version: int) -> None:
    known = states(header_of(0, epoch=3, transactional=True))
    assert known.wants_marker(2, 0, 1, version=version), "of a producer that is not known"
    assert known.wants_marker(1, 4, 7, version=version)
    known.apply(marker(epoch=4), 5, Marker(False, 7))
    with pytest.raises(TransactionCoordinatorFenced, match="coordinator epoch 6"):
        known.wants_marker(1, 4, 6, version=version)
    with pytest.raises(InvalidProducerEpoch):
        known.wants_marker(1, 3, 7, version=version)
    assert known.wants_marker(1, 4, 7, version=version), "it comes again"
    known.apply(header_of(0, epoch=4, transactional=True), 6)
    # Under version 2 the open transaction is the next one, and this marker comes late (KIP-1228).
    assert known.wants_marker(1, 4, 7, version=version) is (version == 1)
    assert known.wants_marker(1, 5, 7, version=version)


def test_a_coordinators_batch_has_no_sequences_and_may_be_fenced() -> None:
    log = open_log(MemoryFiles())
    batch = batch_of(b"a", producer=(1, 3, -1), transactional=True)

    def write(batch: bytes) -> None:
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL)

    write(batch)
    write(batch)
    assert log.log_end_offset == 2
    assert log.producers.has_open(1, 3)
    with pytest.raises(InvalidTxnState):
        write(batch_of(b"a", producer=(1, 4, -1), transactional=True))
    with pytest.raises(InvalidProducerEpoch):
        write(batch_of(b"a", producer=(1, 2, -1), transactional=True))


def test_a_producer_with_an_open_transaction_is_never_forgotten() -> None:
    known = states(header_of(0, transactional=True), header_of(0, pid=2))
    assert known.expire(10**15, 1) in (0, 1)
    known.expire(2 * 10**15, 1)
    assert list(known.ids) == [1]
    known.keep_only(())
    assert list(known.ids) == [1]


def known_of(log: Log) -> dict[int, ProducerEntry]:
    """All but when this broker heard of them."""
    return {pid: entry._replace(seen_ms=0) for pid, entry in log.producers.unpacked().items()}


@pytest.mark.parametrize("seed", range(5))
def test_followers_recovery_and_truncation_arrive_at_the_same_state(seed: int) -> None:
    rng = random.Random(seed)
    config = TopicConfig(segment_bytes=1500)
    files = MemoryFiles()
    leader = open_log(files, config=config)
    sequences: dict[int, int] = {}
    ends = [0]
    for _ in range(60):
        pid, count = rng.randrange(4), rng.randrange(1, 4)
        sequence = sequences.get(pid, 0)
        batch = batch_of(*[b"v" * 30] * count, producer=(pid, 0, sequence))
        leader.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
        sequences[pid] = sequence + count
        ends.append(leader.log_end_offset)
    follower = open_log(MemoryFiles(), config=config)
    follower.append_as_follower(read_all(leader))
    leader.close(clean=False)
    reopened = open_log(files, config=config)
    cut = rng.choice(ends)
    for log in (reopened, follower):
        assert known_of(log) == known_of(leader)
        log.truncate_to(Offset(cut))
        fresh = open_log(MemoryFiles(), config=config)
        fresh.append_as_follower(read_all(log))
        assert known_of(log) == known_of(fresh)
