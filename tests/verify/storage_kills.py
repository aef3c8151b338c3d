"""Kills of a bare storage process: what it had acknowledged must be there, whatever it was doing.

`python -m tests.verify.storage_kills --acks 1000 --cleaner 500 --deletions 200`. The parent has all
loaded and forks a child for each kill: a round costs milliseconds. No power is lost here: the page
cache survives a kill, so every record that was written before the acknowledgement must be found.

Acknowledgements: the child appends numbered records to a log with small segments and tells each
offset through a pipe; the parent kills it at a random moment, opens the directory itself, and reads
every record. Cleaner: the child makes passes over a copy of one log and kills itself at the n-th
file operation; the parent then looks for the last value of each key. Deletions: the child appends
to tiny segments, deletes records and has retention at work, and tells each log start and the high
watermark that held then; what was deleted must stay away, and nothing else may be.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner import rewriting
from pylog_broker.storage.files import Buffer, OsFiles
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.manager import LogManager

PARTITION: Final = TopicPartition("kills", 0)
_ID: Final = TopicId("k" * 21 + "A")
_OFFSET: Final = struct.Struct(">q")
_KEYS: Final = 5_000
_WALL_MS: Final = 1_700_000_000_000

_BROKER: Final = BrokerConfig()
_SMALL: Final = TopicConfig(segment_bytes=20_000, index_interval_bytes=500)
_COMPACT: Final = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=200_000,
    min_cleanable_dirty_ratio=0.0,
)


class DyingFiles(OsFiles):
    """The process kills itself at the n-th operation that changes something; an append is done in
    part.
    """

    def __init__(self, countdown: int | None) -> None:
        self.countdown = countdown
        self.operations = 0

    def _count(self) -> bool:
        self.operations += 1
        if self.countdown is None:
            return False
        self.countdown -= 1
        return self.countdown < 0

    def _die_if_due(self) -> None:
        if self._count():
            os.kill(os.getpid(), signal.SIGKILL)

    def append(self, handle: int, buffers: Sequence[Buffer]) -> int:
        if self._count():
            data = b"".join(buffers)
            super().append(handle, [data[: len(data) // 2]])
            os.kill(os.getpid(), signal.SIGKILL)
        return super().append(handle, buffers)

    def write_at(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        if self._count():
            data = b"".join(buffers)
            super().write_at(handle, [data[: len(data) // 2]], position)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write_at(handle, buffers, position)

    def truncate(self, handle: int, size: int) -> None:
        self._die_if_due()
        super().truncate(handle, size)

    def rename(self, old: str, new: str) -> None:
        self._die_if_due()
        super().rename(old, new)

    def unlink(self, path: str) -> None:
        if self.exists(path):
            self._die_if_due()
        super().unlink(path)

    def fsync(self, handle: int) -> None:
        self._die_if_due()
        super().fsync(handle)

    def fsync_dir(self, path: str) -> None:
        self._die_if_due()
        super().fsync_dir(path)


def open_manager(
    files: OsFiles, directory: Path, config: TopicConfig, broker: BrokerConfig = _BROKER
) -> tuple[LogManager, Log]:
    """The directory's log, made when it is not there."""
    manager = LogManager.open(
        files,
        str(directory),
        cluster_id="kills",
        broker_id=BrokerId(1),
        boot_id="same",
        new_directory_id="d",
        wall_ms=_WALL_MS,
        config=replace(broker, topic=config),
    )
    return manager, manager.create(PARTITION, _ID, config)


