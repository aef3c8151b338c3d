"""The part of a log that is on the disk for sure: its recovery point, its syncs, its epoch
checkpoint.

A recovery point is only as good as what a start trusts below it, so it stays where it is while the
epochs of the batches below could not be written.
"""

from __future__ import annotations

import errno

from pylog.model import Offset
from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT, write_epochs
from pylog_broker.storage.checkpoints.leader_epochs import LeaderEpochCache
from pylog_broker.storage.files import PASSES, Files, SyncFailed
from pylog_broker.storage.log.guard import FaultGuard
from pylog_broker.storage.segments.flush_task import FlushTask, SyncHistory
from pylog_broker.storage.segments.segment import Segment
from pylog_broker.storage.segments.segment_list import SegmentList


class Durability:
    """Everything below `point` is synced and below it a start may trust the files. `epochs` are
    those of the log, the same object from its opening on.
    """

    def __init__(
        self, files: Files, directory: str, segments: SegmentList, guard: FaultGuard
    ) -> None:
        self.point = 0
        self.epochs = LeaderEpochCache()
        self._files = files
        self._directory = directory
        self._segments = segments
        self._guard = guard
        self._unflushed_since_ms = -1
        self._synced = 0
        self._history = SyncHistory()

    @property
    def synced(self) -> int:
        """Batches below are synced; more than `point` while the epochs could not be written."""
        return max(self.point, self._synced)

    def cut(self, offset: int) -> None:
        """The records from `offset` on go."""
        self._synced = min(self._synced, offset)

    def appended(self, wall_ms: int) -> None:
        """There is something to sync now."""
        if self._unflushed_since_ms < 0:
            self._unflushed_since_ms = wall_ms

    def flush(self, end: int, *, patience_seconds: float = 0) -> None:
        """Make everything below `end` durable. KafkaStorageError, also when another sync runs and
        does not end within that time: its failure would be hidden from this one.
        """
        with self._guard.io("syncing"):
            self.write_epochs()
            self._sync(end, patience_seconds)
        self._synced = max(self._synced, end)
        if not self.epochs.changed:  # else a start must read them from the batches
            self.point = max(end, self.point)
        self._unflushed_since_ms = -1

    def _sync(self, end: int, patience_seconds: float) -> None:
        try:
            for segment in self._segments.from_offset(self.point):
                if segment.end_offset > self.point and segment.base_offset < end:
                    segment.fsync()
        except SyncFailed as error:
            self._history.failure = error
        if patience_seconds:
            self._history.wait(patience_seconds)
        if self._history.failure is not None:
            raise self._history.failure
        if self._history.running:
            raise OSError(errno.EINTR, "another sync of it is under way")

    def task(self, wall_ms: int | None, flush_ms: int, generation: int) -> FlushTask | None:
        """A sync of the full segments, and of the active one too when `flush_ms` has passed; None
        when there is nothing to sync.
        """
        since = self._unflushed_since_ms
        if wall_ms is not None and 0 <= since <= wall_ms - flush_ms:
            task = self.task_for_all(generation)
        else:
            full = list(self._segments.from_offset(self.point))[:-1]
            task = self._task_for(full, self._segments.active.base_offset, generation)
        return None if task.up_to <= self.point else task

    def task_for_all(self, generation: int) -> FlushTask:
        """A sync of all that there is."""
        self._unflushed_since_ms = -1
        waiting = list(self._segments.from_offset(self.point))
        return self._task_for(waiting, self._segments.active.end_offset, generation)

    def _task_for(self, segments: list[Segment], up_to: int, generation: int) -> FlushTask:
        paths = [
            path for segment in segments for path in (segment.log_path, *segment.cache_paths())
        ]
        return FlushTask(self._files, paths, Offset(up_to), generation, self._history)

    def settle(self, task: FlushTask, generation: int) -> None:
        """A task has run; a log that was cut since gains nothing. KafkaStorageError."""
        error = self._history.failure or task.error
        if error is not None:
            self._unflushed_since_ms = 0  # due again, should the error pass
            raise self._guard.fault(error, "syncing") from error
        if self._history.running:
            self._unflushed_since_ms = 0  # not to be believed, so one is due again
            return
        if task.generation == generation:
            self._synced = max(self._synced, task.up_to)
        if task.generation == generation and task.up_to > self.point:
            with self._guard.io("writing the epochs"):
                self.write_epochs()
            if not self.epochs.changed:
                self.point = task.up_to

    def write_epochs(self) -> None:
        """Write the epochs if they changed. An error that passes leaves that to the next time: all
        but an epoch without records is in the batches too. OSError.
        """
        if self.epochs.changed:
            try:
                write_epochs(
                    self._files, f"{self._directory}/{EPOCH_CHECKPOINT}", self.epochs.entries
                )
            except OSError as error:
                if error.errno not in PASSES:
                    raise
            else:
                self.epochs.written()
