"""The parts of one log, for those that work on it (`Log`, `LogAppender`, `LogTruncator`).

Here: the parts, and where the log begins and ends. No rules: who changes what, and in which order,
stands with those that do it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pylog.model import TopicPartition
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.durability import Durability
from pylog_broker.storage.log.environment import Environment
from pylog_broker.storage.log.guard import FaultGuard
from pylog_broker.storage.producers.producer_history import ProducerHistory
from pylog_broker.storage.recovery.gaps import Gaps
from pylog_broker.storage.segments.segment_list import SegmentList
from pylog_broker.storage.tail_cache import TailCache


@dataclass(slots=True)
class LogBounds:
    """`start` is the first offset that may be read, `end` the next record's. `generation` grows
    whenever records leave the end. `wall_ms` is the newest time that the log was given.
    `written_start` is where it would begin after a crash, at the earliest.
    """

    start: int = 0
    end: int = 0
    generation: int = 0
    wall_ms: int = 0
    written_start: int = 0

    @property
    def start_is_written(self) -> bool:
        """Whether a crash would bring no record back that is below the start."""
        return self.written_start >= self.start


@dataclass(slots=True)
class LogParts:
    """The same objects as long as the log is open; only `config` may be set anew."""

    topic_partition: TopicPartition
    config: TopicConfig
    environment: Environment
    guard: FaultGuard
    segments: SegmentList
    producers: ProducerHistory
    tail: TailCache
    durable: Durability
    gaps: Gaps
    bounds: LogBounds
