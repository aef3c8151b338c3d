"""Messages between a member and its coordinator, and a member's effects: plain values.

A request that is answered comes back with its answer, as the very object that was sent: what is not
in flight any more is passed over.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog.consumer_protocol import NO_GENERATION
from pylog.model import OffsetAndMetadata, TopicPartition

STANDING_MS: Final = 15_000
"""The time for which a heartbeat may stand: news end it at once, so it only shows that the member
lives. Less than half of the session's time-out in every default.
"""
LEAVE_PATIENCE_MS: Final = 3_000
"""The time for which a member tries to tell a coordinator that it leaves. The others, or its
successor, would have to wait for the end of its session.
"""

# ---- requests ----------------------------------------------------------------------------------


class FindCoordinator(NamedTuple):
    """Ask any broker who coordinates the group."""

    group_id: str


class JoinGroup(NamedTuple):
    """Take part in the next generation. Each protocol is an assignor's name and a subscription."""

    coordinator: int
    group_id: str
    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    reason: str = ""


class SyncGroup(NamedTuple):
    """Ask for the own assignment; the leader brings those of all members."""

    coordinator: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol: str
    assignments: tuple[tuple[str, bytes], ...] = ()


class Heartbeat(NamedTuple):
    """The member lives."""

    coordinator: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    standing_ms: int = 0
    """So long the answer may wait for a rebalance."""


class LeaveGroup(NamedTuple):
    """The member's partitions are free at once."""

    coordinator: int
    group_id: str
    member_id: str
    reason: str


class OffsetCommit(NamedTuple):
    """Keep these positions; generation -1 without a member id is of a consumer that assigns its
    partitions itself.
    """

    coordinator: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: tuple[tuple[TopicPartition, OffsetAndMetadata], ...]
    topic_ids: tuple[str, ...]
    """The topic's of each; empty: not known."""


class OffsetFetch(NamedTuple):
    """Tell what is committed of these."""

    coordinator: int
    group_id: str
    partitions: tuple[TopicPartition, ...]


class ConsumerGroupHeartbeat(NamedTuple):
    """The one request of the new protocol: it joins, lives, acknowledges and leaves, by its epoch.
    A field that is None is as in the request before.
    """

    coordinator: int
    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] | None = None
    owned: tuple[TopicPartition, ...] | None = None
    standing_ms: int = 0
    """So long the answer may wait for news."""
    regex: str | None = None
    """Topics whose whole name matches, beside those that are named; empty: none any more."""


GroupRequest = (
    FindCoordinator
    | JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | ConsumerGroupHeartbeat
)

# ---- answers -----------------------------------------------------------------------------------


class CoordinatorFound(NamedTuple):
    """The group's coordinator; a code says why there is none."""

    broker: int = -1
    code: int = 0
    message: str = ""


class Joined(NamedTuple):
    """A generation begins. Its leader alone gets `members`: id, instance and subscription."""

    generation: int = NO_GENERATION
    member_id: str = ""
    leader: str = ""
    protocol: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False
    code: int = 0
    message: str = ""


class Synced(NamedTuple):
    """The partitions that the member is to read."""

    assignment: bytes = b""
    code: int = 0
    message: str = ""


class Acknowledged(NamedTuple):
    """The answer to a heartbeat, or to leaving."""

    code: int = 0
    message: str = ""


TargetPartitions = tuple[tuple[str, str, tuple[int, ...]], ...]
"""The partitions that a member is to read, as the coordinator writes them: of each topic its id,
its name where the coordinator knows that, and the partitions' numbers.
"""


class ConsumerGroupHeartbeatAnswer(NamedTuple):
    """The member's epoch, the time between two heartbeats, and its target; None is no news. The
    target comes as `target`, and its topics have their names when it is an `assignment`.
    """

    epoch: int = 0
    interval_ms: int = 5_000
    assignment: tuple[TopicPartition, ...] | None = None
    code: int = 0
    message: str = ""
    target: TargetPartitions | None = None


class PartitionCommitted(NamedTuple):
    """The outcome for one partition of a commit."""

    topic_partition: TopicPartition
    code: int = 0
    message: str = ""


class OffsetsCommitted(NamedTuple):
    """The outcome of a commit."""

    partitions: tuple[PartitionCommitted, ...] = ()


class PartitionOffset(NamedTuple):
    """The committed offset of one partition, None where there is none, and the id of the topic that
    it is in; empty: not known.
    """

    topic_partition: TopicPartition
    committed: OffsetAndMetadata | None = None
    code: int = 0
    message: str = ""
    topic_id: str = ""


class OffsetsFetched(NamedTuple):
    """The committed offsets; a code is about the whole request."""

    partitions: tuple[PartitionOffset, ...] = ()
    code: int = 0
    message: str = ""


GroupAnswer = (
    CoordinatorFound
    | Joined
    | Synced
    | Acknowledged
    | OffsetsCommitted
    | OffsetsFetched
    | ConsumerGroupHeartbeatAnswer
)

# ---- what else is wanted -----------------------------------------------------------------------


class StopReading(NamedTuple):
    """Hand out nothing more of these: they are about to be given up."""

    partitions: tuple[TopicPartition, ...]


class ReadExactly(NamedTuple):
    """These are assigned. New ones are fetched when the callback that follows has run."""

    partitions: tuple[TopicPartition, ...]


class WatchGroupTopics(NamedTuple):
    """Keep metadata of these fresh: the leader shares out what any member wants."""

    topics: tuple[str, ...]


Effect = GroupRequest | StopReading | ReadExactly | WatchGroupTopics


class Polled(NamedTuple):
    """The result of a poll: effects, in their order, and when to poll again without another event
    (None: never).
    """

    effects: list[Effect]
    deadline_ms: int | None
