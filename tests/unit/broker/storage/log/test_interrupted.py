"""Work that an error of the moment interrupts is undone, or finished before the log is used
again."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from pylog.model import LeaderEpoch, Offset
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import DiskFull, ShortOfResources
from pylog_broker.storage.log.environment import Environment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.cleaned_logs import clean, opened, put, records_of
from tests.fakes.logs import DIRECTORY, WALL_MS, append, batch_of, open_log, read_all, values_of
from tests.fakes.memory_files import MemoryFiles

LOG = f"{DIRECTORY}/{0:020d}.log"


def filled(count: int = 8, **config: int) -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(**config))  # type: ignore[arg-type]
    for number in range(count):
        append(log, b"%d" % number)
    return files, log


@pytest.mark.parametrize(
    ("operation", "part"), [("unlink", "4.log"), ("fsync_dir", "t-0"), ("truncate", "0.log")]
)
def test_a_cut_is_a_fact_before_its_files_are_cut(operation: str, part: str) -> None:
    files, log = filled(4)
    log.roll(WALL_MS)
    for number in range(4, 8):
        append(log, b"%d" % number)
    files.fail(operation, part, errno.EINTR, times=2)
    with pytest.raises(ShortOfResources, match="truncating"):
        log.truncate_to(Offset(3))
    assert (log.log_end_offset, log.failure) == (3, None)
    with pytest.raises(ShortOfResources, match="finishing what was interrupted"):
        log.read(0, 1000, upper_bound=3)
    assert append(log, b"next") == 3
    expected = [(0, b"0"), (1, b"1"), (2, b"2"), (3, b"next")]
    assert values_of(log) == expected
    files.kill()
    assert values_of(open_log(files)) == expected


def test_a_recovery_point_that_could_not_be_lowered_is_lowered_by_the_next_attempt() -> None:
    files = MemoryFiles()
    written: list[int] = []

    def lowered(offset: int) -> None:
        if not written:
            written.append(-1)
            raise OSError(errno.EMFILE, "Too many open files")
        written.append(offset)

    environment = Environment(TailBudget(1000), recovery_point_lowered=lowered)
    log = open_log(files, environment=environment)
    append(log, b"a")
    append(log, b"b")
    log.flush()
    with pytest.raises(ShortOfResources):
        log.truncate_to(Offset(1))
    assert (log.log_end_offset, log.recovery_point) == (2, 2)
    log.truncate_to(Offset(1))
    assert written == [-1, 1]


def test_a_partial_write_that_cannot_be_cut_now_is_cut_before_the_next_one() -> None:
    files, log = filled(1)
    files.fail("append", LOG, errno.EINTR, bytes_first=9)
    files.fail("truncate", LOG, errno.EINTR)
    with pytest.raises(ShortOfResources):
        append(log, b"refused")
    assert append(log, b"next") == 1
    files.kill()
    again = open_log(files)
    assert values_of(again) == [(0, b"0"), (1, b"next")]
    assert again.recovery.bytes_cut == 0


def test_an_empty_follower_that_finds_no_room_before_its_start_ends_where_it_did() -> None:
    """Its leader's log starts inside a batch, which therefore comes whole."""
    batch = batch_of(b"a", b"b", b"c", base_offset=10, epoch=0)
    faults: list[Callable[[MemoryFiles], None]] = [
        lambda files: files.fail("append", f"{10:020d}.log", errno.ENOSPC, bytes_first=5),
        lambda files: files.fail("open", f"{10:020d}.index", errno.ENOSPC),
        lambda files: files.fail("fsync_dir", "t-0", errno.EMFILE),
        lambda files: files.fail("unlink", ".index", errno.EINTR),
    ]
    for fault in faults:
        files = MemoryFiles()
        log = open_log(files)
        log.truncate_fully_and_start_at(Offset(11))
        fault(files)
        with pytest.raises((DiskFull, ShortOfResources)):
            log.append_as_follower(batch, wall_ms=WALL_MS)
        assert (log.log_start_offset, log.log_end_offset) == (11, 11)
        assert log.append_as_follower(batch, wall_ms=WALL_MS).base_offset == 10
        assert (log.log_start_offset, log.log_end_offset) == (11, 13)
        files.kill()
        assert values_of(open_log(files, log_start_offset=11)) == [(11, b"b"), (12, b"c")]


