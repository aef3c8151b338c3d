"""Compaction: the last value of each key stays, whatever happens while it is at work."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from itertools import product

import pytest

from broker.config import BrokerConfig, TopicConfig
from broker.storage.cleaner.batch_filter import delete_horizon
from broker.storage.cleaner.choice import Cleanable, dirtiest
from broker.storage.cleaner.cleaner import LogCleaner
from broker.storage.files import Files
from broker.storage.log.log import Log
from broker.storage.log.validator import INTERNAL, Origin
from broker.storage.recovery.recovery import LastStop
from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog.records.batch import DELETE_HORIZON_BIT, iter_headers
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.reader import iter_records
from pylog.records.record import Record
from tests.fakes.crashing_files import Crash, CrashingFiles
from tests.fakes.logs import DIRECTORY, TOPIC, WALL_MS, open_log, read_all
from tests.fakes.memory_files import MemoryFiles

COMPACT = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=1200,
    index_interval_bytes=200,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=1000,
)
BROKER = BrokerConfig()
EPOCH = LeaderEpoch(0)
ALL = 1 << 40


def cleaner_of(files: Files, log: Log, config: BrokerConfig = BROKER) -> LogCleaner:
    removed: list[str] = []

    def remove_later(_log: Log, paths: list[str]) -> None:
        removed.extend(paths)

    return LogCleaner(
        files,
        "/data",
        {TOPIC: log},
        config,
        save_recovery_points=lambda: None,
        random_bytes=lambda count: b"\x07" * count,
        remove_later=remove_later,
    )


def clean(
    cleaner: LogCleaner, log: Log, *, wall_ms: int = WALL_MS, mark: int | None = None
) -> bool:
    """One pass; whether there was one."""
    end = log.log_end_offset if mark is None else Offset(mark)
    task = cleaner.next_task(wall_ms, {TOPIC: end})
    if task is None:
        return False
    task.run()
    while cleaner.on_ran(task):
        task.run()
    assert not [n for n in log._files.listdir(DIRECTORY) if n.endswith((".cleaned", ".swap"))]
    return True


def put(
    log: Log,
    *pairs: tuple[bytes, bytes | None],
    wall_ms: int = WALL_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    compression: str = "none",
) -> int:
    batch = encode_batch(
        [value for _, value in pairs],
        keys=[key for key, _ in pairs],
        timestamps=wall_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
        compression=compression,
    )
    origin = Origin(transaction_verified=True)
    return log.append_as_leader(
        batch, leader_epoch=EPOCH, wall_ms=wall_ms, origin=origin
    ).base_offset


def records_of(log: Log) -> list[Record]:
    return list(iter_records(read_all(log), "t", 0, from_offset=log.log_start_offset))


def latest(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


def opened(files: Files | None = None, config: TopicConfig = COMPACT) -> tuple[Log, LogCleaner]:
    files = files or MemoryFiles()
    log = open_log(files, config=config, last_stop=LastStop(0, 0))
    return log, cleaner_of(files, log)


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


def test_rot_sets_the_log_aside_and_takes_nothing_away() -> None:
    files = MemoryFiles()
    log, cleaner = opened(files)
    for _ in range(30):
        put(log, (b"k", b"v" * 50))
    log.roll(WALL_MS)
    files.names[f"{DIRECTORY}/{0:020d}.log"].data[90] ^= 1
    size = log.size
    assert clean(cleaner, log)
    assert "does not match its CRC" in cleaner.uncleanable[TOPIC]
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


def test_what_lies_behind_a_cleaned_segment_survives_a_loss_of_power() -> None:
    """The first segment ends before the next one begins; nothing was synced before the pass."""
    files = MemoryFiles()
    log, _ = opened(files)
    saved: list[int] = []
    cleaner = LogCleaner(
        files,
        "/data",
        {TOPIC: log},
        BROKER,
        random_bytes=bytes,
        save_recovery_points=lambda: saved.append(log.recovery_point),
        remove_later=lambda _log, _paths: None,
    )
    for key in (b"gone", b"stays", b"gone"):
        put(log, (key, b"x" * 900), (b"gone", b"y" * 100))
        log.roll(WALL_MS)
    assert log.recovery_point == 0
    assert clean(cleaner, log)
    assert saved == [6]
    assert log.segments[0].end_offset < log.segments[1].base_offset
    before = records_of(log)
    files.lose_power()
    stop = LastStop(saved[0], saved[0], memory_survived=False)
    again = open_log(files, config=COMPACT, last_stop=stop)
    assert again.log_end_offset == 6
    assert records_of(again) == before


def cleaned_with_gap(files: MemoryFiles) -> tuple[Log, LogCleaner]:
    """Offsets are missing at the end of the first segment; all was synced by the pass."""
    log, cleaner = opened(files)
    for key in (b"gone", b"stays", b"gone"):
        put(log, (key, b"x" * 900), (b"gone", b"y" * 100))
        log.roll(WALL_MS)
    assert clean(cleaner, log)
    assert log.segments[0].end_offset < log.segments[1].base_offset
    return log, cleaner


@pytest.mark.parametrize("recovery_point", [0, 1, 3])
def test_a_recovery_point_that_is_too_low_takes_no_gap_for_a_loss(recovery_point: int) -> None:
    """Its file may be lost, or come from a backup; the log itself knows what was synced."""
    files = MemoryFiles()
    log, _ = cleaned_with_gap(files)
    before = records_of(log)
    files.lose_power()
    stop = LastStop(recovery_point, recovery_point, memory_survived=False)
    again = open_log(files, config=COMPACT, last_stop=stop)
    assert records_of(again) == before
    assert (again.log_end_offset, again.recovery.bytes_cut) == (6, 0)


def test_what_took_the_place_of_cut_records_may_be_lost_with_the_power() -> None:
    files = MemoryFiles()
    log, _ = cleaned_with_gap(files)
    log.truncate_to(Offset(4))
    for value in (b"4", b"5", b"6"):
        put(log, (b"new", value))
        log.roll(WALL_MS)
    log.flush()
    files.lose_power()
    files.names[f"{DIRECTORY}/{5:020d}.log"].data.clear()
    again = open_log(files, config=COMPACT, last_stop=LastStop(0, 0, memory_survived=False))
    assert again.log_end_offset == 5, "no gap of the cleaner's, but a loss"


def test_a_mark_that_makes_no_sense_promises_nothing() -> None:
    files = MemoryFiles()
    log, _ = cleaned_with_gap(files)
    files.write_atomic(f"{DIRECTORY}/gaps-allowed", b"soon")
    files.kill()
    assert open_log(files, config=COMPACT, last_stop=LastStop(6, 6)).log_end_offset == 6
    assert log.log_end_offset == 6


# ---- transactions -------------------------------------------------------------------------------


def end_transaction(log: Log, producer: int, *, abort: bool) -> None:
    kind = ControlType.ABORT if abort else ControlType.COMMIT
    marker = encode_control_batch(
        kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=WALL_MS
    )
    log.append_as_leader(marker, leader_epoch=EPOCH, wall_ms=WALL_MS, origin=INTERNAL)


def committed(log: Log) -> dict[bytes | None, bytes | None]:
    """What a read-committed reader ends up with."""
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


# ---- crashes ------------------------------------------------------------------------------------


def filled(files: CrashingFiles) -> tuple[Log, LogCleaner, dict[bytes | None, bytes | None]]:
    log, cleaner = opened(files)
    rng = random.Random(3)
    for number in range(120):
        put(log, (b"%d" % rng.randrange(9), b"%d" % number), producer=(1, 0, number))
    log.roll(WALL_MS)
    log.flush()
    return log, cleaner, latest(records_of(log))


def test_a_crash_at_each_file_operation_of_a_pass_loses_nothing() -> None:
    files = CrashingFiles()
    log, cleaner, expected = filled(files)
    files.operations = 0
    assert clean(cleaner, log)
    operations = files.operations
    assert operations > 25
    for countdown, power in product(range(operations), (False, True)):
        if not power:
            crashed = CrashingFiles()
            log, cleaner, _ = filled(crashed)
            crashed.countdown = countdown
            with pytest.raises(Crash):
                clean(cleaner, log)
            crashed.countdown = None
        files = copy.deepcopy(crashed)
        if power:
            files.lose_power()
        files.kill()
        again = open_log(
            files, config=COMPACT, last_stop=LastStop(120, 120, memory_survived=not power)
        )
        assert latest(records_of(again)) == expected, (countdown, power)
        assert again.log_end_offset == 120
        assert not [n for n in files.listdir(DIRECTORY) if n.endswith((".cleaned", ".swap"))]
        assert put(again, (b"0", b"more"), producer=(1, 0, 120)) == 120
        again.roll(WALL_MS)
        cleaner = cleaner_of(files, again)
        assert clean(cleaner, again)
        assert latest(records_of(again)) == expected | {b"0": b"more"}


def test_a_full_disk_leaves_the_log_as_it_is_and_a_later_pass_succeeds() -> None:
    files = MemoryFiles()
    log, cleaner = opened(files)
    for number in range(60):
        put(log, (b"k", b"%d" % number))
    log.roll(WALL_MS)
    files.capacity = files._used()
    assert clean(cleaner, log)
    assert len(records_of(log)) == 60
    assert not cleaner.uncleanable
    files.capacity = None
    assert clean(cleaner, log)
    assert [r.value for r in records_of(log)] == [b"59"]


@pytest.mark.parametrize("seed", range(25))
def test_random_keys_tombstones_cleans_and_crashes(seed: int) -> None:
    rng = random.Random(seed)
    files = CrashingFiles()
    log, cleaner = opened(files)
    model: dict[bytes | None, bytes | None] = {}
    wall_ms = WALL_MS
    for _ in range(60):
        wall_ms += rng.randrange(300)
        pairs = [
            (b"%d" % rng.randrange(20), rng.choice([None, b"v%d" % rng.randrange(99), b"w" * 60]))
            for _ in range(rng.randrange(1, 25))
        ]
        put(log, *pairs, wall_ms=wall_ms, compression=rng.choice(["none", "lz4"]))
        model.update(pairs)
        if rng.random() < 0.2:
            log.roll(wall_ms)
            files.countdown = rng.choice([None, rng.randrange(40)])
            try:
                clean(cleaner, log, wall_ms=wall_ms)
            except Crash:
                files.countdown = None
                files.kill()
                log, _ = opened(files)
                cleaner = cleaner_of(files, log)
            files.countdown = None
            found = {k: v for k, v in latest(records_of(log)).items() if v is not None}
            assert found == {k: v for k, v in model.items() if v is not None}
