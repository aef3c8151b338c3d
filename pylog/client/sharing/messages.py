"""Requests of a share group's member to brokers, and the answers: plain values.

A request that is answered comes back with its answer, as the very object that was sent: what is not
in flight any more is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pylog.client.membership.messages import CoordinatorFound, FindCoordinator, TargetPartitions
from pylog.model import TopicPartition
from pylog.records.batch import Buffer

GAP: Final = 0
"""The acknowledgement of an offset at which the log has no record."""


class SharedPartition(NamedTuple):
    """A partition that the member reads; one of another topic of the same name is another one."""

    topic_id: str
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """By name."""
        return TopicPartition(self.topic, self.partition)


class AckRange(NamedTuple):
    """The fate of the records from `first_offset` to `last_offset`: one byte for all of them,
    or one for each.
    """

    first_offset: int
    last_offset: int
    types: bytes


class AcquiredRange(NamedTuple):
    """Records that are the member's alone for now; `delivery_count` is 1 the first time."""

    first_offset: int
    last_offset: int
    delivery_count: int


Acks = tuple[tuple[SharedPartition, tuple[AckRange, ...]], ...]

# ---- requests ----------------------------------------------------------------------------------


class ShareHeartbeat(NamedTuple):
    """The member lives, joins (epoch 0) or goes (-1). Topics that are None are as before."""

    coordinator: int
    group_id: str
    member_id: str
    epoch: int
    topics: tuple[str, ...] | None = None
    standing_ms: int = 0
    """So long the answer may wait for news."""


class ShareFetch(NamedTuple):
    """Acquire records of the session's partitions. `added` are new in it, `forgotten` leave it."""

    broker: int
    epoch: int
    max_wait_ms: int
    max_records: int
    added: tuple[SharedPartition, ...] = ()
    forgotten: tuple[SharedPartition, ...] = ()
    acks: Acks = ()


class ShareAcknowledge(NamedTuple):
    """Acknowledge records, and acquire none. Epoch -1 ends the session."""

    broker: int
    epoch: int
    acks: Acks = ()
    renews: bool = False


ShareRequest = FindCoordinator | ShareHeartbeat | ShareFetch | ShareAcknowledge

# ---- answers -----------------------------------------------------------------------------------


class ShareHeartbeatAnswer(NamedTuple):
    """The member's epoch, the time between two heartbeats, and what it reads; None is as before."""

    epoch: int = 0
    interval_ms: int = 5_000
    target: TargetPartitions | None = None
    code: int = 0
    message: str = ""


class PartitionShared(NamedTuple):
    """A broker's answer for one partition, of its fetch and of its acknowledgements."""

    topic_id: str
    partition: int
    code: int = 0
    message: str = ""
    ack_code: int = 0
    ack_message: str = ""
    leader: int = -1
    leader_epoch: int = -1
    batches: Buffer = b""
    acquired: tuple[AcquiredRange, ...] = ()


class ShareAnswer(NamedTuple):
    """The answer to a fetch, or to acknowledgements alone. A code is about the whole request."""

    partitions: tuple[PartitionShared, ...] = ()
    lock_timeout_ms: int = 0
    code: int = 0
    message: str = ""


ShareGroupAnswer = CoordinatorFound | ShareHeartbeatAnswer | ShareAnswer

# ---- what comes of them ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Acquired:
    """Records of one partition that a broker has locked for this member. They are acknowledged in
    the share session in which they were acquired.
    """

    partition: SharedPartition
    broker: int
    session: int
    ranges: tuple[AcquiredRange, ...]
    batches: Buffer = field(repr=False)
    expires_at_ms: int
    leader_epoch: int = -1
    """As it was known when the records were asked for; -1: it was not."""
