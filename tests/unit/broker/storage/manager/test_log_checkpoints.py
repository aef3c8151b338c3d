"""Checkpoints: written in the order of their snapshots, once for many deletions, and never with
what a deleted log of the same name had.
"""

from __future__ import annotations

import errno

import pytest

from pylog.errors import KafkaStorageError
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.storage.checkpoints.checkpoint_writer import OffsetCheckpoint
from pylog_broker.storage.checkpoints.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    read_offsets,
    write_offsets,
)
from pylog_broker.storage.errors import ShortOfResources
from pylog_broker.storage.manager.manager import LogManager
from tests.fakes.memory_files import MemoryFiles

ROOT = "/data/broker-1"
PATH = "/d/checkpoint"
A, B = TopicPartition("a", 0), TopicPartition("b", 0)
FIRST_ID, SECOND_ID = TopicId("f" * 21 + "A"), TopicId("s" * 21 + "A")
NAMES = (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT)


class CountingFiles(MemoryFiles):
    """Notes the files that were put in their places, and counts directory syncs."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []
        self.directory_syncs = 0

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.written.append(new.rpartition("/")[2])

    def fsync_dir(self, path: str) -> None:
        self.directory_syncs += 1
        super().fsync_dir(path)


def opened(files: MemoryFiles, boot: str = "boot") -> LogManager:
    return LogManager.open(
        files, ROOT, cluster_id="c", broker_id=BrokerId(1), boot_id=boot,
        new_directory_id="d", wall_ms=0,
    )  # fmt: skip


def append(manager: LogManager, name: TopicPartition, count: int) -> None:
    log = manager.get(name)
    assert log is not None
    for _ in range(count):
        log.append_as_leader(encode_batch([b"v"]), leader_epoch=LeaderEpoch(1), wall_ms=0)


def checkpoint(files: MemoryFiles) -> OffsetCheckpoint:
    files.mkdir("/d")
    return OffsetCheckpoint(files, PATH)


def write(file: OffsetCheckpoint, offsets: dict[TopicPartition, Offset]) -> None:
    """As the pool and the loop do it together."""
    staged = file.stage(offsets)
    if staged is not None:
        staged.write()
    file.place(staged, directory_synced=False)


# ---- one file


def test_what_the_loop_wrote_meanwhile_is_newer_than_what_was_staged() -> None:
    files = CountingFiles()
    file = checkpoint(files)
    staged = file.stage({A: Offset(1)})
    assert staged is not None
    file.write({A: Offset(2)})
    staged.write()
    file.place(staged, directory_synced=True)
    assert read_offsets(files, PATH) == {A: 2}
    write(file, {A: Offset(3)})
    assert read_offsets(files, PATH) == {A: 3}


def test_of_two_staged_writes_the_last_one_counts() -> None:
    files = CountingFiles()
    file = checkpoint(files)
    early, late = file.stage({A: Offset(1)}), file.stage({A: Offset(2)})
    assert early is not None
    assert late is not None
    late.write()
    file.place(late, directory_synced=False)
    early.write()
    file.place(early, directory_synced=False)
    assert read_offsets(files, PATH) == {A: 2}


def test_the_same_again_is_not_written() -> None:
    files = CountingFiles()
    file = checkpoint(files)
    for _ in range(3):
        write(file, {A: Offset(1)})
    assert files.written == ["checkpoint"]
    assert file.stage({A: Offset(1)}) is None


def test_what_a_crash_may_leave_behind() -> None:
    files = CountingFiles()
    files.mkdir("/d")
    write_offsets(files, PATH, {A: Offset(1)})
    file = checkpoint(files)
    assert (file.may_hold(A), file.may_hold(B)) == (True, False)
    staged = file.stage({B: Offset(1)})
    assert staged is not None
    assert file.may_hold(B)  # not yet, but soon
    staged.write()
    file.place(staged, directory_synced=True)
    assert file.may_hold(A)  # its file is gone, but a loss of power would bring it back
    file.place(file.stage({B: Offset(1)}), directory_synced=True)
    assert (file.may_hold(A), file.may_hold(B)) == (False, True)
    files.fail("append", "checkpoint", errno.EIO)
    with pytest.raises(OSError, match="injected"):
        file.write({A: Offset(2)})
    assert (file.may_hold(A), file.may_hold(B)) == (True, True)  # nobody knows how far it got
    file.write({B: Offset(1)})
    assert (file.may_hold(A), file.may_hold(B)) == (False, True)


# ---- the three of a directory


def test_a_task_writes_all_three_and_then_nothing_that_is_not_new() -> None:
    files = CountingFiles()
    manager = opened(files)
    manager.create(A, FIRST_ID)
    append(manager, A, 3)
    log = manager.get(A)
    assert log is not None
    log.flush(Offset(3))
    files.written.clear()
    files.directory_syncs = 0
    for _ in range(3):
        task = manager.checkpoint_task({A: Offset(2)})
        task.run()
        manager.on_checkpointed(task)
    assert files.written == list(NAMES[:2])
    assert files.directory_syncs == 1
    assert read_offsets(files, f"{ROOT}/{HIGH_WATERMARK_CHECKPOINT}") == {A: 2}
    assert read_offsets(files, f"{ROOT}/{RECOVERY_POINT_CHECKPOINT}") == {A: 3}


def test_a_full_disk_puts_a_checkpoint_off_and_a_failing_one_is_told() -> None:
    files = CountingFiles()
    manager = opened(files)
    manager.create(A, FIRST_ID)
    for code in (errno.ENOSPC, errno.EIO):
        files.fail("append", HIGH_WATERMARK_CHECKPOINT, code)
        append(manager, A, 1)
        task = manager.checkpoint_task({A: Offset(0)})
        task.run()
        if code == errno.EIO:
            with pytest.raises(KafkaStorageError, match="cannot be written"):
                manager.on_checkpointed(task)
        else:
            manager.on_checkpointed(task)


def test_deleting_many_logs_writes_no_checkpoint_and_syncs_one_directory() -> None:
    files = CountingFiles()
    manager = opened(files)
    names = [TopicPartition("many", number) for number in range(100)]
    for name in names:
        manager.create(name, FIRST_ID)
    files.written.clear()
    files.directory_syncs = 0
    found = manager.delete_all([*names, B])
    assert list(found) == names
    assert all(isinstance(path, str) and path.endswith("-delete") for path in found.values())
    assert not {*files.written} & {*NAMES}
    assert files.directory_syncs == 1
    assert manager.logs == []


def test_a_deletion_that_fails_keeps_the_name_taken_and_the_others_go() -> None:
    files = CountingFiles()
    manager = opened(files)
    manager.create(A, FIRST_ID)
    manager.create(B, SECOND_ID)
    files.fail("rename", f"{ROOT}/a-0", errno.EIO)
    found = manager.delete_all([A, B])
    assert isinstance(found[A], KafkaStorageError)
    assert isinstance(found[B], str)
    with pytest.raises(KafkaStorageError, match="a-0 cannot be deleted"):
        manager.create(A, SECOND_ID)  # its directory still holds the old records
    manager.create(B, FIRST_ID)


@pytest.mark.parametrize("power", [False, True])
def test_a_new_log_inherits_nothing_from_a_deleted_one_of_its_name(power: bool) -> None:
    files = CountingFiles()
    manager = opened(files)
    manager.create(A, FIRST_ID)
    append(manager, A, 5)
    log = manager.get(A)
    assert log is not None
    log.flush()
    log.advance_log_start(Offset(4))
    manager.checkpoint_high_watermarks({A: Offset(5)})
    manager.checkpoint_recovery_points()
    late = manager.checkpoint_task({A: Offset(5)})  # still to be written by the pool
    manager.delete_all([A])
    manager.create(A, SECOND_ID)
    late.run()
    manager.on_checkpointed(late)
    append(manager, A, 2)
    if power:
        files.lose_power()
    else:
        files.kill()
    again = opened(files, boot="boot-2" if power else "boot")
    new = again.get(A)
    assert new is not None
    assert (new.topic_id, new.log_start_offset) == (SECOND_ID, 0)
    assert new.log_end_offset == (0 if power else 2)
    assert not new.recovery.lost_durable
    assert again.load_high_watermarks() == {A: 0}


def test_high_watermarks_of_names_without_a_log_are_dropped_at_the_start() -> None:
    files = CountingFiles()
    manager = opened(files)
    manager.create(A, FIRST_ID)
    manager.close(clean=True)
    path = f"{ROOT}/{HIGH_WATERMARK_CHECKPOINT}"
    write_offsets(files, path, {A: Offset(0), B: Offset(9)})
    again = opened(files)
    again.checkpoint_high_watermarks({})
    assert read_offsets(files, path) == {A: 0}


# ---- a high watermark that was cut away


def marked(files: MemoryFiles) -> dict[TopicPartition, Offset]:
    return read_offsets(files, f"{ROOT}/{HIGH_WATERMARK_CHECKPOINT}")


def with_marks(files: MemoryFiles) -> LogManager:
    """Two logs of five records, all of them committed."""
    manager = opened(files)
    for name, topic_id in ((A, FIRST_ID), (B, SECOND_ID)):
        manager.create(name, topic_id)
        append(manager, name, 5)
    manager.checkpoint_high_watermarks({A: Offset(5), B: Offset(5)})
    return manager


@pytest.mark.parametrize("code", [0, errno.EMFILE])
@pytest.mark.parametrize("start_over", [False, True])
def test_a_mark_above_a_cut_is_not_found_after_a_crash(start_over: bool, code: int) -> None:
    """Records written behind the cut were committed by nobody, whatever stood there before."""
    files = CountingFiles()
    manager = with_marks(files)
    log = manager.get(A)
    assert log is not None

    def cut() -> None:
        if start_over:
            log.truncate_fully_and_start_at(Offset(2))
        else:
            log.truncate_to(Offset(2))

    if code:
        files.fail("open", HIGH_WATERMARK_CHECKPOINT, code)
        with pytest.raises(ShortOfResources):
            cut()
        assert (log.log_end_offset, marked(files)) == (5, {A: 5, B: 5}), "nothing has changed"
    cut()
    assert marked(files) == {A: 2, B: 5}
    append(manager, A, 3)
    files.kill()
    again = opened(files)
    assert again.load_high_watermarks() == {A: 2, B: 5}


def test_a_cut_above_the_mark_writes_no_marks() -> None:
    files = CountingFiles()
    manager = with_marks(files)
    append(manager, A, 3)
    log = manager.get(A)
    assert log is not None
    files.written.clear()
    log.truncate_to(Offset(6))
    log.truncate_fully_and_start_at(Offset(9))
    assert HIGH_WATERMARK_CHECKPOINT not in files.written


def test_a_mark_above_what_a_start_has_found_is_not_believed_later() -> None:
    files = CountingFiles()
    with_marks(files)
    files.lose_power()
    manager = opened(files, "next boot")
    log = manager.get(A)
    assert log is not None
    assert log.log_end_offset == 0
    append(manager, A, 4)
    files.kill()
    assert opened(files, "next boot").load_high_watermarks()[A] == 0
