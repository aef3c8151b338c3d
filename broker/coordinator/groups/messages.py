"""Requests about a group's offsets and about groups as such, and their answers. Plain values."""

from __future__ import annotations

from typing import NamedTuple

from pylog.errors import PylogError
from pylog.model import NO_EPOCH, ZERO_TOPIC_ID, LeaderEpoch, TopicId, TopicPartition
from pylog_broker.coordinator.groups.group import Caller, GroupType

NO_OFFSET = -1
"""The offset of a partition for which nothing is committed."""


class CommittedOffset(NamedTuple):
    """A position: the next record to read, the epoch of the one before it (-1: not known), and what
    the committer wrote beside it.
    """

    offset: int
    leader_epoch: LeaderEpoch = NO_EPOCH
    metadata: str = ""
    topic_id: TopicId = ZERO_TOPIC_ID


class OffsetCommit(NamedTuple):
    """Keep these positions."""

    group_id: str
    caller: Caller
    offsets: dict[TopicPartition, CommittedOffset]
    retention_ms: int = -1
    """The retention that an old client asks for; -1: as the broker is set."""


class OffsetsCommitted(NamedTuple):
    """The outcome of each partition."""

    partitions: dict[TopicPartition, PylogError | None]


class OffsetFetch(NamedTuple):
    """Tell the positions of these partitions, or of all (None)."""

    group_id: str
    caller: Caller
    partitions: tuple[TopicPartition, ...] | None = None
    require_stable: bool = False
    """Rather an error than a position that an open transaction is about to replace (KIP-447)."""


class OffsetsFetched(NamedTuple):
    """Each partition's position; None where nothing is committed."""

    partitions: dict[TopicPartition, CommittedOffset | PylogError | None]


class OffsetDelete(NamedTuple):
    """Forget these positions."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


class OffsetsDeleted(NamedTuple):
    """The outcome of each partition."""

    partitions: dict[TopicPartition, PylogError | None]


class DeleteGroups(NamedTuple):
    """Forget these groups, with all their positions."""

    group_ids: tuple[str, ...]


class GroupsDeleted(NamedTuple):
    """The outcome of each group."""

    groups: dict[str, PylogError | None]


class ListedGroup(NamedTuple):
    """One line of a list of groups."""

    group_id: str
    type: GroupType
    protocol_type: str
    state: str


class DescribedMember(NamedTuple):
    """A member of a classic group; bytes are those that only members read."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A classic group. Without a group of that name: the state Dead."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]
