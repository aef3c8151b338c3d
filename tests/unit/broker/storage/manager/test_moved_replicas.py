"""A replica's directory that somebody moved by hand to another disk of the same broker."""

from __future__ import annotations

import errno

import pytest

from pylog.model import BrokerId, Offset
from pylog_broker.config import TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import LOG_START_CHECKPOINT, read_offsets
from pylog_broker.storage.directories.directory import MetaProperties
from pylog_broker.storage.directories.roster import ROSTER
from pylog_broker.storage.errors import DiskFull
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.opening import Opening
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append, values_of
from tests.fakes.memory_files import MemoryFile, MemoryFiles

ONE, TWO = "/disk1/broker-1", "/disk2/broker-1"
SMALL = TopicConfig(segment_bytes=200)
OTHER_ID = type(TOPIC_ID)("o" * 21 + "A")


def opening(files: MemoryFiles, *paths: str, boot: str = "b") -> Opening:
    owner = MetaProperties("c", BrokerId(1), "", boot)
    numbers = iter(range(1, 9))
    places = paths or (ONE, TWO)
    # the id of a directory that is new follows from its path
    ids = {place: f"dir-{place[5]}" for place in places}
    return Opening(
        files,
        places,
        owner,
        new_directory_id=lambda: ids[places[next(numbers) - 1]],
        wall_ms=WALL_MS,
    )


def opened(files: MemoryFiles, *paths: str, boot: str = "b") -> LogDirectories:
    start = opening(files, *paths, boot=boot)
    for step in start.steps:
        step()
    return start.finish()


def move(files: MemoryFiles, source: str, target: str) -> None:
    """`mv` of the replica's directory, durably."""
    for names in (files.names, files.synced_names):
        for name in list(names):
            if name.startswith(f"{source}/{TOPIC}/"):
                names[target + name[len(source) :]] = names.pop(name)


def unmounted(files: MemoryFiles, path: str) -> dict[str, object]:
    gone = {name: files.names.pop(name) for name in list(files.names) if name.startswith(path)}
    return dict(gone)


def filled(files: MemoryFiles, *paths: str, deleted: int = 3) -> LogDirectories:
    """Six records in some segments, of which the first ones were deleted."""
    logs = opened(files, *paths)
    log = logs.create(TOPIC, TOPIC_ID, SMALL, directory_id="dir-1")
    for number in range(6):
        append(log, b"%d" % number)
    log.advance_log_start(Offset(deleted))
    return logs


def start_of(logs: LogDirectories) -> int:
    log = logs.by_id(TOPIC_ID, 0)
    assert log is not None
    return log.log_start_offset


@pytest.mark.parametrize("clean", [True, False])
def test_deleted_records_stay_away(clean: bool) -> None:
    disk = MemoryFiles()
    filled(disk).close(clean=clean)
    disk.kill()
    move(disk, ONE, TWO)
    logs = opened(disk)
    assert start_of(logs) == 3
    # and from now on it stands where the replica is
    assert read_offsets(disk, f"{TWO}/{LOG_START_CHECKPOINT}") == {TOPIC: 3}
    logs.close(clean=clean)
    disk.kill()
    assert start_of(opened(disk)) == 3
    assert read_offsets(disk, f"{ONE}/{LOG_START_CHECKPOINT}") == ({} if clean else {TOPIC: 3})


def test_the_second_directory_may_be_new() -> None:
    disk = MemoryFiles()
    filled(disk, ONE).close(clean=True)
    disk.mkdir("/disk2")
    disk.mkdir(TWO)
    move(disk, ONE, TWO)
    disk.names[f"{TWO}/meta.properties"] = MemoryFile(
        bytearray(disk.read_all(f"{ONE}/meta.properties").replace(b"dir-1", b"dir-2"))
    )
    assert start_of(opened(disk)) == 3


def test_the_first_directory_may_be_given_up_with_the_move() -> None:
    disk = MemoryFiles()
    filled(disk).close(clean=True)
    move(disk, ONE, TWO)
    assert start_of(opened(disk, TWO)) == 3


