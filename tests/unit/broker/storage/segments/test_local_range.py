"""The places of ranges in the files, against reads of the log."""

from __future__ import annotations

import random

import pytest

from pylog.errors import OffsetOutOfRange
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import BatchHeader, iter_headers
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.segments.local_range import LocalRange
from pylog_broker.storage.segments.segment_reader import PagesCold
from tests.fakes.cleaned_logs import clean, opened, put
from tests.fakes.logs import WALL_MS, batch_of, open_log, read_all
from tests.fakes.memory_files import MemoryFiles


def headers_in(log: Log, found: LocalRange) -> list[BatchHeader]:
    """The batches at these places, which must be whole."""
    headers = []
    for path, begin, end in found.files:
        data = log._state._files.read_all(path)[begin:end]
        here = list(iter_headers(data))
        assert sum(header.size for _, header in here) == len(data)
        headers += [header for _, header in here]
    return headers


def check(log: Log, rng: random.Random, rounds: int) -> None:
    batches = [header for _, header in iter_headers(read_all(log))]
    first, last = log.log_start_offset, log.log_end_offset
    for _ in range(rounds):
        start = rng.randint(first, last)
        end = rng.randint(start + 1, last + 9)
        bound = rng.choice([last, rng.randint(first, last)])
        most = rng.choice([1, 2, 99])
        found = log.local_range(start, end, upper_bound=bound, files_max=most)
        assert len(found.files) <= most
        assert found.end_offset <= max(start, min(end, bound))
        given = headers_in(log, found)
        wanted = [
            header
            for header in batches
            if header.last_offset >= start
            and header.base_offset < end
            and header.last_offset < bound
        ]
        # A few batches before the range, then its own, as far as it reaches.
        inside = [header for header in given if header.last_offset >= start]
        assert inside == wanted[: len(inside)]
        assert all(header.base_offset >= found.end_offset for header in wanted[len(inside) :])
        if most == 99:
            assert inside == wanted
        offsets = [header.base_offset for header in given]
        assert offsets == sorted(set(offsets))


@pytest.mark.parametrize("seed", range(10))
def test_ranges_of_a_log(seed: int) -> None:
    rng = random.Random(seed)
    config = TopicConfig(
        segment_bytes=rng.choice([500, 2_000, 100_000]),
        index_interval_bytes=rng.choice([1, 200, 4_096]),
        preallocate=rng.random() < 0.3,
    )
    log = open_log(MemoryFiles(), config=config)
    for _ in range(60):
        batch = batch_of(*[b"v" * rng.choice([1, 20, 90])] * rng.randrange(1, 5))
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS)
    check(log, rng, 150)
    log.advance_log_start(Offset(20))
    check(log, rng, 50)


@pytest.mark.parametrize("seed", range(6))
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
        check(log, rng, 100)


def test_a_range_outside_the_log() -> None:
    log = open_log(MemoryFiles())
    for _ in range(3):
        log.append_as_leader(batch_of(b"v"), leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS)
    log.advance_log_start(Offset(1))
    for start in (0, 4):
        with pytest.raises(OffsetOutOfRange, match=rf"offset {start} of t-0 is outside \[1, 3\]"):
            log.local_range(start, 9, upper_bound=3, files_max=1)
    assert log.local_range(3, 9, upper_bound=3, files_max=1) == LocalRange(3)


def test_it_ends_before_a_damaged_file() -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(segment_bytes=1_024))
    for _ in range(30):
        log.append_as_leader(batch_of(b"v" * 200), leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS)
    second = log.segments[1]
    data = bytearray(files.read_all(second.log_path))
    data[100] ^= 1
    files.write_atomic(second.log_path, bytes(data))
    second.close()
    assert second.look_for_damage(0)
    found = log.local_range(0, 30, upper_bound=30, files_max=9)
    assert (found.end_offset, len(found.files)) == (second.base_offset, 1)
    assert log.local_range(second.base_offset, 30, upper_bound=30, files_max=9).files == ()


def test_cold_pages_are_read_elsewhere() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for _ in range(50):
        log.append_as_leader(batch_of(b"v" * 500), leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS)
    whole = log.local_range(3, 40, upper_bound=45, files_max=3)
    files.cold = True
    with pytest.raises(PagesCold):
        log.local_range(3, 40, upper_bound=45, files_max=3, nowait=True)
    assert log.local_range(3, 40, upper_bound=45, files_max=3) == whole