def forked(work: Callable[[], object]) -> int:
    """The process id of a child that does `work` and ends."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException as error:  # noqa: BLE001
        os.write(2, f"child: {error!r}\n".encode())
    finally:
        os._exit(status)


# ---- acknowledgements ---------------------------------------------------------------------------


def value_of(offset: int) -> bytes:
    """The value that the record at `offset` must have."""
    return b"%d " % offset * (1 + offset % 40)


def append_until_killed(directory: Path, pipe: int, seed: int) -> None:
    """The child: append, acknowledge, now and then roll and sync."""
    rng = random.Random(seed)
    manager, log = open_manager(OsFiles(), directory, _SMALL)
    while True:
        base = log.log_end_offset
        values: list[bytes | None] = [value_of(base + n) for n in range(rng.randrange(1, 6))]
        batch = encode_batch(values, timestamps=_WALL_MS)
        info = log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=_WALL_MS)
        os.write(pipe, _OFFSET.pack(info.last_offset))
        if rng.random() < 0.05:
            log.roll(_WALL_MS)
        if rng.random() < 0.02:
            log.flush()
            manager.checkpoint_recovery_points()


def acknowledged_kills(rounds: int, folder: Path, rng: random.Random) -> int:
    """Kill so often; the number of acknowledged records that are not there."""
    lost = 0
    directory = folder / "acks-0"
    for number in range(rounds):
        if number % 25 == 0:
            shutil.rmtree(directory, ignore_errors=True)
            directory = folder / f"acks-{number}"
        reader, writer = os.pipe()
        seed = rng.randrange(2**32)
        child = forked(partial(append_until_killed, directory, writer, seed))
        os.close(writer)
        wanted = rng.randrange(1, 120)
        told = 0
        last = -1
        while told < wanted:
            data = os.read(reader, _OFFSET.size)
            if len(data) < _OFFSET.size:
                break
            (last,) = _OFFSET.unpack(data)
            told += 1
        os.kill(child, signal.SIGKILL)
        while len(data := os.read(reader, _OFFSET.size)) == _OFFSET.size:
            (last,) = _OFFSET.unpack(data)  # acknowledged before it died
        os.waitpid(child, 0)
        os.close(reader)
        lost += missing(directory, last)
    shutil.rmtree(directory, ignore_errors=True)
    return lost


def missing(directory: Path, last: int) -> int:
    """The number of records up to offset `last` that are not there, or not as they were written."""
    manager, log = open_manager(OsFiles(), directory, _SMALL)
    found = values_of(log)
    manager.close(clean=False)
    return sum(found.get(offset) != value_of(offset) for offset in range(last + 1))


def values_of(log: Log) -> dict[int, bytes | None]:
    """Every readable record's value by offset."""
    found: dict[int, bytes | None] = {}
    offset, end = int(log.log_start_offset), int(log.log_end_offset)
    while offset < end:
        part = log.read(offset, 1 << 20, upper_bound=end)
        found.update((r.offset, r.value) for r in iter_records(part.records, "kills", 0))
        offset = part.next_offset
    return found


# ---- deletions ------------------------------------------------------------------------------


_TINY: Final = TopicConfig(segment_bytes=600, retention_bytes=6_000, file_delete_delay_ms=0)
_TOLD: Final = struct.Struct(">qqq")


def delete_until_killed(directory: Path, pipe: int, seed: int) -> None:
    """The child. It tells (log start, high watermark, log end) before and after each deletion: the
    one before allows what the next start may be, the one after is a promise.
    """
    rng = random.Random(seed)
    config = BrokerConfig(log_initial_task_delay_ms=0, log_retention_check_interval_ms=1)
    manager, log = open_manager(OsFiles(), directory, _TINY, config)
    mark = log.log_end_offset
    for now_ms in range(0, 10**9, 10):
        for _ in range(rng.randrange(1, 8)):
            values: list[bytes | None] = [value_of(log.log_end_offset)]
            batch = encode_batch(values, timestamps=_WALL_MS)
            log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=_WALL_MS)
        mark = Offset(rng.randint(mark, log.log_end_offset))
        os.write(pipe, _TOLD.pack(log.log_start_offset, mark, log.log_end_offset))
        if rng.random() < 0.3:
            log.advance_log_start(Offset(rng.randint(log.log_start_offset, mark)))
        else:
            manager.maintain(now_ms, _WALL_MS, {PARTITION: mark})
            starts = manager.log_starts_task()
            if starts is not None:
                starts.run()
                while manager.on_log_starts_written(starts):
                    starts.run()
            removal = manager.removal_task(now_ms)
            if removal is not None:
                removal.run()
        os.write(pipe, _TOLD.pack(log.log_start_offset, mark, log.log_end_offset))


def deletion_kills(rounds: int, folder: Path, rng: random.Random) -> tuple[int, int, int]:
    """Kill so often; (starts that came back, deletions above the high watermark, records lost)."""
    directory = folder / "deletions"
    returned = excess = lost = 0
    for _ in range(rounds):
        reader, writer = os.pipe()
        child = forked(partial(delete_until_killed, directory, writer, rng.randrange(2**32)))
        os.close(writer)
        wanted, told = rng.randrange(1, 150), 0
        start = mark = end = 0
        killed = False
        while len(data := os.read(reader, _TOLD.size)) == _TOLD.size:
            start, mark, end = _TOLD.unpack(data)
            told += 1
            if told >= wanted and not killed:
                os.kill(child, signal.SIGKILL)
                killed = True
        os.waitpid(child, 0)
        os.close(reader)
        manager, log = open_manager(OsFiles(), directory, _TINY)
        found = values_of(log)
        returned += log.log_start_offset < start
        excess += log.log_start_offset > max(mark, start)
        lost += sum(found.get(o) != value_of(o) for o in range(log.log_start_offset, end))
        manager.close(clean=False)
    shutil.rmtree(directory, ignore_errors=True)
    return returned, excess, lost


