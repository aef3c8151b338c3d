"""What a serving broker does for its logs as time passes: the loops around `LogManager.maintain`,
syncs, checkpoints and the cleaner.

Here: when, and on which thread. Not here: what is due (`broker.storage.upkeep`, the cleaner).
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from typing import Final

from broker.config import BrokerConfig
from broker.node.engine import Engine
from broker.storage.manager import LogManager
from pylog import errors
from pylog.clock import Clock

_log = logging.getLogger("pylog.node")

MAINTENANCE_SECONDS: Final = 1.0


class Upkeep:
    """Runs on the broker's loop; what waits for the disk goes to the pool."""

    def __init__(
        self, logs: LogManager, engine: Engine, clock: Clock, pool: Executor, config: BrokerConfig
    ) -> None:
        self._logs = logs
        self._engine = engine
        self._clock = clock
        self._pool = pool
        self._config = config
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Until it is cancelled. An ExceptionGroup when the directory itself fails."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._maintain())
            group.create_task(self._clean())

    async def _clean(self) -> None:
        """Compaction, one pass after the other."""
        cleaner = self._logs.cleaner
        while True:
            marks = self._engine.manager.high_watermarks()
            task = cleaner.next_task(self._clock.wall_ms(), marks)
            if task is None:
                await asyncio.sleep(self._logs.config.log_cleaner_backoff_ms / 1000)
                continue
            goes_on = True
            while goes_on:
                await self._loop.run_in_executor(self._pool, task.run)
                goes_on = cleaner.on_ran(task)

    async def _maintain(self) -> None:
        """Rolls, syncs of full segments, checkpoints."""
        interval_ms = self._config.replica_high_watermark_checkpoint_interval_ms
        checkpoint_due_ms = self._clock.monotonic_ms() + interval_ms
        while True:
            await asyncio.sleep(MAINTENANCE_SECONDS)
            now_ms = self._clock.monotonic_ms()
            high_watermarks = self._engine.manager.high_watermarks()
            self._logs.maintain(now_ms, self._clock.wall_ms(), high_watermarks)
            if (removal := self._logs.removal_task(now_ms)) is not None:
                await self._loop.run_in_executor(self._pool, removal.run)
            for log, task in self._logs.flush_tasks():
                await self._loop.run_in_executor(self._pool, task.run)
                try:
                    log.on_flushed(task)
                except errors.KafkaStorageError as error:
                    _log.warning("%s: %s", log.topic_partition, error)
            if failed := self._logs.take_new_failures():
                manager = self._engine.manager
                self._engine.perform(manager.on_logs_failed(self._clock.monotonic_ms(), failed))
            if now_ms >= checkpoint_due_ms:
                checkpoint_due_ms = now_ms + interval_ms
                checkpoints = self._logs.checkpoint_task(self._engine.manager.high_watermarks())
                await self._loop.run_in_executor(self._pool, checkpoints.run)
                self._logs.on_checkpointed(checkpoints)
