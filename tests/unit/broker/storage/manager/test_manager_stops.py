"""A broker directory after clean stops, crashes, damage, and logs that failed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pylog.errors import InconsistentTopicId, KafkaStorageError
from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT, LOG_START_CHECKPOINT
from pylog_broker.storage.directories.clean_marker import CLEAN_MARKER
from pylog_broker.storage.directories.partition_directories import DAMAGED_LOGS
from pylog_broker.storage.errors import (
    CorruptSegment,
)
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.manager.manager import LogManager
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append, values_of
from tests.fakes.managers import OTHER, OTHER_ID, ROOT, log_of, open_manager, running
from tests.fakes.memory_files import MemoryFile, MemoryFiles


def test_a_clean_stop_needs_no_checks() -> None:
    files, manager = running()
    manager.close(clean=True)
    assert not files.handles
    files.lose_power()
    again = open_manager(files, boot="boot-2")
    assert again.log_intact
    log = log_of(again)
    assert (log.recovery_point, log.log_end_offset) == (3, 3)
    assert not files.exists(f"{ROOT}/{CLEAN_MARKER}")  # a crash from here on is a crash


class HeldSync(MemoryFiles):
    """A sync on the thread `pool` ends when the main thread has synced something."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_end = threading.Event(), threading.Event()

    def fsync(self, handle: int) -> None:
        if threading.current_thread().name == "pool":
            self.begun.set()
            assert self.may_end.wait(60)
        super().fsync(handle)
        if threading.current_thread() is threading.main_thread():
            self.may_end.set()


@pytest.mark.parametrize("failing", [False, True])
def test_a_clean_stop_waits_for_a_sync_that_runs(failing: bool) -> None:
    """On another thread, and its failure is not hidden by the stop's own sync."""
    files = HeldSync()
    manager = open_manager(files)
    logs = [manager.create(TopicPartition("t", number), TOPIC_ID) for number in range(3)]
    for log in logs:
        append(log, b"v")
    files.may_end.clear()
    task = logs[2].sync_task()
    pool = threading.Thread(target=task.run, name="pool")
    pool.start()
    assert files.begun.wait(60)
    if failing:
        files.fail("fsync", "t-2", errno.EIO)
    manager.close(clean=True)
    pool.join()
    assert files.exists(f"{ROOT}/{CLEAN_MARKER}") is not failing
    again = open_manager(files, boot="boot-2")
    assert again.log_intact is not failing


def test_nothing_uses_a_directory_that_is_being_closed() -> None:
    """Its logs belong to the thread that closes them."""
    files, manager = running()
    log = log_of(manager)
    task = manager.checkpoint_task({})
    manager.retire()
    refused: list[Callable[[], object]] = [
        lambda: append(log, b"v"),
        lambda: log.assign_epoch(LeaderEpoch(7), log.log_end_offset),
        lambda: log.truncate_to(Offset(0)),
        lambda: log.sync_task(),
        lambda: log.read(0, 1, upper_bound=1),
        lambda: manager.create(OTHER, OTHER_ID),
        lambda: manager.delete(TOPIC),
        lambda: manager.forget(OTHER),
        lambda: manager.set_aside(log, "a copy"),
        lambda: manager.maintain(1, WALL_MS),
        lambda: manager.flush_tasks(),
        lambda: manager.checkpoint_high_watermarks({}),
        lambda: manager.checkpoint_recovery_points(),
        lambda: manager.checkpoint_task({}),
        lambda: manager.on_checkpointed(task),
        lambda: manager.registered(),
    ]
    for call in refused:
        with pytest.raises(KafkaStorageError, match="is closed here"):
            call()
    manager.fail(KafkaStorageError("the disk of another log"))
    closing = threading.Thread(target=manager.close, kwargs={"clean": True})
    closing.start()
    closing.join()
    again = open_manager(files, boot="boot-2")
    assert again.log_intact
    assert len(values_of(log_of(again))) == 3


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("fsync", "t-0/"),
        ("append", "recovery-point"),
        ("append", CLEAN_MARKER),
    ],
)
def test_a_disk_that_fails_at_the_stop_leaves_the_lock_free(operation: str, path: str) -> None:
    files, manager = running()
    append(manager.create(OTHER, OTHER_ID), b"v")
    files.fail(operation, path, errno.EIO)
    with suppress(OSError):
        manager.close(clean=True)
    assert not files.handles
    assert not files.exists(f"{ROOT}/{CLEAN_MARKER}")


