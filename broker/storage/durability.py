"""How far a log is on the disk for sure: its recovery point, its syncs, its epoch checkpoint.

A recovery point is only as good as what a start trusts below it, so it stays where it is while the
epochs of the batches below could not be written.
"""

from __future__ import annotations

from broker.storage.checkpoints import EPOCH_CHECKPOINT, write_epochs
from broker.storage.files import NO_ROOM, Files
from broker.storage.flush_task import FlushTask
from broker.storage.guard import FaultGuard
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.segment_list import SegmentList
from pylog.model import Offset


class Durability:
    """Everything below `point` is synced. `epochs` are those of the log."""

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

    def appended(self, wall_ms: int) -> None:
        """There is something to sync now."""
        if self._unflushed_since_ms < 0:
            self._unflushed_since_ms = wall_ms

    def flush(self, end: int) -> None:
        """Make everything below `end` durable. KafkaStorageError."""
        with self._guard.io("syncing"):
            self.write_epochs()
            for segment in self._segments.from_offset(self.point):
                if segment.end_offset > self.point and segment.base_offset < end:
                    segment.fsync()
        if not self.epochs.changed:  # else a start must read them from the batches
            self.point = max(end, self.point)
        self._unflushed_since_ms = -1

    def task(self, wall_ms: int | None, flush_ms: int, generation: int) -> FlushTask | None:
        """A sync of the full segments, and of the active one too when `flush_ms` has passed; None
        when there is nothing to sync.
        """
        up_to = self._segments.active.base_offset
        waiting = self._segments.from_offset(self.point)
        since = self._unflushed_since_ms
        if wall_ms is not None and 0 <= since <= wall_ms - flush_ms:
            up_to = self._segments.active.end_offset
            self._unflushed_since_ms = -1
        else:
            waiting = waiting[:-1]
        if up_to <= self.point:
            return None
        paths = [path for segment in waiting for path in (segment.log_path, *segment.index_files())]
        return FlushTask(self._files, paths, Offset(up_to), generation)

    def settle(self, task: FlushTask, generation: int) -> None:
        """A task has run; a log that was cut since gains nothing. KafkaStorageError."""
        if task.error is not None:
            raise self._guard.fault(task.error, "syncing") from task.error
        if task.generation == generation and task.up_to > self.point:
            with self._guard.io("writing the epochs"):
                self.write_epochs()
            if not self.epochs.changed:
                self.point = task.up_to

    def write_epochs(self) -> None:
        """Write the epochs if they changed. A full disk leaves that to the next time: all but an
        epoch without records is in the batches too. OSError.
        """
        if self.epochs.changed:
            try:
                write_epochs(
                    self._files, f"{self._directory}/{EPOCH_CHECKPOINT}", self.epochs.entries
                )
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
            else:
                self.epochs.written()
