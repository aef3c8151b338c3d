"""The start of a log, and the files below it: DeleteRecords, retention, and what goes with them.

A start is durable before files go, or a start after a loss of power would miss them. Where there is
no room to write it, files must go first: deleting is what makes room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pylog.errors import OffsetOutOfRange
from pylog.model import Offset
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.files import NO_ROOM, Files
from pylog_broker.storage.log.log_parts import LogParts
from pylog_broker.storage.log.log_writer import LogWriter
from pylog_broker.storage.segments.retention import doomed_segments
from pylog_broker.storage.segments.segment import Segment


class LogStart:
    """Moves the start of one log. `Log` has checked that it is open."""

    def __init__(self, files: Files, parts: LogParts, writer: LogWriter) -> None:
        self._files = files
        self._parts = parts
        self._environment = parts.environment
        self._guard = parts.guard
        self._segments = parts.segments
        self._producers = parts.producers
        self._durable = parts.durable
        self._bounds = parts.bounds
        self._writer = writer

    def move(self, offset: Offset) -> bool:
        """`Log.move_log_start`."""
        bounds = self._bounds
        if offset <= bounds.start:
            return False
        self._check(offset)
        bounds.start = offset
        self._durable.epochs.truncate_from_start(offset)
        return True

    def _check(self, offset: Offset) -> None:
        if offset > self._bounds.end:
            raise OffsetOutOfRange(
                f"{self._parts.topic_partition} cannot start at {offset}: it ends at "
                f"{self._bounds.end}"
            )

    def advance(self, offset: Offset) -> bool:
        """`Log.advance_log_start`."""
        bounds = self._bounds
        if offset <= bounds.start:
            if not bounds.start_is_written:
                self._write()
            return False
        self._check(offset)
        before, bounds.start = bounds.start, offset
        try:
            self._write()
        except BaseException:
            # a start that is not written must not be seen: a restart would bring the records back
            bounds.start = max(before, self._segments[0].base_offset)
            raise
        finally:
            self._durable.epochs.truncate_from_start(Offset(bounds.start))
        return True

    def _write(self) -> None:
        with self._guard.io("writing the log start"):
            try:
                self._environment.log_start_moved(self._bounds.start)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self.give_up_all(self._bounds.wall_ms)
                for path in self.delete_segments():
                    self._files.unlink(path)
                self._environment.log_start_moved(self._bounds.start)
        self._bounds.written_start = self._bounds.start

    def retain(
        self,
        *,
        high_watermark: int,
        wall_ms: int,
        trusted_ms: int | None,
        hold_back: Callable[[Sequence[tuple[int, int]]], int] | None,
    ) -> str:
        """`Log.retain`."""
        bounds = self._bounds
        with self._guard.io("looking for old segments"):
            doomed = doomed_segments(
                self._segments,
                self._parts.config,
                log_start=bounds.start,
                high_watermark=high_watermark,
                wall_ms=trusted_ms,
                modified_ms=self._modified_ms,
            )
        count = doomed.count if hold_back is None else self._free(doomed.count, hold_back)
        if not count:
            return ""
        if count == len(self._segments):
            self._writer.roll(bounds.end, self._parts.config, wall_ms)
            end = bounds.end
        else:  # a cleaned segment may end before the next one begins
            end = self._segments[count].base_offset
        if end <= bounds.start:
            return ""
        bounds.start = end
        self._durable.epochs.truncate_from_start(Offset(end))
        return doomed.reason

    def _free(self, count: int, hold_back: Callable[[Sequence[tuple[int, int]]], int]) -> int:
        """The number of the first `count` segments that readers do not hold."""
        bounds, segments = self._bounds, self._segments
        ends = [*(each.base_offset for each in segments[1 : count + 1]), bounds.end][:count]
        gone = sum(end <= bounds.start for end in ends)  # nobody can read these any more
        sizes = (each.size for each in segments[gone:count])
        return gone + hold_back([*zip(ends[gone:], sizes, strict=True)])

    def _modified_ms(self, segment: Segment) -> int:
        status = self._files.stat(segment.log_path)
        return self._bounds.wall_ms if status is None else status.modified_ns // 1_000_000

    def give_up_all(self, wall_ms: int) -> None:
        """Give up the active segment, too, where every record is below the start. A new one is
        three empty files; if even those cannot be made now, the old one stays.
        """
        if self._bounds.start == self._bounds.end and self._segments.active.size:
            try:
                self._writer.roll(self._bounds.end, self._parts.config, wall_ms)
            except PassingStorageError:
                return

    def delete_segments(self) -> list[str]:
        """`Log.delete_old_segments`."""
        with self._guard.io("deleting old segments"):
            renamed = self._segments.rename_below(self._bounds.start)
            self._producers.deleted_below(self._segments[0].base_offset)
            return renamed
