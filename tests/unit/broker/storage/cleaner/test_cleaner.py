"""Compaction: the last value of each key stays, whatever happens while it is at work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylog.model import Offset, TopicPartition
from pylog.records.batch import DELETE_HORIZON_BIT, iter_headers
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.config import TopicConfig
from pylog_broker.storage.cleaner.choice import Cleanable, dirtiest
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.cleaned_logs import (
    BROKER,
    COMPACT,
    clean,
    cleaner_of,
    latest,
    opened,
    put,
    records_of,
)
from tests.fakes.logs import DIRECTORY, TOPIC, WALL_MS, open_log, read_all
from tests.fakes.memory_files import MemoryFiles


def test_only_the_last_value_of_each_key_stays_where_it_stood() -> None:
    log, cleaner = opened()
    for round_ in range(20):
        for key in range(10):
            put(log, (b"k%d" % key, b"%d-%d" % (round_, key)))
    log.roll(WALL_MS)
    before = records_of(log)
    assert clean(cleaner, log)
    after = records_of(log)
    assert latest(after) == latest(before)
    assert [r.offset for r in after] == sorted({r.key: r.offset for r in before}.values())
    assert log.log_end_offset == 200
    assert not clean(cleaner, log), "nothing is dirty now"
    for offset in range(200):  # B-S32: the next record that is there
        expected = next((r.offset for r in after if r.offset >= offset), None)
        found = list(iter_records(log.read(offset, 1, upper_bound=200).records, "t", 0))
        assert expected is None or not found or found[-1].offset >= expected


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_batches_keep_their_frame(compression: str) -> None:
    log, cleaner = opened()
    for round_ in range(6):
        pairs = [(b"k%d" % key, b"v%d" % round_ * 9) for key in range(8 + round_)]
        first = sum(8 + n for n in range(round_))
        put(log, *pairs, producer=(5, 0, first), compression=compression)
    put(log, (b"only", b"here"))
    log.roll(WALL_MS)
    headers = {h.base_offset: h for _, h in iter_headers(read_all(log))}
    assert clean(cleaner, log)
    for _, header in iter_headers(read_all(log)):
        old = headers[header.base_offset]
        for field in ("base_offset", "last_offset_delta", "partition_leader_epoch"):
            assert getattr(header, field) == getattr(old, field)
        for field in ("producer_id", "producer_epoch", "base_sequence"):
            assert getattr(header, field) == getattr(old, field)
    assert len(records_of(log)) == 14


def test_tombstones_stay_for_delete_retention_ms_and_then_go() -> None:
    log, cleaner = opened()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    log.roll(WALL_MS)
    put(log, (b"c", b"1"))
    log.roll(WALL_MS)
    assert clean(cleaner, log)
    assert [(r.key, r.value, r.timestamp_ms) for r in records_of(log)] == [
        (b"b", b"1", WALL_MS),
        (b"a", None, WALL_MS),
        (b"c", b"1", WALL_MS),
    ]
    horizons = [h for _, h in iter_headers(read_all(log)) if h.attributes & DELETE_HORIZON_BIT]
    assert [h.base_timestamp for h in horizons] == [WALL_MS + 1000]
    put(log, (b"c", b"2"))
    log.roll(WALL_MS)
    assert clean(cleaner, log, wall_ms=WALL_MS + 999)
    assert b"a" in latest(records_of(log))
    put(log, (b"c", b"3"))
    log.roll(WALL_MS)
    assert clean(cleaner, log, wall_ms=WALL_MS + 1000)
    assert latest(records_of(log)) == {b"b": b"1", b"c": b"3"}


def test_tombstones_go_by_a_clock_that_can_be_trusted() -> None:
    files = MemoryFiles()
    log = open_log(files, config=COMPACT)
    cleaner = cleaner_of(files, log)
    trusted: list[int | None] = [WALL_MS]
    cleaner._trusted_ms = lambda _retention_ms: trusted[0]
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    log.roll(WALL_MS)
    put(log, (b"c", b"1"))
    log.roll(WALL_MS)
    assert clean(cleaner, log)
    for now_ms in (None, WALL_MS, WALL_MS + 999):
        trusted[0] = now_ms
        put(log, (b"c", b"2"))
        log.roll(WALL_MS)
        assert clean(cleaner, log, wall_ms=WALL_MS + 10**9)
        assert b"a" in {record.key for record in records_of(log)}
    trusted[0] = WALL_MS + 1000
    put(log, (b"c", b"3"))
    log.roll(WALL_MS)
    assert clean(cleaner, log, wall_ms=WALL_MS + 10**9)
    assert b"a" not in {record.key for record in records_of(log)}


def test_nothing_above_the_high_watermark_counts() -> None:
    log, cleaner = opened()
    put(log, (b"a", b"committed"))
    log.roll(WALL_MS)
    put(log, (b"a", b"not yet"))
    log.roll(WALL_MS)
    clean(cleaner, log, mark=1)
    assert [r.value for r in records_of(log)] == [b"committed", b"not yet"]
    assert clean(cleaner, log, mark=2)
    assert [r.value for r in records_of(log)] == [b"not yet"]


def test_young_records_wait_for_the_lag_and_old_ones_do_not_wait_for_the_ratio() -> None:
    log, cleaner = opened(config=replace(COMPACT, min_compaction_lag_ms=500))
    for value in (b"1", b"2"):
        put(log, (b"a", value))
        log.roll(WALL_MS)
    assert not clean(cleaner, log, wall_ms=WALL_MS + 499)
    assert clean(cleaner, log, wall_ms=WALL_MS + 500)
    patient = replace(COMPACT, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=500)
    log, cleaner = opened(config=patient)
    for value in (b"1", b"2"):
        put(log, (b"a", value))
        log.roll(WALL_MS)
    assert not clean(cleaner, log, wall_ms=WALL_MS + 500)
    assert clean(cleaner, log, wall_ms=WALL_MS + 501)


def test_the_dirtiest_log_comes_first_an_overdue_one_before_it() -> None:
    def of(name: str, clean_bytes: int, dirty: int, *, overdue: bool = False) -> Cleanable:
        return Cleanable(TopicPartition(name, 0), 0, 1, clean_bytes, dirty, overdue)

    half = TopicConfig(cleanup_policy=("compact",))
    logs = [of("a", 40, 60), of("b", 10, 90), of("c", 60, 40), of("d", 0, 0)]
    assert dirtiest([(log, half) for log in logs]) == logs[1]
    logs.append(of("e", 99, 1, overdue=True))
    assert dirtiest([(log, half) for log in logs]) == logs[4]
    assert dirtiest([(logs[2], half)]) is None


def test_the_last_sequences_of_producers_stay_known() -> None:
    files = MemoryFiles()
    log, cleaner = opened(files)
    for producer in (1, 2, 3):
        for sequence in range(3):
            put(log, (b"k", b"%d" % sequence), producer=(producer, 0, sequence))
    log.roll(WALL_MS)
    assert clean(cleaner, log)
    assert len(records_of(log)) == 1
    for name in files.listdir(DIRECTORY):
        if name.endswith((".snapshot", ".producers")):
            files.unlink(f"{DIRECTORY}/{name}")
    log.close(clean=False)
    again = open_log(files, config=COMPACT)
    for producer in (1, 2, 3):
        entry = again.producers.get(producer)
        assert entry is not None
        assert entry.batches[-1].last_sequence == 2
        assert put(again, (b"k", b"next"), producer=(producer, 0, 3)) >= 9


def test_a_small_map_takes_several_passes() -> None:
    files = MemoryFiles()
    log = open_log(files, config=COMPACT)
    cleaner = cleaner_of(files, log, replace(BROKER, log_cleaner_dedupe_buffer_size=24 * 32))
    for round_ in range(3):
        for key in range(100):
            put(log, (b"%03d" % key, b"%d" % round_))
    log.roll(WALL_MS)
    before = latest(records_of(log))
    passes = 0
    while clean(cleaner, log):
        passes += 1
        assert latest(records_of(log)) == before
        assert passes < 50
    assert passes > 5
    big = [(b"%d" % n, b"v") for n in range(40)]
    put(log, *big)
    log.roll(WALL_MS)
    clean(cleaner, log)
    assert "log.cleaner.dedupe.buffer.size" in cleaner.uncleanable[TOPIC]
    assert not clean(cleaner, log)


@pytest.mark.parametrize("byte", [6, 90])
def test_rot_sets_the_log_aside_and_takes_nothing_away(byte: int) -> None:
    files = MemoryFiles()
    log, cleaner = opened(files)
    for _ in range(30):
        put(log, (b"k", b"v" * 50))
    log.roll(WALL_MS)
    files.names[f"{DIRECTORY}/{0:020d}.log"].data[byte] ^= 1
    size = log.size
    assert clean(cleaner, log)
    assert "is damaged at 0: " in cleaner.uncleanable[TOPIC]
    assert log.size == size
    cleaner.forget(TOPIC)
    assert not cleaner.uncleanable


def test_a_cut_or_a_deletion_in_the_middle_of_a_pass_ends_it() -> None:
    log, cleaner = opened()
    for _ in range(60):
        put(log, (b"k", b"v" * 50))
    log.roll(WALL_MS)
    task = cleaner.next_task(WALL_MS, {TOPIC: Offset(60)})
    assert task is not None
    task.run()
    assert cleaner.on_ran(task)
    task.run()
    log.truncate_to(Offset(40))
    assert not cleaner.on_ran(task)
    assert len(records_of(log)) == 40
    log.roll(WALL_MS)
    task = cleaner.next_task(WALL_MS, {TOPIC: Offset(40)})
    assert task is not None
    task.run()
    assert cleaner.on_ran(task)
    log.advance_log_start(Offset(20))
    log.delete_old_segments()
    task.run()
    assert not cleaner.on_ran(task)
    assert [r.offset for r in records_of(log)] == list(range(20, 40))
    assert clean(cleaner, log)
    assert [r.offset for r in records_of(log)] == [39]


def test_what_takes_the_place_of_cut_records_is_dirty() -> None:
    files = MemoryFiles()
    log = open_log(files, config=COMPACT)
    cleaner = cleaner_of(files, log)
    for _ in range(20):
        put(log, (b"k", b"v"))
    log.roll(WALL_MS)
    assert clean(cleaner, log)
    assert cleaner.candidates(WALL_MS, {TOPIC: Offset(20)})[0].first_dirty == 20
    cleaner.truncated(TOPIC, 5)
    assert cleaner.candidates(WALL_MS, {TOPIC: Offset(20)})[0].first_dirty == 5
    again = cleaner_of(files, log)
    again.loaded()
    assert again.candidates(WALL_MS, {TOPIC: Offset(20)})[0].first_dirty == 5


def test_segments_too_far_apart_do_not_become_one() -> None:
    """B-S7: an index tells offsets relative to its segment's base."""
    log, cleaner = opened()
    far = 2**31 + 10
    put(log, (b"a", b"1"))
    log.roll(WALL_MS)
    for base in (far, far + 1):
        batch = encode_batch(
            [b"v"], keys=[b"%d" % base], timestamps=WALL_MS, base_offset=base, leader_epoch=0
        )
        log.append_as_follower(batch, wall_ms=WALL_MS)
        log.roll(WALL_MS)
    assert clean(cleaner, log)
    assert [segment.base_offset for segment in log.segments] == [0, far, far + 2]
    assert [record.offset for record in records_of(log)] == [0, far, far + 1]