# ---- the cleaner --------------------------------------------------------------------------------


def fill(directory: Path) -> None:
    """A log of 5,000 keys, each written four times, closed in order."""
    manager, log = open_manager(OsFiles(), directory, _COMPACT)
    for round_ in range(4):
        for first in range(0, _KEYS, 50):
            keys: list[bytes | None] = [b"key-%d" % (first + n) for n in range(50)]
            values: list[bytes | None] = [b"%d of %d" % (round_, first + n) for n in range(50)]
            batch = encode_batch(values, keys=keys, timestamps=_WALL_MS)
            log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=_WALL_MS)
    log.roll(_WALL_MS)
    log.flush()
    manager.close(clean=True)


def clean(directory: Path, files: DyingFiles, countdown: int | None) -> int:
    """One pass; the number of operations that it took. Does not come back when killed."""
    manager, log = open_manager(files, directory, _COMPACT)
    files.operations, files.countdown = 0, countdown
    task = manager.cleaner.next_task(_WALL_MS, {PARTITION: Offset(log.log_end_offset)})
    assert task is not None
    task.run()
    while manager.cleaner.on_ran(task):
        task.run()
    files.countdown = None
    operations = files.operations
    manager.close(clean=False)
    return operations


def cleaner_kills(rounds: int, folder: Path, rng: random.Random) -> tuple[int, int]:
    """Kill so often, at each operation in turn; (keys with a wrong value, operations of a pass)."""
    assert rewriting  # loaded before the forks
    template = folder / "template"
    fill(template)
    trial = folder / "trial"
    shutil.copytree(template, trial)
    operations = clean(trial, DyingFiles(None), None)
    wrong = 0
    for number in range(rounds):
        shutil.rmtree(trial)
        shutil.copytree(template, trial)
        countdown = number % operations if rounds >= operations else rng.randrange(operations)
        child = forked(partial(clean, trial, DyingFiles(None), countdown))
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise RuntimeError(f"the child was not killed at operation {countdown}")
        wrong += wrong_values(trial)
    shutil.rmtree(trial)
    return wrong, operations


def wrong_values(directory: Path) -> int:
    """Keys whose last value is not what was written last, and leftovers of the cleaner."""
    manager, log = open_manager(OsFiles(), directory, _COMPACT)
    last: dict[bytes | None, bytes | None] = {}
    offset, end = int(log.log_start_offset), int(log.log_end_offset)
    while offset < end:
        part = log.read(offset, 1 << 20, upper_bound=end)
        last.update((r.key, r.value) for r in iter_records(part.records, "kills", 0))
        offset = part.next_offset
    manager.close(clean=False)
    leftovers = sum(
        path.name.endswith((".cleaned", ".swap")) for path in Path(log.directory).iterdir()
    )
    wrong = sum(last.get(b"key-%d" % n) != b"3 of %d" % n for n in range(_KEYS))
    return wrong + leftovers + (end != 4 * _KEYS)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when nothing was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acks", type=int, default=1000, help="kills of an appending process")
    parser.add_argument("--cleaner", type=int, default=500, help="kills inside the cleaner")
    parser.add_argument("--deletions", type=int, default=200, help="kills amid deletions")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    seed = options.seed if options.seed is not None else random.randrange(2**31)
    rng = random.Random(seed)
    begin_ms = SYSTEM_CLOCK.monotonic_ms()
    with tempfile.TemporaryDirectory(prefix="pylog-kills-") as name:
        lost = acknowledged_kills(options.acks, Path(name), rng)
        wrong, operations = cleaner_kills(options.cleaner, Path(name), rng)
        returned, excess, missing_there = deletion_kills(options.deletions, Path(name), rng)
    seconds = (SYSTEM_CLOCK.monotonic_ms() - begin_ms) / 1000
    print(
        f"seed {seed}: {options.acks} kills after acknowledgements, {lost} records lost; "
        f"{options.cleaner} kills inside the cleaner ({operations} operations in a pass), "
        f"{wrong} values wrong; {options.deletions} kills amid deletions, {returned} times deleted "
        f"records were back, {excess} times too many were gone, {missing_there} lost; "
        f"{seconds:.0f} s"
    )
    return 1 if lost or wrong or returned or excess or missing_there else 0


if __name__ == "__main__":
    sys.exit(main())
