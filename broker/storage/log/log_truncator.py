"""Taking records away from the end of a log, down to all of it: what replication asks for.

Not here: the log's start, which moves for retention and DeleteRecords (`log_start`), and the
cleaner's work in the middle (`cleaner`).
"""

from __future__ import annotations

from broker.storage.log.log_parts import LogParts
from pylog.errors import KafkaStorageError
from pylog.model import Offset


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

    def truncate_to(self, offset: Offset) -> None:
        """Remove the records from `offset` on, which is not before the first segment."""
        if offset < self._bounds.end:
            self._truncate(offset)
        # An epoch that begins at the end is forgotten too: the leader may know another.
        self._durable.epochs.truncate_from_end(min(offset, Offset(self._bounds.end)))
        self._durable.write_epochs()

    def _truncate(self, offset: int) -> None:
        bounds = self._bounds
        cut = self._segments.cut_point(offset)
        if cut is not None and cut[1] < bounds.start <= offset:
            # The log starts inside the batch that goes: nothing readable is left.
            self.restart_at(bounds.start)
            return
        end = cut[1] if cut is not None else offset
        self._environment.truncated(self._parts.topic_partition, end)
        self._lower_recovery_point(end)
        bounds.generation += 1
        self._segments.truncate(offset, cut)
        bounds.end = self._segments.active.end_offset
        bounds.start = min(bounds.start, bounds.end)
        self._tail.truncate(bounds.end)
        self._producers.truncate(self._segments, bounds.end)

    def restart_at(self, offset: int) -> None:
        """Remove everything; the next record is `offset`."""
        bounds = self._bounds
        self._environment.truncated(self._parts.topic_partition, 0)
        self._lower_recovery_point(min(offset, self._durable.point))
        bounds.generation += 1
        self._segments.remove_all()
        self._tail.clear()
        try:
            self._segments.add(offset, self._parts.config, bounds.wall_ms)
        except OSError as error:
            # Without a segment the log cannot go on, not even when space comes back.
            raise self._guard.fail(
                KafkaStorageError(f"{self._parts.topic_partition} has no segment any more: {error}")
            ) from error
        bounds.start = bounds.end = self._durable.point = offset
        self._producers.clear()
        self._durable.epochs.clear()
        self._durable.write_epochs()
        self._environment.log_start_moved(bounds.start)

    def restart_before(self, first: int) -> None:
        """An empty log's next batch is `first`, before its end, because the leader's log starts
        inside that batch: begin with the batch, and keep the start and the epochs.
        """
        bounds = self._bounds
        start, epochs = bounds.start, self._durable.epochs.entries
        self.restart_at(first)
        bounds.start = max(first, start)
        for entry in epochs:
            self._durable.epochs.assign(*entry)
        self._environment.log_start_moved(bounds.start)

    def _lower_recovery_point(self, offset: int) -> None:
        """Before bytes are cut that were synced: else a crash would take what replaces them for
        synced too.
        """
        self._durable.cut(offset)
        self._parts.gaps.cut(offset)
        if offset < self._durable.point:
            self._durable.point = offset
            self._environment.recovery_point_lowered(offset)
