"""Retention and compaction of logs of which readers hold a part."""

from __future__ import annotations

import pytest

from pylog.model import Offset, TopicPartition
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.errors import DiskFull
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.read_leases import End, LeasedRange
from tests.fakes.cleaned_logs import clean, latest, opened, put, records_of
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append
from tests.fakes.managers import OTHER, OTHER_ID, maintain, open_manager
from tests.fakes.memory_files import MemoryFiles

CHECK_MS = 1_000
BROKER = BrokerConfig(
    log_initial_task_delay_ms=0,
    log_retention_check_interval_ms=CHECK_MS,
    read_lease_max_bytes=1_200,
)
NOTHING_STAYS = TopicConfig(retention_bytes=0, retention_ms=-1)


def filled(
    files: MemoryFiles | None = None, *, config: TopicConfig = NOTHING_STAYS
) -> tuple[LogManager, Log]:
    """Ten segments of a record each."""
    manager = open_manager(files or MemoryFiles(), config=BROKER)
    log = manager.create(TOPIC, TOPIC_ID)
    log.config = config
    for number in range(10):
        if number:
            log.roll(WALL_MS)
        append(log, b"v" * 100)
    return manager, log


def hold(
    manager: LogManager, start: int, *, holder: str = "one", now_ms: int = 0, timeout_ms: int = 9999
) -> None:
    held = LeasedRange(TOPIC, TOPIC_ID, start, 10)
    assert manager.leases.take(now_ms, holder, "host", timeout_ms, [held]) == []


def retained(manager: LogManager, now_ms: int) -> int:
    log = manager.get(TOPIC)
    assert log is not None
    maintain(manager, now_ms, WALL_MS, {TOPIC: log.log_end_offset})
    return log.log_start_offset


def test_retention_stops_before_what_is_held() -> None:
    manager, log = filled()
    hold(manager, 7)
    assert retained(manager, 0) == 7
    assert [segment.base_offset for segment in log.segments] == [7, 8, 9]
    assert manager.leases.kept_bytes == sum(segment.size for segment in log.segments)
    manager.leases.take(0, "one", "host", 1, [])
    assert retained(manager, CHECK_MS) == 10
    assert manager.leases.kept_bytes == 0


def test_a_segment_with_a_held_record_in_it_stays() -> None:
    manager = open_manager(MemoryFiles(), config=BROKER)
    log = manager.create(TOPIC, TOPIC_ID)
    log.config = NOTHING_STAYS
    for _ in range(2):
        append(log, b"a", b"b", b"c")
        log.roll(WALL_MS)
    hold(manager, 4)
    assert retained(manager, 0) == 3


def test_retention_by_time_stops_too_and_a_lease_that_expires_lets_it_go_on() -> None:
    manager, _ = filled(config=TopicConfig(retention_ms=0))
    hold(manager, 6, timeout_ms=CHECK_MS)
    maintain(manager, 0, WALL_MS + 1, {TOPIC: Offset(10)})
    log = manager.get(TOPIC)
    assert log is not None
    assert log.log_start_offset == 6
    maintain(manager, CHECK_MS, WALL_MS + 2, {TOPIC: Offset(10)})
    assert log.log_start_offset == 10
    assert manager.leases.ended == {End.EXPIRED: 1}


def test_above_the_quota_the_oldest_lease_ends_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager, log = filled()
    size = log.segments[0].size
    assert 2 * size <= BROKER.read_lease_max_bytes < 8 * size
    hold(manager, 2, holder="slow")
    hold(manager, 8, holder="ahead")
    assert retained(manager, 0) == 8
    assert manager.leases.of("slow") == ()
    assert [record.getMessage() for record in caplog.records] == [
        "the read lease on t-0 from offset 2 to 10 of holder slow ends: leases keep "
        f"{8 * size} bytes of the partition from retention, more than read.lease.max.bytes=1200"
    ]


def test_requests_to_delete_go_through_a_lease() -> None:
    manager, log = filled(config=TopicConfig(retention_ms=-1))
    hold(manager, 2)
    log.move_log_start(Offset(9))
    assert retained(manager, 0) == 9
    assert [segment.base_offset for segment in log.segments] == [9]
    assert manager.leases.kept_bytes == 0


def test_what_is_below_the_log_start_is_kept_from_nobody() -> None:
    manager, log = filled()
    hold(manager, 2)
    log.move_log_start(Offset(9))
    assert retained(manager, 0) == 9
    assert manager.leases.kept_bytes == log.segments[0].size


