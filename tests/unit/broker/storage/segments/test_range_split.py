"""Bytes of ranges and their pieces, against a walk through every batch."""

from __future__ import annotations

import random

import pytest

from pylog.model import LeaderEpoch, Offset, RangePiece, RangeSplit
from pylog.records.batch import iter_headers
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.segments.segment_reader import PagesCold
from tests.fakes.cleaned_logs import clean, opened, put
from tests.fakes.logs import WALL_MS, batch_of, open_log, read_all
from tests.fakes.memory_files import MemoryFiles

Batches = list[tuple[int, int, int]]
"""First offset, last offset, bytes."""


def batches_of(log: Log) -> Batches:
    return [
        (header.base_offset, header.last_offset, header.size)
        for _, header in iter_headers(read_all(log))
    ]


def dumb_split(
    batches: Batches, start: int, end: int, piece_bytes: int, pieces_max: int, *, even: bool
) -> RangeSplit:
    inside = [batch for batch in batches if batch[1] >= start and batch[0] < end]
    left = total = sum(size for _, _, size in inside)
    pieces = []
    while inside and piece_bytes and len(pieces) < pieces_max:
        wanted = -(-left // -(-left // piece_bytes)) if even else piece_bytes
        size = inside.pop(0)[2]
        while inside and size + inside[0][2] <= wanted:
            size += inside.pop(0)[2]
        pieces.append(RangePiece(inside[0][0] if inside else end, size))
        left -= size
    following = None
    if inside and pieces:
        following = RangePiece(inside[1][0] if len(inside) > 1 else end, inside[0][2])
    return RangeSplit(total, tuple(pieces), following)


def check(log: Log, rng: random.Random, rounds: int) -> None:
    batches, first, last = batches_of(log), log.log_start_offset, log.log_end_offset
    # A log start inside a batch: reads begin at that batch, and so do ranges.
    for _ in range(rounds):
        start, end = rng.randint(first, last), rng.randint(first, last)
        piece, most = rng.choice([0, 1, 150, 400, 3_000, 1 << 40]), rng.randrange(5)
        for even in (False, True):
            found = log.split(start, end, piece_bytes=piece, pieces_max=most, even=even)
            dumb = dumb_split(batches, start, end, piece, most, even=even)
            assert found == (dumb if start < end else RangeSplit(0)), (start, end, piece, most)


@pytest.mark.parametrize("seed", range(12))
def test_ranges_of_a_log(seed: int) -> None:
    rng = random.Random(seed)
    config = TopicConfig(
        segment_bytes=rng.choice([500, 2_000, 100_000]),
        index_interval_bytes=rng.choice([1, 200, 4_096]),
    )
    files = MemoryFiles()
    log = open_log(files, config=config)
    for _ in range(60):
        batch = batch_of(*[b"v" * rng.choice([1, 20, 90])] * rng.randrange(1, 5))
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS)
    check(log, rng, 100)
    log.truncate_to(Offset(rng.randrange(log.log_end_offset // 2, log.log_end_offset)))
    check(log, rng, 50)
    log.close(clean=False)
    check(open_log(files, config=config), rng, 50)


@pytest.mark.parametrize("seed", range(8))
def test_ranges_of_a_compacted_log(seed: int) -> None:
    """Batches have shrunk, and between them offsets are missing."""
    rng = random.Random(seed)
    log, cleaner = opened()
    for _ in range(3):
        for _ in range(60):
            keys = [b"%d" % rng.randrange(30) for _ in range(rng.randrange(1, 4))]
            put(log, *[(key, b"v" * rng.randrange(40)) for key in keys])
        log.roll(WALL_MS)
        clean(cleaner, log)
        check(log, rng, 60)


def test_every_piece_is_read_as_it_was_counted() -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(segment_bytes=700, index_interval_bytes=200))
    for number in range(40):
        batch = batch_of(*[b"v" * number] * 2)
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS)
    whole = log.split(0, 80, piece_bytes=500, pieces_max=100)
    begin = 0
    for end, size in whole.pieces:
        read = b""
        while begin < end:
            got = log.read(Offset(begin), 1 << 20, upper_bound=end)
            read += bytes(got.records)
            begin = got.next_offset
        assert len(read) == size
    assert (begin, sum(piece.bytes for piece in whole.pieces)) == (80, whole.bytes)


def test_what_is_outside_the_log_has_no_bytes() -> None:
    log = open_log(MemoryFiles())
    for _ in range(3):
        log.append_as_leader(batch_of(b"v"), leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS)
    size = log.size // 3
    assert log.split(-5, 99).bytes == log.size
    assert log.split(3, 99, piece_bytes=1, pieces_max=1) == RangeSplit(0)
    log.advance_log_start(Offset(2))
    assert log.split(0, 3, piece_bytes=1, pieces_max=1) == RangeSplit(size, (RangePiece(3, size),))
    assert log.split(0, 2) == RangeSplit(0)


def test_cold_pages_are_read_elsewhere() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for _ in range(50):
        log.append_as_leader(batch_of(b"v" * 500), leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS)
    whole = log.split(3, 40, piece_bytes=5_000, pieces_max=3)
    files.cold = True
    with pytest.raises(PagesCold):
        log.split(3, 40, piece_bytes=5_000, pieces_max=3, nowait=True)
    assert log.split(3, 40, piece_bytes=5_000, pieces_max=3) == whole
