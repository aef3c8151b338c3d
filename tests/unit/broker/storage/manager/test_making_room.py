"""Deleting on a full disk: it needs no room, and what it gives up is free at once."""

from __future__ import annotations

import errno

import pytest

from pylog.errors import KafkaStorageError
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.directories.directory import MetaProperties
from pylog_broker.storage.errors import DiskFull
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.manager.opening import Opening
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.logs import DIRECTORY, TOPIC, TOPIC_ID, WALL_MS, append, open_log, values_of
from tests.fakes.managers import OTHER, OTHER_ID, ROOT, log_of, maintain, open_manager
from tests.fakes.memory_files import MemoryFiles

DELAYED = TopicConfig(segment_bytes=400, file_delete_delay_ms=60_000)


def filled(files: MemoryFiles, config: TopicConfig = DELAYED) -> tuple[LogManager, Log]:
    """Some segments of 400 bytes, and a disk that has no room for one more batch."""
    manager = open_manager(files, config=BrokerConfig(log_retention_check_interval_ms=300_000))
    log = manager.create(TOPIC, TOPIC_ID)
    log.config = config
    for _ in range(10):
        append(log, b"v" * 100)
    manager.maintain(0, WALL_MS, {TOPIC: log.log_end_offset})
    files.capacity = files._used() + 20
    with pytest.raises(DiskFull):
        append(log, b"v" * 100)
    return manager, log


def maintained(manager: LogManager, now_ms: int) -> None:
    marks = {log.topic_partition: log.log_end_offset for log in manager.logs}
    maintain(manager, now_ms, WALL_MS + now_ms, marks)
    if (removal := manager.removal_task(now_ms)) is not None:
        removal.run()


def waiting_files(files: MemoryFiles) -> list[str]:
    return [name for name in files.listdir(f"{ROOT}/t-0") if name.endswith(".deleted")]


def test_deleted_records_make_room_before_the_delay_of_their_files() -> None:
    files = MemoryFiles()
    manager, log = filled(files)
    files.capacity = files._used() + 60  # a checkpoint finds room, a batch does not
    log.advance_log_start(Offset(7))
    with pytest.raises(DiskFull):
        append(log, b"v" * 100)
    maintained(manager, 1000)
    assert not waiting_files(files)
    append(log, b"v" * 100)


def test_files_that_wait_for_their_delay_go_when_room_is_wanted() -> None:
    files = MemoryFiles()
    manager, log = filled(files)
    files.capacity = None
    maintained(manager, 1000)
    log.advance_log_start(Offset(7))
    maintained(manager, 2000)
    assert waiting_files(files)
    files.capacity = files._used() + 20
    with pytest.raises(DiskFull):
        append(log, b"v" * 100)
    maintained(manager, 3000)
    assert not waiting_files(files)
    files.capacity = None
    log.advance_log_start(Offset(9))
    maintained(manager, 4000)
    assert waiting_files(files), "nobody wants room any more"


def test_a_lower_retention_does_not_wait_for_the_next_look() -> None:
    files = MemoryFiles()
    manager, log = filled(files)
    maintained(manager, 1000)
    log.config = TopicConfig(segment_bytes=400, retention_bytes=0, file_delete_delay_ms=60_000)
    with pytest.raises(DiskFull):
        append(log, b"v" * 100)
    maintained(manager, 2000)
    assert log.log_start_offset == 10
    append(log, b"v" * 100)


def test_a_new_log_that_finds_no_room_makes_some() -> None:
    files = MemoryFiles()
    manager, log = filled(files)
    files.capacity = None
    log.advance_log_start(Offset(7))
    maintained(manager, 1000)
    log.advance_log_start(Offset(9))
    files.capacity = files._used()
    with pytest.raises(DiskFull):
        manager.create(OTHER, OTHER_ID)
    maintained(manager, 2000)
    manager.create(OTHER, OTHER_ID)


def test_the_active_segment_goes_when_all_its_records_are_deleted() -> None:
    files = MemoryFiles()
    manager, log = filled(files, TopicConfig())
    assert len(log.segments) == 1
    files.capacity = files._used() + 60
    log.advance_log_start(Offset(10))
    with pytest.raises(DiskFull):
        append(log, b"v" * 100)
    maintained(manager, 1000)
    assert [segment.base_offset for segment in log.segments] == [10]
    assert append(log, b"v" * 100) == 10


