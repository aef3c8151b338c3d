"""The work that time asks of a directory's logs: rolls, syncs, retention, files that may go.

Times are arguments. Work that would wait for the disk comes back as a task for a pool thread.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from pylog.errors import KafkaStorageError
from pylog.model import Offset, TopicPartition
from pylog_broker.config import BrokerConfig
from pylog_broker.storage.checkpoints.checkpoint_writer import LogStartsTask
from pylog_broker.storage.directories.clock_checkpoint import ClockCheckpoint
from pylog_broker.storage.files import NO_ROOM, Files, refused
from pylog_broker.storage.log.environment import CLOCK_JUMPS, SEGMENTS_DELETED
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_checkpoints import LogCheckpoints
from pylog_broker.storage.producers.producer_budget import ProducerBudget
from pylog_broker.storage.producers.snapshot_task import SnapshotTask
from pylog_broker.storage.read_leases import End, Keeper, ReadLeases
from pylog_broker.storage.segments.flush_task import FlushTask
from pylog_broker.storage.segments.retention import RetentionClock

_EXPIRY_CHECK_MS: Final = 600_000
"""The interval at which idle producers are looked for, as in Kafka."""
EXPIRED_AT_ONCE: Final = 4_000
"""Producers that are looked at each time: some two milliseconds. A hundred thousand take half a
minute."""

logger = logging.getLogger(__name__)


class RemovalTask:
    """Removes files that nobody needs any more: `run()` on a pool thread."""

    def __init__(self, files: Files, paths: Sequence[str]) -> None:
        self._files = files
        self.paths = tuple(paths)

    def run(self) -> None:
        """Never raises: what cannot be removed is left to the next start."""
        for path in self.paths:
            try:
                self._files.unlink(path)
            except OSError as error:
                logger.warning("%s cannot be removed: %s", path, error)


class LogUpkeep:
    """Owned by the LogManager; sees its logs as they come and go."""

    def __init__(
        self,
        files: Files,
        logs: Mapping[TopicPartition, Log],
        checkpoints: LogCheckpoints,
        config: BrokerConfig,
        clock_file: ClockCheckpoint,
        directory: str,
        producer_budget: ProducerBudget,
    ) -> None:
        self.leases = ReadLeases()
        self._files = files
        self._logs = logs
        self._directory = directory
        self._producer_budget = producer_budget
        self._expiring: Iterator[tuple[Log, tuple[int, ...]]] | None = None
        self._checkpoints = checkpoints
        self.config = config
        self.counted: Counter[str] = Counter()
        self._clock = RetentionClock()
        self._clock_file = clock_file
        self._removals: list[tuple[int, str]] = []
        self._now_ms = self._wall_ms = 0
        self._expiry_due_ms = 0
        self._retention_due_ms: int | None = None
        self._wants_room = False
        self.short_of_room = False
        """The last `maintain` was the first after something was refused for want of room."""

    def loaded(self, wall_ms: int) -> None:
        """All logs are open: is the clock in order?"""
        statuses = (self._files.stat(log.segments[-1].log_path) for log in self._logs.values())
        newest_ms = max((s.modified_ns // 1_000_000 for s in statuses if s is not None), default=0)
        self._clock = RetentionClock(newest_ms)
        self._clock.tick(0, wall_ms)
        if self._clock.time_for(0) is None:
            logger.warning(
                "the clock stands %d days before the newest file: set it right; no record is "
                "deleted for its age until it has passed that file's time",
                (newest_ms - wall_ms) // 86_400_000,
            )
        self._clock = RetentionClock(newest_ms, self._clock_file.read())

    def trusted_ms(self, retention_ms: int) -> int | None:
        """The time by which what is kept for so long may go; None: it may not, by any clock."""
        return self._clock.time_for(retention_ms)

    def ran_out_of_room(self) -> None:
        """Something was refused for want of room: the next `maintain` looks for what may go at
        once, and nothing that may go waits for its delay.
        """
        self._wants_room = True

    def usable(self) -> list[Log]:
        """The logs that work."""
        return [log for log in self._logs.values() if log.failure is None]

    def maintain(
        self, now_ms: int, wall_ms: int, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> None:
        """Every few seconds. A log that fails at it is offline from then on and says so at its next
        use. Logs without a high watermark keep their segments.
        """
        self._now_ms = now_ms
        jump_ms = self._clock.tick(now_ms, wall_ms)
        if jump_ms:
            self.counted[CLOCK_JUMPS] += 1
            logger.warning(
                "the clock was set %s by %d s; records written before are kept until "
                "they are old by either clock",
                "forward" if jump_ms > 0 else "back",
                abs(jump_ms) // 1000,
            )
        self._clock_file.write(self._clock.reading, at_once=jump_ms != 0)
        self._expire_producers(now_ms)
        self.leases.expire(now_ms)
        for log in self.usable():
            try:
                log.maybe_roll(wall_ms)
            except KafkaStorageError as error:
                logger.warning("%s: %s", log.topic_partition, error)
        if self._retention_due_ms is None:
            self._retention_due_ms = now_ms + self.config.log_initial_task_delay_ms
        if now_ms >= self._retention_due_ms or self._wants_room:
            self._retention_due_ms = now_ms + self.config.log_retention_check_interval_ms
            self._retain(high_watermarks, wall_ms)
        self._wall_ms = wall_ms
        self._delete_old_segments(now_ms, wall_ms)

    # ---- producers ------------------------------------------------------------------------------

    def _expire_producers(self, now_ms: int) -> None:
        """Some of them at a time, or the loop would stand still over a hundred thousand."""
        if self._expiring is None and now_ms >= self._expiry_due_ms:
            self._expiry_due_ms = now_ms + _EXPIRY_CHECK_MS
            self._expiring = self._slices_of_producers()
        if self._expiring is not None:
            expiration_ms = self.config.producer_id_expiration_ms
            trusted_ms = self.trusted_ms(expiration_ms)
            looked_at = 0
            for log, ids in self._expiring:
                if trusted_ms is not None:
                    log.expire_producers(trusted_ms, expiration_ms, ids)
                looked_at += len(ids)
                if looked_at >= EXPIRED_AT_ONCE:
                    break
            else:
                self._expiring = None
        known = sum(len(log.producers) for log in self._logs.values())
        self._producer_budget.counted(self._directory, known)

    def _slices_of_producers(self) -> Iterator[tuple[Log, tuple[int, ...]]]:
        for log in self.usable():
            for ids in log.producers.slices_of_ids():
                yield log, ids

    def snapshot_tasks(self) -> list[tuple[Log, SnapshotTask]]:
        """Snapshots of logs that know many producers."""
        tasks = ((log, log.snapshot_task()) for log in self.usable() if log.is_settled)
        return [(log, task) for log, task in tasks if task is not None]

    # ---- retention ------------------------------------------------------------------------------

    def _retain(self, high_watermarks: Mapping[TopicPartition, Offset], wall_ms: int) -> None:
        for log in self.usable():
            high_watermark = high_watermarks.get(log.topic_partition)
            if high_watermark is None or log.is_rebuilding:
                continue
            try:
                reason = log.retain(
                    high_watermark=high_watermark,
                    wall_ms=wall_ms,
                    trusted_ms=self._clock.time_for(log.config.retention_ms),
                    hold_back=self._holding_back(log),
                )
            except KafkaStorageError as error:
                logger.warning("%s: %s", log.topic_partition, error)
                continue
            if reason:
                logger.info(
                    "%s starts at %d now: %s", log.topic_partition, log.log_start_offset, reason
                )

    def _holding_back(self, log: Log) -> Callable[[Sequence[tuple[int, int]]], int] | None:
        """The part of `Log.retain` that readers have, where they hold something of the log. Where
        there is no room they keep nothing.
        """
        key = log.topic_id, log.topic_partition.partition
        if self.leases.floor(key) is None:
            return None
        no_room = self._wants_room
        bytes_max, end = (
            (0, End.NO_ROOM) if no_room else (self.config.read_lease_max_bytes, End.QUOTA)
        )

        def hold_back(segments: Sequence[tuple[int, int]]) -> int:
            held = self.leases.hold_back(key, Keeper.RETENTION, segments, bytes_max, end)
            for ended in held.ended:
                logger.warning("%s", ended)
            return held.free

        return hold_back

    def log_starts_task(self) -> LogStartsTask | None:
        """`LogManager.log_starts_task`."""
        return self._checkpoints.log_starts_task()

    def on_log_starts_written(self, task: LogStartsTask) -> bool:
        """`LogManager.on_log_starts_written`. Where there is no room to write them, files must go
        first: deleting is what makes room. Only then does one go whose log start is not durable.
        """
        try:
            return self._checkpoints.settle_log_starts(task)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise self._refused(error) from error
        logger.warning("no room to write the log starts: old segments go at once")
        self._wants_room = True
        self._delete_old_segments(self._now_ms, self._wall_ms, written_only=False)
        RemovalTask(self._files, [path for _, path in self._removals]).run()
        self._removals.clear()
        self._wants_room = True
        try:
            self._checkpoints.write_log_starts()
        except OSError as error:
            raise self._refused(error) from error
        return False

    def _refused(self, error: OSError) -> KafkaStorageError:
        """The error of the logs whose starts could not be written."""
        refusals = [
            log.start_was_refused(error) for log in self.usable() if not log.start_is_written
        ]
        return refusals[0] if refusals else refused(error, "the log starts", self._directory)

    def _delete_old_segments(self, now_ms: int, wall_ms: int, *, written_only: bool = True) -> None:
        at_once, self._wants_room = self._wants_room, False
        self.short_of_room = at_once
        for log in self.usable():
            if log.is_rebuilding and not at_once:
                continue
            if written_only and not log.start_is_written:
                # A start after a loss of power would miss the files. Room is wanted still.
                self._wants_room = at_once
                continue
            try:
                paths = log.delete_old_segments(all_of_it_ms=wall_ms if at_once else None)
            except KafkaStorageError as error:
                logger.warning("%s: %s", log.topic_partition, error)
                continue
            self.counted[SEGMENTS_DELETED] += len(set(map(_base_of, paths)))
            due_ms = now_ms + log.config.file_delete_delay_ms
            self._removals += [(due_ms, path) for path in paths]
        if at_once and self._removals:
            logger.warning("no room on the disk: %d files go at once", len(self._removals))
            self._removals = [(now_ms, path) for _, path in self._removals]

    def removal_task(self, now_ms: int) -> RemovalTask | None:
        """Removes the files whose delay has passed; None when there are none."""
        due = [path for due_ms, path in self._removals if due_ms <= now_ms]
        if not due:
            return None
        self._removals = [removal for removal in self._removals if removal[0] > now_ms]
        return RemovalTask(self._files, due)

    def remove_later(self, log: Log, paths: Sequence[str]) -> None:
        """Files of a log that may go after its `file.delete.delay.ms`."""
        due_ms = self._now_ms + log.config.file_delete_delay_ms
        self._removals += [(due_ms, path) for path in paths]

    # ---- syncs ----------------------------------------------------------------------------------

    def flush_tasks(self, wall_ms: int) -> list[tuple[Log, FlushTask]]:
        """Syncs of full segments, and of all that `flush.ms` asks for. A log whose files are to be
        brought up first is left to the next time.
        """
        tasks = ((log, log.flush_task(wall_ms)) for log in self.usable() if log.is_settled)
        return [(log, task) for log, task in tasks if task is not None]


def _base_of(path: str) -> str:
    """The part of their names that the files of one segment share."""
    return path.rpartition("/")[2].partition(".")[0]
