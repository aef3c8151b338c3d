"""After a truncation what batches say of their producers is read again beside the loop."""

from __future__ import annotations

import errno
import random

import pytest

from pylog.clock import busy_ns
from pylog.errors import KafkaStorageError
from pylog.model import LeaderEpoch, Offset
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import ShortOfResources
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL, Origin
from pylog_broker.storage.producers import producer_history
from pylog_broker.storage.producers.rebuild_task import RebuildTask
from tests.fakes.logs import DIRECTORY, WALL_MS, batch_of, open_log
from tests.fakes.memory_files import MemoryFiles

IN_TRANSACTION = Origin(transaction_verified=True)


@pytest.fixture
def nothing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of every size leave the reading to a task."""
    monkeypatch.setattr(producer_history, "READ_AT_ONCE_BYTES", 0)


def filled(files: MemoryFiles, seed: int, *, segment_bytes: int = 1_500) -> Log:
    """Four producers by turns, some of them in transactions that are committed or aborted."""
    rng = random.Random(seed)
    log = open_log(files, config=TopicConfig(segment_bytes=segment_bytes))
    sequences: dict[int, int] = {}
    inside: set[int] = set()
    for _ in range(80):
        pid = rng.randrange(4)
        if pid in inside and rng.random() < 0.3:
            inside.remove(pid)
            kind = rng.choice([ControlType.COMMIT, ControlType.ABORT])
            batch = encode_control_batch(
                kind, producer_id=pid, producer_epoch=0, coordinator_epoch=1, timestamp_ms=WALL_MS
            )
            origin = INTERNAL
        else:
            sequence, transactional = sequences.get(pid, 0), pid > 1
            inside |= {pid} if transactional else set()
            batch = batch_of(b"v" * 30, producer=(pid, 0, sequence), transactional=transactional)
            sequences[pid] = sequence + 1
            origin = IN_TRANSACTION
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=origin)
    return log


def carry_out(log: Log) -> RebuildTask:
    """The task runs, and the log takes what it has read."""
    assert not log.is_settled
    task = log.rebuild_task()
    assert task is not None
    assert log.rebuild_task() is None  # it is out
    assert log.is_rebuilding
    task.run()
    log.on_rebuilt(task)
    return task


def state(log: Log) -> object:
    return log.producers.unpacked(), log.producers._open, log.last_stable_offset(Offset(1 << 40))


@pytest.mark.usefixtures("nothing_at_once")
@pytest.mark.parametrize("seed", range(20))
def test_a_task_comes_to_the_state_that_the_loop_would(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dumb twin: the same log, truncated in one turn."""
    left, twin = (filled(MemoryFiles(), seed) for _ in range(2))
    for cut in sorted(random.Random(seed).sample(range(left.log_end_offset), 3), reverse=True):
        left.truncate_to(Offset(cut))
        assert left.log_end_offset == cut
        carry_out(left)
        assert left.is_settled
        with monkeypatch.context() as patch:
            patch.setattr(producer_history, "READ_AT_ONCE_BYTES", 1 << 30)
            twin.truncate_to(Offset(cut))
        assert twin.is_settled
        assert state(left) == state(twin)
        assert left._producers._offsets == twin._producers._offsets


@pytest.mark.usefixtures("nothing_at_once")
def test_what_uses_the_log_before_the_task_is_back_reads_by_itself() -> None:
    log = filled(MemoryFiles(), 1)
    log.truncate_to(Offset(20))
    task = log.rebuild_task()
    assert task is not None
    known = log.producers.get(0)
    log.append_as_leader(batch_of(b"new"), leader_epoch=LeaderEpoch(1), wall_ms=WALL_MS)
    assert log.is_settled
    assert log.log_end_offset == 21
    before = state(log)
    assert log.producers.get(0) != known
    task.run()
    log.on_rebuilt(task)  # too late to change anything
    assert state(log) == before


@pytest.mark.usefixtures("nothing_at_once")
def test_a_snapshot_that_is_of_no_use_is_passed_over_and_removed() -> None:
    files = MemoryFiles()
    log = filled(files, 2)
    newest = max(base for base in log._producers._offsets if base < 60)
    handle = files.open(f"{DIRECTORY}/{newest:020d}.snapshot")
    files.write_at(handle, [b"garbage"], 0)
    files.close(handle)
    log.truncate_to(Offset(60))
    task = carry_out(log)
    assert task.damaged == [newest]
    assert task.used < newest
    assert not files.exists(f"{DIRECTORY}/{newest:020d}.snapshot")
    twin = filled(MemoryFiles(), 2)
    twin.truncate_to(Offset(60))
    twin.settle()
    assert state(log) == state(twin)


@pytest.mark.usefixtures("nothing_at_once")
def test_an_error_of_the_moment_leaves_it_to_the_next_use() -> None:
    log = filled(MemoryFiles(), 3)
    log.truncate_to(Offset(30))
    task = log.rebuild_task()
    assert task is not None
    task.error = OSError(errno.EMFILE, "Too many open files")
    with pytest.raises(ShortOfResources):
        log.on_rebuilt(task)
    assert not log.is_settled
    assert not log.is_rebuilding
    assert log.rebuild_task() is None
    log.settle()
    twin = filled(MemoryFiles(), 3)
    twin.truncate_to(Offset(30))
    twin.settle()
    assert state(log) == state(twin)


@pytest.mark.usefixtures("nothing_at_once")
def test_a_disk_that_fails_takes_the_log_offline() -> None:
    log = filled(MemoryFiles(), 3)
    log.truncate_to(Offset(30))
    task = log.rebuild_task()
    assert task is not None
    task.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(KafkaStorageError):
        log.on_rebuilt(task)
    assert log.failure is not None
    log.on_rebuilt(task)  # nothing more comes of it


@pytest.mark.usefixtures("nothing_at_once")
def test_a_log_that_is_closed_meanwhile_is_whole() -> None:
    files = MemoryFiles()
    log = filled(files, 4)
    log.truncate_to(Offset(50))
    task = log.rebuild_task()
    assert task is not None
    log.close(clean=True)
    task.run()
    log.on_rebuilt(task)
    twin = filled(MemoryFiles(), 4)
    twin.truncate_to(Offset(50))
    twin.settle()
    assert open_log(files).producers.unpacked() == twin.producers.unpacked()


def test_a_truncation_does_not_hold_the_loop_up_for_20_000_producers() -> None:
    log = open_log(MemoryFiles(), config=TopicConfig())
    for pid in range(20_000):
        log.append_as_leader(
            batch_of(b"v", producer=(pid, 0, 0)), leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS
        )
    began = busy_ns()
    log.truncate_to(Offset(19_990))
    took = busy_ns() - began
    began = busy_ns()
    carry_out(log)
    assert len(log.producers) == 19_990
    assert took * 5 < busy_ns() - began  # 150 ms in the task