class FailingClose(MemoryFiles):
    """A file system that tells at the close of a file what it could not write."""

    failing = False

    def close(self, handle: int) -> None:
        path = self.handles[handle][0]
        super().close(handle)
        if self.failing and "/t-0/" in path:
            raise OSError(errno.EIO, "injected")


def test_a_log_whose_files_cannot_be_closed_leaves_the_lock_free() -> None:
    files = FailingClose()
    manager = open_manager(files)
    for key, topic_id in ((OTHER, OTHER_ID), (TOPIC, TOPIC_ID)):
        append(manager.create(key, topic_id), b"v")
    files.failing = True
    manager.close(clean=True)
    assert all("/t-0/" in path for path, _ in files.handles.values())
    assert not files.exists(f"{ROOT}/{CLEAN_MARKER}")


def test_epochs_that_found_no_room_at_a_clean_stop_are_read_from_the_batches() -> None:
    files, manager = running()
    log_of(manager).flush()
    append(log_of(manager), b"of the next leader", epoch=2)
    files.fail("append", EPOCH_CHECKPOINT, errno.ENOSPC)
    manager.close(clean=True)
    for _ in range(2):  # from the batches, then from the file
        files.lose_power()
        manager = open_manager(files, boot="boot-2")
        assert manager.log_intact
        assert log_of(manager).epochs.entries == ((0, 0), (2, 3))
        manager.close(clean=True)


def test_73_a_log_start_beyond_the_end_of_a_closed_log_is_not_believed() -> None:
    files, manager = running()
    manager.close(clean=True)
    files.write_atomic(f"{ROOT}/{LOG_START_CHECKPOINT}", b"0\n1\nt 0 9999\n")
    log = log_of(open_manager(files))
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    # but where power was lost, records that were deleted may have gone with all behind them
    files.write_atomic(f"{ROOT}/{LOG_START_CHECKPOINT}", b"0\n1\nt 0 9999\n")
    files.kill()
    log = log_of(open_manager(files, boot="boot-2"))
    assert (log.log_start_offset, log.log_end_offset) == (9999, 9999)


def test_a_kill_keeps_everything() -> None:
    files, _manager = running()
    files.kill()
    again = open_manager(files)
    assert again.log_intact
    assert len(values_of(log_of(again))) == 3
    assert log_of(again).recovery_point == 0


def test_a_loss_of_power_is_remembered_until_the_controller_knows() -> None:
    files, manager = running()
    log_of(manager).flush()
    append(log_of(manager), b"unsynced")
    files.lose_power()
    again = open_manager(files, boot="boot-2")
    assert not again.log_intact
    assert log_of(again).log_end_offset == 3
    files.kill()
    again = open_manager(files, boot="boot-2")  # same boot now, but nobody was told
    assert not again.log_intact
    again.registered()
    files.kill()
    assert open_manager(files, boot="boot-2").log_intact


def test_a_file_system_that_was_mounted_anew_has_lost_its_memory() -> None:
    """The same boot of the machine: but a disk that failed and came back has what was synced."""
    files = MemoryFiles()
    manager = open_manager(files, mount="vdb:7")
    append(manager.create(TOPIC, TOPIC_ID), b"v")
    files.kill()
    manager = open_manager(files, mount="vdb:7")
    assert manager.log_intact
    files.kill()
    for _ in range(2):  # until the controller was told
        manager = open_manager(files, mount="vdb:8")
        assert not manager.log_intact
        files.kill()
    manager = open_manager(files, mount="vdb:8")
    manager.registered()
    files.kill()
    assert open_manager(files, mount="").log_intact, "a kernel that does not tell"
    files.kill()
    manager = open_manager(files, mount="vdb:8")
    assert manager.log_intact
    manager.close(clean=True)
    assert open_manager(files, mount="vdb:9").log_intact, "all was synced"


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_fails_at_a_start_leaves_the_log_in_doubt(code: int) -> None:
    files, manager = running()
    log_of(manager).flush()
    manager.checkpoint_recovery_points()
    append(log_of(manager), b"not synced")
    handle = files.open(f"{ROOT}/t-0/{0:020d}.log")
    files.append(handle, [bytes(9)])
    files.kill()
    files.fail("fsync", ".log", code)
    first = open_manager(files)
    assert first.failed_replicas == ((TOPIC_ID, 0),)
    files.kill()
    assert open_manager(files).lost_replicas == ((TOPIC_ID, 0),)


