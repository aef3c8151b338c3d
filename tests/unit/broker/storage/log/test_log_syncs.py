"""One log: syncs, and the files and handles of a real disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pylog.errors import (
    KafkaStorageError,
)
from pylog.model import Offset
from pylog.records.batch import iter_headers
from pylog_broker.config import TopicConfig
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.log import Environment
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import (
    DIRECTORY,
    WALL_MS,
    append,
    open_log,
    read_all,
    values_of,
)
from tests.fakes.memory_files import MemoryFiles

SMALL = TopicConfig(segment_bytes=1000)
NO_TAIL = Environment(TailBudget(0), tail_bytes_max=0)


def test_flush_by_time_and_what_flush_messages_holds_back() -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(flush_messages=3, flush_ms=100))
    append(log, b"a", b"b")
    assert log.recovery_point == 0
    assert log.flush_task(WALL_MS + 99) is None
    task = log.flush_task(WALL_MS + 100)
    assert task is not None
    assert log.flush_task(WALL_MS + 100) is None
    task.run()
    log.on_flushed(task)
    assert log.recovery_point == 2
    append(log, b"a", b"b")
    assert log.may_acknowledge(Offset(4))
    append(log, b"c")
    assert not log.may_acknowledge(Offset(5))
    task = log.sync_task()
    append(log, b"d")
    task.run()
    log.on_flushed(task)
    assert log.recovery_point == 5
    assert log.may_acknowledge(Offset(7))
    assert not log.may_acknowledge(Offset(8))


def test_a_cut_takes_the_sync_back() -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(flush_messages=1))
    append(log, b"a", b"b")
    task = log.sync_task()
    task.run()
    log.on_flushed(task)
    log.truncate_to(Offset(0))
    append(log, b"c", b"d")
    assert not log.may_acknowledge(Offset(2))
    late = log.sync_task()
    log.truncate_to(Offset(0))
    append(log, b"e")
    late.run()
    log.on_flushed(late)
    assert not log.may_acknowledge(Offset(1))


def test_without_flush_messages_nothing_waits() -> None:
    log = open_log(MemoryFiles())
    append(log, b"a")
    assert log.may_acknowledge(Offset(1))


def test_a_flush_task_syncs_full_segments_and_is_void_after_a_cut() -> None:
    files = MemoryFiles()
    log = open_log(files, config=SMALL)
    assert log.flush_task() is None
    for _ in range(6):
        append(log, b"v" * 400)
    task, late = log.flush_task(), log.flush_task()
    assert task is not None
    assert late is not None
    task.run()
    log.on_flushed(task)
    assert log.recovery_point == 4
    assert files.names[f"{DIRECTORY}/{2:020d}.log"].synced
    assert log.flush_task() is None
    log.truncate_to(Offset(1))
    late.run()
    log.on_flushed(late)
    assert log.recovery_point == 1


def test_a_closed_log_takes_nothing() -> None:
    files = MemoryFiles()
    log = open_log(files, config=SMALL)
    for _ in range(6):
        append(log, b"v" * 400)
    task = log.flush_task()
    assert task is not None
    log.close(clean=False)
    task.run()
    log.on_flushed(task)  # deleted while the task ran: no harm
    assert log.recovery_point == 0
    with pytest.raises(KafkaStorageError, match="closed"):
        append(log, b"x")


def test_on_a_real_disk(tmp_path: Path) -> None:
    files = OsFiles()
    directory = str(tmp_path / "t-0")
    log = open_log(files, directory=directory, config=SMALL, environment=NO_TAIL)
    for number in range(30):
        append(log, b"%03d" % number * 50, epoch=number // 10)
    log.truncate_to(Offset(25))
    log.flush()
    log.advance_log_start(Offset(11))
    log.delete_old_segments()
    before = values_of(log)
    assert before[0] == (11, b"011" * 50)
    log.close(clean=True)
    again = open_log(
        files, directory=directory, config=SMALL, log_start_offset=11, environment=NO_TAIL
    )
    assert values_of(again) == before
    assert again.recovery.indexes_rebuilt == 0
    again.close(clean=True)
    assert {path.suffix for path in tmp_path.glob("t-0/*")} == {
        "", ".log", ".index", ".timeindex", ".snapshot",
    }  # fmt: skip


def test_many_inactive_segments_keep_few_handles() -> None:
    files = MemoryFiles()
    log = open_log(files, config=SMALL, environment=NO_TAIL)
    for _ in range(100):
        append(log, b"v" * 400)
    assert len(log.segments) == 50
    for _ in range(2):
        assert len(list(iter_headers(read_all(log)))) == 100
        assert len(files.handles) <= 12
    log.close(clean=True)
    assert not files.handles


def test_reconfigured_segment_size_counts_at_once() -> None:
    log = open_log(MemoryFiles())
    for _ in range(5):
        append(log, b"v" * 400)
    log.config = replace(log.config, segment_bytes=1000)
    append(log, b"v" * 400)
    assert [segment.base_offset for segment in log.segments] == [0, 5]
