"""The statements of a directory's checkpoints about its logs: how far each is committed and
synced, and where it starts.

All three are hints for the next start, and each has one value that is always safe: no high
watermark, no recovery point, the start of the first segment. Never safe is what another log of the
same name once had, so a name is forgotten, durably, before a log of that name is made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pylog.errors import KafkaStorageError
from pylog.model import Offset, TopicPartition
from pylog_broker.storage.checkpoints.checkpoint_writer import (
    CheckpointTask,
    LogStartsTask,
    OffsetCheckpoint,
)
from pylog_broker.storage.checkpoints.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from pylog_broker.storage.files import PASSES, Files

if TYPE_CHECKING:
    from pylog_broker.storage.log.log import Log

logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, Offset]


class LogCheckpoints:
    """Owned by the LogManager, and on its loop. It sees the manager's logs as they come and go.

    Entries of replicas that could not be opened are written again as they were found.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        logs: Mapping[TopicPartition, Log],
        failed: Mapping[TopicPartition, object],
    ) -> None:
        self._files = files
        self._directory = directory
        self._logs = logs
        self._failed = failed
        self._mark_file = OffsetCheckpoint(files, f"{directory}/{HIGH_WATERMARK_CHECKPOINT}")
        self._point_file = OffsetCheckpoint(files, f"{directory}/{RECOVERY_POINT_CHECKPOINT}")
        self._start_file = OffsetCheckpoint(files, f"{directory}/{LOG_START_CHECKPOINT}")
        self._high_watermarks: Offsets = dict(self._mark_file.found)
        self._moved_here: Mapping[TopicPartition, Offset] = {}
        self._moved_away: Offsets = {}
        self._starts_task: LogStartsTask | None = None
        self.loading = True
        """Not all logs are open: until then the files know more, and are left alone."""

    # ---- at the start ----------------------------------------------------------------------------

    @property
    def found_recovery_points(self) -> Offsets:
        """As they were found."""
        return self._point_file.found

    def expect_moves(self, left_behind: Mapping[TopicPartition, Offset]) -> None:
        """Logs may have been moved here, or away: their log starts, where they were. This directory
        keeps its own entries, until `moves_are_over`.
        """
        self._moved_here = left_behind
        found = self._start_file.found
        self._moved_away = {name: found[name] for name in left_behind if name in found}

    def moves_are_over(self) -> None:
        """Every directory is open, and has written the starts of its logs."""
        self._moved_away = {}

    def log_start_of(self, topic_partition: TopicPartition) -> Offset | None:
        """The start offset of a log in this directory; None where none is known.

        A start is written before segments go. So a log that no checkpoint knows, and whose first
        segment is not that of offset 0, came from elsewhere.
        """
        found = self._start_file.found.get(topic_partition)
        if found is None and topic_partition in self._point_file.found:
            return Offset(0)
        return self._moved_here.get(topic_partition) if found is None else found

    def loaded(self, *, write: bool = True) -> None:
        """All logs are open. Statements about names without a log are dropped. `write` False: not
        now, the next start must find what this one has found.
        """
        self.loading = False
        for name in sorted(self._high_watermarks):
            if name not in self._logs and name not in self._failed:
                del self._high_watermarks[name]
        past = {
            key: log.log_end_offset
            for key, log in self._logs.items()
            if self._high_watermarks.get(key, Offset(0)) > log.log_end_offset
        }
        self._high_watermarks |= past
        if write:
            if past:
                self.checkpoint(lambda: self._mark_file.write(self._high_watermarks))
            self.checkpoint(self.write_recovery_points)
            self.checkpoint(self.write_log_starts)

    def high_watermarks(self) -> Offsets:
        """The high watermark of each log, brought between its start and its end."""
        return {
            key: max(
                log.log_start_offset,
                min(self._high_watermarks.get(key, Offset(0)), log.log_end_offset),
            )
            for key, log in self._logs.items()
        }

    # ---- writes that the loop waits for ----------------------------------------------------------

    def forget(self, topic_partition: TopicPartition) -> None:
        """No checkpoint has an entry of that name when this returns. OSError."""
        if self._point_file.may_hold(topic_partition):
            self.write_recovery_points()
        if self._start_file.may_hold(topic_partition):
            self.write_log_starts()
        if self._mark_file.may_hold(topic_partition):
            self._mark_file.write(self._high_watermarks)

    def deleted(self, topic_partition: TopicPartition) -> None:
        """The log is gone; the next write of any kind says so."""
        self._high_watermarks.pop(topic_partition, None)

    def ends_at(self, topic_partition: TopicPartition, end: int) -> None:
        """A log is to be cut, and no checkpoint says when this returns that more of it is
        committed. A cut goes so deep when somebody was made to lead without what was committed;
        then the mark would be believed after a crash of what is written behind the cut. OSError.
        """
        known = self._high_watermarks.get(topic_partition, Offset(0))
        if known > end and not self.loading:
            lower = self._high_watermarks | {topic_partition: Offset(end)}
            self._mark_file.write(lower)
            self._high_watermarks = lower

    def write_recovery_points(self) -> None:
        """OSError when the disk refuses."""
        if not self.loading:
            self._point_file.write(self._recovery_points())

    def write_log_starts(self) -> None:
        """OSError when the disk refuses."""
        if not self.loading:
            self._start_file.write(self._log_starts())
            for log in self._logs.values():
                log.note_start_written(log.log_start_offset)

    def write_high_watermarks(self, told: Mapping[TopicPartition, Offset]) -> None:
        """Keeps the last known ones of logs that are not told. OSError when the disk refuses."""
        self._take(told)
        self._mark_file.write(self._high_watermarks)

    def checkpoint(self, write: Callable[[], None]) -> None:
        """A write that may also come later: an error that passes leaves the last one.

        KafkaStorageError when the disk fails.
        """
        try:
            write()
        except OSError as error:
            if error.errno not in PASSES:
                raise KafkaStorageError(f"{self._directory} cannot be written: {error}") from error
            logger.warning("the checkpoints of %s are not written now: %s", self._directory, error)

    # ---- writes on a pool thread -----------------------------------------------------------------

    def task(self, told: Mapping[TopicPartition, Offset]) -> CheckpointTask:
        """All three as they are now, to be written on any thread; without the log starts while
        those are being written for somebody who waits.
        """
        self._take(told)
        contents = [
            (self._mark_file, self._high_watermarks),
            (self._point_file, self._recovery_points()),
        ]
        if self._starts_task is None:
            contents.append((self._start_file, self._log_starts()))
        parts = [(file, file.stage(offsets)) for file, offsets in contents]
        return CheckpointTask(self._files, self._directory, parts)

    def settle(self, task: CheckpointTask) -> None:
        """The task has run. KafkaStorageError when the disk failed."""
        self.checkpoint(task.settle)

    def log_starts_task(self) -> LogStartsTask | None:
        """All log starts as they are now, to be written on any thread; None when each is written,
        and while a task runs: its end is the time to ask again.
        """
        if self._starts_task is not None or self.loading:
            return None
        if all(log.start_is_written or log.failure for log in self._logs.values()):
            return None
        staged = self._start_file.stage_awaited(self._log_starts())
        task = LogStartsTask(self._files, self._directory, self._start_file, staged)
        self._starts_task = task
        return task

    def settle_log_starts(self, task: LogStartsTask) -> bool:
        """A step of the task has run; whether another one is to follow. OSError when the disk
        refuses; the task is over then.
        """
        self._starts_task = None
        if task.settle():
            self._starts_task = task
            return True
        if task.is_written:
            for key, log in self._logs.items():
                log.note_start_written(task.offsets.get(key, Offset(0)))
        return False

    # ---- contents --------------------------------------------------------------------------------

    def _take(self, told: Mapping[TopicPartition, Offset]) -> None:
        for key, offset in told.items():
            if key in self._logs:
                self._high_watermarks[key] = offset

    def _recovery_points(self) -> Offsets:
        found = self._point_file.found
        offsets = {key: found[key] for key in self._failed if key in found}
        return offsets | {key: log.recovery_point for key, log in self._logs.items()}

    def _log_starts(self) -> Offsets:
        """Kafka leaves out starts that show in a segment's name. Here they tell a log whose first
        segments were deleted from one that has lost them.
        """
        found = self._start_file.found
        offsets = {key: found[key] for key in self._failed if key in found}
        offsets |= {key: at for key, at in self._moved_away.items() if key not in self._logs}
        return offsets | {
            key: log.log_start_offset for key, log in self._logs.items() if log.log_start_offset > 0
        }
