"""Upkeep of a serving broker's logs as time passes: the loops around `LogManager.maintain`,
syncs, checkpoints and the cleaner.

Here: when, and on which thread. Not here: what is due (`pylog_broker.storage.manager.upkeep`), and
how passes of the cleaner run (`cleaning`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from pylog import errors
from pylog.clock import Clock
from pylog.model import TopicPartition
from pylog_broker.config import BrokerConfig
from pylog_broker.node.cleaning import Cleaning
from pylog_broker.node.engine import Engine
from pylog_broker.node.skew import LOOK_MS, Skew
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.files import is_of_the_moment
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.manager import LogManager

_log = logging.getLogger("pylog.node")

MAINTENANCE_SECONDS: Final = 1.0


class Upkeep:
    """Runs on the broker's loop; work that waits for the disk goes to the pool. Each log
    directory has its own two loops, so that a slow disk holds up no other.
    """

    def __init__(
        self,
        logs: LogDirectories,
        engine: Engine,
        clock: Clock,
        pool: Executor,
        cleaner_pool: Executor,
        config: BrokerConfig,
        take_failures: Callable[[], None],
    ) -> None:
        """`take_failures`: logs or directories have failed, let the others hear of it."""
        self._logs = logs
        self._engine = engine
        self._clock = clock
        self._pool = pool
        self._config = config
        self._take_failures = take_failures
        self._loop = asyncio.get_running_loop()
        self._cleaning = Cleaning(
            clock,
            cleaner_pool,
            lambda: engine.manager.high_watermarks(),
            lambda: logs.config,
            is_one=logs.is_one,
        )

    async def run(self) -> None:
        """Until it is cancelled; what a thread does for it then goes on. Raises what ended it: the
        last directory itself has failed.
        """
        skew = self._loop.create_task(self._watch_skew())
        try:
            async with asyncio.TaskGroup() as group:
                for manager in self._logs.live:
                    group.create_task(self._while_live(manager, self._maintain))
                    group.create_task(self._while_live(manager, self._clean))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            skew.cancel()
            self._cleaning.stop()

    async def _while_live(
        self, manager: LogManager, step: Callable[[LogManager, _Due], Awaitable[None]]
    ) -> None:
        due = _Due(self._clock.monotonic_ms() + self._checkpoint_interval_ms)
        while not manager.is_offline:
            try:
                await step(manager, due)
            except (OSError, errors.KafkaStorageError) as error:
                if isinstance(error, PassingStorageError) or is_of_the_moment(error):
                    _log.warning("%s: upkeep is put off: %s", manager.directory, error)
                    await asyncio.sleep(MAINTENANCE_SECONDS)
                    continue
                if self._logs.is_one:
                    raise
                self._logs.fail(manager, error)
                self._take_failures()

    async def _watch_skew(self) -> None:
        """Tell of partitions that get far more than their share."""
        while True:
            for skew in look_for_skew(self._engine):
                _log.warning("%s", skew)
            await asyncio.sleep(LOOK_MS / 1000)

    @property
    def _checkpoint_interval_ms(self) -> int:
        return self._config.replica_high_watermark_checkpoint_interval_ms

    async def _clean(self, manager: LogManager, _: _Due) -> None:
        """Compaction."""
        await self._cleaning.step(manager)

    async def _maintain(self, manager: LogManager, due: _Due) -> None:
        """Rolls, syncs of full segments, checkpoints."""
        await asyncio.sleep(MAINTENANCE_SECONDS)
        now_ms = self._clock.monotonic_ms()
        high_watermarks = self._engine.manager.high_watermarks()
        manager.maintain(now_ms, self._clock.wall_ms(), high_watermarks)
        self._engine.tell(self._engine.manager.on_retained)
        if manager.short_of_room:
            self._engine.delete_at_once(manager.directory)
        if (removal := manager.removal_task(now_ms)) is not None:
            await self._loop.run_in_executor(self._pool, removal.run)
        for log, task in manager.flush_tasks():
            await self._engine.flush(task)
            try:
                log.on_flushed(task)
            except errors.KafkaStorageError as error:
                _log.warning("%s: %s", log.topic_partition, error)
        for log, snapshot in manager.snapshot_tasks():
            await self._loop.run_in_executor(self._pool, snapshot.run)
            try:
                log.on_snapshot(snapshot)
            except errors.KafkaStorageError as error:
                _log.warning("%s: %s", log.topic_partition, error)
        self._take_failures()
        if now_ms >= due.checkpoint_ms and not manager.is_offline:
            due.checkpoint_ms = now_ms + self._checkpoint_interval_ms
            checkpoints = manager.checkpoint_task(self._engine.manager.high_watermarks())
            await self._loop.run_in_executor(self._pool, checkpoints.run)
            manager.on_checkpointed(checkpoints)


def look_for_skew(engine: Engine) -> list[Skew]:
    """The partitions that get far more than their share by now, and did not at the last look."""
    logs = {
        partition.topic_partition: partition.log
        for partition in engine.manager.partitions()
        if partition.has_log
    }

    def bytes_between(name: TopicPartition, start: int, end: int) -> int:
        try:
            return logs[name].bytes_between(start, end)
        except errors.KafkaStorageError:
            return 0  # its log has failed, which is told elsewhere

    return engine.skew.look({name: log.log_end_offset for name, log in logs.items()}, bytes_between)


@dataclass(slots=True)
class _Due:
    """The times at which the checkpoints of a directory are to be written next."""

    checkpoint_ms: int
