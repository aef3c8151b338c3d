"""Compaction through crashes and full disks: nothing is lost, and a later pass succeeds."""

from __future__ import annotations

import copy
import random
from itertools import product

import pytest

from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.cleaned_logs import (
    COMPACT,
    clean,
    cleaner_of,
    latest,
    opened,
    put,
    records_of,
)
from tests.fakes.crashing_files import Crash, CrashingFiles
from tests.fakes.logs import DIRECTORY, WALL_MS, open_log
from tests.fakes.memory_files import MemoryFiles


def filled(files: CrashingFiles) -> tuple[Log, LogCleaner, dict[bytes | None, bytes | None]]:
    log, cleaner = opened(files)
    rng = random.Random(3)
    for number in range(120):
        put(log, (b"%d" % rng.randrange(9), b"%d" % number), producer=(1, 0, number))
    log.roll(WALL_MS)
    log.flush()
    return log, cleaner, latest(records_of(log))


def test_a_crash_at_each_file_operation_of_a_pass_loses_nothing() -> None:
    files = CrashingFiles()
    log, cleaner, expected = filled(files)
    files.operations = 0
    assert clean(cleaner, log)
    operations = files.operations
    assert operations > 25
    for countdown, power in product(range(operations), (False, True)):
        if not power:
            crashed = CrashingFiles()
            log, cleaner, _ = filled(crashed)
            crashed.countdown = countdown
            with pytest.raises(Crash):
                clean(cleaner, log)
            crashed.countdown = None
        files = copy.deepcopy(crashed)
        if power:
            files.lose_power()
        files.kill()
        again = open_log(
            files, config=COMPACT, last_stop=LastStop(120, 120, memory_survived=not power)
        )
        assert latest(records_of(again)) == expected, (countdown, power)
        assert again.log_end_offset == 120
        assert not [n for n in files.listdir(DIRECTORY) if n.endswith((".cleaned", ".swap"))]
        assert put(again, (b"0", b"more"), producer=(1, 0, 120)) == 120
        again.roll(WALL_MS)
        cleaner = cleaner_of(files, again)
        assert clean(cleaner, again)
        assert latest(records_of(again)) == expected | {b"0": b"more"}


def test_a_full_disk_leaves_the_log_as_it_is_and_a_later_pass_succeeds() -> None:
    files = MemoryFiles()
    log, cleaner = opened(files)
    for number in range(60):
        put(log, (b"k", b"%d" % number))
    log.roll(WALL_MS)
    files.capacity = files._used()
    assert clean(cleaner, log)
    assert len(records_of(log)) == 60
    assert not cleaner.uncleanable
    files.capacity = None
    assert clean(cleaner, log)
    assert [r.value for r in records_of(log)] == [b"59"]


@pytest.mark.parametrize("seed", range(25))
def test_random_keys_tombstones_cleans_and_crashes(seed: int) -> None:
    rng = random.Random(seed)
    files = CrashingFiles()
    log, cleaner = opened(files)
    model: dict[bytes | None, bytes | None] = {}
    wall_ms = WALL_MS
    for _ in range(60):
        wall_ms += rng.randrange(300)
        pairs = [
            (b"%d" % rng.randrange(20), rng.choice([None, b"v%d" % rng.randrange(99), b"w" * 60]))
            for _ in range(rng.randrange(1, 25))
        ]
        put(log, *pairs, wall_ms=wall_ms, compression=rng.choice(["none", "lz4"]))
        model.update(pairs)
        if rng.random() < 0.2:
            log.roll(wall_ms)
            files.countdown = rng.choice([None, rng.randrange(40)])
            try:
                clean(cleaner, log, wall_ms=wall_ms)
            except Crash:
                files.countdown = None
                files.kill()
                log, _ = opened(files)
                cleaner = cleaner_of(files, log)
            files.countdown = None
            found = {k: v for k, v in latest(records_of(log)).items() if v is not None}
            assert found == {k: v for k, v in model.items() if v is not None}
