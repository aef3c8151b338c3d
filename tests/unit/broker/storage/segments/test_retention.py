"""The segments that go, and those that never do: by time, size, start; the high watermark; the
clock."""

from __future__ import annotations

import errno
import random

import pytest

from pylog.errors import OffsetOutOfRange
from pylog.model import BrokerId, LeaderEpoch, Offset
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.errors import DamagedBatch, DiskFull
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.segments.retention import JUMP_MS, RetentionClock
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append, batch_of, open_log, values_of
from tests.fakes.managers import maintain
from tests.fakes.memory_files import MemoryFiles

DAY = 86_400_000
ROOT = "/data/broker-1"


def log_of(config: TopicConfig, *, count: int = 10, files: MemoryFiles | None = None) -> Log:
    """One record to a segment, of times WALL_MS, WALL_MS + 1000, ..."""
    log = open_log(files or MemoryFiles(), config=config)
    for number in range(count):
        if number:
            log.roll(WALL_MS)
        append(log, b"v" * 100, timestamps=WALL_MS + number * 1000)
    return log


def retained(log: Log, *, high_watermark: int | None = None, wall_ms: int | None = WALL_MS) -> int:
    mark = log.log_end_offset if high_watermark is None else high_watermark
    log.retain(high_watermark=mark, wall_ms=WALL_MS, trusted_ms=wall_ms)
    log.delete_old_segments()
    return log.log_start_offset


def test_time_goes_by_the_largest_timestamp_of_a_segment() -> None:
    config = TopicConfig(retention_ms=5000)
    assert retained(log_of(config), wall_ms=WALL_MS + 5000) == 0
    assert retained(log_of(config), wall_ms=WALL_MS + 5001) == 1
    assert retained(log_of(config), wall_ms=WALL_MS + 8001) == 4
    assert retained(log_of(config), wall_ms=None) == 0  # the clock cannot be trusted
    assert retained(log_of(TopicConfig(retention_ms=-1)), wall_ms=WALL_MS * 2) == 0


def test_a_damaged_segment_goes_whole_when_its_turn_comes() -> None:
    files = MemoryFiles()
    log = log_of(TopicConfig(retention_ms=5000), files=files)
    log._tail.clear()
    files.names[f"{log.directory}/{3:020d}.log"].data[70] ^= 1
    with pytest.raises(DamagedBatch):
        log.read(3, 1, upper_bound=10)
    assert retained(log, wall_ms=WALL_MS + 7001) == 3
    assert [(hole.offset, hole.end_offset) for hole in log.damage] == [(3, 4)]
    assert retained(log, wall_ms=WALL_MS + 8001) == 4
    assert log.damage == ()


def test_a_young_segment_keeps_the_older_ones_behind_it() -> None:
    log = log_of(TopicConfig(retention_ms=5000), count=2)
    log.roll(WALL_MS)
    append(log, b"old", timestamps=5)
    assert retained(log, wall_ms=WALL_MS + 5500) == 1  # the second one is young still


def test_all_may_go_and_the_log_goes_on() -> None:
    log = log_of(TopicConfig(retention_ms=5))
    assert retained(log, wall_ms=WALL_MS + DAY) == 10
    assert [segment.base_offset for segment in log.segments] == [10]
    assert append(log, b"next", timestamps=WALL_MS) == 10
    assert values_of(log) == [(10, b"next")]


def test_size_keeps_at_least_what_is_asked() -> None:
    one = log_of(TopicConfig()).segments[0].size
    assert retained(log_of(TopicConfig(retention_bytes=4 * one))) == 6
    assert retained(log_of(TopicConfig(retention_bytes=4 * one + 1))) == 5
    assert retained(log_of(TopicConfig(retention_bytes=0))) == 10
    assert retained(log_of(TopicConfig(retention_bytes=-1))) == 0


@pytest.mark.parametrize("mark", range(11))
def test_nothing_at_or_above_the_high_watermark_goes(mark: int) -> None:
    log = log_of(TopicConfig(retention_ms=0, retention_bytes=0))
    assert retained(log, high_watermark=mark, wall_ms=WALL_MS + DAY) == mark


