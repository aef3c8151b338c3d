"""What one log is made of, for those that work on it (`Log`, `LogAppender`, `LogTruncator`).

Here: the parts, where the log begins and ends, and whether offsets may be missing in between. No
rules: who changes what, and in which order, stands with those that do it.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.config import TopicConfig
from broker.storage.durability import Durability
from broker.storage.environment import Environment
from broker.storage.files import Files
from broker.storage.guard import FaultGuard
from broker.storage.producer_history import ProducerHistory
from broker.storage.segment_list import SegmentList
from broker.storage.survey import GAPS_ALLOWED
from broker.storage.tail_cache import TailCache
from pylog.model import TopicPartition


class Gaps:
    """Whether offsets may be missing between batches, and the file that says so."""

    def __init__(self, files: Files, directory: str) -> None:
        self.allowed = False
        self._files = files
        self._path = f"{directory}/{GAPS_ALLOWED}"

    def load(self) -> None:
        """Look for the file. OSError."""
        self.allowed = self._files.exists(self._path)

    def note(self) -> None:
        """From here on there may be some; durable when it returns. OSError."""
        if not self.allowed:
            self._files.write_atomic(self._path, b"")
            self.allowed = True


@dataclass(slots=True)
class LogBounds:
    """`start` is the first offset that may be read, `end` the next record's. `generation` grows
    whenever records leave the end. `wall_ms` is the newest time that the log was told.
    """

    start: int = 0
    end: int = 0
    generation: int = 0
    wall_ms: int = 0


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
