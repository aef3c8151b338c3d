"""What the fetcher keeps of each partition and each fetch."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pylog import errors
from pylog.model import TopicPartition
from pylog.records.batch import Buffer


@dataclass(frozen=True, slots=True)
class Chunk:
    """Fetched bytes; `next_offset` follows the last batch, record or not. `arrival` counts the
    consumer's chunks and faults.
    """

    batches: Buffer
    next_offset: int
    arrival: int = 0


@dataclass(slots=True)
class Partition:
    """One assigned partition.

    Invariant: with a position, `position <= fetch_offset`, equal when nothing is buffered.
    """

    topic_partition: TopicPartition
    position: int | None = None
    fetch_offset: int = -1
    reset_to: int | None = None  # a timestamp to look up; None while there is a position
    reset_in_flight: bool = False
    paused: bool = False
    urgent: bool = False  # the user acts: a running long poll may be cut
    generation: int = 0
    topic_id: str = ""
    last_epoch: int = -1
    retry_at_ms: int = 0
    failures: int = 0
    buffer: deque[Chunk] = field(default_factory=deque)
    buffered_bytes: int = 0
    left_out: bool = False  # of the last request, for its full buffer
    readable_end: int | None = None  # as its leader last said
    log_start_offset: int | None = None
    error: errors.PylogError | None = None  # a poll raises it
    error_seen: int | None = None  # the arrival before which records come first
    decoding: Any = None  # the shell's: the chunk that is being handed out
    decoding_arrival: int = 0

    def fail(self, error: errors.PylogError) -> None:
        """Have a poll raise `error`."""
        self.error = error
        self.error_seen = None

    def holds_before(self, arrival: int) -> bool:
        """Whether the user still has to get records of this partition that arrived before."""
        if self.decoding is not None:
            return self.decoding_arrival < arrival
        return bool(self.buffer) and self.buffer[0].arrival < arrival


@dataclass(slots=True)
class InFlight:
    """A fetch that was not answered for the last time. `wanted`: of each partition the generation
    and the offset that the next answer is about. `stands`: it was answered before, and its lane may
    be given to another one; `sent_ms` is then when it was answered.
    """

    correlation: int
    sent_ms: int
    max_wait_ms: int
    wanted: dict[TopicPartition, tuple[int, int]]
    stands: bool = False

    def asks_for(self, partition: Partition) -> bool:
        """Whether it asks for what the partition needs next."""
        wanted = self.wanted.get(partition.topic_partition)
        return wanted == (partition.generation, partition.fetch_offset)


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """What the fetcher needs of the consumer's settings."""

    auto_offset_reset: str = "latest"
    read_committed: bool = False
    reset_duration_ms: int = 0  # with BY_DURATION: how long ago
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    leaderless_patience_ms: int = 60_000  # then it is told that a partition has no leader
