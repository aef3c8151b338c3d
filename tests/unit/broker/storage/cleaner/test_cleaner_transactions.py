"""Compaction of transactions: what a read-committed reader sees stays the same."""

from __future__ import annotations

import random

import pytest

from pylog.model import Offset
from pylog.records.batch import iter_headers
from pylog.records.builder import ControlType, encode_control_batch
from pylog.records.reader import iter_records
from pylog_broker.storage.cleaner.batch_filter import delete_horizon
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL
from tests.fakes.cleaned_logs import (
    ALL,
    EPOCH,
    clean,
    cleaner_of,
    latest,
    opened,
    put,
    records_of,
)
from tests.fakes.logs import WALL_MS, read_all
from tests.fakes.memory_files import MemoryFiles


def end_transaction(log: Log, producer: int, *, abort: bool) -> None:
    kind = ControlType.ABORT if abort else ControlType.COMMIT
    marker = encode_control_batch(
        kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=WALL_MS
    )
    log.append_as_leader(marker, leader_epoch=EPOCH, wall_ms=WALL_MS, origin=INTERNAL)


def committed(log: Log) -> dict[bytes | None, bytes | None]:
    """The records that a read-committed reader ends up with."""
    end = log.last_stable_offset(Offset(ALL))
    aborted = log.aborted_transactions(0, end)
    found: dict[bytes | None, bytes | None] = {}
    data = read_all(log)
    for position, header in iter_headers(data):
        inside = any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset <= entry.last_offset
            for entry in aborted
        )
        if header.is_control or (inside and header.is_transactional) or header.base_offset >= end:
            continue
        for record in iter_records(data[position : position + header.size], "t", 0):
            found[record.key] = record.value
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize("seed", range(40))
def test_read_committed_sees_the_same_before_and_after(seed: int) -> None:
    rng = random.Random(seed)
    files = MemoryFiles()
    log, cleaner = opened(files)
    open_now: set[int] = set()
    sequences: dict[int, int] = {}
    wall_ms = WALL_MS
    for _ in range(150):
        wall_ms += rng.randrange(60)
        producer = rng.randrange(4)
        if producer in open_now and rng.random() < 0.4:
            end_transaction(log, producer, abort=rng.random() < 0.5)
            open_now.discard(producer)
        else:
            sequence = sequences.get(producer, 0)
            pairs = [
                (b"k%d" % rng.randrange(12), rng.choice([None, b"%d" % rng.randrange(999)]))
                for _ in range(rng.randrange(1, 4))
            ]
            put(log, *pairs, wall_ms=wall_ms, producer=(producer, 0, sequence), transactional=True)
            sequences[producer] = sequence + len(pairs)
            open_now.add(producer)
        if rng.random() < 0.08:
            log.roll(wall_ms)
            before = committed(log)
            clean(cleaner, log, wall_ms=wall_ms)
            assert committed(log) == before
        if rng.random() < 0.04:
            before = committed(log)
            log.close(clean=False)
            files.kill()
            log, _ = opened(files)
            cleaner = cleaner_of(files, log)
            assert committed(log) == before


def test_aborted_records_and_in_the_end_their_markers_go() -> None:
    log, cleaner = opened()
    put(log, (b"a", b"1"), producer=(1, 0, 0), transactional=True)
    end_transaction(log, 1, abort=True)
    put(log, (b"b", b"2"))
    log.roll(WALL_MS)
    seen = []
    for step in range(5):
        if step == 2:
            log.expire_producers(WALL_MS + 10_000, 1)
        put(log, (b"c", b"%d" % step))
        log.roll(WALL_MS)
        assert clean(cleaner, log, wall_ms=WALL_MS + step * 600)
        left = [h for _, h in iter_headers(read_all(log)) if h.producer_id == 1]
        aborted = len(log.aborted_transactions(0, ALL))
        seen.append(([(h.is_control, h.record_count, delete_horizon(h)) for h in left], aborted))
    emptied, marker = (False, 0, None), (True, 1, None)
    assert seen == [
        ([emptied, marker], 1),  # the producer's last batch, as long as it is known
        ([emptied, marker], 1),
        ([marker], 1),  # it was met once more
        ([(True, 1, WALL_MS + 3 * 600 + 1000)], 0),
        ([(True, 1, WALL_MS + 3 * 600 + 1000)], 0),
    ]
    put(log, (b"c", b"5"))
    log.roll(WALL_MS)
    assert clean(cleaner, log, wall_ms=WALL_MS + 3 * 600 + 1000)
    assert latest(records_of(log)) == {b"b": b"2", b"c": b"5"}
    assert not [h for _, h in iter_headers(read_all(log)) if h.is_control]
