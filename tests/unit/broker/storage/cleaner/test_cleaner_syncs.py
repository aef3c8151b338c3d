"""A sync that fails within a pass of the cleaner is the log's failure, whatever else is so."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from pylog.model import LeaderEpoch, Offset
from pylog.records.builder import encode_batch
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner.clean_task import CleanTask
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.logs import DIRECTORY, TOPIC, WALL_MS, open_log
from tests.fakes.memory_files import MemoryFiles

COMPACT = TopicConfig(
    cleanup_policy=("compact",), segment_bytes=1200, min_cleanable_dirty_ratio=0.01
)
FIRST = f"{DIRECTORY}/{0:020d}.log"


class LosingFiles(MemoryFiles):
    """As a kernel does, a failed sync drops what it could not write."""

    def fsync(self, handle: int) -> None:
        _, file = self.handles[handle]
        try:
            super().fsync(handle)
        except OSError:
            file.data[90] ^= 1
            raise


def a_pass(files: MemoryFiles) -> tuple[Log, LogCleaner, CleanTask]:
    """A log, and a pass over it that is due."""
    log = open_log(files, config=COMPACT, last_stop=LastStop(0, 0))
    for number in range(60):
        batch = encode_batch([b"%d" % number], keys=[b"k"], timestamps=WALL_MS)
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    log.roll(WALL_MS)
    cleaner = LogCleaner(
        files,
        "/data",
        {TOPIC: log},
        BrokerConfig(),
        save_recovery_points=lambda: None,
        random_bytes=bytes,
        remove_later=lambda _log, _paths: None,
    )
    task = cleaner.next_task(WALL_MS, {TOPIC: log.log_end_offset})
    assert task is not None
    return log, cleaner, task


def nothing(_log: Log) -> None:
    """Nothing happens meanwhile."""


def cut(log: Log) -> None:
    """A new leader has another end."""
    log.truncate_to(Offset(50))


@pytest.mark.parametrize("meanwhile", [nothing, cut])
@pytest.mark.parametrize("files_of", [MemoryFiles, LosingFiles])
def test_a_failed_sync_fails_the_log(
    files_of: type[MemoryFiles], meanwhile: Callable[[Log], None]
) -> None:
    files = files_of()
    log, cleaner, task = a_pass(files)
    files.fail("fsync", FIRST, errno.EIO)
    task.run()
    meanwhile(log)
    assert not cleaner.on_ran(task)
    assert log.failure is not None
    assert "syncing" in str(log.failure)
    assert not cleaner.uncleanable, "the log is not damaged, its disk is"
    assert log.recovery_point == 0
    assert cleaner.passes == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.ENOMEM])
def test_a_failed_sync_has_no_reason_that_passes(code: int) -> None:
    files = LosingFiles()
    log, cleaner, task = a_pass(files)
    files.fail("fsync", FIRST, code)
    task.run()
    assert not cleaner.on_ran(task)
    assert log.failure is not None
    assert not cleaner.uncleanable


def test_a_sync_that_could_not_begin_leaves_the_log_to_a_later_pass() -> None:
    files = MemoryFiles()
    log, cleaner, task = a_pass(files)
    files.fail("open", FIRST, errno.EMFILE)
    task.run()
    assert not cleaner.on_ran(task)
    assert log.failure is None
    assert not cleaner.uncleanable
    assert cleaner.next_task(WALL_MS, {TOPIC: log.log_end_offset}) is not None