def test_a_compacted_topic_only_loses_what_is_below_its_start() -> None:
    config = TopicConfig(cleanup_policy=("compact",), retention_ms=0, retention_bytes=0)
    log = log_of(TopicConfig())
    log.config = config
    assert retained(log, wall_ms=WALL_MS + DAY) == 0
    log.advance_log_start(Offset(4))
    assert retained(log, wall_ms=WALL_MS + DAY) == 4
    assert log.segments[0].base_offset == 4


def test_segments_without_timestamps_are_as_old_as_their_files() -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(retention_ms=1000))
    append(log, b"x", timestamps=-1)
    log.roll(WALL_MS)
    assert retained(log, wall_ms=900) == 0
    assert retained(log, wall_ms=WALL_MS) == 1


def test_readers_get_data_or_a_clear_answer() -> None:
    log = log_of(TopicConfig(retention_ms=5000))
    assert retained(log, wall_ms=WALL_MS + 8001) == 4
    with pytest.raises(OffsetOutOfRange):
        log.read(3, 100, upper_bound=10)
    assert log.read(4, 100, upper_bound=10).first_offset == 4


# ---- the clock ----------------------------------------------------------------------------------


def test_a_jump_forward_is_believed_when_all_before_it_is_old_by_any_clock() -> None:
    clock = RetentionClock()
    assert clock.tick(0, WALL_MS) == 0
    assert clock.tick(1000, WALL_MS + 1000) == 0
    assert clock.tick(2000, WALL_MS + 10 * DAY) == 10 * DAY - 2000
    assert clock.time_for(7 * DAY) == WALL_MS + 2000
    clock.tick(2000 + DAY, WALL_MS + 11 * DAY)
    assert clock.time_for(7 * DAY) == WALL_MS + 2000 + DAY
    assert clock.time_for(DAY - 1) == WALL_MS + 11 * DAY


def test_a_jump_back_takes_the_lead_back() -> None:
    clock = RetentionClock()
    clock.tick(0, WALL_MS)
    clock.tick(1000, WALL_MS + DAY)
    clock.tick(2000, WALL_MS + 2000)
    assert clock.time_for(DAY) == WALL_MS + 2000


