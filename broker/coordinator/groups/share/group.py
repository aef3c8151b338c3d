"""A share group: epochs, members, what each reads, and whose state there is. Pure.

    group epoch        goes up when a subscription, a subscribed topic, or the set of partitions
                       whose state is initialized changes
    assignment epoch   the group epoch that the targets were computed for
    member epoch       the assignment epoch that the member has got to

Members read partitions together, so nobody waits for another one to give anything up: a member is
at its target with its next heartbeat. Partitions are assigned once the share coordinator has
their state.

Everything but `is_refreshed` is what replay has made of records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NoReturn

from pylog.errors import GroupIdNotFound
from pylog.model import TopicId
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitValue
from pylog_broker.coordinator.generated.share_group_state_partition_metadata import DeletedTopic
from pylog_broker.coordinator.groups.consumer.topics import NO_PARTITIONS, Partitions
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.share.assignor import SIMPLE
from pylog_broker.coordinator.groups.share.messages import (
    DescribedShareGroup,
    DescribedShareMember,
)


class ShareGroupState(Enum):
    """By Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ShareMember:
    """One member."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed: frozenset[str] = frozenset()
    member_epoch: int = 0
    previous_epoch: int = 0
    """The epoch that the member had before, in case the answer with the present one was lost."""
    assigned: Partitions = NO_PARTITIONS

    def at_target(self, target: Partitions, epoch: int) -> ShareMember:
        """The member with its target of that epoch."""
        if epoch == self.member_epoch:
            return self
        return replace(self, member_epoch=epoch, previous_epoch=self.member_epoch, assigned=target)


@dataclass(slots=True)
class ShareGroup:
    """Invariant: `initializing` and `initialized` have nothing in common."""

    group_id: str
    group_epoch: int = 0
    metadata_hash: int = 0
    """The hash of the topics that the members subscribe to, at that epoch."""
    assignment_epoch: int = 0
    members: dict[str, ShareMember] = field(default_factory=dict)
    target: dict[str, Partitions] = field(default_factory=dict)
    initializing: Partitions = NO_PARTITIONS
    initialized: Partitions = NO_PARTITIONS
    """Partitions whose state the share coordinator is known to have."""
    topic_names: dict[TopicId, str] = field(default_factory=dict)
    """The names of the topics in `initializing` and `initialized`, by topic id."""
    deleting: tuple[DeletedTopic, ...] = ()
    """As a Kafka broker wrote it."""
    is_refreshed: bool = field(default=False, compare=False)
    """Whether this coordinator has compared the hash with the topics since they last changed."""

    # ---- as any group ----------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        """It is a share group."""
        return GroupType.SHARE

    @property
    def state_name(self) -> str:
        """By Kafka's name."""
        state = ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY
        return state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def is_unused(self) -> bool:
        """Never: an empty one still knows what was delivered, until somebody deletes it."""
        return False

    def check_commit(self, caller: Caller, *, transactional: bool = False) -> None:
        """Nobody commits offsets in it. Raises GroupIdNotFound."""
        self._refuse_offsets()

    def check_fetch(self, caller: Caller) -> None:
        """Nobody has committed any. Raises GroupIdNotFound."""
        self._refuse_offsets()

    def _refuse_offsets(self) -> NoReturn:
        raise GroupIdNotFound(
            f"group {self.group_id!r} is of type share, which has no committed offsets: its "
            "members acknowledge records"
        )

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return any(topic in member.subscribed for member in self.members.values())

    def expires_at(self, commit: OffsetCommitValue, retention_ms: int) -> int | None:
        """It has none that could."""
        return None

    # ---- what requests ask -----------------------------------------------------------------------

    def described(self) -> DescribedShareGroup:
        """All that anybody may know."""
        members = tuple(
            DescribedShareMember(
                member.member_id,
                member.rack_id,
                member.member_epoch,
                member.client_id,
                member.client_host,
                tuple(sorted(member.subscribed)),
                member.assigned,
            )
            for member in self.members.values()
        )
        return DescribedShareGroup(
            self.group_id,
            self.state_name,
            self.group_epoch,
            self.assignment_epoch,
            SIMPLE,
            members,
        )
