"""Full disks, failing disks, and what the log is worth afterwards."""

from __future__ import annotations

import errno

import pytest

from pylog.errors import KafkaStorageError
from pylog.model import LeaderEpoch, Offset
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import DiskFull
from pylog_broker.storage.log.log import Environment
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import DIRECTORY, WALL_MS, append, batch_of, open_log, read_all, values_of
from tests.fakes.memory_files import MemoryFiles

LOG = f"{DIRECTORY}/{0:020d}.log"


def test_a_full_disk_cuts_the_partial_batch_and_the_log_goes_on() -> None:
    batch = batch_of(b"v" * 200, producer=(1, 0, 0))
    for room in range(0, len(batch), 7):
        files = MemoryFiles()
        log = open_log(files)
        append(log, b"before")
        size = log.size
        files.capacity = files._used() + room
        with pytest.raises(DiskFull, match="no room on the disk of /data/t-0") as error:
            log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
        assert error.value.retriable
        assert log.failure is None
        assert files.size(files.open(LOG)) == size == log.size
        assert values_of(log) == [(0, b"before")]
        files.capacity = None
        info = log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
        assert (info.base_offset, info.duplicate) == (1, False)
        assert len(values_of(log)) == 2


def test_epochs_that_found_no_room_are_written_later() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, b"a")
    files.fail("append", "leader-epoch-checkpoint", errno.ENOSPC, times=2)
    log.flush()
    log.truncate_to(Offset(0))
    assert not files.exists("/data/t-0/leader-epoch-checkpoint")
    append(log, b"b")
    log.flush()
    assert files.read_all("/data/t-0/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_a_full_disk_at_a_roll() -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(segment_bytes=300))
    append(log, b"v" * 200)
    files.fail("open", "1.log", errno.ENOSPC)
    files.fail("open", "1.index", errno.ENOSPC)
    for _ in range(2):
        with pytest.raises(DiskFull, match="rolling"):
            append(log, b"v" * 200)
    assert len(log.segments) == 1
    assert append(log, b"v" * 200) == 1
    assert len(log.segments) == 2


def test_indexes_that_found_no_room_are_written_later() -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(index_interval_bytes=0))
    append(log, b"a")
    files.fail("append", ".index", errno.ENOSPC, bytes_first=3)
    for _ in range(5):
        append(log, b"a")
    log.maybe_roll(WALL_MS)
    assert not log.segments[0].index_files_match()
    log.close(clean=True)
    again = open_log(files, config=TopicConfig(index_interval_bytes=0))
    assert again.recovery.indexes_rebuilt == 0
    assert len(again.segments[0].offsets) == 5


@pytest.mark.parametrize("code", [errno.ENOMEM, errno.EINTR])
@pytest.mark.parametrize("part", [".index", ".timeindex"])
def test_a_batch_that_is_in_the_log_is_taken_whatever_becomes_of_its_index(
    part: str, code: int
) -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(index_interval_bytes=0))
    files.fail("append", part, code, bytes_first=3)
    for number in range(40):  # index entries are written some at a time
        batch = batch_of(b"v", producer=(1, 0, number))
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS + number)
        assert log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS).duplicate
    assert [offset for offset, _ in values_of(log)] == list(range(40))
    log.close(clean=True)
    again = open_log(files, config=TopicConfig(index_interval_bytes=0))
    assert again.recovery.indexes_rebuilt == 0
    assert len(again.segments[0].offsets) == 39


@pytest.mark.parametrize("part", [".log", ".index"])
def test_an_io_error_ends_the_log(part: str) -> None:
    files = MemoryFiles()
    failed: list[str] = []
    environment = Environment(TailBudget(1000), failed=lambda log: failed.append(str(log.failure)))
    log = open_log(files, config=TopicConfig(index_interval_bytes=0), environment=environment)
    append(log, b"a")
    files.fail("append", part, errno.EIO, bytes_first=5)
    with pytest.raises(KafkaStorageError, match="appending of t-0 in /data/t-0 failed"):  # noqa: PT012
        for _ in range(40):  # index entries are written some at a time
            append(log, b"b")
    assert len(failed) == 1
    for use in (
        lambda: append(log, b"c"),
        lambda: read_all(log),
        lambda: log.truncate_to(Offset(0)),
        lambda: log.flush(),
        lambda: log.advance_log_start(Offset(1)),
        lambda: log.offset_for_timestamp(0),
    ):
        with pytest.raises(KafkaStorageError):
            use()
    assert len(failed) == 1
    log.close(clean=True)
    assert not files.handles


def test_fsync_is_never_tried_again() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, b"a")
    files.fail("fsync", LOG, errno.EIO)
    for _ in range(3):
        with pytest.raises(KafkaStorageError, match="syncing"):
            log.flush()
    assert log.recovery_point == 0
    assert files.names[LOG].synced == b""


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.ENOMEM])
def test_no_later_sync_makes_up_for_one_that_nobody_heard_of(code: int) -> None:
    """The kernel tells of lost pages once; the pool has heard of it, the loop has not yet."""
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(flush_messages=1))
    append(log, b"a")
    first = log.sync_task()
    append(log, b"b")
    second = log.sync_task()
    files.fail("fsync", LOG, code)
    first.run()
    second.run()
    with pytest.raises(KafkaStorageError, match="syncing"):
        log.on_flushed(second)
    assert (log.recovery_point, log.may_acknowledge(Offset(2))) == (0, False)
    assert log.failure is not None


