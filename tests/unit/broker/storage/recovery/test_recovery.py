"""A start with torn tails, rot, missing pieces and wrong caches."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pylog.errors import KafkaStorageError
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import iter_headers
from pylog_broker.config import TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT, read_epochs, write_epochs
from pylog_broker.storage.checkpoints.leader_epochs import EpochEntry
from pylog_broker.storage.errors import CorruptSegment, DamagedBatch
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.log import Environment, Log
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import DIRECTORY, append, bases_of, batch_of, open_log, read_all, values_of
from tests.fakes.memory_files import MemoryFiles

SMALL = TopicConfig(segment_bytes=1000, index_interval_bytes=100)
FIRST = f"{DIRECTORY}/{0:020d}.log"
CRASH = LastStop()
POWER_LOSS = LastStop(memory_survived=False)
NO_TAIL = Environment(TailBudget(0), tail_bytes_max=0)


def written(count: int = 10, config: TopicConfig = SMALL, size: int = 60) -> MemoryFiles:
    """A log of `count` batches with two records, killed."""
    files = MemoryFiles()
    log = open_log(files, config=config)
    for number in range(count):
        append(log, bytes([65 + number % 26]) * size, b"", epoch=number // 4)
    log.close(clean=False)
    files.kill()
    return files


def last_segment(files: MemoryFiles) -> str:
    return f"{DIRECTORY}/" + [n for n in files.listdir(DIRECTORY) if n.endswith(".log")][-1]


def test_cut_at_every_byte_of_the_last_batches() -> None:
    files = written(6, TopicConfig())
    whole = bytes(files.names[FIRST].data)
    starts = [position for position, _ in iter_headers(whole)]
    for size in range(starts[3], len(whole)):
        files = written(6, TopicConfig())
        del files.names[FIRST].data[size:]
        log = open_log(files)
        complete = sum(start <= size for start in [*starts[1:], len(whole)])
        assert log.log_end_offset == 2 * complete
        assert read_all(log) == whole[: [*starts, len(whole)][complete]]
        cut = size - [*starts, len(whole)][complete]
        assert log.recovery.bytes_cut == cut
        aside = f"{FIRST}.cut"
        tail = whole[size - cut : size]
        assert files.exists(aside) == bool(tail.strip(b"\0"))
        append(log, b"new")
        assert values_of(log)[-1] == (2 * complete, b"new")


@pytest.mark.parametrize(
    "tail",
    [bytes(1 << 20), bytes(61), b"\0" * 30, random.Random(1).randbytes(100_000), b"\x02" * 500],
    ids=["zeros", "zero header", "few zeros", "noise", "magic bytes"],
)
def test_a_tail_of_junk_is_cut_once_kept(tail: bytes, caplog: pytest.LogCaptureFixture) -> None:
    files = written(6)
    path = last_segment(files)
    size = len(files.names[path].data)
    files.names[path].data += tail
    log = open_log(files, config=SMALL)
    assert log.log_end_offset == 12
    assert len(files.names[path].data) == size
    assert log.recovery.bytes_cut == len(tail)
    assert f"cut the last {len(tail)} bytes" in caplog.text
    if tail.strip(b"\0"):
        assert files.read_all(f"{path}.cut") == tail
    else:
        assert not files.exists(f"{path}.cut")
    log.close(clean=False)
    files.names[path].data += b"other junk"
    open_log(files, config=SMALL).close(clean=False)
    if tail.strip(b"\0"):
        assert files.read_all(f"{path}.cut") == tail  # kept once


def holes(log: Log) -> list[tuple[int, int]]:
    return [(hole.offset, hole.end_offset) for hole in log.damage]


def test_a_flipped_bit_anywhere_in_the_middle_is_stepped_over() -> None:
    files = written(4, TopicConfig())
    whole = bytes(files.names[FIRST].data)
    starts = [position for position, _ in iter_headers(whole)]
    for position in range(starts[2]):
        files = written(4, TopicConfig())
        files.names[FIRST].data[position] ^= 0x10
        log = open_log(files)
        number = sum(start <= position for start in starts) - 1
        # The epoch of a batch is outside its CRC: any number may stand there.
        if not starts[number] + 12 <= position < starts[number] + 16:
            assert holes(log) == [(2 * number, 2 * number + 2)], position
        assert log.log_end_offset == 8
        log.close(clean=False)
        assert len(files.names[FIRST].data) == len(whole), "nothing may be cut"


@pytest.mark.parametrize("batch", [0, 4])
def test_a_batch_whose_epoch_leaps_is_the_damaged_one(batch: int) -> None:
    files = written(8, TopicConfig())
    starts = [position for position, _ in iter_headers(bytes(files.names[FIRST].data))]
    files.names[FIRST].data[starts[batch] + 14] ^= 1
    log = open_log(files)
    assert holes(log) == [(2 * batch, 2 * batch + 2)]
    assert log.epochs.latest == 1


def test_rot_in_an_old_segment_is_stepped_over() -> None:
    files = written(40)
    files.names[FIRST].data[-1] ^= 1  # in the last batch of the first segment
    log = open_log(files, config=SMALL)
    second = log.segments[1].base_offset
    assert holes(log) == [(second - 2, second)]
    assert log.log_end_offset == 80


def test_rot_behind_a_clean_stop_is_never_served() -> None:
    files = written(40)
    files.names[FIRST].data[100] ^= 1
    log = open_log(files, config=SMALL, last_stop=LastStop.clean(), environment=NO_TAIL)
    with pytest.raises(DamagedBatch, match=r"offsets 0 to 1 does not match its CRC") as refused:
        log.read(0, 100, upper_bound=80)
    assert FIRST in str(refused.value)
    assert refused.value.next_offset == 2
    assert bases_of(log.read(2, 1, upper_bound=80).records) == [2]
    assert log.failure is None
    assert append(log, b"x") == 80


def test_rot_in_a_header_behind_a_clean_stop() -> None:
    files = written(5)
    files.names[FIRST].data[16] = 9
    log = open_log(files, config=SMALL, last_stop=LastStop.clean())
    assert holes(log) == [(0, 2)]


def test_rot_at_the_very_end_behind_a_clean_stop_leaves_the_end_unknown() -> None:
    files = written(1)
    files.names[FIRST].data[16] = 9
    with pytest.raises(CorruptSegment, match="closed cleanly"):
        open_log(files, config=SMALL, last_stop=LastStop.clean())
    assert len(files.names[FIRST].data) > 100, "nothing may be cut"


def test_a_loss_of_power_may_tear_everything_behind_the_recovery_point() -> None:
    files = written(40)
    files.names[FIRST].data[-1] ^= 1
    log = open_log(files, config=SMALL, last_stop=POWER_LOSS)
    end = log.log_end_offset
    assert 0 < end < 20
    assert len(log.segments) == 1
    assert log.recovery.segments_cut > 3
    assert log.recovery_point == end
    aside = [name for name in files.listdir(DIRECTORY) if name.endswith(".cut")]
    assert len(aside) == log.recovery.segments_cut + 1
    files.lose_power()  # what was recovered was synced: no phantom records
    again = open_log(files, config=SMALL, last_stop=POWER_LOSS)
    assert again.log_end_offset == end


@pytest.mark.parametrize("left", [b"", None])
def test_a_loss_of_power_that_took_the_first_segment_takes_all(left: bytes | None) -> None:
    files = written(40)
    if left is None:
        files.unlink(FIRST)
    else:
        files.names[FIRST].data[:] = left
    log = open_log(files, config=SMALL, last_stop=POWER_LOSS)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert append(log, b"x") == 0


def test_segments_that_were_deleted_do_not_count_as_lost() -> None:
    files = written(40)
    files.unlink(FIRST)
    second = int(next(name for name in files.listdir(DIRECTORY) if name.endswith(".log"))[:20])
    for known in (second, second + 1):
        log = open_log(files, config=SMALL, last_stop=POWER_LOSS, log_start_offset=known)
        assert (log.log_start_offset, log.log_end_offset) == (known, 80)
        log.close(clean=False)
    synced = LastStop(recovery_point=80, verify_from=80, memory_survived=False)
    log = open_log(files, config=SMALL, last_stop=synced, log_start_offset=0)
    assert (log.log_start_offset, log.log_end_offset) == (second, 80)


def test_a_loss_of_power_does_not_excuse_rot_below_the_recovery_point() -> None:
    files = written(40)
    files.names[FIRST].data[100] ^= 1
    log = open_log(
        files,
        config=SMALL,
        last_stop=LastStop(recovery_point=40, verify_from=0, memory_survived=False),
    )
    assert holes(log) == [(0, 2)]
    assert log.log_end_offset == 80


def test_a_tail_below_the_recovery_point_is_cut_and_told() -> None:
    files = written(6)
    path = last_segment(files)
    del files.names[path].data[-1:]
    log = open_log(files, config=SMALL, last_stop=LastStop(recovery_point=12, verify_from=12))
    assert log.recovery.lost_durable
    assert log.recovery_point == log.log_end_offset == 10


def test_a_missing_segment_names_both_neighbours() -> None:
    files = written(40)
    logs = [name for name in files.listdir(DIRECTORY) if name.endswith(".log")]
    files.unlink(f"{DIRECTORY}/{logs[1]}")
    with pytest.raises(CorruptSegment) as error:
        open_log(files, config=SMALL)
    assert logs[0] in str(error.value)
    assert logs[2] in str(error.value)


def test_overlapping_segments_are_named() -> None:
    files = written(40)
    logs = [name for name in files.listdir(DIRECTORY) if name.endswith(".log")]
    files.names[f"{DIRECTORY}/{1:020d}.log"] = files.names[f"{DIRECTORY}/{logs[1]}"]
    with pytest.raises(CorruptSegment, match="begins inside"):
        open_log(files, config=SMALL)


def test_gaps_are_legal_where_the_leader_had_them() -> None:
    files = MemoryFiles()
    log = open_log(files, config=SMALL)
    log.append_as_follower(batch_of(b"v" * 800, base_offset=0, epoch=0))
    log.append_as_follower(batch_of(b"v" * 800, base_offset=50, epoch=0))
    log.close(clean=False)
    assert [offset for offset, _ in values_of(open_log(files, config=SMALL))] == [0, 50]


def test_a_segment_must_have_a_number() -> None:
    files = written(2)
    files.write_atomic(f"{DIRECTORY}/backup.log", b"x")
    with pytest.raises(CorruptSegment, match=r"backup\.log.*20 digits"):
        open_log(files, config=SMALL)


def test_crash_right_after_a_roll() -> None:
    files = written(6)
    log = open_log(files, config=SMALL)
    log.roll(0)
    log.close(clean=False)
    again = open_log(files, config=SMALL)
    assert again.log_end_offset == 12
    assert append(again, b"x") == 12
    assert again.segments[-1].base_offset == 12


def test_an_empty_segment_behind_a_lost_tail_goes() -> None:
    files = written(6)
    log = open_log(files, config=SMALL)
    log.roll(0)
    log.close(clean=False)
    path = f"{DIRECTORY}/" + [n for n in files.listdir(DIRECTORY) if n.endswith(".log")][-2]
    whole = bytes(files.names[path].data)
    del files.names[path].data[[start for start, _ in iter_headers(whole)][-1] :]
    again = open_log(files, config=SMALL)
    assert again.log_end_offset == 10
    assert append(again, b"x") == 10


def test_an_empty_segment_in_the_middle_and_an_index_alone_go() -> None:
    files = written(40)
    empty = f"{DIRECTORY}/{1:020d}"
    files.write_atomic(f"{empty}.log", b"")
    files.write_atomic(f"{DIRECTORY}/{7:020d}.index", b"12345678")
    assert open_log(files, config=SMALL).log_end_offset == 80
    assert not files.exists(f"{empty}.log")
    assert not files.exists(f"{DIRECTORY}/{7:020d}.index")


def test_leftovers_go_and_foreign_files_stay(caplog: pytest.LogCaptureFixture) -> None:
    files = written(4)
    for name in ("x.deleted", "leader-epoch-checkpoint.tmp", f"{0:020d}.log.cleaned"):
        files.write_atomic(f"{DIRECTORY}/{name}", b"x")
    files.write_atomic(f"{DIRECTORY}/.DS_Store", b"x")
    files.write_atomic(f"{DIRECTORY}/notes~", b"x")
    open_log(files, config=SMALL)
    left = files.listdir(DIRECTORY)
    assert ".DS_Store" in left
    assert not [name for name in left if name.endswith((".deleted", ".tmp", ".cleaned"))]
    assert caplog.text.count("ignored") == 1


@pytest.mark.parametrize("damage", ["missing", "zeroed", "long", "garbled", "empty"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_are_rebuilt(damage: str, suffix: str) -> None:
    files = written(40)
    log = open_log(files, config=SMALL)
    expected = [(segment.offsets.encode(), segment.times.encode()) for segment in log.segments]
    log.close(clean=True)
    paths = [f"{DIRECTORY}/{n}" for n in files.listdir(DIRECTORY) if n.endswith(suffix)]
    for path in paths:
        data = files.names[path].data
        if damage == "missing":
            files.unlink(path)
        elif damage == "zeroed":
            data[:] = bytes(len(data))
        elif damage == "long":
            data += bytes(24)
        elif damage == "garbled" and data:
            data[len(data) // 2] ^= 0xFF
        elif damage == "empty":
            data.clear()
    again = open_log(files, config=SMALL, last_stop=LastStop.clean(), environment=NO_TAIL)
    found = [(segment.offsets.encode(), segment.times.encode()) for segment in again.segments]
    assert found == expected
    assert all(segment.index_files_match() for segment in again.segments)
    assert [offset for offset, _ in values_of(again)] == list(range(80))


def test_an_index_that_is_a_directory_cannot_be_replaced(tmp_path: Path) -> None:
    files = OsFiles()
    directory = str(tmp_path / "t-0")
    open_log(files, directory=directory).close(clean=True)
    index = tmp_path / "t-0" / f"{0:020d}.index"
    index.unlink()
    index.mkdir()
    with pytest.raises(KafkaStorageError, match="opening the log"):
        open_log(files, directory=directory)


def epochs_of(log: Log) -> list[tuple[int, int]]:
    return [tuple(entry) for entry in log.epochs.entries]


@pytest.mark.parametrize("content", [None, b"", b"0\n1\n99 0\n", b"junk", b"0\n9\n1 2\n"])
def test_epochs_come_from_the_batches(content: bytes | None) -> None:
    files = written(10)
    path = f"{DIRECTORY}/{EPOCH_CHECKPOINT}"
    files.unlink(path)
    if content is not None:
        files.write_atomic(path, content)
    log = open_log(files, config=SMALL)
    assert epochs_of(log) == [(0, 0), (1, 8), (2, 16)]
    log.close(clean=True)
    assert read_epochs(files, path) == [(0, 0), (1, 8), (2, 16)]


def test_an_epoch_without_records_is_kept_by_the_checkpoint() -> None:
    files = written(10)
    log = open_log(files, config=SMALL)
    log.assign_epoch(LeaderEpoch(7), Offset(20))
    log.flush()
    log.close(clean=False)
    assert epochs_of(open_log(files, config=SMALL))[-1] == (7, 20)
    write_epochs(files, f"{DIRECTORY}/{EPOCH_CHECKPOINT}", [EpochEntry(LeaderEpoch(9), Offset(10))])
    assert epochs_of(open_log(files, config=SMALL)) == [(0, 0), (1, 8), (2, 16)]


def test_crash_while_recovering() -> None:
    """A kill after each change of the disk that recovery makes: the next start ends the same."""
    for operation in ("truncate", "rename", "unlink", "append", "fsync"):
        for after in range(12):
            files = written(20)
            files.names[last_segment(files)].data += b"junk" * 30
            files.unlink(f"{DIRECTORY}/{0:020d}.index")
            files.fail(operation, "", 5, times=0)
            calls = 0

            def count(*_: object, wanted: int = after) -> None:
                nonlocal calls
                calls += 1
                if calls > wanted:
                    raise InterruptedError(4, "killed")

            original = getattr(files, operation)
            try:
                setattr(
                    files,
                    operation,
                    lambda *args, original=original, count=count: (count(), original(*args))[1],
                )
                open_log(files, config=SMALL)
            except KafkaStorageError:
                pass
            setattr(files, operation, original)
            files.kill()
            log = open_log(files, config=SMALL)
            assert [offset for offset, _ in values_of(log)] == list(range(40))