def test_one_that_leads_after_it_found_no_room_writes_behind_its_start() -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.truncate_fully_and_start_at(Offset(11))
    files.fail("append", f"{10:020d}.log", errno.ENOSPC)
    with pytest.raises(DiskFull):
        log.append_as_follower(batch_of(b"a", b"b", base_offset=10, epoch=0), wall_ms=WALL_MS)
    log.assign_epoch(LeaderEpoch(1), log.log_end_offset)
    assert append(log, b"led") == 11
    files.kill()
    again = open_log(files, log_start_offset=11)
    assert values_of(again) == [(11, b"led")]
    assert again.epochs.latest == 1


def test_an_aborted_transaction_is_known_to_every_reader_also_when_its_index_had_to_wait() -> None:
    for code in (errno.EMFILE, errno.ENOSPC):
        files, log = filled(1)
        transaction = encode_batch(
            [b"undone"], timestamps=WALL_MS, producer_id=9, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip
        log.append_as_leader(
            transaction, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL
        )
        marker = encode_control_batch(
            ControlType.ABORT, producer_id=9, producer_epoch=0, coordinator_epoch=0,
            timestamp_ms=WALL_MS,
        )  # fmt: skip
        files.fail("append", ".txnindex", code, bytes_first=20)
        files.fail("open", ".txnindex", code, times=0)
        files.fail("rename", ".txnindex", errno.EINTR)
        info = log.append_as_leader(
            marker, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL
        )
        assert info.base_offset == 2
        with pytest.raises(ShortOfResources):
            log.aborted_transactions(0, 3)
        found = [
            (entry.first_offset, entry.last_offset) for entry in log.aborted_transactions(0, 3)
        ]
        assert found == [(1, 2)]


def with_aborted(*producers: int) -> Log:
    """A leader's log: a transaction of each producer, and then their markers."""
    log = open_log(MemoryFiles())
    batches = [
        encode_batch(
            [b"undone"], timestamps=WALL_MS, producer_id=producer, producer_epoch=0,
            base_sequence=0, transactional=True,
        )
        for producer in producers
    ]  # fmt: skip
    batches += [
        encode_control_batch(
            ControlType.ABORT, producer_id=producer, producer_epoch=0, coordinator_epoch=0,
            timestamp_ms=WALL_MS,
        )
        for producer in producers
    ]  # fmt: skip
    for batch in batches:
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL)
    return log


@pytest.mark.parametrize("times", [1, 2, 3])
def test_markers_that_come_at_once_are_indexed_in_order_also_when_the_index_had_to_wait(
    times: int,
) -> None:
    leader = with_aborted(7, 8, 9)
    files = MemoryFiles()
    log = open_log(files)
    files.fail("append", ".txnindex", errno.ENOSPC, times=times, bytes_first=20)
    log.append_as_follower(read_all(leader), wall_ms=WALL_MS)
    files.faults.clear()
    wanted = [(7, 0, 3), (8, 1, 4), (9, 2, 5)]
    for each in (leader, log):
        found = [
            (entry.producer_id, entry.first_offset, entry.last_offset)
            for entry in each.aborted_transactions(0, 6)
        ]
        assert found == wanted


