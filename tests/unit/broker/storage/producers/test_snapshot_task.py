"""Snapshots of logs that know many producers: written beside the loop, and put in place by it."""

from __future__ import annotations

import errno
import itertools

import pytest

from pylog.clock import busy_ns
from pylog.errors import KafkaStorageError
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import read_header
from pylog_broker.config import BrokerConfig
from pylog_broker.storage.files import Buffer
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.producers.producer_entry import unpack
from pylog_broker.storage.producers.producer_snapshot import restore
from pylog_broker.storage.producers.producer_state import SLICE, ProducerEntry
from pylog_broker.storage.producers.snapshot_task import SnapshotTask
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.crashing_files import Crash, CrashingFiles
from tests.fakes.logs import (
    DIRECTORY,
    TOPIC,
    TOPIC_ID,
    WALL_MS,
    append,
    batch_of,
    open_log,
)
from tests.fakes.managers import open_manager
from tests.fakes.memory_files import MemoryFiles

MANY = SLICE + 500


def crowded(files: MemoryFiles) -> Log:
    """A log of 10 records that knows `MANY` producers; records of theirs there are none."""
    log = open_log(files)
    for _ in range(10):
        append(log, b"v")
    header = read_header(batch_of(b"v", producer=(0, 0, 0)))
    for pid in range(MANY):
        log.producers.apply(header._replace(producer_id=pid), 5, seen_ms=WALL_MS)
    return log


def names(files: MemoryFiles) -> list[str]:
    """The files of snapshots."""
    return [
        name for name in files.listdir(DIRECTORY) if ".snapshot" in name or ".producers" in name
    ]


def stored(files: MemoryFiles, offset: int) -> dict[int, ProducerEntry]:
    """The producers in the snapshot before `offset`."""
    path = f"{DIRECTORY}/{offset:020d}"
    packed, forgot = restore(
        files.read_all(f"{path}.snapshot"), files.read_all(f"{path}.producers")
    )
    assert not forgot
    return {pid: unpack(entry) for pid, entry in packed.items()}


def task_of(log: Log) -> SnapshotTask:
    task = log.snapshot_task()
    assert task is not None
    return task


def test_a_roll_leaves_a_large_snapshot_to_a_task_that_writes_what_was_known_then() -> None:
    files = MemoryFiles()
    log = crowded(files)
    known = log.producers.unpacked()
    log.roll(WALL_MS)
    assert names(files) == []
    batch = batch_of(b"v", producer=(7, 0, 1))
    log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    task = task_of(log)
    assert log.snapshot_task() is None  # one at a time
    task.run()
    log.on_snapshot(task)
    assert names(files) == [f"{10:020d}.producers", f"{10:020d}.snapshot"]
    assert stored(files, 10) == known
    assert log.producers.unpacked() != known
    assert log.snapshot_task() is None


def test_a_snapshot_is_written_in_slices() -> None:
    written: list[int] = []

    class Noted(MemoryFiles):
        def write_at(self, handle: int, buffers: list[Buffer], position: int) -> int:  # type: ignore[override]
            size = super().write_at(handle, buffers, position)
            written.append(size)
            return size

    log = crowded(Noted())
    log.roll(WALL_MS)
    task_of(log).run()
    assert written == [6 + 5, SLICE * (17 + 32), 500 * (17 + 32), 6, 6 + 4, SLICE * 46, 500 * 46, 6]


def test_few_producers_are_written_at_once() -> None:
    files = MemoryFiles()
    log = open_log(files)
    batch = batch_of(b"v", producer=(7, 0, 0))
    log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    log.roll(WALL_MS)
    assert names(files) == [f"{1:020d}.producers", f"{1:020d}.snapshot"]
    assert log.snapshot_task() is None


def test_of_several_that_wait_the_newest_is_written() -> None:
    files = MemoryFiles()
    log = crowded(files)
    log.roll(WALL_MS)
    append(log, b"v")
    log.roll(WALL_MS)
    task = task_of(log)
    append(log, b"v")
    log.roll(WALL_MS)
    task.run()
    assert log.snapshot_task() is None
    log.on_snapshot(task)
    assert [int(name[:20]) for name in names(files)] == [11, 11]
    later = task_of(log)
    later.run()
    log.on_snapshot(later)
    assert [int(name[:20]) for name in names(files)] == [11, 11, 12, 12]


def test_a_truncation_makes_the_snapshots_behind_it_unwanted() -> None:
    files = MemoryFiles()
    log = crowded(files)
    log.roll(WALL_MS)
    append(log, b"v")
    task = task_of(log)
    log.roll(WALL_MS)
    log.truncate_to(Offset(9))
    task.run()
    log.on_snapshot(task)
    assert log.snapshot_task() is None
    assert names(files) == []


def test_a_truncation_leaves_the_snapshots_before_it() -> None:
    files = MemoryFiles()
    log = crowded(files)
    known = log.producers.unpacked()
    log.roll(WALL_MS)
    append(log, b"v")
    task = task_of(log)
    log.truncate_to(Offset(10))
    task.run()
    log.on_snapshot(task)
    assert stored(files, 10) == known


