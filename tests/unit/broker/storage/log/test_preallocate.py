"""`preallocate`: an active segment's file has its last length from the start, zeros at its end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pylog.model import LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import DiskFull
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.logs import DIRECTORY, WALL_MS, append, batch_of, open_log
from tests.fakes.logs import values_of as numbered
from tests.fakes.memory_files import MemoryFiles

AHEAD = TopicConfig(segment_bytes=4000, preallocate=True)


def values_of(log: Log) -> list[bytes]:
    return [value for _, value in numbered(log)]


def file_bytes(files: MemoryFiles, base: int) -> bytes:
    return bytes(files.names[f"{DIRECTORY}/{base:020d}.log"].data)


def test_the_active_file_has_its_last_length_and_a_full_one_only_its_batches() -> None:
    files = MemoryFiles()
    log = open_log(files, config=AHEAD)
    assert file_bytes(files, 0) == bytes(4000)
    append(log, b"v" * 1500)
    append(log, b"w" * 1500)
    size = log.size
    assert len(file_bytes(files, 0)) == 4000
    assert file_bytes(files, 0)[size:] == bytes(4000 - size)
    append(log, b"x" * 1500)
    assert len(file_bytes(files, 0)) == size
    assert len(file_bytes(files, 2)) == 4000
    assert values_of(log) == [b"v" * 1500, b"w" * 1500, b"x" * 1500]


def test_a_clean_stop_trims() -> None:
    files = MemoryFiles()
    log = open_log(files, config=AHEAD)
    append(log, b"a", b"b")
    log.close(clean=True)
    assert len(file_bytes(files, 0)) == log.size
    facts = {segment.base_offset: segment.facts for segment in log.segments}
    again = open_log(files, config=AHEAD, last_stop=LastStop.clean(facts))
    append(again, b"c")
    assert values_of(again) == [b"a", b"b", b"c"]
    assert len(file_bytes(files, 0)) == again.size  # as in Kafka: only a new file is made longer


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_leaves_zeros_and_a_start_cuts_them(power: bool) -> None:
    files = MemoryFiles()
    log = open_log(files, config=AHEAD)
    append(log, b"a")
    append(log, b"b")
    log.flush()
    size = log.size
    if power:
        files.lose_power()
    again = open_log(files, config=AHEAD, last_stop=LastStop(0, 0, memory_survived=not power))
    assert (again.log_end_offset, again.size) == (2, size)
    assert len(file_bytes(files, 0)) == size
    assert again.recovery.bytes_cut == 4000 - size
    append(again, b"c")
    assert values_of(again) == [b"a", b"b", b"c"]


def test_a_loss_of_power_that_undoes_the_trim_of_a_full_segment() -> None:
    files = MemoryFiles()
    log = open_log(files, config=AHEAD)
    append(log, b"v" * 1500)
    append(log, b"w" * 1500)
    log.flush()
    append(log, b"x" * 1500)
    log.flush()
    trimmed = len(file_bytes(files, 0))
    files.names[f"{DIRECTORY}/{0:020d}.log"].data += bytes(4000 - trimmed)
    again = open_log(files, config=AHEAD, last_stop=LastStop(3, 3, memory_survived=False))
    assert values_of(again) == [b"v" * 1500, b"w" * 1500, b"x" * 1500]
    assert len(file_bytes(files, 0)) == trimmed


def test_zeros_where_records_are_missing_are_damage() -> None:
    files = MemoryFiles()
    log = open_log(files, config=AHEAD)
    for value in (b"v", b"w", b"x"):
        append(log, value * 1500)
    first = files.names[f"{DIRECTORY}/{0:020d}.log"].data
    first[len(first) // 2 :] = bytes(len(first) - len(first) // 2)
    again = open_log(files, config=AHEAD, last_stop=LastStop(0, 0))
    assert [(hole.offset, hole.end_offset) for hole in again.damage] == [(1, 2)]
    assert again.log_end_offset == 3


def test_a_batch_that_a_crash_has_torn_is_cut_with_the_zeros() -> None:
    files = MemoryFiles()
    log = open_log(files, config=AHEAD)
    append(log, b"a")
    size = log.size
    files.names[f"{DIRECTORY}/{0:020d}.log"].data[size : size + 90] = batch_of(
        b"b" * 200, base_offset=1
    )[:90]
    again = open_log(files, config=AHEAD)
    assert (again.log_end_offset, again.size) == (1, size)
    assert values_of(again) == [b"a"]


def test_a_write_that_fails_leaves_nothing_behind() -> None:
    files = MemoryFiles()
    log = open_log(files, config=AHEAD)
    append(log, b"a")
    files.fail("write_at", ".log", errno.ENOSPC, bytes_first=70)
    with pytest.raises(DiskFull):
        append(log, b"lost")
    append(log, b"b")
    assert values_of(log) == [b"a", b"b"]
    assert open_log(files, config=AHEAD).log_end_offset == 2


def test_a_cut_and_what_is_written_after_it() -> None:
    files = MemoryFiles()
    log = open_log(files, config=AHEAD)
    append(log, b"a")
    append(log, b"b")
    log.truncate_to(Offset(1))
    append(log, b"c")
    assert values_of(log) == [b"a", b"c"]
    assert open_log(files, config=AHEAD).log_end_offset == 2


def test_real_files(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"

    def opened(stop: LastStop | None = None) -> Log:
        partition, topic_id = TopicPartition("t", 0), TopicId("t" * 21 + "A")
        return Log.open(
            OsFiles(), str(directory), partition, topic_id, AHEAD, wall_ms=WALL_MS, last_stop=stop
        )

    log = opened()
    file = directory / f"{0:020d}.log"
    batch = batch_of(b"v" * 100)
    for number in range(5):
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
        assert file.stat().st_size == 4000
        assert log.size == (number + 1) * len(batch)
    assert len(values_of(log)) == 5
    log.close(clean=False)
    assert file.stat().st_size == 4000
    again = opened()
    assert file.stat().st_size == again.size == 5 * len(batch)
    again.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    assert len(values_of(again)) == 6
    again.close(clean=True)
    assert file.stat().st_size == 6 * len(batch)


def test_a_partial_write_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OsFiles()
    handle = files.open(str(tmp_path / "file"), create=True)
    files.truncate(handle, 100)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:3], at))
    assert files.write_at(handle, [b"head", b"rest of it"], 10) == 14
    assert files.pread(handle, 100, 0) == bytes(10) + b"headrest of it" + bytes(76)
    files.close(handle)