def test_a_machine_that_sleeps_every_night_forgets_what_is_old_by_its_days() -> None:
    """Its monotonic clock stands still meanwhile, so each morning is a jump."""
    clock = RetentionClock()
    for day in range(60):
        clock.tick(day * DAY // 2, WALL_MS + day * DAY)
    assert clock.time_for(7 * DAY) == WALL_MS + 59 * DAY - 15 * DAY // 2
    assert clock.time_for(0) == WALL_MS + 59 * DAY - DAY // 2


def test_each_jump_counts_for_what_was_written_before_it() -> None:
    clock = RetentionClock()
    clock.tick(0, WALL_MS)
    clock.tick(DAY, WALL_MS + 11 * DAY)
    clock.tick(2 * DAY, WALL_MS + 2 * DAY)
    assert clock.time_for(7 * DAY) == WALL_MS + 2 * DAY
    clock.tick(3 * DAY, WALL_MS + 13 * DAY)
    assert clock.time_for(DAY - 1) == WALL_MS + 3 * DAY
    clock.tick(4 * DAY, WALL_MS + 14 * DAY)
    assert clock.time_for(DAY - 1) == WALL_MS + 14 * DAY


def test_a_clock_that_is_set_all_the_time_is_remembered_in_little_room() -> None:
    """Steps that it forgets make it err towards keeping."""
    clock = RetentionClock()
    for turn in range(1_000):
        clock.tick(turn * 1000, WALL_MS + turn * 1000 + turn % 2 * DAY)
        kept = clock.time_for(7 * DAY)
        assert kept is not None
        assert kept <= WALL_MS + turn * 1000
    assert len(clock.reading.steps) == 64


def test_small_steps_of_the_clock_are_no_jump() -> None:
    clock = RetentionClock()
    clock.tick(0, WALL_MS)
    assert clock.tick(1000, WALL_MS + JUMP_MS) == 0
    assert clock.time_for(DAY) == WALL_MS + JUMP_MS


def test_a_clock_far_behind_the_files_tells_nothing_until_it_has_passed_them() -> None:
    clock = RetentionClock(newest_file_ms=WALL_MS)
    clock.tick(0, WALL_MS - 2 * DAY)
    assert clock.time_for(1000) is None
    clock.tick(1000, WALL_MS)
    clock.tick(2001, WALL_MS + 1001)
    assert clock.time_for(1000) == WALL_MS + 1001


def test_what_an_earlier_life_knew_of_a_jump_holds_on() -> None:
    clock = RetentionClock()
    clock.tick(0, WALL_MS)
    clock.tick(1000, WALL_MS + 10 * DAY)
    later = RetentionClock(known=clock.reading)
    assert later.time_for(7 * DAY) == WALL_MS + 1000
    assert later.tick(3000, WALL_MS + 10 * DAY + 2000) == 0
    assert later.time_for(7 * DAY) == WALL_MS + 3000
    meanwhile = RetentionClock(known=clock.reading)
    assert meanwhile.tick(3000, WALL_MS + 13 * DAY) == 3 * DAY - 2000


def test_before_the_first_look_at_the_clocks_nothing_is_old() -> None:
    assert RetentionClock().time_for(0) is None


# ---- by the manager -----------------------------------------------------------------------------


def manager_of(files: MemoryFiles, *, boot: str = "boot", delay_ms: int = 0) -> LogManager:
    return LogManager.open(
        files,
        ROOT,
        cluster_id="c",
        broker_id=BrokerId(1),
        boot_id=boot,
        new_directory_id="d",
        wall_ms=WALL_MS,
        config=BrokerConfig(
            log_initial_task_delay_ms=delay_ms, log_retention_check_interval_ms=1000
        ),
        topic_config=lambda topic: TopicConfig(retention_ms=5000, file_delete_delay_ms=100),
    )


def filled(files: MemoryFiles, *, delay_ms: int = 0) -> tuple[LogManager, Log]:
    manager = manager_of(files, delay_ms=delay_ms)
    log = manager.create(TOPIC, TOPIC_ID, TopicConfig(retention_ms=5000, file_delete_delay_ms=100))
    for number in range(10):
        append(log, b"v" * 100, timestamps=WALL_MS + number * 1000)
        log.roll(WALL_MS)
    return manager, log


def test_what_retention_took_stays_away_after_any_end() -> None:
    for ending in ("kill", "power", "clean"):
        files = MemoryFiles()
        manager, log = filled(files)
        log.flush()
        maintain(manager, 0, WALL_MS + 8001, {TOPIC: Offset(10)})
        assert log.log_start_offset == 4
        assert log.segments[0].base_offset == 4
        if ending == "clean":
            manager.close(clean=True)
            files.kill()
        elif ending == "power":
            files.lose_power()
        else:
            files.kill()
        again = manager_of(files, boot="other" if ending == "power" else "boot").get(TOPIC)
        assert again is not None
        assert (again.log_start_offset, again.log_end_offset) == (4, 10), ending


@pytest.mark.parametrize(("boot", "start"), [("boot", 0), ("other", 10)])
def test_a_clock_that_was_set_while_no_broker_ran(
    boot: str, start: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is known of another boot: a machine may have been off for days."""
    files = MemoryFiles()
    manager, log = filled(files)
    log.flush()
    manager.maintain(0, WALL_MS + 500, {TOPIC: Offset(10)})
    files.kill()
    again = manager_of(files, boot=boot)
    again.maintain(2000, WALL_MS + 10 * DAY, {TOPIC: Offset(10)})
    found = again.get(TOPIC)
    assert found is not None
    assert found.log_start_offset == start
    assert "ignored" not in caplog.text


def test_a_damaged_clock_checkpoint_costs_only_what_it_said() -> None:
    files = MemoryFiles()
    manager, _ = filled(files)
    manager.maintain(0, WALL_MS, {TOPIC: Offset(10)})
    assert files.read_all(f"{ROOT}/clock-checkpoint") == b"0\nboot\n0 %d\n" % WALL_MS
    files.write_atomic(f"{ROOT}/clock-checkpoint", b"0\nboot\nsoon\n")
    files.kill()
    again = manager_of(files)
    again.maintain(2000, WALL_MS + 9001, {TOPIC: Offset(10)})
    found = again.get(TOPIC)
    assert found is not None
    assert found.log_start_offset == 5


def test_a_clock_that_jumps_expires_no_producer() -> None:
    """Q-P18."""
    files = MemoryFiles()
    manager, log = filled(files)
    batch = batch_of(b"v", producer=(7, 0, 0))
    log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    manager.maintain(0, WALL_MS, {})
    manager.maintain(600_000, WALL_MS + 10 * DAY, {})
    assert log.producers.get(7) is not None
    manager.maintain(600_000 + DAY + 600_000, WALL_MS + 11 * DAY + 600_000, {})
    assert log.producers.get(7) is None


def test_records_are_deleted_to_make_room_for_the_log_start() -> None:
    files = MemoryFiles()
    _, log = filled(files)
    files.fail("open", "log-start-offset-checkpoint.tmp", errno.ENOSPC)
    assert log.advance_log_start(Offset(4))
    assert (log.log_start_offset, log.segments[0].base_offset) == (4, 4)
    assert not [name for name in files.listdir(f"{ROOT}/t-0") if name.endswith(".deleted")]
    assert b"t 0 4" in files.read_all(f"{ROOT}/log-start-offset-checkpoint")


def test_no_room_for_the_log_start_at_all_leaves_it_where_a_restart_would_find_it() -> None:
    files = MemoryFiles()
    _, log = filled(files)
    log.advance_log_start(Offset(3))
    log.delete_old_segments()
    files.fail("open", "log-start-offset-checkpoint.tmp", errno.ENOSPC, times=2)
    with pytest.raises(DiskFull):
        log.advance_log_start(Offset(5))
    assert (log.log_start_offset, log.failure) == (5, None)
    assert log.segments[0].base_offset == 5
    files.fail("open", "log-start-offset-checkpoint.tmp", errno.ENOSPC, times=2)
    append(log, b"v", b"v")
    with pytest.raises(DiskFull):
        log.advance_log_start(Offset(11))
    assert log.log_start_offset == 10  # a whole segment less, but not half a batch


def test_a_log_without_a_high_watermark_keeps_everything() -> None:
    manager, log = filled(MemoryFiles())
    manager.maintain(0, WALL_MS + DAY)
    assert log.log_start_offset == 0


def test_a_full_disk_is_made_room_on() -> None:
    files = MemoryFiles()
    manager, log = filled(files)
    files.fail("open", "log-start-offset-checkpoint", errno.ENOSPC)
    maintain(manager, 0, WALL_MS + 8001, {TOPIC: Offset(10)})
    assert log.log_start_offset == 4
    assert not [name for name in files.listdir(f"{ROOT}/t-0") if name.endswith(".deleted")]
    assert b"t 0 4" in files.read_all(f"{ROOT}/log-start-offset-checkpoint")


def test_retention_waits_a_while_after_a_start() -> None:
    manager, log = filled(MemoryFiles(), delay_ms=700)
    manager.maintain(500, WALL_MS + 9001, {TOPIC: Offset(10)})
    manager.maintain(1199, WALL_MS + 9001, {TOPIC: Offset(10)})
    assert log.log_start_offset == 0
    manager.maintain(1200, WALL_MS + 9001, {TOPIC: Offset(10)})
    assert log.log_start_offset == 5


def test_retention_runs_at_its_interval() -> None:
    manager, log = filled(MemoryFiles())
    manager.maintain(0, WALL_MS + 1, {TOPIC: Offset(10)})
    manager.maintain(999, WALL_MS + 9001, {TOPIC: Offset(10)})
    assert log.log_start_offset == 0
    manager.maintain(1000, WALL_MS + 9001, {TOPIC: Offset(10)})
    assert log.log_start_offset == 5


@pytest.mark.parametrize("seed", range(20))
def test_a_random_kill_never_brings_deleted_records_back(seed: int) -> None:
    rng = random.Random(seed)
    files = MemoryFiles()
    manager, log = filled(files)
    start = 0
    for round_ in range(12):
        mark = rng.randrange(log.log_start_offset, log.log_end_offset + 1)
        wall_ms = WALL_MS + rng.randrange(20_000)
        maintain(manager, round_ * 2000, wall_ms, {TOPIC: Offset(mark)})
        start = max(start, int(log.log_start_offset))
        assert start <= max(mark, start)
        append(log, b"w" * 50, timestamps=wall_ms)
        files.kill()
        manager = manager_of(files)
        found = manager.get(TOPIC)
        assert found is not None
        log = found
        assert log.log_start_offset == start
        log.config = TopicConfig(retention_ms=5000, file_delete_delay_ms=100)