def test_a_log_that_cannot_be_read_after_a_loss_of_power_stays_in_doubt() -> None:
    files, manager = running()
    log_of(manager).flush()
    manager.checkpoint_recovery_points()
    files.lose_power()
    files.fail("pread", "t-0", errno.EIO)
    first = open_manager(files, boot="boot-2")
    assert first.failed_replicas == ((TOPIC_ID, 0),)
    first.registered()
    files.kill()
    assert open_manager(files, boot="boot-2").lost_replicas == ((TOPIC_ID, 0),)


def test_a_crash_while_loading_is_not_a_clean_stop() -> None:
    files, manager = running()
    manager.close(clean=True)
    files.fail("read_all", "t-0/0", errno.EIO)
    files.fail("pread", "t-0", errno.EIO)
    first = open_manager(files)
    assert TOPIC in first.failed
    assert (first.log_intact, first.failed_replicas) == (True, ((TOPIC_ID, 0),))
    files.kill()
    again = open_manager(files, boot="boot-2")
    assert not again.log_intact
    assert len(values_of(log_of(again))) == 3


@pytest.mark.parametrize("change", ["cut", "grown", "touched"])
def test_a_marker_that_does_not_fit_the_files(change: str) -> None:
    files, manager = running()
    manager.close(clean=True)
    path = f"{ROOT}/t-0/{0:020d}.log"
    handle = files.open(path)
    if change == "cut":
        files.truncate(handle, files.size(handle) - 1)
    else:
        files.append(handle, [b"junk" if change == "grown" else b""])
    files.close(handle)
    again = open_manager(files)
    log = log_of(again)
    assert log.log_end_offset == (2 if change == "cut" else 3)
    assert bool(log.recovery.bytes_cut) == (change != "touched")
    assert again.log_intact
    assert again.lost_replicas == (((TOPIC_ID, 0),) if change == "cut" else ())


def test_a_damaged_marker_means_a_crash() -> None:
    files, manager = running()
    manager.close(clean=True)
    files.write_atomic(f"{ROOT}/{CLEAN_MARKER}", b"\xff{")
    assert len(values_of(log_of(open_manager(files)))) == 3


def overlap(files: MemoryFiles) -> None:
    """Damage that nothing can be read around."""
    first = bytes(files.names[f"{ROOT}/t-0/{0:020d}.log"].data)
    files.names[f"{ROOT}/t-0/{1:020d}.log"] = MemoryFile(bytearray(first))


def test_a_log_with_a_rotten_batch_works() -> None:
    """Whether another replica is to lead in its place, its leader will know."""
    files, _ = running()
    files.kill()
    files.names[f"{ROOT}/t-0/{0:020d}.log"].data[80] ^= 1
    again = open_manager(files)
    assert (again.failed_replicas, again.lost_replicas, again.log_intact) == ((), (), True)
    assert [(hole.offset, hole.end_offset) for hole in log_of(again).damage] == [(1, 2)]
    assert log_of(again).log_end_offset == 3


