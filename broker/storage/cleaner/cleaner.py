"""Keeps the compacted logs of a directory short: picks one, has a pass made, puts the result in.

Owned by the loop; `CleanTask.run` is the part for the pool. Kafka's `cleaner-offset-checkpoint`
says how far each log is clean. A log that cannot be cleaned is set aside, and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from pylog.errors import KafkaStorageError
from pylog.model import Offset, TopicId, TopicPartition
from pylog_broker.config import BrokerConfig
from pylog_broker.storage.checkpoints.checkpoint_writer import OffsetCheckpoint
from pylog_broker.storage.checkpoints.checkpoints import CLEANER_CHECKPOINT
from pylog_broker.storage.cleaner.choice import Cleanable, cleanable, dirtiest, dirty_segments
from pylog_broker.storage.cleaner.clean_plan import CleanPlan, Source
from pylog_broker.storage.cleaner.clean_task import CleanTask
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.files import PASSES, Files
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.read_leases import Keeper, ReadLeases

DEDUPE_BYTES_MIN: Final = 1024 * 1024
"""Memory for keys that each pass gets at least."""

logger = logging.getLogger(__name__)


class LogCleaner:
    """`log.cleaner.threads` passes at a time, each over another log. `uncleanable`: the logs that
    were set aside, and why.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        logs: Mapping[TopicPartition, Log],
        config: BrokerConfig,
        *,
        random_bytes: Callable[[int], bytes],
        remove_later: Callable[[Log, list[str]], None],
        save_recovery_points: Callable[[], None],
        trusted_ms: Callable[[int], int | None] | None = None,
    ) -> None:
        """`save_recovery_points` writes their checkpoint, durably; OSError.

        `trusted_ms(retention_ms)`: the time by which what is kept for so long may go; None when
        it cannot be told. Without it the wall clock is trusted.
        """
        self.leases = ReadLeases()
        """Records that these hold stay as they are."""
        self.uncleanable: dict[TopicPartition, str] = {}
        self.passes = 0
        self.pace: Callable[[int], None] = lambda count: None
        """Hears of bytes that passes read and write, on their threads, and may wait."""
        self._files = files
        self._logs = logs
        self.config = config
        self._random_bytes = random_bytes
        self._save_recovery_points = save_recovery_points
        self._trusted_ms = trusted_ms
        self._remove_later = remove_later
        self._checkpoint = OffsetCheckpoint(files, f"{directory}/{CLEANER_CHECKPOINT}")
        self._clean_to: dict[TopicPartition, int] = dict(self._checkpoint.found)
        self._unwritten = False
        """The checkpoint says something else."""
        self._running: dict[CleanTask, Log] = {}

    # ---- what happens to logs -------------------------------------------------------------------

    def loaded(self) -> None:
        """All logs are open: offsets of others, or beyond a log's end, are dropped."""
        for key, offset in list(self._clean_to.items()):
            log = self._logs.get(key)
            if log is None or offset > log.log_end_offset:
                del self._clean_to[key]

    def has_cleaned(self, topic_partition: TopicPartition) -> bool:
        """Whether a pass has been over the log, by the checkpoint."""
        return self._clean_to.get(topic_partition, 0) > 0

    def truncated(self, topic_partition: TopicPartition, offset: int) -> None:
        """Before records go from `offset` on: the ones that take their place are dirty."""
        if self._clean_to.get(topic_partition, 0) > offset:
            self._clean_to[topic_partition] = offset
            self._write()

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is gone, or a new one of that name will come."""
        self.uncleanable.pop(topic_partition, None)
        if self._clean_to.pop(topic_partition, None) is not None:
            self._write()

    # ---- passes ---------------------------------------------------------------------------------

    def candidates(
        self, wall_ms: int, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> list[Cleanable]:
        """The compacted logs with what may be cleaned of each."""
        found = []
        for key, log in self._logs.items():
            if not log.config.compacted or not log.is_settled or key in self.uncleanable:
                continue
            high_watermark = high_watermarks.get(key)
            if high_watermark is not None:
                stable_end = log.last_stable_offset(high_watermark)
                floor = self.leases.floor(_lease_key(log))
                if floor is not None:
                    stable_end = min(stable_end, Offset(floor))
                found.append(self._cleanable(log, stable_end, wall_ms))
        return found

    def _cleanable(self, log: Log, stable_end: Offset, wall_ms: int) -> Cleanable:
        return cleanable(
            log.topic_partition,
            log.segments,
            log.config,
            first_dirty=self._first_dirty(log),
            stable_end=stable_end,
            wall_ms=wall_ms,
        )

    def _settle_leases(
        self, wall_ms: int, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> None:
        """The leases that keep more from a pass that is due than they may end."""
        for key, log in self._logs.items():
            name = _lease_key(log)
            if not log.config.compacted or self.leases.floor(name) is None:
                continue
            high_watermark = high_watermarks.get(key)
            if high_watermark is None or not log.is_settled or key in self.uncleanable:
                continue
            whole = self._cleanable(log, log.last_stable_offset(high_watermark), wall_ms)
            dirty = dirty_segments(log.segments, whole) if whole.is_due(log.config) else []
            bytes_max = self.config.read_lease_max_bytes
            for ended in self.leases.hold_back(name, Keeper.CLEANER, dirty, bytes_max).ended:
                logger.warning("%s", ended)

    def _first_dirty(self, log: Log) -> int:
        return max(log.log_start_offset, self._clean_to.get(log.topic_partition, 0))

    def next_task(
        self, wall_ms: int, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> CleanTask | None:
        """A pass over the log that needs it most: `run()` on a pool thread, then `on_ran` here,
        until that says no; None when none is due or enough are running.
        """
        if self._unwritten:
            self._write()
        threads = self.config.log_cleaner_threads
        if len(self._running) >= threads or not self.config.log_cleaner_enable:
            return None
        if self.leases:
            self._settle_leases(wall_ms, high_watermarks)
        busy = {log.topic_partition for log in self._running.values()}
        found = self.candidates(wall_ms, high_watermarks)
        found = [item for item in found if item.topic_partition not in busy]
        chosen = dirtiest((item, self._logs[item.topic_partition].config) for item in found)
        if chosen is None:
            return None
        log = self._logs[chosen.topic_partition]
        memory = self.config.log_cleaner_dedupe_buffer_size
        buffer_bytes = max(min(memory, DEDUPE_BYTES_MIN), memory // threads)
        try:
            plan, flush = self._plan(log, chosen, wall_ms), log.flush_task()
        except KafkaStorageError as error:
            self._set_aside(log, error)
            return None
        seed = self._random_bytes(16)
        task = CleanTask(self._files, plan, buffer_bytes, seed, flush, self.pace)
        self._running[task] = log
        return task

    def _plan(self, log: Log, chosen: Cleanable, wall_ms: int) -> CleanPlan:
        segments = log.segments
        sources = tuple(
            Source(segment.base_offset, after.base_offset, segment.size, segment.created_ms)
            for segment, after in pairwise(segments)
            if after.base_offset <= chosen.end_offset
        )
        config = log.config
        return CleanPlan(
            log.directory,
            log.generation,
            sources,
            chosen.first_dirty,
            chosen.end_offset,
            tuple(log.aborted_transactions(0, chosen.end_offset)),
            log.producers.copy_of_entries(),
            wall_ms,
            self._trusted_ms(config.delete_retention_ms) if self._trusted_ms else wall_ms,
            config.delete_retention_ms,
            config.segment_bytes,
            config.segment_index_bytes,
            config.index_interval_bytes,
        )

    def on_ran(self, task: CleanTask) -> bool:
        """A step has run: put what it made in its place. True: run the next step."""
        log = self._running[task]
        if self._logs.get(log.topic_partition) is not log or log.failure is not None:
            return self._end(task)
        if task.flush is not None and task.flush.error is not None:
            self._made_durable(log, task)  # tells the log, which may have been cut meanwhile
            return self._end(task)
        if log.generation != task.plan.generation or not log.config.compacted:
            return self._end(task)  # it was cut meanwhile, or need not be compacted any more
        if task.error is not None:
            self._set_aside(log, task.error)
            return self._end(task)
        cleaned = task.cleaned
        if cleaned is None and not self._made_durable(log, task):
            return self._end(task)
        if cleaned is not None and cleaned.segment is not None:
            floor = self.leases.floor(_lease_key(log))
            if floor is not None and floor < cleaned.sources[-1].end_offset:
                return self._end(task)  # somebody began to read there meanwhile
            bases = [source.base_offset for source in cleaned.sources]
            try:
                removed = log.replace_segments(bases, cleaned.segment)
            except KafkaStorageError as error:
                logger.warning("%s", error)
                if log.failure is not None:
                    # It may be all that is left of the old ones: the next start finishes the swap.
                    task.cleaned = None
                return self._end(task)
            if removed is None:
                return self._end(task)  # retention took some of them
            task.cleaned = None
            self._remove_later(log, removed)
        if not task.done:
            return True
        self._clean_to[log.topic_partition] = task.clean_to
        self._write()
        self.passes += 1
        stats = task.stats
        logger.info(
            "%s is clean up to offset %d: %d of %d records stay, %d of %d bytes, %d keys",
            log.topic_partition,
            task.clean_to,
            stats.records_kept,
            stats.records_read,
            stats.bytes_written,
            stats.bytes_read,
            stats.keys,
        )
        return self._end(task)

    def _made_durable(self, log: Log, task: CleanTask) -> bool:
        """Before the first new segment: all that is to be cleaned is synced, and a start will know.

        A cleaned segment may end before the next one begins. Behind the recovery point a start
        after a loss of power would take that for an end that was lost, and cut what follows.
        """
        try:
            if task.flush is not None:
                log.on_flushed(task.flush)
            if log.recovery_point < task.plan.end_offset:
                return False  # its epochs found no room
            self._save_recovery_points()
        except (KafkaStorageError, OSError) as error:
            logger.warning("%s is not cleaned now: %s", log.topic_partition, error)
            return False
        return True

    def _end(self, task: CleanTask) -> bool:
        try:
            task.discard()
        except OSError as error:
            logger.warning("what a pass left in %s stays: %s", task.plan.directory, error)
        del self._running[task]
        return False

    def _set_aside(self, log: Log, error: Exception) -> None:
        if isinstance(error, FileNotFoundError):
            return  # retention took a segment meanwhile
        passes = isinstance(error, OSError) and error.errno in PASSES
        if passes or isinstance(error, PassingStorageError):
            logger.warning("%s is not cleaned now: %s", log.topic_partition, error)
            return
        self.uncleanable[log.topic_partition] = str(error)
        logger.error("%s cannot be cleaned, and is left as it is: %s", log.topic_partition, error)

    def _write(self) -> None:
        """A disk that refuses leaves the last one until `next_task`; the worst is a pass that was
        made already.
        """
        offsets = {key: Offset(offset) for key, offset in self._clean_to.items()}
        self._unwritten = True
        try:
            self._checkpoint.write(offsets)
            self._unwritten = False
        except OSError as error:
            logger.warning("%s cannot be written: %s", CLEANER_CHECKPOINT, error)


def _lease_key(log: Log) -> tuple[TopicId, int]:
    return log.topic_id, log.topic_partition.partition
