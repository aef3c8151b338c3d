"""Taking records away from the end of a log, down to all of it: what replication asks for.

All that can refuse without harm is asked first: the cut point, the checkpoints. From then on
the cut is a fact: bounds, epochs and the batches in memory say so at once, and the files follow. An
error that passes leaves them to the next use of the log (`FaultGuard.leave_unfinished`), so that
nothing that was cut is read, and nothing is written behind it. A crash before that is one before
the truncation.

Not here: the log's start, which moves for retention and DeleteRecords (`log_start`), and the
cleaner's work in the middle (`cleaner`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pylog.model import Offset
from pylog_broker.storage.log.log_parts import LogParts
from pylog_broker.storage.producers.rebuild_task import RebuildTask
from pylog_broker.storage.segments.segment_list import CutPoint


class LogTruncator:
    """Tells the log's environment before it acts. Everything raises OSErrors as they come; the
    callers stand within the guard.
    """

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts
        self._environment = parts.environment
        self._guard = parts.guard
        self._segments = parts.segments
        self._producers = parts.producers
        self._tail = parts.tail
        self._durable = parts.durable
        self._bounds = parts.bounds
        self._rebuild: RebuildTask | None = None  # left to a thread of its own, of `_work`
        self._rebuild_is_out = False
        self._work: Callable[[], None] = lambda: None

    def truncate_to(self, offset: Offset) -> None:
        """Remove the records from `offset` on, which is not before the first segment."""
        if offset < self._bounds.end:
            self._truncate(offset)
        # An epoch that begins at the end is forgotten too: the leader may know another.
        self._durable.epochs.truncate_from_end(min(offset, Offset(self._bounds.end)))
        self._durable.write_epochs()

    def _truncate(self, offset: int) -> None:
        bounds = self._bounds
        point = self._segments.cut_point(offset)
        end = point.end_offset
        if end < bounds.start <= offset:
            # The log starts inside the batch that goes: nothing readable is left.
            self.restart_at(bounds.start)
            return
        self._environment.truncated(self._parts.topic_partition, end)
        self._environment.ends_at(self._parts.topic_partition, end)
        self._lower_recovery_point(end)
        bounds.generation += 1
        bounds.end = end
        bounds.start = min(bounds.start, end)
        bounds.written_start = min(bounds.written_start, end)
        self._tail.truncate(end)
        self._durable.epochs.truncate_from_end(Offset(end))
        self._work = partial(self._cut_files, offset, point)
        self._guard.leave_unfinished(self._work)
        self._segments.truncate(offset, point)
        self._rebuild_is_out = False
        self._rebuild = self._producers.begin_truncating([*self._segments], end)
        if self._rebuild is None:
            self._guard.finished(self._work)

    def _cut_files(self, offset: int, point: CutPoint) -> None:
        """All that a truncation leaves to do; again, if it was interrupted."""
        self._segments.truncate(offset, point)
        self._producers.truncate(self._segments, point.end_offset)
        self._rebuild = None

    def rebuild_task(self) -> RebuildTask | None:
        """The rest of a truncation, for a thread of its own; given out once."""
        if self._rebuild is None or self._rebuild_is_out:
            return None
        self._rebuild_is_out = True
        return self._rebuild

    def on_rebuilt(self, task: RebuildTask) -> None:
        """A task has run. After an error the log's next use does the same."""
        if task is self._rebuild:  # else something used the log meanwhile, and has done it
            self._rebuild = None
            self._producers.adopt(task, self._segments)
            self._guard.finished(self._work)

    @property
    def is_rebuilding(self) -> bool:
        """Whether a task is out that has not come back."""
        return self._rebuild is not None and self._rebuild_is_out

    def _carry_out(self, work: Callable[[], None]) -> None:
        self._guard.leave_unfinished(work)
        work()
        self._guard.finished(work)

    def restart_at(self, offset: int) -> None:
        """Remove everything; the next record is `offset`."""
        bounds = self._bounds
        self._environment.truncated(self._parts.topic_partition, 0)
        self._environment.ends_at(self._parts.topic_partition, offset)
        self._lower_recovery_point(min(offset, self._durable.point))
        bounds.generation += 1
        bounds.start = bounds.end = offset
        bounds.written_start = 0
        self._tail.clear()
        self._producers.now.clear()
        self._durable.epochs.clear()
        self._carry_out(partial(self._begin_at, offset))

    def _begin_at(self, offset: int) -> None:
        self._tail.clear()
        self._segments.remove_all()
        self._producers.clear()
        self._segments.add(offset, self._parts.config, self._bounds.wall_ms)
        self._durable.point = offset
        self._durable.write_epochs()
        self._environment.log_start_moved(self._bounds.start)
        self._bounds.written_start = self._bounds.start

    def restart_before(self, first: int) -> Callable[[], None]:
        """A log that holds nothing gets a batch that begins before its end, because the leader's
        log starts inside that batch: make room for it, and keep the start and the epochs.

        Until the batch is in, the log ends where it did; when it is, `FaultGuard.finished` is to
        hear of what this returns. Should it never come, the log begins again where it ends.
        """
        bounds = self._bounds
        self._environment.truncated(self._parts.topic_partition, 0)
        self._lower_recovery_point(min(first, self._durable.point))
        bounds.generation += 1
        undo = partial(self._begin_at, bounds.end)
        self._guard.leave_unfinished(undo)
        self._segments.remove_all()
        self._producers.clear()
        self._segments.add(first, self._parts.config, bounds.wall_ms)
        return undo

    def _lower_recovery_point(self, offset: int) -> None:
        """Before bytes are cut that were synced: else a crash would take what replaces them for
        synced too. After an error it is where it was: the next attempt must write it.
        """
        self._parts.gaps.cut(offset)
        before = self._durable.point
        if offset < before:
            self._durable.point = offset
            try:
                self._environment.recovery_point_lowered(offset)
            except BaseException:
                self._durable.point = before
                raise
        self._durable.cut(offset)
