"""The services that a log gets from its manager, and its answer to an append."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from pylog.errors import KafkaStorageError
from pylog.model import Offset, TopicPartition
from pylog_broker.storage.producers.producer_budget import ProducerBudget
from pylog_broker.storage.segments.open_segments import OpenSegments
from pylog_broker.storage.tail_cache import TailBudget

TAIL_BYTES_MAX: Final = 4 * 1024 * 1024

RECOMPRESSED: Final = "recompressed"
SEGMENTS_DELETED: Final = "segments_deleted"
CLOCK_JUMPS: Final = "clock_jumps"
"""Keys of `Environment.counted`: batches, segments below a log's start, jumps of the wall clock."""


class AppendInfo(NamedTuple):
    """The offsets of a batch that was appended. `duplicate`: it was there already, the offsets are
    the first time's; answer it when the high watermark has passed `last_offset`.
    """

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset
    duplicate: bool = False
    record_count: int = 0
    size: int = 0


class NamedLog(Protocol):
    """As much of a log as its manager hears of when it fails: its name, and why."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The replica."""

    @property
    def failure(self) -> KafkaStorageError | None:
        """The error that took it offline."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The services that a log gets from its manager; the defaults suit a log that stands alone.

    `readers` limits the full segments that all logs together keep open; None: each log its own.
    `jitter(limit)` draws the time that is taken off a segment's life, 0 to `limit`.
    `log_start_moved` and `recovery_point_lowered` hear the new offset, `ends_at` where the log will
    end when it is cut; they write the checkpoints before the log acts on it.
    `truncated` hears from which offset on records go, before they do.
    `failed` hears of a log that goes offline; `no_room`, that the disk was found full.
    `disk_errors` counts errors of the disk by kind, `counted` what else happens to logs.
    """

    tail_budget: TailBudget
    tail_bytes_max: int = TAIL_BYTES_MAX
    readers: OpenSegments | None = None
    decompressed_bytes_max: int = 32 * 1024 * 1024
    jitter: Callable[[int], int] = lambda limit: 0
    log_start_moved: Callable[[int], None] = lambda offset: None
    recovery_point_lowered: Callable[[int], None] = lambda offset: None
    ends_at: Callable[[TopicPartition, int], None] = lambda topic_partition, offset: None
    truncated: Callable[[TopicPartition, int], None] = lambda topic_partition, offset: None
    failed: Callable[[NamedLog], None] = lambda log: None
    no_room: Callable[[], None] = lambda: None
    producer_budget: ProducerBudget = field(default_factory=ProducerBudget)
    disk_errors: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)