def test_the_active_segment_goes_to_make_room_for_the_log_start() -> None:
    files = MemoryFiles()
    _, log = filled(files, TopicConfig())
    files.fail("append", "log-start-offset-checkpoint", errno.ENOSPC)
    assert log.advance_log_start(Offset(10))
    assert append(log, b"v" * 100) == 10
    files.kill()
    files.capacity = None
    assert values_of(log_of(open_manager(files))) == [(10, b"v" * 100)]


def test_a_directory_without_room_for_a_longer_name_loses_the_file() -> None:
    """ext4 may need a block for the new name (and has none)."""
    files = MemoryFiles()
    manager, log = filled(files)
    files.capacity = None
    log.advance_log_start(Offset(7))
    files.fail("rename", "/t-0/", errno.ENOSPC, times=1000)
    maintained(manager, 1000)
    first = log.segments[0].base_offset
    assert first > 0
    assert not [name for name in files.listdir(f"{ROOT}/t-0") if name < f"{first:020d}"]
    assert [offset for offset, _ in values_of(log)] == [7, 8, 9]
    append(log, b"more")


def test_a_deletion_that_stops_half_way_goes_on_with_the_next() -> None:
    files = MemoryFiles()
    log = open_log(files, config=DELAYED)
    for _ in range(10):
        append(log, b"v" * 100)
    log.advance_log_start(Offset(7))
    before = set(files.listdir(DIRECTORY))
    for operation, part in (("rename", ".index"), ("rename", "2.log"), ("fsync_dir", DIRECTORY)):
        files.fail(operation, part, errno.ENOMEM)
        with pytest.raises(KafkaStorageError, match="try again later"):
            log.delete_old_segments()
        bases = [segment.base_offset for segment in log.segments]
        assert log.read(7, 100, upper_bound=10).first_offset == 7
        assert bases == sorted(bases)
        assert log.failure is None
    told = {path.rpartition("/")[2] for path in log.delete_old_segments()}
    after = set(files.listdir(DIRECTORY))
    assert told == after - before, "each file that may go is told"
    assert {name.removesuffix(".deleted") for name in told} == before - after
    assert [segment.base_offset for segment in log.segments] == [6, 8]


def test_a_topic_is_deleted_where_its_directory_cannot_get_a_longer_name() -> None:
    files = MemoryFiles()
    manager, _ = filled(files)
    files.fail("rename", f"{ROOT}/t-0", errno.ENOSPC)
    moved = manager.delete(TOPIC)
    assert moved is not None
    assert not files.exists(f"{ROOT}/t-0")
    files.capacity = None
    manager.create(TOPIC, OTHER_ID)
    manager.remove_directory(moved)
    assert files.exists(f"{ROOT}/t-0"), "that of the next topic of that name"


# ---- starting on a full disk ---------------------------------------------------------------------


def full(files: MemoryFiles) -> None:
    files.kill()
    files.capacity = 0


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_start_needs_no_room(boot: str, clean: bool) -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create(TOPIC, TOPIC_ID)
    append(log, b"a")
    log.flush()
    manager.checkpoint_recovery_points()
    manager.close(clean=clean)
    full(files)
    for life in range(2):
        again = open_manager(files, boot=boot)
        assert values_of(log_of(again)) == [(0, b"a")]
        # The clean stop is used up by the first start. Files that it could not write make a
        # second one trust it less, never more.
        assert again.log_intact is (boot == "boot-1" or (clean and not life))
        files.kill()
    again = open_manager(files, boot=boot)
    again.registered()
    with pytest.raises(DiskFull):
        append(log_of(again), b"b")
    files.capacity = None
    append(log_of(again), b"b")
    maintained(again, 0)
    files.kill()
    last = open_manager(files, boot=boot)
    assert last.log_intact
    assert values_of(log_of(last)) == [(0, b"a"), (1, b"b")]


