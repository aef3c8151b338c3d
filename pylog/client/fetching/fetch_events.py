"""Events and effects of the consumer's request managers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pylog.client.membership.messages import GroupRequest
from pylog.model import TopicPartition
from pylog.records.batch import Buffer
from pylog.records.transactions import AbortedTransaction

# ---- what answers say --------------------------------------------------------------------------


class Fetched(NamedTuple):
    """A broker's answer for one partition of a fetch."""

    topic_partition: TopicPartition
    code: int = 0
    message: str = ""
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    batches: Buffer = b""
    aborted: tuple[AbortedTransaction, ...] = ()
    """Told to readers of committed records: whose records in `batches` are not for them."""
    leader: int = -1
    leader_epoch: int = -1
    diverging_end: int | None = None
    """The offset at which the leader's log and the reader's part (KIP-320), and its leader
    epoch."""
    diverging_epoch: int | None = None
    damaged_end: int | None = None
    """The first offset behind what has rotted at the leader."""
    preferred: int = -1
    """The follower that the leader wants to be read instead of itself (KIP-392)."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A broker's answer for one partition of a list-offsets request."""

    topic_partition: TopicPartition
    generation: int
    code: int = 0
    message: str = ""
    offset: int = -1
    topic_id: str = ""
    """The id of the topic whose log the broker looked into; "" is not told."""


# ---- effects -----------------------------------------------------------------------------------


class FetchItem(NamedTuple):
    """One partition of a fetch; `last_epoch` is that of the batch before `offset`, or -1."""

    topic_partition: TopicPartition
    topic_id: str
    offset: int
    leader_epoch: int
    last_epoch: int


class Fetch(NamedTuple):
    """Ask a broker for more, on one of its streams."""

    broker: int
    correlation: int
    max_wait_ms: int
    items: tuple[FetchItem, ...]
    lane: int = 0
    leaders_only: bool = False
    """Whether the broker must not send the consumer to a follower."""


@dataclass(frozen=True, slots=True)
class CancelFetch:
    """Cut one of the broker's streams: its long poll does not ask for what is wanted now."""

    broker: int
    lane: int = 0


@dataclass(frozen=True, slots=True)
class ListOffsets:
    """Look up start positions: (partition, timestamp, leader epoch, generation) each."""

    broker: int
    items: tuple[tuple[TopicPartition, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """Have metadata refreshed now, and keep those of these topics fresh, or of `every` one."""

    topics: tuple[str, ...]
    every: bool


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Leaders of these topics are unknown or wrong."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something for the log: a position moved without the user's doing."""

    text: str


Effect = Fetch | CancelFetch | ListOffsets | WatchTopics | RefreshMetadata | Notice | GroupRequest
