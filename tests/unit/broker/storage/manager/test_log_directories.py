"""Several log directories of one broker: opening, placing, failing, and what a start finds."""

from __future__ import annotations

import errno
from copy import deepcopy

import pytest

from pylog.errors import KafkaStorageError
from pylog.model import BrokerId, LeaderEpoch, TopicId, TopicPartition
from pylog_broker.config import BrokerConfig
from pylog_broker.storage.directories.directory import META_PROPERTIES, MetaProperties
from pylog_broker.storage.directories.partition_directories import PARTITION_METADATA
from pylog_broker.storage.directories.roster import ROSTER, Roster
from pylog_broker.storage.errors import (
    DirectoryLocked,
    DirectoryUnwritable,
    DiskFull,
    ForeignDirectory,
    MetaPropertiesInvalid,
    OtherBrokersDirectory,
    StorageStartError,
)
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.opening import Opening
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append, values_of
from tests.fakes.memory_files import MemoryFile, MemoryFiles

ONE, TWO, THREE = "/disk1/broker-1", "/disk2/broker-1", "/disk3/broker-1"
OTHER = TopicPartition("other", 0)
OTHER_ID = TopicId("o" * 21 + "A")
EPOCH = LeaderEpoch(0)


class Ids:
    """Directory ids dir-1, dir-2, ... in the order of asking."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"dir-{self.count}"


@pytest.fixture
def ids() -> Ids:
    return Ids()


@pytest.fixture
def disk() -> MemoryFiles:
    return MemoryFiles()


def opening(
    files: MemoryFiles, ids: Ids, *paths: str, broker: int = 1, cluster: str = "c", boot: str = "b"
) -> Opening:
    owner = MetaProperties(cluster, BrokerId(broker), "", boot)
    return Opening(files, paths, owner, new_directory_id=ids, wall_ms=WALL_MS)


def opened(files: MemoryFiles, ids: Ids, *paths: str, boot: str = "b") -> LogDirectories:
    start = opening(files, ids, *(paths or (ONE, TWO)), boot=boot)
    for step in start.steps:
        step()
    return start.finish()


def refused(files: MemoryFiles, ids: Ids, *paths: str, **owner: object) -> StorageStartError:
    start = opening(files, ids, *paths, **owner)  # type: ignore[arg-type]
    for step in start.steps:
        step()
    with pytest.raises(StorageStartError) as caught:
        start.finish()
    return caught.value


def filled(files: MemoryFiles, ids: Ids) -> tuple[LogDirectories, Log, Log]:
    """A log in each of two directories."""
    logs = opened(files, ids)
    one = logs.create(TOPIC, TOPIC_ID, directory_id="dir-1")
    two = logs.create(OTHER, OTHER_ID, directory_id="dir-2")
    append(one, b"a")
    append(two, b"b")
    return logs, one, two


# ---- opening


def test_each_directory_has_everything_of_its_own(disk: MemoryFiles, ids: Ids) -> None:
    logs, _, _ = filled(disk, ids)
    assert [m.meta.directory_id for m in logs.opened] == ["dir-1", "dir-2"]
    assert logs.offline == ()
    logs.checkpoint_high_watermarks({TOPIC: 1, OTHER: 1})  # type: ignore[dict-item]
    logs.close(clean=True)
    for path in (ONE, TWO):
        names = disk.listdir(path)
        for name in (
            ".kafka_cleanshutdown", ".lock", ROSTER, META_PROPERTIES,
            "recovery-point-offset-checkpoint", "replication-offset-checkpoint",
        ):  # fmt: skip
            assert name in names
    again = opened(disk, ids)
    assert again.load_high_watermarks() == {TOPIC: 1, OTHER: 1}
    assert [log.directory for log in again.logs] == [f"{ONE}/{TOPIC}", f"{TWO}/other-0"]
    assert again.log_intact


def test_one_directory_remembers_no_others(disk: MemoryFiles, ids: Ids) -> None:
    logs = opened(disk, ids, ONE)
    assert logs.is_one
    assert ROSTER not in disk.listdir(ONE)
    # Ids say nothing there: a log is where it is.
    log = logs.create(TOPIC, TOPIC_ID, directory_id="another")
    assert logs.by_id(TOPIC_ID, 0, "whatever") is log


def test_the_cleaners_share_their_memory(disk: MemoryFiles, ids: Ids) -> None:
    logs = opened(disk, ids)
    size = BrokerConfig().log_cleaner_dedupe_buffer_size
    assert [m.config.log_cleaner_dedupe_buffer_size for m in logs.opened] == [size // 2] * 2
    logs.reconfigure(BrokerConfig(log_cleaner_dedupe_buffer_size=2 << 20))
    assert [m.cleaner.config.log_cleaner_dedupe_buffer_size for m in logs.opened] == [1 << 20] * 2
    assert logs.config.log_cleaner_dedupe_buffer_size == 2 << 20


def test_a_lock_is_waited_for_before_any_log_is_read(disk: MemoryFiles, ids: Ids) -> None:
    filled(disk, ids)
    with pytest.raises(DirectoryLocked, match=f"{ONE} is in use by another process"):
        opening(disk, ids, ONE, TWO)


def test_mistakes_are_named_and_nothing_stays_open(disk: MemoryFiles, ids: Ids) -> None:
    logs, _, _ = filled(disk, ids)
    logs.close(clean=True)
    fault = refused(disk, ids, ONE, TWO, broker=2)
    assert isinstance(fault, OtherBrokersDirectory)
    assert f"{ONE} belongs to broker 1, not 2" in str(fault)
    assert isinstance(refused(disk, ids, THREE, TWO, cluster="x"), ForeignDirectory)
    assert disk.locked == set()
    disk.mkdir("/disk4/broker-1/t-0")
    assert isinstance(refused(disk, ids, ONE, "/disk4/broker-1"), MetaPropertiesInvalid)
    disk.fail("mkdir", "/disk5", errno.EACCES)
    fault = refused(disk, ids, ONE, "/disk5/broker-1")
    assert isinstance(fault, DirectoryUnwritable)
    assert "/disk5/broker-1 cannot be written" in str(fault)
    assert opened(disk, ids).logs[0].recovery.batches == 0  # its clean stop was kept


def test_a_copy_of_a_directory_is_refused(disk: MemoryFiles, ids: Ids) -> None:
    opened(disk, ids, ONE).close(clean=True)
    disk.mkdir(TWO)
    disk.write_atomic(f"{TWO}/{META_PROPERTIES}", disk.read_all(f"{ONE}/{META_PROPERTIES}"))
    fault = refused(disk, ids, ONE, TWO)
    assert f"{ONE} and {TWO} bear the same directory.id dir-1" in str(fault)


def test_a_roster_that_cannot_be_written_is_a_failed_disk(disk: MemoryFiles, ids: Ids) -> None:
    disk.fail("append", f"{TWO}/{ROSTER}", errno.EIO)
    logs = opened(disk, ids)
    assert [gone.path for gone in logs.offline] == [TWO]
    logs.close(clean=True)
    disk.fail("append", f"{ONE}/{ROSTER}", errno.EIO, times=9)
    start = opening(disk, ids, ONE)
    start.steps[0]()
    with pytest.raises(KafkaStorageError, match="cannot be written"):
        start.finish()
    assert disk.locked == set()


# ---- placing


def test_a_replica_is_made_where_the_metadata_have_it(disk: MemoryFiles, ids: Ids) -> None:
    _, one, two = filled(disk, ids)
    assert (one.directory, two.directory) == (f"{ONE}/{TOPIC}", f"{TWO}/other-0")


def test_an_unknown_directory_stands_for_the_emptiest(disk: MemoryFiles, ids: Ids) -> None:
    logs = opened(disk, ids, ONE, TWO, THREE)
    logs.create(TOPIC, TOPIC_ID, directory_id="dir-1")
    logs.create(OTHER, OTHER_ID, directory_id="dir-3")
    new = logs.create(TopicPartition("new", 0), TopicId("n" * 22), directory_id="gone")
    assert new.directory == f"{TWO}/new-0"


def test_a_full_disk_is_one_directorys(disk: MemoryFiles, ids: Ids) -> None:
    logs, one, two = filled(disk, ids)
    disk.fail("append", TWO, errno.ENOSPC)
    with pytest.raises(DiskFull, match=f"no room on the disk of {TWO}"):
        append(two, b"c")
    append(one, b"c")
    assert logs.take_new_failures() == []
    append(two, b"c")
    assert values_of(two) == [(0, b"b"), (1, b"c")]


# ---- failing


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS])
def test_an_error_of_the_disk_takes_its_directory(disk: MemoryFiles, ids: Ids, code: int) -> None:
    logs, one, two = filled(disk, ids)
    beside = logs.create(TopicPartition("beside", 0), TopicId("b" * 22), directory_id="dir-2")
    calls: list[None] = []
    logs.on_failure(lambda: calls.append(None))
    disk.fail("append", f"{TWO}/other-0", code, times=99)
    with pytest.raises(KafkaStorageError, match="offline"):
        append(two, b"c")
    assert len(calls) == 1
    assert set(logs.take_new_failures()) == {two, beside}
    assert f"the log directory {TWO} is offline" in str(beside.failure)
    assert one.failure is None
    append(one, b"c")
    assert [m.directory for m in logs.live] == [ONE]
    (gone,) = logs.take_failed_directories()
    assert (gone.path, gone.directory_id) == (TWO, "dir-2")
    assert logs.take_failed_directories() == []
    assert logs.offline == (gone,)
    with pytest.raises(KafkaStorageError, match=f"in the log directory {TWO}, which is offline"):
        logs.create(TopicPartition("new", 0), TopicId("n" * 22), directory_id="dir-2")
    assert logs.failed_replicas == (("b" * 22, 0), (OTHER_ID, 0))
    disk.faults.clear()
    logs.close(clean=True)
    assert ".kafka_cleanshutdown" in disk.listdir(ONE)
    assert ".kafka_cleanshutdown" not in disk.listdir(TWO)
    # The failed write leaves its own log in doubt, the one beside it is whole.
    assert opened(disk, ids).lost_replicas == ((OTHER_ID, 0),)


def test_a_disk_that_failed_and_could_not_note_it_is_in_doubt_when_it_is_back(
    disk: MemoryFiles, ids: Ids
) -> None:
    """Mounted anew on the same boot: what was not synced is gone, and nothing in it says so."""
    logs, _, two = filled(disk, ids)
    for operation in ("append", "unlink"):
        disk.fail(operation, TWO, errno.EROFS, times=99)
    with pytest.raises(KafkaStorageError, match="offline"):
        append(two, b"c")
    logs.take_new_failures()
    disk.kill()
    disk.faults.clear()
    again = opened(disk, ids)
    assert [manager.log_intact for manager in again.opened] == [True, False]
    assert not again.log_intact
    again.registered()
    disk.kill()
    assert opened(disk, ids).log_intact, "the controller knows"


def test_a_disk_that_was_not_there_is_in_doubt_unless_it_was_left_cleanly(
    disk: MemoryFiles, ids: Ids
) -> None:
    for clean in (True, False):
        opened(disk, ids).close(clean=clean)
        taken = unmounted(disk, TWO)
        opened(disk, ids).close(clean=False)
        disk.kill()
        disk.names |= taken  # type: ignore[arg-type]
        logs = opened(disk, ids)
        assert [manager.log_intact for manager in logs.opened] == [True, clean]
        logs.registered()
        logs.close(clean=False)
        disk.kill()


def test_damage_is_one_logs(disk: MemoryFiles, ids: Ids) -> None:
    logs, _, two = filled(disk, ids)
    disk.fail("append", f"{TWO}/other-0", errno.ENOENT)
    with pytest.raises(KafkaStorageError):
        append(two, b"c")
    assert logs.take_new_failures() == [two]
    assert len(logs.live) == 2


def test_checkpoints_of_a_failed_disk_take_it_offline(disk: MemoryFiles, ids: Ids) -> None:
    logs, one, two = filled(disk, ids)
    disk.fail("append", f"{TWO}/replication", errno.EIO, times=99)
    logs.checkpoint_high_watermarks({TOPIC: 1, OTHER: 1})  # type: ignore[dict-item]
    assert [m.directory for m in logs.live] == [ONE]
    assert logs.take_new_failures() == [two]
    assert one.failure is None


def test_the_most_cautious_directory_tells_how_old_things_are(disk: MemoryFiles, ids: Ids) -> None:
    logs = opened(disk, ids, ONE, TWO)
    assert logs.trusted_ms(1_000) is None, "no directory has looked at the clocks"
    one, two = logs.opened
    one.maintain(0, WALL_MS, {})
    assert logs.trusted_ms(1_000) is None
    two.maintain(0, WALL_MS, {})
    assert logs.trusted_ms(1_000) == WALL_MS
    day_ms = 86_400_000
    one.maintain(1_000, WALL_MS + day_ms, {})
    two.maintain(2_000, WALL_MS + 2_000, {})
    assert logs.trusted_ms(1_000) == WALL_MS + 1_000
    logs.fail(one, OSError(errno.EIO, "input/output error"))
    assert logs.trusted_ms(1_000) == WALL_MS + 2_000


def test_the_last_directory_ends_the_broker(disk: MemoryFiles, ids: Ids) -> None:
    logs, one, two = filled(disk, ids)
    disk.fail("append", "other-0", errno.EIO)
    disk.fail("append", str(TOPIC), errno.EIO)
    for log in (one, two):
        with pytest.raises(KafkaStorageError):
            append(log, b"c")
    with pytest.raises(KafkaStorageError, match="every log directory has failed, the last one"):
        logs.take_new_failures()
    assert logs.live == ()
    logs.close(clean=True)


def test_with_one_directory_an_error_is_one_logs(disk: MemoryFiles, ids: Ids) -> None:
    logs = opened(disk, ids, ONE)
    one = logs.create(TOPIC, TOPIC_ID)
    other = logs.create(OTHER, OTHER_ID)
    disk.fail("append", str(TOPIC), errno.EIO)
    with pytest.raises(KafkaStorageError):
        append(one, b"c")
    assert logs.take_new_failures() == [one]
    append(other, b"c")
    disk.fail("append", "replication", errno.EIO)
    with pytest.raises(KafkaStorageError):
        logs.checkpoint_high_watermarks({})


# ---- what a start finds


def unmounted(files: MemoryFiles, path: str) -> dict[str, object]:
    """Take everything below `path` away; what is to be put back."""
    files.kill()
    taken: dict[str, object] = {n: f for n, f in files.names.items() if n.startswith(f"{path}/")}
    for name in taken:
        del files.names[name]
    return taken


@pytest.mark.parametrize("mount_point_stays", [True, False])
def test_a_missing_directory_is_offline_and_not_made_anew(
    disk: MemoryFiles, ids: Ids, mount_point_stays: bool
) -> None:
    filled(disk, ids)
    taken = unmounted(disk, TWO)
    if mount_point_stays:
        disk.mkdir(TWO)
    logs = opened(disk, ids)
    (gone,) = logs.offline
    assert (gone.path, gone.directory_id) == (TWO, "dir-2")
    assert "mount its disk and start this broker again" in gone.reason
    assert logs.by_id(OTHER_ID, 0, "dir-2") is None
    with pytest.raises(KafkaStorageError, match="is offline"):
        logs.create(OTHER, OTHER_ID, directory_id="dir-2")
    assert f"{TWO}/{META_PROPERTIES}" not in disk.names
    logs.close(clean=False)
    disk.kill()
    disk.names |= taken  # type: ignore[arg-type]
    back = opened(disk, ids)
    assert back.offline == ()
    log = back.by_id(OTHER_ID, 0, "dir-2")
    assert log is not None
    assert values_of(log) == [(0, b"b")]


def test_it_is_remembered_over_many_starts_and_forgotten_with_its_path(
    disk: MemoryFiles, ids: Ids
) -> None:
    filled(disk, ids)
    unmounted(disk, TWO)
    for _ in range(3):
        opened(disk, ids)
        disk.kill()
    assert len(opened(disk, ids).offline) == 1
    disk.kill()
    logs = opened(disk, ids, ONE, THREE)
    assert logs.offline == ()
    disk.kill()
    assert Roster.decode(disk.read_all(f"{ONE}/{ROSTER}")).ids.keys() == {ONE, THREE}


def test_a_new_directory_is_made(disk: MemoryFiles, ids: Ids) -> None:
    filled(disk, ids)
    disk.kill()
    logs = opened(disk, ids, ONE, TWO, THREE)
    assert len({m.meta.directory_id for m in logs.opened}) == 3


@pytest.mark.parametrize(("operation", "part"), [("read_all", META_PROPERTIES), ("open", ".lock")])
def test_a_disk_that_fails_at_the_start_is_offline(
    disk: MemoryFiles, ids: Ids, operation: str, part: str
) -> None:
    filled(disk, ids)
    disk.kill()
    disk.fail(operation, f"{TWO}/{part}", errno.EIO, times=99)
    logs = opened(disk, ids)
    assert [(gone.path, gone.directory_id) for gone in logs.offline] == [(TWO, "dir-2")]
    assert len(logs.logs) == 1


def test_a_disk_that_fails_below_one_log_at_the_start_is_offline(
    disk: MemoryFiles, ids: Ids
) -> None:
    filled(disk, ids)[0].close(clean=False)
    disk.kill()
    disk.fail("pread", f"{TWO}/other-0", errno.EIO, times=99)
    logs = opened(disk, ids)
    assert [(gone.path, gone.directory_id) for gone in logs.offline] == [(TWO, "dir-2")]
    assert "injected" in logs.offline[0].reason
    assert f"{TWO}/.lock" not in disk.locked


def test_damage_at_the_start_is_one_logs(disk: MemoryFiles, ids: Ids) -> None:
    logs, _, two = filled(disk, ids)
    append(two, b"c")
    logs.close(clean=True)
    disk.names[two.segments[0].log_path].data[70] ^= 0xFF
    disk.kill()
    again = opened(disk, ids)
    assert again.offline == ()
    assert len(again.logs) + len(again.failed) == 2


def test_a_start_without_any_directory_is_refused(disk: MemoryFiles, ids: Ids) -> None:
    disk.fail("open", ".lock", errno.EROFS, times=99)
    assert "mounted read-only" in str(refused(disk, ids, ONE, TWO))


def test_of_two_copies_that_of_the_metadata_counts(disk: MemoryFiles, ids: Ids) -> None:
    filled(disk, ids)
    disk.kill()
    for name, file in list(disk.names.items()):
        if name.startswith(f"{TWO}/other-0"):
            disk.names[ONE + name[len(TWO) :]] = file
    logs = opened(disk, ids)
    assert len(logs.logs) == 3
    log = logs.by_id(OTHER_ID, 0, "dir-2")
    assert log is not None
    assert log.directory == f"{TWO}/other-0"
    assert f"{ONE}/other-0 holds the same replica as {TWO}" in str(logs.failed[OTHER])
    assert len(logs.logs) == 2
    assert logs.failed_replicas == ()
    # And where the directory of the metadata is away, the copy is not taken for it.
    unmounted(disk, TWO)
    logs = opened(disk, ids)
    assert logs.by_id(OTHER_ID, 0, "dir-2") is None


@pytest.mark.parametrize("damaged", ["an odd name.log", PARTITION_METADATA])
def test_a_copy_is_not_taken_for_a_replica_that_cannot_be_opened(
    disk: MemoryFiles, ids: Ids, damaged: str
) -> None:
    """It may be an old one. The controller hears that the replica has failed."""
    filled(disk, ids)
    disk.kill()
    for name, file in list(disk.names.items()):
        if name.startswith(f"{TWO}/other-0"):
            disk.names[ONE + name[len(TWO) :]] = deepcopy(file)
    disk.names.setdefault(f"{TWO}/other-0/{damaged}", MemoryFile()).data[:] = b"\xff"
    logs = opened(disk, ids)
    assert [log.directory for log in logs.logs] == [f"{ONE}/other-0", f"{ONE}/t-0"]
    assert logs.by_id(OTHER_ID, 0, "dir-2") is None
    assert f"{ONE}/other-0 holds the same replica as {TWO}" in str(logs.opened[0].failed[OTHER])
    with pytest.raises(KafkaStorageError, match=f"{TWO}/other-0"):
        logs.create(OTHER, OTHER_ID, directory_id="dir-2")
    assert [log.directory for log in logs.logs] == [f"{ONE}/t-0"]
    # Until somebody removes what is damaged.
    logs.close(clean=True)
    for name in [name for name in disk.names if name.startswith(f"{TWO}/other-0")]:
        del disk.names[name]
    again = opened(disk, ids).by_id(OTHER_ID, 0, "dir-2")
    assert again is not None
    assert again.directory == f"{ONE}/other-0"


def test_a_deleted_topics_log_goes_and_its_successor_stays(disk: MemoryFiles, ids: Ids) -> None:
    """The first disk was away while the topic was deleted and made anew on the second."""
    logs = opened(disk, ids)
    logs.create(TOPIC, OTHER_ID, directory_id="dir-1")
    successor = logs.create(TOPIC, TOPIC_ID, directory_id="dir-2")
    ((name, path),) = logs.delete_all([(TOPIC, OTHER_ID)])
    assert name == TOPIC
    assert str(path).startswith(f"{ONE}/")
    assert logs.logs == [successor]


def test_a_roster_that_makes_no_sense_is_ignored(disk: MemoryFiles, ids: Ids) -> None:
    filled(disk, ids)
    unmounted(disk, TWO)
    disk.write_atomic(f"{ONE}/{ROSTER}", b"[]")
    assert opened(disk, ids).offline == ()
    with pytest.raises(ValueError, match="version"):
        Roster.decode(b'{"version": 7}')


def test_the_doubt_of_a_start_outlives_another_disks_failure(disk: MemoryFiles, ids: Ids) -> None:
    """A disk that was full at the start may still owe its log starts when it has room for more."""
    paths = (ONE, TWO, "/disk3/broker-1")
    opened(disk, ids, *paths).close(clean=False)
    disk.kill()
    disk.fail("append", f"{ONE}/meta.properties", errno.ENOSPC)
    logs = opened(disk, ids, *paths, boot="after a loss of power")
    assert doubted(disk, TWO) == {ONE}

    logs.opened[0].maintain(0, WALL_MS)
    disk.fail("append", f"{TWO}/replication", errno.EIO, times=99)
    logs.checkpoint_high_watermarks({})

    assert doubted(disk, paths[2]) == {ONE}  # the other one noted its own


def doubted(files: MemoryFiles, path: str) -> frozenset[str]:
    return Roster.decode(files.read_all(f"{path}/{ROSTER}")).doubtful