def test_a_full_disk_beside_others_is_not_taken_offline_by_a_start() -> None:
    files = MemoryFiles()
    paths = ["/disk1/broker-1", "/disk2/broker-1"]
    ids = iter(["one", "two", "x", "y"])

    def start() -> LogDirectories:
        owner = MetaProperties("cluster", BrokerId(1), "", "boot")
        opening = Opening(files, paths, owner, new_directory_id=lambda: next(ids), wall_ms=WALL_MS)
        for step in opening.steps:
            step()
        return opening.finish()

    logs = start()
    for number, directory in enumerate(["one", "two"]):
        key = TopicPartition("t", number)
        append(logs.create(key, TOPIC_ID, directory_id=directory), b"a")
    files.fail("append", "/disk2/broker-1/", errno.ENOSPC, times=99)
    files.kill()
    logs = start()
    assert logs.offline == ()
    logs.registered()
    assert logs.offline == ()
    assert [values_of(log) for log in logs.logs] == [[(0, b"a")]] * 2


def abort_one(log: Log, producer_id: int) -> None:
    """A transaction of one record, and the marker that aborts it."""
    record = encode_batch(
        [b"undone"], timestamps=WALL_MS, producer_id=producer_id, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    marker = encode_control_batch(
        ControlType.ABORT, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0,
        timestamp_ms=WALL_MS,
    )  # fmt: skip
    for batch in (record, marker):
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL)


def ends_of_aborted(log: Log) -> list[int]:
    found = log.aborted_transactions(0, log.log_end_offset)
    return sorted(entry.last_offset for entry in found)


def lose_transaction_indexes(files: MemoryFiles, directory: str, *, keep: int = 0) -> None:
    """A loss of power took what had not been synced of them."""
    for name in files.listdir(directory):
        if name.endswith(".txnindex"):
            handle = files.open(f"{directory}/{name}")
            files.truncate(handle, min(keep, files.size(handle)))


@pytest.mark.parametrize("boot", ["boot-1", "boot-2"])
@pytest.mark.parametrize("keep", [0, 20, 34])
def test_a_start_without_room_keeps_readers_from_an_index_of_transactions_that_is_behind(
    boot: str, keep: int
) -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create(TOPIC, TOPIC_ID)
    log.config = TopicConfig(segment_bytes=400)
    for producer_id in range(6):
        abort_one(log, producer_id)
    expected = [1, 3, 5, 7, 9, 11]
    assert ends_of_aborted(log) == expected
    assert len(log.segments) > 2
    full(files)
    lose_transaction_indexes(files, f"{ROOT}/t-0", keep=keep)
    for _ in range(2):
        manager = open_manager(files, boot=boot)
        again = log_of(manager)
        manager.registered()
        assert again.failure is None
        assert again.recovery_point == 0, "a start must read the segments until they are indexed"
        with pytest.raises(DiskFull):
            again.aborted_transactions(0, 12)
        with pytest.raises(DiskFull):
            append(again, b"b")
        files.kill()
    manager = open_manager(files, boot=boot)
    again = log_of(manager)
    files.capacity = None
    assert ends_of_aborted(again) == expected
    again.flush()
    manager.checkpoint_recovery_points()
    files.kill()
    last = log_of(open_manager(files, boot=boot))
    assert last.recovery.segments_trusted
    assert ends_of_aborted(last) == expected


def test_a_log_whose_index_of_transactions_is_behind_is_not_closed_cleanly() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    abort_one(manager.create(TOPIC, TOPIC_ID), 1)
    files.kill()
    lose_transaction_indexes(files, f"{ROOT}/t-0")
    files.fail("append", ".txnindex", errno.ENOSPC, times=99)
    open_manager(files).close(clean=True)
    files.faults.clear()
    again = log_of(open_manager(files))
    assert again.recovery.segments_trusted == 0
    assert ends_of_aborted(again) == [1]