def test_a_start_that_ends_half_way_does_not_forget() -> None:
    """The old directory is opened and what is left in it noted; the new one is not, by then."""
    disk = MemoryFiles()
    filled(disk).close(clean=True)
    move(disk, ONE, TWO)
    opening(disk).steps[0]()
    disk.kill()
    assert start_of(opened(disk)) == 3


def test_after_a_loss_of_power_too() -> None:
    """The log's first segments were deleted, and its machine began anew before it was moved."""
    disk = MemoryFiles()
    logs = filled(disk)
    log = logs.by_id(TOPIC_ID, 0)
    assert log is not None
    for path in log.delete_old_segments():
        disk.unlink(path)
    assert log.segments[0].base_offset > 0
    logs.close(clean=True)
    move(disk, ONE, TWO)
    disk.lose_power()
    logs = opened(disk, boot="b2")
    assert start_of(logs) == 3
    assert [offset for offset, _ in values_of(logs.logs[0])][-1] == 5


def test_where_nobody_knows_the_start_it_is_where_the_first_segment_begins() -> None:
    disk = MemoryFiles()
    logs = filled(disk)
    log = logs.by_id(TOPIC_ID, 0)
    assert log is not None
    for path in log.delete_old_segments():
        disk.unlink(path)
    first = log.segments[0].base_offset
    assert first > 0
    logs.close(clean=True)
    move(disk, ONE, TWO)
    del disk.synced_names[f"{ONE}/{LOG_START_CHECKPOINT}"]
    disk.lose_power()
    logs = opened(disk, boot="b2")
    assert start_of(logs) == first
    assert logs.logs[0].log_end_offset == 6


def test_a_topic_that_was_made_anew_begins_at_its_own_start() -> None:
    """On another disk, under a name whose old start still stands in the first disk's file."""
    disk = MemoryFiles()
    logs = filled(disk)
    ((_, path),) = logs.delete_all([(TOPIC, TOPIC_ID)])
    assert isinstance(path, str)
    logs.remove_directory(path)
    log = logs.create(TOPIC, OTHER_ID, SMALL, directory_id="dir-2")
    append(log, b"new")
    disk.kill()
    logs = opened(disk)
    assert [value for _, value in values_of(logs.logs[0])] == [b"new"]


def test_what_a_disk_says_that_was_away_does_not_count() -> None:
    disk = MemoryFiles()
    logs = filled(disk)
    ((_, path),) = logs.delete_all([(TOPIC, TOPIC_ID)])
    assert isinstance(path, str)
    logs.remove_directory(path)  # the file with the starts was not written since
    disk.kill()
    away = unmounted(disk, "/disk1")
    logs = opened(disk)
    append(logs.create(TOPIC, OTHER_ID, SMALL, directory_id="dir-2"), b"new")
    disk.kill()
    disk.names |= away  # type: ignore[arg-type]
    assert disk.exists(f"{TWO}/{ROSTER}")
    logs = opened(disk)
    assert [value for _, value in values_of(logs.logs[0])] == [b"new"]
    assert start_of_other(logs) == 0


def start_of_other(logs: LogDirectories) -> int:
    log = logs.by_id(OTHER_ID, 0)
    assert log is not None
    return log.log_start_offset


def test_a_disk_that_cannot_forget_is_named() -> None:
    disk = MemoryFiles()
    logs = filled(disk)
    ((_, path),) = logs.delete_all([(TOPIC, TOPIC_ID)])
    assert isinstance(path, str)
    disk.fail("append", f"{ONE}/", errno.ENOSPC)
    with pytest.raises(DiskFull, match="/disk1/broker-1 still tells of an earlier log"):
        logs.create(TOPIC, OTHER_ID, SMALL, directory_id="dir-2")
    assert logs.offline == ()
    logs.create(TOPIC, OTHER_ID, SMALL, directory_id="dir-2")
    assert start_of_other(logs) == 0


def test_a_disk_that_fails_at_forgetting_is_offline_and_the_log_is_made() -> None:
    disk = MemoryFiles()
    logs = filled(disk)
    ((_, path),) = logs.delete_all([(TOPIC, TOPIC_ID)])
    assert isinstance(path, str)
    disk.fail("append", f"{ONE}/", errno.EIO)
    logs.create(TOPIC, OTHER_ID, SMALL, directory_id="dir-2")
    assert [each.path for each in logs.offline] == [ONE]
