"""Compaction leaves gaps between segments, which no start may take for a loss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylog.model import Offset
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.cleaned_logs import (
    BROKER,
    COMPACT,
    clean,
    opened,
    put,
    records_of,
)
from tests.fakes.logs import DIRECTORY, TOPIC, WALL_MS, batch_of, open_log, values_of
from tests.fakes.memory_files import MemoryFiles


def test_what_lies_behind_a_cleaned_segment_survives_a_loss_of_power() -> None:
    """The first segment ends before the next one begins; nothing was synced before the pass."""
    files = MemoryFiles()
    log, _ = opened(files)
    saved: list[int] = []
    cleaner = LogCleaner(
        files,
        "/data",
        {TOPIC: log},
        BROKER,
        random_bytes=bytes,
        save_recovery_points=lambda: saved.append(log.recovery_point),
        remove_later=lambda _log, _paths: None,
    )
    for key in (b"gone", b"stays", b"gone"):
        put(log, (key, b"x" * 900), (b"gone", b"y" * 100))
        log.roll(WALL_MS)
    assert log.recovery_point == 0
    assert clean(cleaner, log)
    assert saved == [6]
    assert log.segments[0].end_offset < log.segments[1].base_offset
    before = records_of(log)
    files.lose_power()
    stop = LastStop(saved[0], saved[0], memory_survived=False)
    again = open_log(files, config=COMPACT, last_stop=stop)
    assert again.log_end_offset == 6
    assert records_of(again) == before


def cleaned_with_gap(files: MemoryFiles) -> tuple[Log, LogCleaner]:
    """Offsets are missing at the end of the first segment; all was synced by the pass."""
    log, cleaner = opened(files)
    for key in (b"gone", b"stays", b"gone"):
        put(log, (key, b"x" * 900), (b"gone", b"y" * 100))
        log.roll(WALL_MS)
    assert clean(cleaner, log)
    assert log.segments[0].end_offset < log.segments[1].base_offset
    return log, cleaner


@pytest.mark.parametrize("recovery_point", [0, 1, 3])
def test_a_recovery_point_that_is_too_low_takes_no_gap_for_a_loss(recovery_point: int) -> None:
    """Its file may be lost, or come from a backup; the log itself knows what was synced."""
    files = MemoryFiles()
    log, _ = cleaned_with_gap(files)
    before = records_of(log)
    files.lose_power()
    stop = LastStop(recovery_point, recovery_point, memory_survived=False)
    again = open_log(files, config=COMPACT, last_stop=stop)
    assert records_of(again) == before
    assert (again.log_end_offset, again.recovery.bytes_cut) == (6, 0)


def test_what_took_the_place_of_cut_records_may_be_lost_with_the_power() -> None:
    files = MemoryFiles()
    log, _ = cleaned_with_gap(files)
    log.truncate_to(Offset(4))
    for value in (b"4", b"5", b"6"):
        put(log, (b"new", value))
        log.roll(WALL_MS)
    log.flush()
    files.lose_power()
    files.names[f"{DIRECTORY}/{5:020d}.log"].data.clear()
    again = open_log(files, config=COMPACT, last_stop=LastStop(0, 0, memory_survived=False))
    assert again.log_end_offset == 5, "no gap of the cleaner's, but a loss"


def copied_over_a_gap(files: MemoryFiles) -> Log:
    """A follower's log, of which each batch but the first begins a segment; offsets are missing on
    the leader.
    """
    log = open_log(files, config=replace(COMPACT, segment_bytes=600))
    for base in (0, 7, 8, 20):
        log.append_as_follower(batch_of(b"x" * 500, base_offset=base, epoch=0))
    assert len(log.segments) == 4
    return log


def test_what_was_copied_over_a_gap_and_synced_survives_a_loss_of_power() -> None:
    """The offset up to which it was synced is written down later, and for all logs together."""
    files = MemoryFiles()
    log = copied_over_a_gap(files)
    log.flush()
    files.lose_power()
    again = open_log(files, config=COMPACT, last_stop=LastStop(0, 0, memory_survived=False))
    assert again.log_end_offset == 21
    assert [offset for offset, _ in values_of(again)] == [0, 7, 8, 20]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_copy_that_lost_the_end_of_a_segment_is_cut_there(lost: int) -> None:
    files = MemoryFiles()
    log = copied_over_a_gap(files)
    log.flush()
    path = log.segments[lost].log_path
    files.lose_power()
    files.names[path].data.clear()
    again = open_log(files, config=COMPACT, last_stop=LastStop(0, 0, memory_survived=False))
    assert [offset for offset, _ in values_of(again)] == [0, 7, 8, 20][:lost]


def test_a_mark_that_makes_no_sense_promises_nothing() -> None:
    files = MemoryFiles()
    log, _ = cleaned_with_gap(files)
    files.write_atomic(f"{DIRECTORY}/gaps-allowed", b"soon")
    files.kill()
    assert open_log(files, config=COMPACT, last_stop=LastStop(6, 6)).log_end_offset == 6
    assert log.log_end_offset == 6
