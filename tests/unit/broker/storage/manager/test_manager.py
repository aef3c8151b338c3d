"""A broker directory's identity, its partitions, checkpoints and upkeep."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace

import pytest

from pylog.errors import InconsistentTopicId, InvalidTopic, KafkaStorageError
from pylog.model import LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    read_offsets,
    write_offsets,
)
from pylog_broker.storage.directories.directory import (
    META_PROPERTIES,
    find_broker_directories,
    inspect,
    read_meta,
)
from pylog_broker.storage.directories.partition_directories import parse_partition_directory
from pylog_broker.storage.errors import (
    DirectoryLocked,
    DirectoryUnwritable,
    DiskFull,
    ForeignDirectory,
    MetaPropertiesInvalid,
    OtherBrokersDirectory,
    StorageStartError,
)
from pylog_broker.storage.manager.manager import LogManager
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append, values_of
from tests.fakes.managers import OTHER, OTHER_ID, ROOT, log_of, open_manager, running
from tests.fakes.memory_files import MemoryFiles


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
    files.unlink(f"{ROOT}/t-0/partition.metadata")
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
