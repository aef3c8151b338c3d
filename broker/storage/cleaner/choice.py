"""The choice of the log to clean next, and of the offset to clean up to. Pure.

A log is clean up to an offset; what follows is dirty. The part that may be cleaned ends at the
high watermark, the last stable offset, the active segment, and the first segment with records
younger than `min.compaction.lag.ms`. Worth a pass is a log whose dirty part makes more than
`min.cleanable.dirty.ratio` of it, or has records older than `max.compaction.lag.ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pylog.config import LONG_MAX
from pylog.model import TopicPartition
from pylog_broker.config import TopicConfig
from pylog_broker.storage.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class Cleanable:
    """A log's part that may be cleaned: full segments up to `end_offset`."""

    topic_partition: TopicPartition
    first_dirty: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """Dirty bytes of all that a pass reads, 0 to 1."""
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        """Whether a pass is worth it."""
        if not self.dirty_bytes:
            return False
        return self.overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio


def cleanable(
    topic_partition: TopicPartition,
    segments: Sequence[Segment],
    config: TopicConfig,
    *,
    first_dirty: int,
    stable_end: int,
    wall_ms: int,
) -> Cleanable:
    """`stable_end`: the last stable offset, at most the high watermark."""
    end = first_dirty
    clean = dirty = 0
    overdue = False
    for segment, after in pairwise(segments):
        segment_end = after.base_offset  # its own batches may end earlier, since it was cleaned
        young = (
            config.min_compaction_lag_ms > 0
            and segment.max_timestamp > wall_ms - config.min_compaction_lag_ms
        )
        if segment_end > stable_end or (young and segment_end > first_dirty):
            break
        if segment_end <= first_dirty:
            clean += segment.size
            continue
        dirty += segment.size
        end = segment_end
        first = segment.first_timestamp
        if config.max_compaction_lag_ms != LONG_MAX and first >= 0:
            overdue = overdue or wall_ms - first > config.max_compaction_lag_ms
    return Cleanable(topic_partition, first_dirty, end, clean, dirty, overdue)


def dirty_segments(segments: Sequence[Segment], found: Cleanable) -> list[tuple[int, int]]:
    """The segments that a pass would clean, each with its end and its bytes."""
    return [
        (after.base_offset, segment.size)
        for segment, after in pairwise(segments)
        if found.first_dirty < after.base_offset <= found.end_offset
    ]


def dirtiest(
    candidates: Iterable[tuple[Cleanable, TopicConfig]],
) -> Cleanable | None:
    """The log to clean next: an overdue one first, then the one with the largest dirty ratio."""
    due = [found for found, config in candidates if found.is_due(config)]
    return max(due, key=lambda found: (found.overdue, found.dirty_ratio), default=None)