@pytest.mark.parametrize("before", [True, False], ids=["before it ran", "after it ran"])
def test_a_log_that_starts_over_or_later_wants_no_snapshot_of_before(before: bool) -> None:
    for change in (
        lambda log: log.truncate_fully_and_start_at(Offset(50)),
        lambda log: (log.advance_log_start(Offset(11)), log.delete_old_segments()),
    ):
        files = MemoryFiles()
        log = crowded(files)
        log.roll(WALL_MS)
        append(log, b"v")
        task = task_of(log)
        log.roll(WALL_MS)
        if before:
            change(log)
            task.run()
        else:
            task.run()
            change(log)
        log.on_snapshot(task)
        assert not any(name.startswith(f"{10:020d}") for name in names(files))


def test_a_log_that_was_closed_meanwhile_leaves_nothing_behind() -> None:
    files = MemoryFiles()
    log = crowded(files)
    log.roll(WALL_MS)
    append(log, b"v")
    task = task_of(log)
    log.close(clean=True)
    task.run()
    log.on_snapshot(task)
    assert [int(name[:20]) for name in names(files)] == [11, 11]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_what_passes_costs_the_snapshot_and_not_the_log(code: int) -> None:
    files = MemoryFiles()
    log = crowded(files)
    log.roll(WALL_MS)
    files.fail("open", ".snapshot.tmp", code)
    task = task_of(log)
    task.run()
    log.on_snapshot(task)
    assert log.failure is None
    assert names(files) == []
    append(log, b"v")
    log.roll(WALL_MS)
    task = task_of(log)
    task.run()
    log.on_snapshot(task)
    assert [int(name[:20]) for name in names(files)] == [11, 11]


@pytest.mark.parametrize(
    ("operation", "code"),
    [("open", errno.ENOSPC), ("write_at", errno.ENOSPC), ("rename", errno.ENOMEM)],
)
def test_what_passed_is_tried_again_with_what_was_known_then(
    operation: str, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    files = MemoryFiles()
    log = crowded(files)
    known = log.producers.unpacked()
    log.roll(WALL_MS)
    batch = batch_of(b"v", producer=(7, 0, 1))
    log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    files.fail(operation, ".snapshot.tmp", code, times=3)
    for _ in range(4):
        task = task_of(log)
        task.run()
        log.on_snapshot(task)
    assert log.snapshot_task() is None
    assert stored(files, 10) == known
    assert names(files) == [f"{10:020d}.producers", f"{10:020d}.snapshot"]
    assert caplog.text.count("as yet") == 1


def test_a_disk_that_fails_takes_the_log_offline() -> None:
    files = MemoryFiles()
    log = crowded(files)
    log.roll(WALL_MS)
    files.fail("write_at", ".snapshot.tmp", errno.EIO)
    task = task_of(log)
    task.run()
    with pytest.raises(KafkaStorageError, match="snapshot of the producers"):
        log.on_snapshot(task)
    assert log.failure is not None


def test_a_crash_anywhere_in_it_leaves_the_snapshot_before() -> None:
    for operation in itertools.count():
        files = CrashingFiles()
        log = open_log(files)
        batch = batch_of(b"v", producer=(7, 0, 0))
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
        log.roll(WALL_MS)
        header = read_header(batch)
        for pid in range(1_000, 1_000 + MANY):
            log.producers.apply(header._replace(producer_id=pid), 0, seen_ms=WALL_MS)
        append(log, b"v")
        log.roll(WALL_MS)
        log.flush()
        task = task_of(log)
        files.countdown = operation
        crashed = True
        try:
            task.run()
            log.on_snapshot(task)
            crashed = False
        except Crash:
            pass
        files.countdown = None
        files.kill()
        again = open_log(files, last_stop=LastStop(2, 2))
        assert not [name for name in names(files) if name.endswith(".tmp")]
        entry = again.producers.get(7)
        assert entry is not None
        assert entry.batches[-1].last_offset == 0
        assert len(again.producers) in ((1, 1 + MANY) if crashed else (1 + MANY,))
        if not crashed:
            break
    assert operation > 5


def test_with_as_many_producers_as_there_may_be_no_step_of_the_loop_is_long() -> None:
    """By the processor time that it takes; some milliseconds, where it was half a second."""
    manager = open_manager(MemoryFiles())
    log = manager.create(TOPIC, TOPIC_ID)
    append(log, b"v")
    header = read_header(batch_of(b"v", producer=(0, 0, 0)))
    for pid in range(BrokerConfig().max_producer_ids_per_partition):
        log.producers.apply(header._replace(producer_id=pid), 0, seen_ms=WALL_MS)
    steps = (
        lambda: log.roll(WALL_MS),
        lambda: manager.maintain(86_400_000, WALL_MS + 86_400_000),
        manager.snapshot_tasks,
    )
    for step in steps:
        began_ns = busy_ns()
        step()
        assert busy_ns() - began_ns < 20_000_000