def test_a_full_disk_ends_leases(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    manager, log = filled(files)
    hold(manager, 8)
    assert retained(manager, 0) == 8
    files.capacity = files._used() + 20
    with pytest.raises(DiskFull):
        append(log, b"v" * 100)
    files.capacity = None
    assert retained(manager, 10) == 10  # at once, though no check is due
    assert manager.leases.ended == {End.NO_ROOM: 1}
    assert "the disk has no room" in caplog.text


def test_a_topic_that_took_the_name_is_not_held() -> None:
    manager, _ = filled()
    hold(manager, 2)
    manager.delete(TOPIC)
    log = manager.create(TOPIC, OTHER_ID)
    log.config = NOTHING_STAYS
    append(log, b"v")
    assert retained(manager, 0) == 1


def test_all_log_directories_share_the_leases() -> None:
    files = MemoryFiles()
    first = open_manager(files, directory="/one/broker-1", config=BROKER)
    second = open_manager(files, directory="/two/broker-1", config=BROKER)
    logs = LogDirectories([first, second])
    assert logs.leases is first.leases is second.leases
    log = second.create(OTHER, OTHER_ID)
    log.config = NOTHING_STAYS
    for _ in range(3):
        append(log, b"v")
        log.roll(WALL_MS)
    logs.leases.take(0, "one", "host", 9999, [LeasedRange(OTHER, OTHER_ID, 1, 2)])
    maintain(second, 0, WALL_MS, {OTHER: Offset(3)})
    assert log.log_start_offset == 1


# ---- compaction ----------------------------------------------------------------------------------


def compacted(rounds: int = 20) -> tuple[Log, LogCleaner]:
    log, cleaner = opened()
    for round_ in range(rounds):
        for key in range(10):
            put(log, (b"k%d" % key, b"%d-%d" % (round_, key)))
    log.roll(WALL_MS)
    return log, cleaner


def held_from(cleaner: LogCleaner, start: int, end: int, *, holder: str = "one") -> None:
    held = LeasedRange(TopicPartition("t", 0), TOPIC_ID, start, end)
    assert cleaner.leases.take(0, holder, "host", 9999, [held]) == []


def test_the_cleaner_rewrites_nothing_from_the_first_held_offset_on() -> None:
    log, cleaner = compacted()
    before = records_of(log)
    held_from(cleaner, 100, 120)
    assert clean(cleaner, log)
    after = records_of(log)
    assert [r for r in after if r.offset >= 100] == [r for r in before if r.offset >= 100]
    assert len(after) < len(before)
    assert latest(after) == latest(before)
    cleaner.leases.take(0, "one", "host", 1, [])
    assert clean(cleaner, log)
    assert len(records_of(log)) == 10


def test_a_log_whose_clean_part_is_held_waits() -> None:
    log, cleaner = compacted()
    assert clean(cleaner, log)
    for key in range(10):
        put(log, (b"k%d" % key, b"new"))
    log.roll(WALL_MS)
    before = records_of(log)
    held_from(cleaner, 5, 300)
    assert not clean(cleaner, log)
    assert records_of(log) == before
    assert cleaner.leases.kept_bytes > 0
    assert cleaner.candidates(WALL_MS, {TOPIC: log.log_end_offset})[0].dirty_bytes == 0


def test_a_pass_ends_where_somebody_begins_to_read() -> None:
    log, cleaner = compacted()
    before = records_of(log)
    task = cleaner.next_task(WALL_MS, {TOPIC: log.log_end_offset})
    assert task is not None
    task.run()
    held_from(cleaner, 0, 200)
    while cleaner.on_ran(task):
        task.run()
    assert records_of(log) == before
    cleaner.leases.take(0, "one", "host", 1, [])
    assert clean(cleaner, log)
    assert len(records_of(log)) == 10


def test_leases_that_keep_too_much_from_the_cleaner_end() -> None:
    log, cleaner = compacted()
    cleaner.config = BROKER
    held_from(cleaner, 0, 200)
    assert clean(cleaner, log)
    assert len(records_of(log)) == 10
    assert cleaner.leases.ended == {End.QUOTA: 1}


def test_what_need_not_be_cleaned_ends_no_lease() -> None:
    log, cleaner = compacted()
    cleaner.config = BROKER
    log.config = TopicConfig(cleanup_policy=("delete",))
    held_from(cleaner, 0, 200)
    assert not clean(cleaner, log)
    assert cleaner.leases.ended == {}