def test_an_index_of_transactions_that_is_behind_takes_no_directory_offline() -> None:
    files = MemoryFiles()
    paths = ["/disk1/broker-1", "/disk2/broker-1"]
    ids = iter(["one", "two", "x", "y"])

    def start() -> LogDirectories:
        owner = MetaProperties("cluster", BrokerId(1), "", "boot")
        opening = Opening(files, paths, owner, new_directory_id=lambda: next(ids), wall_ms=WALL_MS)
        for step in opening.steps:
            step()
        return opening.finish()

    logs = start()
    for number, directory in enumerate(["one", "two"]):
        abort_one(logs.create(TopicPartition("t", number), TOPIC_ID, directory_id=directory), 1)
    files.kill()
    lose_transaction_indexes(files, "/disk2/broker-1/t-1")
    files.fail("append", "/disk2/broker-1/", errno.ENOSPC, times=99)
    logs = start()
    logs.registered()
    assert (logs.offline, logs.failed_replicas) == ((), ())
    files.faults.clear()
    assert [ends_of_aborted(log) for log in logs.logs] == [[1], [1]]


def test_damage_that_could_not_be_noted_is_found_again() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create(TOPIC, TOPIC_ID)
    for _ in range(3):
        append(log, b"a")
    log.flush()
    manager.checkpoint_recovery_points()
    files.kill()
    handle = files.open(log.segments[0].log_path)
    files.truncate(handle, files.size(handle) - 1)
    for _ in range(2):
        files.kill()
        files.fail("append", "damaged-log", errno.ENOSPC)
        assert open_manager(files).lost_replicas == ((TOPIC_ID, 0),)


def test_what_a_start_cuts_is_kept_only_where_there_is_room() -> None:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create(TOPIC, TOPIC_ID)
    append(log, b"a")
    handle = files.open(log.segments[0].log_path)
    files.append(handle, [b"torn"])
    full(files)
    again = log_of(open_manager(files))
    assert values_of(again) == [(0, b"a")]
    assert "no room to keep them" in again.recovery.warnings[0]
    assert not [name for name in files.listdir(f"{ROOT}/t-0") if ".cut" in name]


# ---- the cleaner's swap -------------------------------------------------------------------------


STAY = [b"0", b"57", b"58", b"59"]


def due_pass(files: MemoryFiles) -> tuple[Log, LogCleaner]:
    config = TopicConfig(
        cleanup_policy=("compact",), segment_bytes=1200, min_cleanable_dirty_ratio=0.01
    )
    log = open_log(files, config=config, last_stop=LastStop(0, 0))
    for number in range(60):
        key = b"first" if not number else b"k%d" % (number % 3)
        batch = encode_batch([b"%d" % number], keys=[key], timestamps=WALL_MS)
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
    return log, cleaner


def run_pass(log: Log, cleaner: LogCleaner) -> None:
    task = cleaner.next_task(WALL_MS, {TOPIC: log.log_end_offset})
    assert task is not None
    task.run()
    while cleaner.on_ran(task):
        task.run()


@pytest.mark.parametrize("part", [".index.cleaned", ".timeindex.cleaned", ".log.cleaned"])
def test_a_cleaned_segment_that_finds_no_room_for_its_name_is_made_again(part: str) -> None:
    files = MemoryFiles()
    log, cleaner = due_pass(files)
    files.fail("rename", part, errno.ENOSPC)
    run_pass(log, cleaner)
    assert log.failure is None
    assert len(values_of(log)) == 60
    run_pass(log, cleaner)
    assert [value for _, value in values_of(log)] == STAY


@pytest.mark.parametrize("part", [".index.swap", ".log.swap", "00.log", "00.timeindex"])
def test_a_swap_that_fails_half_way_is_finished_by_the_next_start(part: str) -> None:
    files = MemoryFiles()
    log, cleaner = due_pass(files)
    files.fail("rename", part, errno.EIO, times=1)
    run_pass(log, cleaner)
    files.kill()
    again = open_log(files, config=log.config, last_stop=LastStop(60, 60))
    values = [value for _, value in values_of(again)]
    assert values[0] == STAY[0]
    assert values[-3:] == STAY[1:]
    assert again.log_end_offset == 60


def test_that_room_is_wanted_is_told_once() -> None:
    files = MemoryFiles()
    manager, log = filled(files)
    assert not manager.short_of_room
    maintained(manager, 1000)
    assert manager.short_of_room
    files.capacity = None
    append(log, b"v")
    maintained(manager, 2000)
    assert not manager.short_of_room