@pytest.mark.parametrize("refused", range(12))
def test_a_swap_of_the_cleaner_that_is_interrupted_is_finished_at_the_next_use(
    refused: int,
) -> None:
    log, cleaner = opened()
    for round_ in range(20):
        for key in range(10):
            put(log, (b"k%d" % key, b"%d-%d" % (round_, key)))
    log.roll(WALL_MS)
    files = log._state._files
    assert isinstance(files, MemoryFiles)
    real, left = files.rename, [refused]

    def rename(old: str, new: str) -> None:
        left[0] -= 1
        if left[0] == -1:
            raise OSError(errno.EINTR, "Interrupted system call")
        real(old, new)

    files.rename = rename  # type: ignore[method-assign]
    clean(cleaner, log)
    assert log.failure is None
    assert not cleaner.uncleanable
    kept = {record.key: record.offset for record in records_of(log)}
    assert kept == {b"k%d" % key: 190 + key for key in range(10)}
    clean(cleaner, log)
    assert [record.offset for record in records_of(log)] == list(range(190, 200))
    for path in log.delete_old_segments():
        assert files.exists(path)


def test_an_index_that_cannot_be_made_again_now_stays_as_it_was() -> None:
    files, log = filled(8, index_interval_bytes=0)
    before = log.segments[0].offsets.entries()
    files.fail("pread", LOG, errno.ENOMEM)
    with pytest.raises(OSError, match="injected"):
        log.segments[0].rebuild_indexes()
    assert log.segments[0].offsets.entries() == before
    log.roll(WALL_MS)
    append(log, b"8")
    files.kill()
    again = open_log(files, config=TopicConfig(index_interval_bytes=0))
    assert len(values_of(again)) == 9
    assert again.segments[0].offsets.entries() == before


def with_a_roll_given_up(*, preallocate: bool) -> tuple[MemoryFiles, Log]:
    """A segment that could neither be begun nor removed, two records before the log's end."""
    files, log = filled(2, segment_bytes=4000, preallocate=preallocate)
    files.fail("open", "2.index", errno.EMFILE)
    files.fail("unlink", "2.log", errno.EMFILE, times=9)
    with pytest.raises(ShortOfResources, match="rolling"):
        log.roll(WALL_MS)
    log.flush()
    for number in range(2, 4):
        append(log, b"%d" % number)
    assert len(log.segments) == 1
    assert files.exists(f"{DIRECTORY}/{2:020d}.log")
    files.faults.clear()
    return files, log


FOUR = [(number, b"%d" % number) for number in range(4)]


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("preallocate", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_a_start_goes_on_where_the_log_did_after_a_roll_was_given_up(
    clean: bool, preallocate: bool, policy: str
) -> None:
    files, log = with_a_roll_given_up(preallocate=preallocate)
    if clean:
        log.close(clean=True)
    files.kill()
    facts = {segment.base_offset: segment.facts for segment in log.segments}
    stop = LastStop.clean(facts) if clean else LastStop(2, 2)
    config = TopicConfig(segment_bytes=4000, preallocate=preallocate, cleanup_policy=(policy,))
    again = open_log(files, config=config, last_stop=stop)
    assert (values_of(again), again.damage, len(again.segments)) == (FOUR, (), 1)
    assert not files.exists(f"{DIRECTORY}/{2:020d}.log")


@pytest.mark.parametrize("preallocate", [False, True])
def test_a_clean_stop_right_after_a_roll_was_given_up(preallocate: bool) -> None:
    """The stray segment begins where the log ends, and the stop says that it is none of it."""
    files, log = with_a_roll_given_up(preallocate=preallocate)
    log.truncate_to(Offset(2))
    log.close(clean=True)
    facts = {segment.base_offset: segment.facts for segment in log.segments}
    again = open_log(files, last_stop=LastStop.clean(facts))
    assert (values_of(again), len(again.segments)) == (FOUR[:2], 1)
    assert again.recovery.segments_trusted == 1


@pytest.mark.parametrize("preallocate", [False, True])
def test_a_torn_tail_is_one_before_a_roll_that_was_given_up_too(preallocate: bool) -> None:
    files, _log = with_a_roll_given_up(preallocate=preallocate)
    files.kill()
    del files.names[LOG].data[-5:]
    again = open_log(files, last_stop=LastStop(2, 2))
    assert (values_of(again), again.damage) == (FOUR[:3], ())
    assert not files.exists(f"{DIRECTORY}/{2:020d}.log.cut")