def test_one_damaged_log_does_not_stop_the_others() -> None:
    files, manager = running()
    append(manager.create(OTHER, OTHER_ID), b"x")
    files.kill()
    overlap(files)
    again = open_manager(files)
    assert isinstance(again.failed[TOPIC], CorruptSegment)
    assert again.get(TOPIC) is None
    assert len(values_of(log_of(again, OTHER))) == 1
    assert (again.log_intact, again.lost_replicas) == (True, ())
    assert again.failed_replicas == ((TOPIC_ID, 0),)
    with pytest.raises(CorruptSegment):
        again.create(TOPIC, TOPIC_ID)
    again.registered()
    assert again.failed_replicas == ((TOPIC_ID, 0),)  # the controller knows now, and it stays so
    path = again.delete(TOPIC)  # refetched from the leader
    assert path is not None
    assert again.create(TOPIC, TOPIC_ID).log_end_offset == 0


def fail_append(files: MemoryFiles, manager: LogManager) -> None:
    files.fail("append", "t-0", errno.EIO)
    with pytest.raises(KafkaStorageError):
        append(log_of(manager), b"x")


def test_a_log_that_fails_while_running_is_remembered_until_its_next_life_is_registered() -> None:
    files, manager = running()
    append(manager.create(OTHER, OTHER_ID), b"x")
    fail_append(files, manager)
    assert [log.topic_partition for log in manager.take_new_failures()] == [TOPIC]
    assert manager.take_new_failures() == []
    assert (manager.failed_replicas, manager.lost_replicas) == (((TOPIC_ID, 0),), ())
    manager.registered()  # told that it does not work, but not what it will be like afterwards
    files.kill()
    for _ in range(2):
        again = open_manager(files)
        assert log_of(again).log_end_offset == 3
        assert (again.log_intact, again.failed_replicas) == (True, ())
        assert again.lost_replicas == ((TOPIC_ID, 0),)
        files.kill()
    open_manager(files).registered()
    files.kill()
    assert open_manager(files).lost_replicas == ()
    assert not files.exists(f"{ROOT}/{DAMAGED_LOGS}")


