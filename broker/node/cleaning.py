"""Compaction beside the loop: how many passes run at a time, on which threads, and how fast.

Not here: which log needs one, and what a pass does (`pylog_broker.storage.cleaner`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from pylog import errors
from pylog.clock import Clock
from pylog.model import Offset, TopicPartition
from pylog_broker.config import BrokerConfig
from pylog_broker.storage.cleaner.clean_task import CleanTask
from pylog_broker.storage.cleaner.throttler import Throttler
from pylog_broker.storage.log.guard import DISK_FAILED
from pylog_broker.storage.manager.manager import LogManager


class Pace:
    """Holds the passes of all log directories to `log.cleaner.io.max.bytes.per.second` together.

    Called on their threads; the lock is held for a division, not while one waits.
    """

    def __init__(self, clock: Clock, config: Callable[[], BrokerConfig]) -> None:
        self._clock = clock
        self._config = config
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._throttler = Throttler(self._rate, clock.monotonic_ms())

    @property
    def _rate(self) -> float:
        return self._config().log_cleaner_io_max_bytes_per_second

    def __call__(self, count: int) -> None:
        """So many bytes were read or written. KafkaStorageError when the broker stops: a pass that
        waits must not hold that up.
        """
        with self._lock:
            self._throttler.rate = self._rate
            wait_ms = self._throttler.wait_ms(count, self._clock.monotonic_ms())
        if self._stopped.wait(min(wait_ms / 1000, threading.TIMEOUT_MAX)):
            raise errors.KafkaStorageError("the broker stops")

    def stop(self) -> None:
        """End the passes that run."""
        self._stopped.set()


class Cleaning:
    """The passes over the logs of all directories, on threads of their own: a pass that waits must
    not keep a sync or a cold read waiting. Lives on the broker's loop.
    """

    def __init__(
        self,
        clock: Clock,
        pool: Executor,
        high_watermarks: Callable[[], Mapping[TopicPartition, Offset]],
        config: Callable[[], BrokerConfig],
        *,
        is_one: bool,
    ) -> None:
        """`is_one`: there is only one log directory, so that a disk that fails is each log's own
        affair.
        """
        self._clock = clock
        self._high_watermarks = high_watermarks
        self._is_one = is_one
        self._pace = Pace(clock, config)
        self._pool = pool
        self._passes: dict[LogManager, set[asyncio.Task[bool]]] = {}

    async def step(self, manager: LogManager) -> None:
        """Begin the passes that are due in a directory; wait until one has ended, or a while.

        OSError when a pass met an error of the disk, of one of several directories.
        """
        passes = self._passes.setdefault(manager, set())
        cleaner = manager.cleaner
        cleaner.pace = self._pace
        while task := cleaner.next_task(self._clock.wall_ms(), self._high_watermarks()):
            passes.add(asyncio.create_task(self._run(manager, task)))
        backoff = manager.config.log_cleaner_backoff_ms / 1000
        if not passes:
            await asyncio.sleep(backoff)
            return
        done, _ = await asyncio.wait(
            passes, timeout=backoff or None, return_when=asyncio.FIRST_COMPLETED
        )
        passes -= done
        if not all([ended.result() for ended in done]):
            await asyncio.sleep(backoff)  # the next one would likely be the same, over the same log

    async def _run(self, manager: LogManager, task: CleanTask) -> bool:
        """Whether the pass met no error."""
        loop = asyncio.get_running_loop()
        goes_on = True
        while goes_on:
            await loop.run_in_executor(self._pool, task.run)
            goes_on = manager.cleaner.on_ran(task)
        error = task.error
        if isinstance(error, OSError) and error.errno in DISK_FAILED and not self._is_one:
            raise error
        return error is None

    def stop(self) -> None:
        """No more passes; the next start deals with segments that a pass has not put in place."""
        self._pace.stop()
        for passes in self._passes.values():
            for each in passes:
                each.cancel()
