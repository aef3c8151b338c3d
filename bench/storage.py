"""The log on disk beside bare loops over the same file system: `python -m bench --only storage`."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from crc32c import crc32c

from bench.measure import alternating, median, stopwatch
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId, LeaderEpoch, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog.rpc import channel
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.environment import Environment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.recovery.recovery import LastStop
from pylog_broker.storage.tail_cache import TailBudget

_PARTITION = TopicPartition("bench", 0)
_ID = TopicId("b" * 21 + "A")
_WALL_MS = SYSTEM_CLOCK.wall_ms()
_BATCH_BYTES = 64 * 1024
_EPOCH = LeaderEpoch(0)


def batch_of_64_kib(timestamp: int = _WALL_MS) -> bytes:
    """One batch of 64 records of about 1 KiB."""
    return encode_batch([os.urandom(1010)] * 64, timestamps=timestamp)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pylog-bench-") as name:
        yield Path(name)


def _open(
    folder: Path,
    *,
    stop: LastStop | None = None,
    config: TopicConfig | None = None,
    tail: int = 0,
) -> Log:
    return Log.open(
        OsFiles(),
        str(folder / "bench-0"),
        _PARTITION,
        _ID,
        config or TopicConfig(segment_bytes=2**31 - 1),
        wall_ms=_WALL_MS,
        last_stop=stop,
        environment=Environment(TailBudget(tail), tail_bytes_max=tail),
    )


def bare_append(total_bytes: int) -> float:
    """MB/s of a loop that checks a CRC and writes 64 KiB at the end of a file."""
    batch = batch_of_64_kib()
    with _folder() as folder:
        handle = os.open(folder / "file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with stopwatch() as elapsed:
            for position in range(0, total_bytes, len(batch)):
                crc32c(batch)
                os.pwrite(handle, batch, position)
            seconds = elapsed()
        os.close(handle)
    return total_bytes / seconds / 1e6


def append(total_bytes: int) -> float:
    """MB/s of appends as a leader, records checked as a client's are."""
    batch = batch_of_64_kib()
    with _folder() as folder:
        log = _open(folder)
        log.append_as_leader(batch, leader_epoch=_EPOCH, wall_ms=_WALL_MS)
        with stopwatch() as elapsed:
            for _ in range(0, total_bytes, len(batch)):
                log.append_as_leader(batch, leader_epoch=_EPOCH, wall_ms=_WALL_MS)
            seconds = elapsed()
        log.close(clean=False)
    return total_bytes / seconds / 1e6


def _filled(folder: Path, total_bytes: int, config: TopicConfig | None = None) -> Log:
    log = _open(folder, config=config)
    batch = batch_of_64_kib()
    for _ in range(0, total_bytes, len(batch)):
        log.append_as_leader(batch, leader_epoch=_EPOCH, wall_ms=_WALL_MS)
    return log


def warm_reads(total_bytes: int) -> tuple[float, float]:
    """MB/s of (bare preadv of 1 MiB, reads of 1 MiB through the log) from pages in memory."""
    with _folder() as folder:
        log = _filled(folder, total_bytes)
        size = log.size
        handle = os.open(log.segments[0].log_path, os.O_RDONLY)
        for position in range(0, size, 1 << 20):
            os.pread(handle, 1 << 20, position)
        with stopwatch() as elapsed:
            for position in range(0, size, 1 << 20):
                os.preadv(handle, [bytearray(1 << 20)], position, os.RWF_NOWAIT)
            bare = size / elapsed() / 1e6
        os.close(handle)
        offset, end = 0, int(log.log_end_offset)
        with stopwatch() as elapsed:
            while offset < end:
                offset = log.read(offset, 1 << 20, upper_bound=end, nowait=True).next_offset
            through = size / elapsed() / 1e6
        log.close(clean=False)
    return bare, through