def test_a_record_larger_than_every_buffer_is_cleaned() -> None:
    """B-S29."""
    log, cleaner = opened(config=replace(COMPACT, max_message_bytes=8 << 20))
    large = b"x" * (5 << 20)
    for value in (b"small", large, large + b"y"):
        put(log, (b"k", value), (b"other", b"1"))
        log.roll(WALL_MS)
    assert clean(cleaner, log)
    assert not cleaner.uncleanable
    assert latest(records_of(log)) == {b"k": large + b"y", b"other": b"1"}
    assert len(records_of(log)) == 2


def test_a_log_of_which_nothing_stays_still_knows_its_end() -> None:
    """B-S27: also after a kill; segments of which nothing stays are joined by a later pass."""
    files = MemoryFiles()
    log, cleaner = opened(files)
    for number in range(6):
        put(log, (b"k", b"%d" % number * 300))
        log.roll(WALL_MS)
    put(log, (b"k", None))
    log.roll(WALL_MS)
    assert clean(cleaner, log)
    assert [segment.size > 0 for segment in log.segments[:-1]][-1]
    put(log, (b"z", b"1"))
    log.roll(WALL_MS)
    assert clean(cleaner, log, wall_ms=WALL_MS + 1000)
    assert latest(records_of(log)) == {b"z": b"1"}
    assert sum(not segment.size for segment in log.segments) == 1, "the active one"
    for ending in (LastStop(0, 0), LastStop(8, 8), LastStop.clean()):
        log.close(clean=False)
        log = open_log(files, config=COMPACT, last_stop=ending)
        assert (log.log_start_offset, log.log_end_offset) == (0, 8)
        assert latest(records_of(log)) == {b"z": b"1"}