def test_a_sync_is_not_believed_while_another_may_have_heard_of_a_failure() -> None:
    class Overlapping(MemoryFiles):
        """The second sync begins and ends while the first one hears of the lost pages."""

        def fsync(self, handle: int) -> None:
            if not settled:
                settled.append(True)
                second.run()
                log.on_flushed(second)
                raise OSError(errno.EIO, "lost")
            super().fsync(handle)

    settled: list[bool] = []
    log = open_log(Overlapping(), config=TopicConfig(flush_messages=1))
    append(log, b"a")
    first, second = log.sync_task(), log.sync_task()
    first.run()
    assert settled
    assert (second.error, log.recovery_point, log.may_acknowledge(Offset(1))) == (None, 0, False)
    with pytest.raises(KafkaStorageError, match="syncing"):
        log.on_flushed(first)


def test_a_sync_that_was_not_believed_is_due_again() -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(flush_ms=100))
    append(log, b"a")
    other = log.sync_task()
    task = log.sync_task()
    other._history.begin(other)
    task.run()
    log.on_flushed(task)
    with pytest.raises(KafkaStorageError, match="another sync of it is under way"):
        log.flush()
    assert (log.recovery_point, log.failure) == (0, None)
    other.run()
    again = log.flush_task(WALL_MS)
    assert again is not None
    again.run()
    log.on_flushed(again)
    assert log.recovery_point == 1


def test_a_sync_on_the_loop_does_not_make_up_for_one_on_the_pool_either() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, b"a")
    task = log.sync_task()
    files.fail("fsync", LOG, errno.EIO)
    task.run()
    with pytest.raises(KafkaStorageError, match="syncing"):
        log.flush()
    assert log.recovery_point == 0


def test_a_failed_flush_task_ends_the_log() -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(segment_bytes=300))
    append(log, b"v" * 200)
    append(log, b"v" * 200)
    task = log.flush_task()
    assert task is not None
    files.fail("fsync", LOG, errno.EIO)
    task.run()
    with pytest.raises(KafkaStorageError):
        log.on_flushed(task)
    assert log.failure is not None


def test_too_many_open_files_passes() -> None:
    files = MemoryFiles()
    environment = Environment(TailBudget(0), tail_bytes_max=0)
    log = open_log(files, config=TopicConfig(segment_bytes=300), environment=environment)
    for _ in range(30):
        append(log, b"v" * 200)
    files.fail("open", LOG, errno.EMFILE)
    with pytest.raises(KafkaStorageError, match="try again later"):
        log.read(0, 100, upper_bound=30)
    assert log.failure is None
    assert len(values_of(log)) == 30


def test_an_index_that_cannot_be_read_to_tell_how_much_there_is_ends_the_log() -> None:
    files = MemoryFiles()
    config = TopicConfig(segment_bytes=700)
    log = open_log(files, config=config)
    for _ in range(4):
        append(log, b"v" * 200)
    log.close(clean=True)
    environment = Environment(TailBudget(0), tail_bytes_max=0)
    again = open_log(files, config=config, environment=environment)
    files.fail("open", LOG, errno.EIO, times=9)
    files.fail("read_all", f"{0:020d}.index", errno.EIO)
    with pytest.raises(KafkaStorageError, match="telling how much there is") as error:
        again.bytes_between(1, 4)
    assert again.failure is error.value


def test_a_log_that_lost_its_only_segment_gets_one_when_there_is_room() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, b"a")
    files.fail("open", "9.log", errno.ENOSPC, times=2)
    with pytest.raises(DiskFull, match="truncating all"):
        log.truncate_fully_and_start_at(Offset(9))
    assert (log.log_start_offset, log.log_end_offset, log.failure) == (9, 9, None)
    with pytest.raises(DiskFull, match="finishing what was interrupted"):
        append(log, b"b")
    assert append(log, b"b") == 9
    assert values_of(log) == [(9, b"b")]
    files.kill()
    assert values_of(open_log(files, log_start_offset=9)) == [(9, b"b")]


def test_a_log_that_lost_its_only_segment_and_is_killed_begins_where_it_should() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, b"a")
    files.fail("open", "9.log", errno.ENOSPC)
    with pytest.raises(DiskFull):
        log.truncate_fully_and_start_at(Offset(9))
    files.kill()
    assert open_log(files, log_start_offset=9).log_end_offset == 9


def test_a_checkpoint_is_written_before_synced_bytes_are_cut() -> None:
    files = MemoryFiles()
    seen: list[tuple[int, int]] = []
    environment = Environment(
        TailBudget(1000),
        recovery_point_lowered=lambda offset: seen.append((offset, files.size(3))),
    )
    log = open_log(files, environment=environment)
    append(log, b"a")
    append(log, b"b")
    log.flush()
    size = log.size
    log.truncate_to(Offset(1))
    assert seen == [(1, size)]