@pytest.mark.parametrize("tail", ["whole", "cut", "rotten"])
def test_a_log_that_failed_over_a_read_is_whole_when_it_proves_to_be(tail: str) -> None:
    files, manager = running()
    log = log_of(manager)
    log.flush()
    manager.checkpoint_recovery_points()
    log._tail.clear()
    files.fail("pread", "t-0", errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.read(0, 1000, upper_bound=3)
    assert manager.failed_replicas == ((TOPIC_ID, 0),)
    files.kill()
    data = files.names[f"{ROOT}/t-0/{0:020d}.log"].data
    if tail == "cut":
        del data[-1:]
    elif tail == "rotten":
        data[80] ^= 1  # in a batch that was synced, whose CRC is not checked at an ordinary start
    again = open_manager(files)
    assert again.log_intact
    assert again.lost_replicas == (((TOPIC_ID, 0),) if tail == "cut" else ())
    assert again.failed_replicas == ()
    assert len(log_of(again).damage) == (tail == "rotten")


def test_a_disk_that_refuses_once_leaves_the_log_whole_but_damage_does_not() -> None:
    files, manager = running()
    manager.close(clean=True)
    files.fail("read_all", "t-0/0", errno.EIO)
    files.fail("pread", "t-0", errno.EIO)
    assert open_manager(files).failed_replicas == ((TOPIC_ID, 0),)
    files.kill()
    again = open_manager(files)
    assert (again.failed_replicas, again.lost_replicas) == ((), ())
    files.kill()
    overlap(files)
    assert open_manager(files).failed_replicas == ((TOPIC_ID, 0),)
    files.kill()
    files.unlink(f"{ROOT}/t-0/{1:020d}.log")  # somebody took something away
    again = open_manager(files)
    assert (again.failed_replicas, again.lost_replicas) == ((), ((TOPIC_ID, 0),))


def test_when_nobody_can_say_which_log_is_damaged_all_may_be() -> None:
    files, manager = running()
    files.kill()
    metadata = files.read_all(f"{ROOT}/t-0/partition.metadata")
    files.write_atomic(f"{ROOT}/t-0/partition.metadata", b"nonsense")
    again = open_manager(files)
    assert (again.log_intact, again.failed_replicas) == (False, ())
    again.registered()
    files.kill()
    files.write_atomic(f"{ROOT}/t-0/partition.metadata", metadata)
    assert open_manager(files).log_intact
    files.kill()
    files.write_atomic(f"{ROOT}/{DAMAGED_LOGS}", b"nonsense")
    manager = open_manager(files)
    assert not manager.log_intact
    manager.registered()
    files.kill()
    assert open_manager(files).log_intact


def test_a_deleted_logs_damage_does_not_stick_to_the_next_one_of_its_name() -> None:
    files, manager = running()
    fail_append(files, manager)
    manager.delete(TOPIC)
    append(manager.create(TOPIC, OTHER_ID), b"x")
    files.kill()
    assert open_manager(files).lost_replicas == ()


def test_a_failure_that_cannot_be_noted_is_noted_with_the_upkeep() -> None:
    files, manager = running()
    files.fail("append", DAMAGED_LOGS, errno.EIO)
    fail_append(files, manager)
    assert not files.exists(f"{ROOT}/{DAMAGED_LOGS}")
    manager.maintain(0, WALL_MS)
    files.kill()
    assert open_manager(files).lost_replicas == ((TOPIC_ID, 0),)


def test_a_failed_log_spoils_the_clean_stop() -> None:
    files, manager = running()
    files.fail("fsync", "t-0", errno.EIO)
    manager.close(clean=True)
    assert not files.exists(f"{ROOT}/{CLEAN_MARKER}")
    assert not files.handles


def test_twins_and_swapped_directories() -> None:
    files, manager = running()
    append(manager.create(OTHER, OTHER_ID), b"x")
    manager.close(clean=True)
    files.rename(f"{ROOT}/t-0", f"{ROOT}/tmp")
    files.rename(f"{ROOT}/{OTHER}", f"{ROOT}/t-0")
    files.rename(f"{ROOT}/tmp", f"{ROOT}/{OTHER}")
    again = open_manager(files)
    for key, topic_id in ((TOPIC, TOPIC_ID), (OTHER, OTHER_ID)):
        with pytest.raises(InconsistentTopicId, match="belongs to topic id"):
            again.create(key, topic_id)
    again.close(clean=True)
    files.write_atomic(
        f"{ROOT}/{OTHER}/partition.metadata",
        files.read_all(f"{ROOT}/t-0/partition.metadata"),
    )
    files.rename(f"{ROOT}/{OTHER}", f"{ROOT}/z-0")
    files.rename(f"{ROOT}/z-0", f"{ROOT}/u-3")
    files.rename(f"{ROOT}/t-0", f"{ROOT}/v-3")
    again = open_manager(files)
    assert "both hold partition 3" in str(again.failed[TopicPartition("v", 3)])
    assert again.failed_replicas == ()
    assert [partition for _, partition in again.lost_replicas] == [3]


def test_records_without_a_topic_id() -> None:
    files, _manager = running()
    files.kill()
    files.write_atomic(f"{ROOT}/t-0/partition.metadata", b"nonsense")
    again = open_manager(files)
    assert "partition.metadata" in str(again.failed[TOPIC])


def test_foreign_things_in_the_directory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = OsFiles()
    root = tmp_path / "broker-1"
    manager = open_manager(files, directory=str(root))
    append(manager.create(TOPIC, TOPIC_ID), b"v")
    manager.close(clean=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "linked-0").symlink_to(elsewhere)
    (root / ".DS_Store").write_bytes(b"x")
    (root / "lost+found").mkdir()
    os.mkfifo(root / "pipe")
    again = open_manager(files, directory=str(root))
    assert "symbolic link" in str(again.failed[TopicPartition("linked", 0)])
    assert caplog.text.count("ignored: ['.DS_Store', 'lost+found', 'pipe']") == 1
    assert len(values_of(log_of(again))) == 1
    assert sorted(again.failed) == [TopicPartition("linked", 0)]
    (elsewhere / "precious").write_bytes(b"x")
    path = again.delete(TopicPartition("linked", 0))
    assert path is not None
    again.remove_directory(path)
    again.remove_directory(path)
    assert [entry.name for entry in elsewhere.iterdir()] == ["precious"]
    again.close(clean=True)
