"""Passes of the cleaner on threads of their own: how many at a time, and how fast."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.errors import KafkaStorageError
from pylog.model import LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.node.cleaning import Cleaning, Pace
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_directories import config_of_each
from pylog_broker.storage.manager.manager import LogManager
from tests.fakes.logs import WALL_MS, values_of
from tests.fakes.managers import open_manager
from tests.fakes.memory_files import MemoryFiles

COMPACT = TopicConfig(
    cleanup_policy=("compact",), segment_bytes=1200, min_cleanable_dirty_ratio=0.01
)
PATIENCE_S = 60


class Meeting(MemoryFiles):
    """The first read of each of two logs' passes waits for that of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = False
        self.met: set[str] = set()
        self.barrier = threading.Barrier(2)

    def pread(self, handle: int, length: int, position: int) -> bytes:
        name = self.handles[handle][0].split("/")[-2]
        if name in ("t-0", "t-1") and name not in self.met and self.begun:
            self.met.add(name)
            self.barrier.wait(PATIENCE_S)
        return super().pread(handle, length, position)


def dirty(files: MemoryFiles, config: BrokerConfig, count: int) -> tuple[LogManager, list[Log]]:
    manager = open_manager(files, config=config)
    logs = []
    for number in range(count):
        log = manager.create(TopicPartition("t", number), TopicId("t" * 22), COMPACT)
        logs.append(log)
        for value in range(60):
            batch = encode_batch([b"%d" % value], keys=[b"k"], timestamps=WALL_MS)
            log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
        log.roll(WALL_MS)
    return manager, logs


def test_so_many_passes_run_at_a_time_as_there_are_threads() -> None:
    files = Meeting()
    config = BrokerConfig(log_cleaner_threads=2, log_cleaner_backoff_ms=0)
    manager, logs = dirty(files, config, 3)

    files.begun = True

    async def main() -> None:
        marks = {log.topic_partition: log.log_end_offset for log in logs}
        with ThreadPoolExecutor(2) as pool:
            cleaning = Cleaning(SYSTEM_CLOCK, pool, lambda: marks, lambda: config, is_one=True)
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while manager.cleaner.passes < 3:
                        await cleaning.step(manager)
            finally:
                cleaning.stop()

    asyncio.run(main())
    assert files.met == {"t-0", "t-1"}
    assert [values_of(log) for log in logs] == [[(59, b"59")]] * 3


def test_each_log_has_one_pass_and_each_pass_its_share_of_the_memory() -> None:
    config = BrokerConfig(log_cleaner_threads=3, log_cleaner_dedupe_buffer_size=9 << 20)
    manager, logs = dirty(MemoryFiles(), config, 4)
    marks = {log.topic_partition: Offset(log.log_end_offset) for log in logs}
    cleaner = manager.cleaner
    tasks = [cleaner.next_task(WALL_MS, marks) for _ in range(4)]
    assert tasks[3] is None
    assert len({task.plan.directory for task in tasks[:3] if task}) == 3
    assert [task._map_bytes for task in tasks[:3] if task] == [3 << 20] * 3
    first = tasks[0]
    assert first is not None
    manager.reconfigure(replace(config, log_cleaner_threads=1))
    first.run()
    while cleaner.on_ran(first):
        first.run()
    assert cleaner.passes == 1
    assert cleaner.next_task(WALL_MS, marks) is None, "two still run"


def test_directories_share_the_threads() -> None:
    shares = [config_of_each(BrokerConfig(log_cleaner_threads=n), 2) for n in (1, 2, 5)]
    assert [share.log_cleaner_threads for share in shares] == [1, 1, 2]


def test_a_pass_tells_what_it_reads_and_writes() -> None:
    manager, logs = dirty(MemoryFiles(), BrokerConfig(), 1)
    told: list[int] = []
    manager.cleaner.pace = told.append
    size = sum(segment.size for segment in logs[0].segments)
    task = manager.cleaner.next_task(WALL_MS, {logs[0].topic_partition: logs[0].log_end_offset})
    assert task is not None
    task.run()
    assert sum(told) == size, "the keys are read once"
    while manager.cleaner.on_ran(task):
        task.run()
    assert sum(told) == 2 * size + task.stats.bytes_written


class Clock:
    """Stands still."""

    def monotonic_ms(self) -> int:
        return 1000

    def wall_ms(self) -> int:
        return WALL_MS

    def sleep(self, seconds: float) -> None:
        raise AssertionError


def test_a_pass_that_waits_does_not_hold_a_stop_up() -> None:
    config = BrokerConfig(log_cleaner_io_max_bytes_per_second=1.0)
    pace = Pace(Clock(), lambda: config)
    pace(1 << 40)  # not looked at yet
    pace._clock.monotonic_ms = lambda: 2000  # type: ignore[method-assign]
    ended: list[BaseException] = []

    def waits() -> None:
        try:
            pace(1)
        except KafkaStorageError as error:
            ended.append(error)

    thread = threading.Thread(target=waits)
    thread.start()
    pace.stop()
    thread.join(PATIENCE_S)
    assert len(ended) == 1
    with pytest.raises(KafkaStorageError, match="the broker stops"):
        pace(1)
