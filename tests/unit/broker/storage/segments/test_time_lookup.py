"""Offsets by time, against a search through every record."""

from __future__ import annotations

import random

import pytest

from pylog.model import LeaderEpoch, Offset
from pylog.records.reader import iter_records
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.log import Log
from tests.fakes.cleaned_logs import clean, opened, put
from tests.fakes.logs import WALL_MS, batch_of, open_log, read_all
from tests.fakes.memory_files import MemoryFiles

Stamp = tuple[int, int]


def stamps_of(log: Log) -> list[Stamp]:
    start = log.log_start_offset
    records = iter_records(read_all(log), "t", 0, from_offset=start)
    return [(record.offset, record.timestamp_ms) for record in records]


def check(log: Log, times: range, end: int) -> None:
    stamps = [stamp for stamp in stamps_of(log) if stamp[0] < end]
    for time in times:
        expected = next((stamp for stamp in stamps if stamp[1] >= time), None)
        found = log.offset_for_timestamp(time, upper_bound=end)
        assert (found and (found.offset, found.timestamp_ms)) == expected, time
    for offset in range(-1, log.log_end_offset + 2):
        expected = next((stamp for stamp in stamps if stamp[0] >= offset), None)
        found = log.first_from(offset, upper_bound=end)
        assert (found and (found.offset, found.timestamp_ms)) == expected, offset
    largest = max((stamp[1] for stamp in stamps), default=-1)
    first = next((stamp for stamp in stamps if stamp[1] == largest), None)
    top = log.max_timestamp(upper_bound=end)
    assert (top and (top.offset, top.timestamp_ms)) == (first if largest >= 0 else None)


@pytest.mark.parametrize("stamps_by", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("seed", range(8))
def test_out_of_order_timestamps(seed: int, compression: str, stamps_by: str) -> None:
    """Also where the broker's clock is set back (LogAppendTime)."""
    rng = random.Random(seed)
    config = TopicConfig(
        segment_bytes=rng.choice([500, 5000]),
        index_interval_bytes=200,
        message_timestamp_type=stamps_by,
    )
    files = MemoryFiles()
    log = open_log(files, config=config)
    for _ in range(60):
        count = rng.randrange(1, 5)
        stamps = [rng.choice([-1, rng.randrange(60)]) for _ in range(count)]
        batch = batch_of(*[b"v" * 20] * count, timestamps=stamps, compression=compression)
        wall_ms = WALL_MS if stamps_by == "CreateTime" else rng.randrange(60)
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(3), wall_ms=wall_ms)
    check(log, range(0, 65, 3), log.log_end_offset)
    log.advance_log_start(Offset(rng.randrange(log.log_end_offset // 2)))
    check(log, range(0, 65, 5), rng.randrange(log.log_start_offset, log.log_end_offset))
    log.truncate_to(Offset(rng.randrange(log.log_start_offset, log.log_end_offset)))
    check(log, range(0, 65, 5), log.log_end_offset)
    start = log.log_start_offset
    log.close(clean=False)
    again = open_log(files, config=config, log_start_offset=start)
    check(again, range(0, 65, 5), again.log_end_offset)


def test_nothing_is_that_late() -> None:
    log = open_log(MemoryFiles())
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None
    log.append_as_leader(
        batch_of(b"a", b"b", timestamps=[5, 7]), leader_epoch=LeaderEpoch(3), wall_ms=WALL_MS
    )
    found = log.offset_for_timestamp(6)
    assert found == (1, 7, 3)
    assert log.offset_for_timestamp(8) is None
    assert log.offset_for_timestamp(2**63 - 1) is None


def test_a_batch_without_records_is_not_the_newest() -> None:
    """A cleaner keeps it for its producer's last sequence, with the time that it had."""
    log, cleaner = opened()
    put(log, (b"k", b"first"), producer=(5, 0, 0))
    put(log, (b"k", b"second"), wall_ms=WALL_MS - 5)
    log.roll(WALL_MS)
    assert clean(cleaner, log)
    check(log, range(WALL_MS - 10, WALL_MS + 5), log.log_end_offset)
