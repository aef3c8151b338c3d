"""A consumer's state of each partition that it reads, and of each fetch."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from pylog import errors
from pylog.client.answers import Answer
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


class FetchState(Enum):
    """Kafka's names (`SubscriptionState.FetchStates`), but for RESETTING. An error that a poll is
    to raise, and a pause, are facts of their own: they come and go in each state.
    """

    INITIALIZING = "it has no position: the user must seek, or the group tells what is committed"
    AWAIT_RESET = "its position is to be looked up"
    RESETTING = "a broker was asked for its position"
    FETCHING = "it has a position"


NEXT_STATES: Final = {
    FetchState.INITIALIZING: (FetchState.AWAIT_RESET, FetchState.FETCHING),
    FetchState.AWAIT_RESET: (FetchState.AWAIT_RESET, FetchState.RESETTING, FetchState.FETCHING),
    FetchState.RESETTING: (FetchState.AWAIT_RESET, FetchState.FETCHING),
    FetchState.FETCHING: (FetchState.AWAIT_RESET, FetchState.FETCHING),
}
"""The states that may follow each one: by a seek, by a seek to the offset of a look-up, by the
look-up's request, by its answer. A position is lost only to the look-up of another one.
"""


class ReadFollower(NamedTuple):
    """The follower that a partition's leader wants to be read (KIP-392), in its epoch, and until
    when that holds.
    """

    broker: int
    leader_epoch: int
    until_ms: int


@dataclass(slots=True)
class Partition:
    """One assigned partition.

    Invariants: it has a `position` when it is FETCHING, and something to look up (`reset_to`) when
    it is AWAIT_RESET or RESETTING; with a position, `position <= fetch_offset`, equal when nothing
    is buffered.
    """

    topic_partition: TopicPartition
    state: FetchState = FetchState.INITIALIZING
    position: int | None = None
    fetch_offset: int = -1
    reset_to: int | None = None  # a timestamp to look up; None while there is a position
    paused: bool = False  # by the user, or held
    paused_by_user: bool = False
    held: bool = False  # by the group: it is about to be given up, or its user has yet to be told
    urgent: bool = False  # the user acts: a running long poll may be cut
    generation: int = 0
    topic_id: str = ""
    last_epoch: int = -1
    retry_at_ms: int = 0
    failures: int = 0
    buffer: deque[Chunk] = field(default_factory=deque)
    buffered_bytes: int = 0
    left_out: bool = False  # of the last request, for its full buffer
    follower: ReadFollower | None = None  # None: its leader is read
    leader_only_until_ms: int = 0  # a follower has failed
    readable_end: int | None = None  # as its leader last said
    log_start_offset: int | None = None
    error: errors.PylogError | None = None  # a poll raises it
    error_seen: int | None = None  # the arrival before which records come first
    decoding: Any = None  # the shell's: the chunk that is being handed out
    decoding_arrival: int = 0
    asked: list[Answer[int]] = field(default_factory=list)  # callers that wait for its position

    def become(self, state: FetchState) -> None:
        """Change the state, as far as the table allows it."""
        assert state in NEXT_STATES[self.state], (
            f"{self.topic_partition}: {self.state.name} cannot become {state.name}"
        )
        self.state = state

    def pause(self, *, by_user: bool | None = None, held: bool | None = None) -> None:
        """Give out records, or none, as the user and the group have it."""
        if by_user is not None:
            self.paused_by_user = by_user
        if held is not None:
            self.held = held
        self.paused = self.paused_by_user or self.held
        self.urgent = self.urgent or not self.paused

    def fail(self, error: errors.PylogError) -> None:
        """Have a poll raise `error`, which is about this partition alone."""
        self.error = error.about(self.topic_partition)
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
    """The settings that the consumer's cores need."""

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
    follower_lease_ms: int = 300_000  # so long a follower is read, or is not after it has failed

    def backoff_ms(self, failures: int, jitter: float) -> int:
        """The milliseconds to wait after so many failures: exponential, within 20 % (KIP-580)."""
        wait = self.retry_backoff_ms * 2 ** min(max(failures - 1, 0), 30)
        return int(min(wait, self.retry_backoff_max_ms) * (0.8 + 0.4 * jitter))
