"""Putting cleaned segments in the place of full ones.

Not here: what a cleaned segment holds (`cleaner`), and how a start finishes a swap that was begun
(`recovery`).
"""

from __future__ import annotations

from pylog.errors import KafkaStorageError
from pylog_broker.storage.files import PASSES
from pylog_broker.storage.log.log_parts import LogParts
from pylog_broker.storage.segments.segment import Segment


class SegmentSwap:
    """A swap may leave a gap before the next segment; so what is up to there is durable first, and
    said to be: else a start after a loss of power would take the gap for a tail that did not get to
    the disk, and cut off all that follows.
    """

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts

    def put_in(self, bases: list[int], cleaned: Segment) -> list[str] | None:
        """Put a cleaned segment in the place of full ones; the paths that may go later. None when
        they are not all there any more.

        PassingStorageError before anything has changed. Once the first file has another name, such
        an error leaves the rest to the log's next use, and the paths to `delete_old_segments`; any
        other takes the log offline, and the next start finishes what was begun.
        """
        parts = self._parts
        segments, guard = parts.segments, parts.guard
        behind = segments.base_after(bases[-1])
        if behind is None:
            return None
        parts.durable.flush(behind)
        with guard.io("noting that the log has gaps"):
            parts.environment.recovery_point_lowered(parts.durable.point)
            parts.gaps.note(parts.durable.point)
        with guard.io("naming a cleaned segment"):
            if not segments.stage(bases, cleaned):
                return None
        swap = segments.begin_swap(bases, cleaned)
        parts.tail.drop_below(segments.after(cleaned).base_offset)
        guard.leave_unfinished(swap)
        try:
            swap()
        except OSError as error:
            if error.errno in PASSES:
                return []
            raise guard.fail(
                KafkaStorageError(
                    f"{parts.topic_partition}: putting in {cleaned.log_path}: {error}"
                )
            ) from error
        guard.finished(swap)
        return segments.take_renamed()
