"""One log: followers, cuts at its end, and its start."""

from __future__ import annotations

import pytest

from pylog.errors import (
    CorruptMessage,
    OffsetOutOfRange,
)
from pylog.model import LeaderEpoch, Offset
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import InvalidOffset
from pylog_broker.storage.log.log import Environment
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import (
    DIRECTORY,
    append,
    batch_of,
    open_log,
    read_all,
    values_of,
)
from tests.fakes.memory_files import MemoryFiles

SMALL = TopicConfig(segment_bytes=1000)
NO_TAIL = Environment(TailBudget(0), tail_bytes_max=0)


def names(files: MemoryFiles, suffix: str) -> list[str]:
    return [name for name in files.listdir(DIRECTORY) if name.endswith(suffix)]


def test_a_follower_is_a_copy() -> None:
    leader, follower = open_log(MemoryFiles()), open_log(MemoryFiles(), config=SMALL)
    for number in range(30):
        append(leader, b"v" * 90, b"w", epoch=number // 10)
    records = read_all(leader)
    info = follower.append_as_follower(records + records[:70])  # a cut batch at the end
    assert (info.base_offset, info.last_offset, info.record_count) == (0, 59, 60)
    assert read_all(follower) == records
    assert follower.epochs.entries == leader.epochs.entries
    assert max(segment.size for segment in follower.segments) <= 1000
    assert follower.append_as_follower(b"").record_count == 0
    assert follower.append_as_follower(records[:50]).last_offset == 59


def test_a_follower_refuses_damage_and_disorder() -> None:
    log = open_log(MemoryFiles())
    good = batch_of(b"a", b"b", epoch=0)
    with pytest.raises(CorruptMessage, match="CRC"):
        log.append_as_follower(good + batch_of(b"c", base_offset=2)[:-1] + b"!")
    assert log.log_end_offset == 0
    log.append_as_follower(good)
    for late in (0, 1):
        with pytest.raises(InvalidOffset, match="does not follow"):
            log.append_as_follower(batch_of(b"c", base_offset=late))
    assert log.log_end_offset == 2


def test_an_empty_follower_may_begin_inside_a_batch() -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.truncate_fully_and_start_at(Offset(5))
    log.append_as_follower(batch_of(*[b"v"] * 10, base_offset=0, epoch=3))
    assert (log.log_start_offset, log.log_end_offset) == (5, 10)
    assert values_of(log) == [(offset, b"v") for offset in range(5, 10)]
    assert log.epochs.latest == 3
    log.append_as_follower(batch_of(b"w", base_offset=10, epoch=3))


def test_truncate_at_every_offset() -> None:
    for offset in range(41):
        files = MemoryFiles()
        log = open_log(files, config=SMALL)
        for number in range(20):
            append(log, b"v" * 150, b"w", epoch=number // 5)
        before = values_of(log)
        end = log.truncate_to(Offset(offset))
        assert end == log.log_end_offset == offset // 2 * 2
        assert values_of(log) == before[:end]
        assert all(entry.start_offset < end for entry in log.epochs.entries) or end == 40
        append(log, b"new", epoch=9)
        expected = [*before[:end], (end, b"new")]
        assert values_of(log) == expected
        log.close(clean=False)
        again = open_log(files, config=SMALL)
        assert values_of(again) == expected
        assert again.epochs.entries == log.epochs.entries


@pytest.mark.parametrize("segment_bytes", [150, 100_000])
@pytest.mark.parametrize("index_interval_bytes", [0, 4096])
def test_a_cut_in_a_gap_ends_the_log_where_its_batches_end(
    segment_bytes: int, index_interval_bytes: int
) -> None:
    """Compaction took the records in between. Behind the cut may be other ones in the leader's log,
    so nothing but what is there says how far the copy goes; a start would find the same.
    """
    config = TopicConfig(segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes)
    kept = (0, 7, 8, 20)
    for offset in range(22):
        files = MemoryFiles()
        log = open_log(files, config=config, environment=NO_TAIL)
        for base in kept:
            log.append_as_follower(batch_of(b"v" * 50, base_offset=base, epoch=0))
        end = max([base + 1 for base in kept if base < offset], default=0)
        assert log.truncate_to(Offset(offset)) == log.log_end_offset == end
        log.close(clean=False)
        again = open_log(files, config=config)
        assert again.log_end_offset == end
        assert [base for base, _ in values_of(again)] == [base for base in kept if base < offset]


def test_truncate_behind_the_end_forgets_an_epoch_without_records() -> None:
    log = open_log(MemoryFiles())
    append(log, b"x", epoch=1)
    log.assign_epoch(LeaderEpoch(2), Offset(1))
    assert log.truncate_to(Offset(1)) == 1
    assert log.epochs.latest == 1


def test_truncate_below_the_first_segment_starts_over() -> None:
    log = open_log(MemoryFiles(), config=SMALL)
    for _ in range(10):
        append(log, b"v" * 400)
    log.advance_log_start(Offset(6))
    log.delete_old_segments()
    assert log.truncate_to(Offset(3)) == 3
    assert (log.log_start_offset, log.log_end_offset, log.size) == (3, 3, 0)


def test_truncate_fully() -> None:
    files = MemoryFiles()
    log = open_log(files, config=SMALL)
    for _ in range(10):
        append(log, b"v" * 400)
    log.flush()
    log.truncate_fully_and_start_at(Offset(100))
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (100, 100, 100)
    assert log.epochs.entries == ()
    assert names(files, ".log") == [f"{100:020d}.log"]
    assert append(log, b"x", epoch=3) == 100


def test_log_start_inside_a_batch_survives() -> None:
    files = MemoryFiles()
    moved: list[int] = []
    environment = Environment(TailBudget(1000), log_start_moved=moved.append)
    log = open_log(files, environment=environment)
    append(log, *[b"v"] * 10)
    assert log.advance_log_start(Offset(4))
    assert not log.advance_log_start(Offset(4))
    assert moved == [4]
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(Offset(11))
    with pytest.raises(OffsetOutOfRange):
        log.read(3, 100, upper_bound=10)
    assert [offset for offset, _ in values_of(log)] == list(range(4, 10))
    log.close(clean=False)
    again = open_log(files, log_start_offset=4)
    assert [offset for offset, _ in values_of(again)] == list(range(4, 10))


def test_segments_below_the_log_start_go() -> None:
    files = MemoryFiles()
    log = open_log(files, config=SMALL, environment=NO_TAIL)
    for _ in range(10):
        append(log, b"v" * 400)
    assert log.delete_old_segments() == []
    log.advance_log_start(Offset(5))
    gone = log.delete_old_segments()
    assert len(gone) == 7  # the snapshot before the second one too
    assert all(path.endswith(".deleted") for path in gone)
    assert log.segments[0].base_offset == 4
    assert [offset for offset, _ in values_of(log)] == [5, 6, 7, 8, 9]
    log.advance_log_start(Offset(10))
    log.delete_old_segments()
    assert len(log.segments) == 1  # the active one stays
    log.close(clean=False)
    again = open_log(files, config=SMALL, log_start_offset=10)
    assert names(files, ".deleted") == []
    assert (again.log_start_offset, again.log_end_offset) == (10, 10)


def test_a_log_start_beyond_what_is_left_starts_over() -> None:
    log = open_log(MemoryFiles(), log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
