"""A broker's directory: identity, start errors, checkpoints, clean stops and what crashes leave."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from broker.config import BrokerConfig, TopicConfig
from broker.storage.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    read_offsets,
    write_offsets,
)
from broker.storage.clean_marker import CLEAN_MARKER
from broker.storage.directory import (
    META_PROPERTIES,
    find_broker_directories,
    inspect,
    read_meta,
)
from broker.storage.errors import (
    CorruptSegment,
    DirectoryLocked,
    DirectoryUnwritable,
    DiskFull,
    ForeignDirectory,
    MetaPropertiesInvalid,
    OtherBrokersDirectory,
    StorageStartError,
)
from broker.storage.files import Files, OsFiles
from broker.storage.log import Log
from broker.storage.manager import LogManager
from broker.storage.partition_directories import DAMAGED_LOGS, parse_partition_directory
from pylog.errors import InconsistentTopicId, InvalidTopic, KafkaStorageError
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append, values_of
from tests.fakes.memory_files import MemoryFiles

ROOT = "/data/broker-1"
OTHER = TopicPartition("other.topic", 3)
OTHER_ID = TopicId("o" * 21 + "A")


def open_manager(
    files: Files,
    *,
    directory: str = ROOT,
    cluster: str = "cluster",
    broker: int = 1,
    boot: str = "boot-1",
    config: BrokerConfig | None = None,
) -> LogManager:
    return LogManager.open(
        files,
        directory,
        cluster_id=cluster,
        broker_id=BrokerId(broker),
        boot_id=boot,
        new_directory_id="directory-1",
        wall_ms=WALL_MS,
        config=config,
    )


def log_of(manager: LogManager, key: TopicPartition = TOPIC) -> Log:
    log = manager.get(key)
    assert log is not None
    return log


def running(count: int = 3) -> tuple[MemoryFiles, LogManager]:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create(TOPIC, TOPIC_ID)
    for _ in range(count):
        append(log, b"v")
    return files, manager


# ---- identity


def test_a_new_directory_gets_an_identity_and_keeps_it() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    assert (manager.meta.directory_id, manager.log_intact) == ("directory-1", True)
    with pytest.raises(DirectoryLocked, match="in use by another process"):
        open_manager(files)
    found = inspect(files, ROOT)
    assert found is not None
    assert (found.locked, found.meta.clean, found.meta.broker_id) == (True, False, 1)
    manager.close(clean=True)
    found = inspect(files, ROOT)
    assert found is not None
    assert (found.locked, found.meta.clean) == (False, True)
    text = files.read_all(f"{ROOT}/{META_PROPERTIES}").decode()
    for line in ("version=1", "cluster.id=cluster", "node.id=1", "directory.id=directory-1"):
        assert line in text.splitlines()
    files.mkdir("/data/elsewhere")
    assert [found.path for found in find_broker_directories(files, "/data")] == [ROOT]
    assert find_broker_directories(files, "/nowhere") == []


def test_start_errors_say_what_to_do() -> None:
    files, manager = running()
    manager.close(clean=True)
    with pytest.raises(ForeignDirectory, match="belongs to cluster cluster, not mine"):
        open_manager(files, cluster="mine")
    with pytest.raises(OtherBrokersDirectory, match="broker 1, not 2"):
        open_manager(files, broker=2)
    path = f"{ROOT}/{META_PROPERTIES}"
    meta = files.read_all(path)
    for content in (b"", b"version=1\ncluster.id=x\n", b"\xff\xfe", meta.replace(b"=1", b"=one")):
        files.write_atomic(path, content)
        with pytest.raises(MetaPropertiesInvalid, match=r"meta\.properties"):
            open_manager(files)
    files.write_atomic(path, meta.replace(b"version=1", b"version=7"))
    with pytest.raises(MetaPropertiesInvalid, match="'7'; this release knows 1"):
        open_manager(files)
    files.unlink(path)
    with pytest.raises(MetaPropertiesInvalid, match="holds 1 partitions"):
        open_manager(files)
    files.write_atomic(path, meta)
    manager = open_manager(files)  # none of these kept the lock or changed anything
    assert len(values_of(log_of(manager))) == 3
    assert issubclass(ForeignDirectory, StorageStartError)
    assert not issubclass(DirectoryLocked, StorageStartError)


@pytest.mark.parametrize(
    ("code", "cure"),
    [(errno.EACCES, "give it to the user"), (errno.ENOSPC, "full"), (errno.EROFS, "read-only")],
)
def test_an_unwritable_directory(code: int, cure: str) -> None:
    files = MemoryFiles()
    files.fail("append", META_PROPERTIES, code)
    with pytest.raises(DirectoryUnwritable, match=f"{ROOT}.*{cure}"):
        open_manager(files)
    files.fail("mkdir", "broker-2", code)
    with pytest.raises(DirectoryUnwritable, match=cure):
        open_manager(files, directory="/data/broker-2")
    open_manager(files)


# ---- creating and deleting


def test_create_is_keyed_by_name_and_id() -> None:
    _, manager = running()
    log = log_of(manager)
    assert manager.create(TOPIC, TOPIC_ID) is log
    assert manager.by_id(TOPIC_ID, 0) is log
    with pytest.raises(InconsistentTopicId):
        manager.create(TOPIC, OTHER_ID)
    for name in ("..", "a/b", "", "x" * 250):
        with pytest.raises(InvalidTopic):
            manager.create(TopicPartition(name, 0), OTHER_ID)
    with pytest.raises(InvalidTopic):
        manager.create(TopicPartition("x", -1), OTHER_ID)
    assert manager.get(OTHER) is None


def test_partition_metadata_is_kafkas() -> None:
    files, _ = running()
    text = files.read_all(f"{ROOT}/t-0/partition.metadata")
    assert text == f"version: 0\ntopic_id: {TOPIC_ID}\n".encode()


def test_the_longest_topic_is_created_deleted_and_created_again() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    key = TopicPartition("a." * 124 + "b", 7)
    gone = []
    for _ in range(3):
        append(manager.create(key, OTHER_ID), b"x")
        path = manager.delete(key)
        assert path is not None
        gone.append(path)
        assert manager.get(key) is manager.by_id(OTHER_ID, 7) is None
    assert len(set(gone)) == 3
    assert all(len(path.rpartition("/")[2]) <= 255 for path in gone)
    assert manager.delete(key) is None
    manager.remove_directory(gone[0])
    assert not files.exists(gone[0])
    assert manager.create(key, OTHER_ID).log_end_offset == 0
    manager.close(clean=False)
    files.kill()
    again = open_manager(files)
    assert not files.exists(gone[1])  # a start removes what is left
    assert again.get(key) is not None


def test_deleting_keeps_no_handles() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    before = len(files.handles)
    for _ in range(50):
        append(manager.create(TOPIC, TOPIC_ID), b"x")
        path = manager.delete(TOPIC)
        assert path is not None
        manager.remove_directory(path)
    assert len(files.handles) == before


def test_a_disk_error_while_creating() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    files.fail("append", "partition.metadata", errno.ENOSPC)
    with pytest.raises(DiskFull, match="no room on the disk of"):
        manager.create(TOPIC, TOPIC_ID)
    files.fail("append", "partition.metadata", errno.EIO)
    with pytest.raises(KafkaStorageError, match="cannot be made"):
        manager.create(TOPIC, TOPIC_ID)
    assert manager.create(TOPIC, TOPIC_ID).log_end_offset == 0


def test_a_half_created_partition_is_removed() -> None:
    files, manager = running()
    manager.close(clean=False)
    files.kill()
    files.mkdir(f"{ROOT}/half-0")
    assert open_manager(files).get(TopicPartition("half", 0)) is None
    assert not files.exists(f"{ROOT}/half-0")


def test_partition_directory_names() -> None:
    assert parse_partition_directory("a-b.c_d-12") == TopicPartition("a-b.c_d", 12)
    for name in ("a", "a-", "-1", "a-01", "a-1.x-delete", "a b-1", "a--", ".-1"):
        assert parse_partition_directory(name) is None
    assert parse_partition_directory("a--1") == TopicPartition("a-", 1)


# ---- clean stops and crashes


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


def test_one_damaged_log_does_not_stop_the_others() -> None:
    files, manager = running()
    append(manager.create(OTHER, OTHER_ID), b"x")
    files.kill()
    files.names[f"{ROOT}/t-0/{0:020d}.log"].data[80] ^= 1
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
    assert again.failed_replicas == (((TOPIC_ID, 0),) if tail == "rotten" else ())


def test_a_disk_that_refuses_once_leaves_the_log_whole_but_damage_does_not() -> None:
    files, manager = running()
    manager.close(clean=True)
    path = f"{ROOT}/t-0/{0:020d}.log"
    files.fail("read_all", "t-0/0", errno.EIO)
    files.fail("pread", "t-0", errno.EIO)
    assert open_manager(files).failed_replicas == ((TOPIC_ID, 0),)
    files.kill()
    again = open_manager(files)
    assert (again.failed_replicas, again.lost_replicas) == ((), ())
    files.kill()
    files.names[path].data[80] ^= 1
    assert open_manager(files).failed_replicas == ((TOPIC_ID, 0),)
    files.kill()
    files.names[path].data[80] ^= 1  # somebody put something in its place
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


# ---- checkpoints


def test_high_watermarks_never_pass_the_log() -> None:
    files, manager = running(5)
    manager.checkpoint_high_watermarks({TOPIC: Offset(4), OTHER: Offset(9)})
    manager.close(clean=True)
    assert read_offsets(files, f"{ROOT}/{HIGH_WATERMARK_CHECKPOINT}") == {TOPIC: 4}
    again = open_manager(files)
    assert again.load_high_watermarks() == {TOPIC: 4}
    log_of(again).truncate_to(Offset(2))
    assert again.load_high_watermarks() == {TOPIC: 2}
    again.close(clean=False)
    files.kill()
    for content in (
        b"",
        b"0\n1\nt 0 99\n",
        b"0\n2\nt 0 1\nt 0 7\n",
        b"0\n5\n",
        b"\xff",
        b"0\n1\nt 0 x\n",
    ):
        files.write_atomic(f"{ROOT}/{HIGH_WATERMARK_CHECKPOINT}", content)
        again = open_manager(files)
        (mark,) = again.load_high_watermarks().values()
        assert mark == {b"0\n1\nt 0 99\n": 2, b"0\n2\nt 0 1\nt 0 7\n": 1}.get(content, 0)
        again.close(clean=False)
        files.kill()


def test_deleted_records_stay_deleted() -> None:
    files, manager = running(5)
    log_of(manager).advance_log_start(Offset(3))
    files.kill()
    again = open_manager(files)
    assert log_of(again).log_start_offset == 3
    assert again.load_high_watermarks() == {TOPIC: 3}
    assert read_offsets(files, f"{ROOT}/{LOG_START_CHECKPOINT}") == {TOPIC: 3}
    log_of(again).flush()
    again.checkpoint_recovery_points()
    files.lose_power()
    assert log_of(open_manager(files, boot="boot-2")).log_start_offset == 3


def test_checkpoints_of_failed_logs_are_kept() -> None:
    files, manager = running(3)
    log_of(manager).flush()
    manager.checkpoint_recovery_points()
    files.kill()
    files.names[f"{ROOT}/t-0/{0:020d}.log"].data[16] = 0
    again = open_manager(files)
    assert TOPIC in again.failed
    again.checkpoint_recovery_points()
    assert read_offsets(files, f"{ROOT}/{RECOVERY_POINT_CHECKPOINT}") == {TOPIC: 3}


def run_flushes(manager: LogManager) -> None:
    for log, task in manager.flush_tasks():
        task.run()
        with suppress(KafkaStorageError):
            log.on_flushed(task)


def test_upkeep_rolls_flushes_and_removes() -> None:
    files, manager = running(0)
    log = log_of(manager)
    log.config = TopicConfig(segment_ms=100, flush_ms=50, file_delete_delay_ms=1000)
    append(log, b"a")
    manager.maintain(0, WALL_MS + 60)
    run_flushes(manager)
    assert (log.recovery_point, len(log.segments)) == (1, 1)
    manager.maintain(0, WALL_MS + 101)
    assert len(log.segments) == 2
    log.advance_log_start(Offset(1))
    manager.maintain(500, WALL_MS + 102)
    manager.maintain(1499, WALL_MS + 102)
    deleted = [name for name in files.listdir(f"{ROOT}/t-0") if name.endswith(".deleted")]
    assert len(deleted) == 3
    assert manager.removal_task(1499) is None
    removal = manager.removal_task(1500)
    assert removal is not None
    removal.run()
    assert manager.removal_task(1500) is None
    assert not [name for name in files.listdir(f"{ROOT}/t-0") if name.endswith(".deleted")]


def test_upkeep_passes_over_failed_logs() -> None:
    files, manager = running(1)
    log_of(manager).config = TopicConfig(flush_ms=0)
    files.fail("fsync", "t-0", errno.EIO)
    manager.maintain(0, WALL_MS + 1)
    run_flushes(manager)
    assert log_of(manager).failure is not None
    manager.maintain(0, WALL_MS + 1)
    assert manager.flush_tasks() == []


def test_flush_tasks() -> None:
    _, manager = running(0)
    log = log_of(manager)
    log.config = TopicConfig(segment_bytes=1024)
    for _ in range(4):
        append(log, b"v" * 700)
    ((owner, task),) = manager.flush_tasks()
    task.run()
    owner.on_flushed(task)
    assert (owner, log.recovery_point) == (log, 3)


def test_the_tails_of_all_logs_share_a_bound() -> None:
    files = MemoryFiles()
    config = replace(BrokerConfig(), log_tail_cache_max_bytes=1000)
    manager = open_manager(files, config=config)
    logs = [
        manager.create(TopicPartition("t", number), TopicId(f"{number:021d}A"))
        for number in range(5)
    ]
    for log in logs * 3:
        append(log, b"v" * 200)
    assert sum(log._tail.bytes_used for log in logs) <= 1000
    assert [len(values_of(log)) for log in logs] == [3] * 5


def test_checkpoints_are_kafkas_text() -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    offsets = {OTHER: Offset(7), TOPIC: Offset(0)}
    write_offsets(files, "/d/x", offsets)
    assert files.read_all("/d/x") == b"0\n2\nother.topic 3 7\nt 0 0\n"
    assert read_offsets(files, "/d/x") == offsets
    assert read_offsets(files, "/d/missing") == {}
    assert read_offsets(files, "/d") == {}


def test_meta_is_read_as_others_write_it() -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    text = "#\n#Thu Jan 01\ndirectory.id=abc\nversion=1\n\ncluster.id = c\nnode.id=4\n"
    files.write_atomic("/d/meta.properties", text.encode())
    meta = read_meta(files, "/d")
    assert meta is not None
    assert (meta.broker_id, meta.cluster_id, meta.boot_id, meta.clean) == (4, "c", "", False)


def test_epochs_and_starts_survive_a_restart() -> None:
    files, manager = running(0)
    log = log_of(manager)
    for epoch in (1, 1, 4):
        append(log, b"v", epoch=epoch)
    log.assign_epoch(LeaderEpoch(6), Offset(3))
    manager.close(clean=True)
    assert log_of(open_manager(files)).epochs.entries == ((1, 0), (4, 2), (6, 3))
