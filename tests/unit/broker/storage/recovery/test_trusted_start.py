"""The parts that a start need not read: unchanged logs, segments below the recovery point."""

from __future__ import annotations

import random

import pytest

from pylog.model import LeaderEpoch, Offset
from pylog.records.reader import iter_records
from pylog.records.record import Record
from pylog_broker.config import TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT, write_epochs
from pylog_broker.storage.checkpoints.leader_epochs import EpochEntry
from pylog_broker.storage.log.environment import Environment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import DIRECTORY, WALL_MS, append, open_log, read_all, values_of
from tests.fakes.memory_files import MemoryFiles

CONFIG = TopicConfig(segment_bytes=2000, index_interval_bytes=300)
NO_TAIL = Environment(TailBudget(0), tail_bytes_max=0)


def written(count: int = 60) -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    rng = random.Random(1)
    log = open_log(files, config=CONFIG, environment=NO_TAIL)
    for number in range(count):
        append(log, b"%03d" % number * 20, epoch=number // 25, timestamps=rng.randrange(1000, 9000))
    return files, log


def facts_of(log: Log) -> LastStop:
    return LastStop.clean({segment.base_offset: segment.facts for segment in log.segments})


def reopened(files: MemoryFiles, stop: LastStop) -> Log:
    files.kill()
    return open_log(files, config=CONFIG, last_stop=stop, environment=NO_TAIL)


def times_of(log: Log) -> list[object]:
    return [log.offset_for_timestamp(t) for t in range(900, 9100, 97)] + [log.max_timestamp()]


def test_an_unchanged_log_is_opened_without_a_look_at_its_batches() -> None:
    files, log = written()
    before, times = read_all(log), times_of(log)
    epochs = log.epochs.entries
    log.close(clean=True)
    files.fail("pread", ".log", 5, times=1)
    again = reopened(files, facts_of(log))
    assert files.faults.pop().times == 1, "nothing was read"
    assert again.recovery.batches == 0
    assert again.epochs.entries == epochs
    assert (read_all(again), times_of(again)) == (before, times)
    assert [s.facts for s in again.segments] == [s.facts for s in log.segments]
    append(again, b"more", timestamps=99)
    again.truncate_to(Offset(13))
    assert len(values_of(again)) == 13


def test_after_a_crash_only_the_rest_is_read() -> None:
    files, log = written()
    log.flush()
    before, times = read_all(log), times_of(log)
    point = log.recovery_point
    again = reopened(files, LastStop(point, point))
    assert again.recovery.segments_trusted == len(log.segments) - 1
    assert again.recovery.batches < 20
    assert again.recovery.indexes_rebuilt == 1  # the last entries of the active one
    assert again.epochs.entries == log.epochs.entries
    assert (read_all(again), times_of(again)) == (before, times)


@pytest.mark.parametrize("seed", range(60))
def test_caches_that_lie_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    files, log = written()
    log.flush()
    before, times, epochs = read_all(log), times_of(log), log.epochs.entries
    clean = rng.random() < 0.5
    log.close(clean=clean)
    names = [name for name in files.listdir(DIRECTORY) if not name.endswith(".log")]
    for name in rng.sample(names, rng.randrange(1, 6)):
        data = files.names[f"{DIRECTORY}/{name}"].data
        damage = rng.randrange(5)
        if damage == 0:
            del files.names[f"{DIRECTORY}/{name}"]
        elif damage == 1:
            data[:] = bytes(len(data))
        elif damage == 2:
            data[:] = rng.randbytes(len(data))
        elif damage == 3:
            data += rng.randbytes(rng.randrange(1, 40))
        else:
            del data[rng.randrange(len(data) + 1) :]
    again = reopened(files, LastStop.clean() if clean else LastStop(60, 60))
    assert read_all(again) == before
    assert times_of(again) == times
    assert again.epochs.entries == epochs
    assert again.recovery_point <= 60


def test_an_index_that_lies_in_the_middle_is_made_again() -> None:
    files, log = written()
    log.close(clean=True)
    stop = facts_of(log)
    for name in files.listdir(DIRECTORY):
        data = files.names[f"{DIRECTORY}/{name}"].data
        if name.endswith(".index") and len(data) >= 24:
            data[12:16] = (int.from_bytes(data[4:8], "big") + 7).to_bytes(4, "big")
        if name.endswith(".timeindex") and len(data) >= 36:
            data[20:24] = (int.from_bytes(data[8:12], "big") + 1).to_bytes(4, "big")
    again = reopened(files, stop)
    fresh = [again.read(offset, 1, upper_bound=60).first_offset for offset in range(60)]
    assert fresh == list(range(60))
    assert again.failure is None


@pytest.mark.parametrize("entries", [[], [(0, 0)], [(0, 0), (1, 40)], [(5, 3)]])
def test_a_wrong_epoch_checkpoint_is_noticed(entries: list[tuple[int, int]]) -> None:
    files, log = written()
    log.flush()
    path = f"{DIRECTORY}/{EPOCH_CHECKPOINT}"
    write_epochs(files, path, [EpochEntry(LeaderEpoch(e), Offset(o)) for e, o in entries])
    again = reopened(files, LastStop(60, 60))
    assert again.epochs.entries == log.epochs.entries


def test_a_plan_that_is_distrusted_has_done_nothing() -> None:
    files, log = written()
    before = read_all(log)
    log.close(clean=True)
    *noted, last = log.segments
    stop = LastStop.clean({segment.base_offset: segment.facts for segment in noted})
    given_up = f"{DIRECTORY}/{3:020d}.log"  # by a roll
    files.close(files.open(given_up, create=True))
    again = reopened(files, stop)
    assert again.recovery.warnings == (f"{given_up} holds nothing and is not of the log: removed",)
    assert (again.recovery.segments_trusted, again.recovery.batches) == (0, 60)
    assert again.segments[-1].facts == last.facts
    assert read_all(again) == before


def test_a_full_disk_that_keeps_the_epochs_back_keeps_the_recovery_point_too() -> None:
    files, log = written(3)
    append(log, b"x", epoch=9)
    files.fail("open", f"{EPOCH_CHECKPOINT}.tmp", 28)
    log.flush()
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 4


def test_a_segment_that_is_full_is_synced_with_its_caches() -> None:
    files, log = written()
    task = log.flush_task()
    assert task is not None
    task.run()
    log.on_flushed(task)
    files.fsync_dir(DIRECTORY)
    files.lose_power()
    again = open_log(files, config=CONFIG, last_stop=LastStop(task.up_to, task.up_to, False))
    assert again.recovery.segments_trusted == len(log.segments) - 1
    assert again.log_end_offset == task.up_to


def test_full_segments_give_memory_and_handles_back() -> None:
    files, log = written(400)
    for offset in range(0, 400, 7):
        log.read(offset, 10, upper_bound=400)
    loaded = [s for s in log.segments if s.indexes.loaded is not None]
    assert len(loaded) <= 10
    assert len(files.handles) <= 12


def test_the_largest_timestamps_are_found_among_many_segments() -> None:
    files, log = written(200)
    del files
    stamps = [(r.timestamp_ms, r.offset) for r in _records(log)]
    for wanted in range(900, 9100, 31):
        expected = next(((t, o) for t, o in stamps if t >= wanted), None)
        found = log.offset_for_timestamp(wanted)
        assert (found and (found.timestamp_ms, found.offset)) == expected
    log.roll(WALL_MS)
    append(log, b"late", timestamps=10_000)
    late = log.offset_for_timestamp(9_999)
    assert late is not None
    assert late.offset == 200


def _records(log: Log) -> list[Record]:
    return list(iter_records(read_all(log), "t", 0))