def time_look_up_us(segments: int) -> float:
    """Microseconds of one look-up by time in a log of so many segments."""
    config = TopicConfig(segment_bytes=1024)
    with _folder() as folder:
        log = _open(folder, config=config)
        for number in range(segments):
            batch = encode_batch([b"v" * 900], timestamps=_WALL_MS + 10 * number)
            log.append_as_leader(batch, leader_epoch=_EPOCH, wall_ms=_WALL_MS)
        times = []
        log.offset_for_timestamp(_WALL_MS)
        for number in range(0, segments, max(1, segments // 500)):
            wanted = _WALL_MS + 10 * number - 5
            log.offset_for_timestamp(wanted)
            with stopwatch() as elapsed:
                found = log.offset_for_timestamp(wanted)
                times.append(elapsed() * 1e6)
            assert found is not None
            assert found.offset == number
        log.close(clean=False)
    return statistics.median(times)


def recoveries(total_bytes: int) -> tuple[float, float, float]:
    """MB/s of (CRC over the file read in 1 MiB, a start after a crash that checks all of it), and
    the milliseconds of a start after a clean stop.
    """
    with _folder() as folder:
        log = _filled(folder, total_bytes)
        size = log.size
        path = log.segments[0].log_path
        log.close(clean=True)
        facts = {segment.base_offset: segment.facts for segment in log.segments}
        handle = os.open(path, os.O_RDONLY)
        with stopwatch() as elapsed:
            for position in range(0, size, 1 << 20):
                crc32c(os.pread(handle, 1 << 20, position))
            bare = size / elapsed() / 1e6
        os.close(handle)
        with stopwatch() as elapsed:
            log = _open(folder, stop=LastStop(0, 0))
            recovery = size / elapsed() / 1e6
        assert log.log_end_offset == facts[0].end_offset
        log.close(clean=True)
        with stopwatch() as elapsed:
            log = _open(folder, stop=LastStop.clean(facts))
            clean_ms = elapsed() * 1e3
        log.close(clean=False)
    return bare, recovery, clean_ms


def _manager(folder: Path) -> LogManager:
    return LogManager.open(
        OsFiles(),
        str(folder / "broker-1"),
        cluster_id="bench",
        broker_id=BrokerId(1),
        boot_id="boot",
        new_directory_id="d",
        wall_ms=_WALL_MS,
        config=BrokerConfig(),
    )


def many_partitions(count: int) -> tuple[float, float]:
    """(seconds to open so many partitions after a clean stop, MiB of memory that they take), in a
    process of its own.
    """
    with _folder() as folder:
        manager = _manager(folder)
        batch = encode_batch(
            [b"v" * 100] * 10,
            timestamps=_WALL_MS,
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
        )
        for number in range(count):
            log = manager.create(TopicPartition("many", number), TopicId(f"{number:021d}A"))
            log.append_as_leader(batch, leader_epoch=_EPOCH, wall_ms=_WALL_MS)
        manager.close(clean=True)
        command = [sys.executable, "-m", "bench.storage", str(folder), str(count)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, memory = done.stdout.split()
        return float(seconds), float(memory)


def _open_many(folder: Path, count: int) -> None:
    before = _resident_mib()
    with stopwatch() as elapsed:
        manager = _manager(folder)
        seconds = elapsed()
    assert len(manager.logs) == count
    print(seconds, _resident_mib() - before)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def figures(scale: float) -> None:
    """Every row of storage, with malloc set up as a broker has it."""
    channel.tune_process()
    total = max(4 << 20, int((512 << 20) * scale))
    bare, mine = alternating(
        "MB/s",
        {
            "limit: CRC and pwrite of 64 KiB": lambda: bare_append(total),
            "storage: append of 64 KiB batches": lambda: append(total),
        },
        runs=9,
    )
    print(f"    {mine.median / bare.median:.0%} of the limit")
    runs = [warm_reads(total) for _ in range(5)]
    values = iter([run[0] for run in runs])
    bare = median("limit: preadv of 1 MiB, warm", "MB/s", lambda: next(values))
    values = iter([run[1] for run in runs])
    mine = median("storage: reads of 1 MiB, warm, with CRC", "MB/s", lambda: next(values))
    print(f"    {mine.median / bare.median:.0%} of the limit")
    segments = max(50, int(10_000 * scale))
    median(
        f"storage: look-up by time, {segments} segments",
        "us",
        lambda: time_look_up_us(segments),
        runs=3,
    )
    large = max(8 << 20, int((1 << 30) * scale))
    starts = [recoveries(large) for _ in range(3)]
    values = iter([start[0] for start in starts])
    bare = median(
        f"limit: CRC over a file of {large >> 20} MiB", "MB/s", lambda: next(values), runs=3
    )
    values = iter([start[1] for start in starts])
    mine = median("storage: start after a crash", "MB/s", lambda: next(values), runs=3)
    print(f"    {mine.median / bare.median:.0%} of the limit")
    values = iter([start[2] for start in starts])
    median("storage: start after a clean stop", "ms", lambda: next(values), runs=3)
    small = [recoveries(max(1 << 20, large // 64))[2] for _ in range(3)]
    values = iter(small)
    median("storage: the same, of a log 64 times smaller", "ms", lambda: next(values), runs=3)
    count = max(20, int(2_000 * scale))
    opened = [many_partitions(count) for _ in range(3)]
    values = iter([run[0] for run in opened])
    median(f"storage: {count} partitions opened", "s", lambda: next(values), runs=3)
    values = iter([run[1] for run in opened])
    median(f"storage: memory of {count} idle partitions", "MiB", lambda: next(values), runs=3)


if __name__ == "__main__":
    _open_many(Path(sys.argv[1]), int(sys.argv[2]))
