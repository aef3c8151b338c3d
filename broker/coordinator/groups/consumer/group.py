"""A group of the consumer protocol: epochs, members, what each should have and what it has. Pure.

    group epoch        goes up when a subscription or a subscribed topic changes
    assignment epoch   the group epoch that the target was computed for
    member epoch       the assignment epoch that the member has got to

Everything but `is_refreshed` is what replay has made of records. One loading that meets compaction
half-way may see a partition's next owner before the record with which the last one gave it up; so
a later record wins in `owners`, and a release by another than the owner changes nothing.

Not here: what requests and time make of it (`consumer.protocol`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

from pylog.errors import IllegalGeneration, StaleMemberEpoch, UnknownMemberId
from pylog_broker.coordinator.generated.consumer_group_member_metadata import (
    ClassicMemberMetadata,
)
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitValue
from pylog_broker.coordinator.groups.consumer.assignors import ASSIGNORS
from pylog_broker.coordinator.groups.consumer.messages import (
    LEAVING_FOR_A_WHILE,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from pylog_broker.coordinator.groups.consumer.topics import (
    NO_PARTITIONS,
    Partitions,
    TopicIdPartition,
)
from pylog_broker.coordinator.groups.group import Caller, GroupType


class ConsumerGroupState(Enum):
    """By Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """The states of a member, by the numbers of its record."""

    STABLE = 0
    """It has all that it should at its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It has been told to give partitions up, and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """It gets more when their owners have given them up."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member. Invariant: `assigned` and `revoking` have nothing in common."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed: frozenset[str] = frozenset()
    """Topics by name."""
    regex: str = ""
    """An expression that subscribes to each topic whose whole name matches, too; empty: none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    member_epoch: int = 0
    previous_epoch: int = 0
    """The epoch that the member had before, in case the answer with the present one was lost."""
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NO_PARTITIONS
    revoking: Partitions = NO_PARTITIONS
    classic: ClassicMemberMetadata | None = None
    """The metadata with which the member joined by the classic protocol; None: it speaks the
    consumer protocol.
    """

    @property
    def held(self) -> Partitions:
        """The partitions that no other member may have: this one reads them, or may still."""
        return self.assigned | self.revoking

    @property
    def has_left_for_a_while(self) -> bool:
        """A static member that has said that it will come back."""
        return self.member_epoch == LEAVING_FOR_A_WHILE

    def at_epoch(self, epoch: int) -> ConsumerMember:
        """The member at that epoch."""
        if epoch == self.member_epoch:
            return self
        return replace(self, member_epoch=epoch, previous_epoch=self.member_epoch)


@dataclass(slots=True)
class ConsumerGroup:
    """Invariants: `static` names members that are in `members`; `owners` has what they hold, once
    the log is read.
    """

    group_id: str
    group_epoch: int = 0
    metadata_hash: int = 0
    """The hash of the topics that the members subscribe to, at that epoch."""
    assignment_epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    """Member id by instance id."""
    target: dict[str, Partitions] = field(default_factory=dict)
    owners: dict[TopicIdPartition, str] = field(default_factory=dict)
    """Member id by partition."""
    resolved: dict[str, frozenset[str]] = field(default_factory=dict)
    """The topics that match, by regular expression; those of a new one are not known at once."""
    is_refreshed: bool = field(default=False, compare=False)
    """Whether this coordinator has compared the hash with the topics since they last changed."""

    # ---- as any group ----------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        """It is one of the consumer protocol."""
        return GroupType.CONSUMER

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group that administrators see."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_reconciled(member) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """By Kafka's name."""
        return self.state.value

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.members

    @property
    def is_unused(self) -> bool:
        """Likewise: nobody is about to become one."""
        return not self.members

    def check_commit(self, caller: Caller, *, transactional: bool = False) -> None:
        """Whether the caller may commit offsets; see `Group`."""
        if caller.epoch < 0 and self.is_empty:
            return  # a consumer that assigns itself, or an operator
        self._check_epoch(caller)

    def check_fetch(self, caller: Caller) -> None:
        """Whether the caller may ask for committed offsets; see `Group`."""
        if caller.epoch >= 0 or caller.member_id:
            self._check_epoch(caller)

    def _check_epoch(self, caller: Caller) -> None:
        member = self.members.get(caller.member_id)
        if member is None:
            raise UnknownMemberId(
                f"group {self.group_id!r} has members, and {caller.member_id!r} is none of them"
            )
        if caller.epoch != member.member_epoch:
            outdated = StaleMemberEpoch if member.classic is None else IllegalGeneration
            raise outdated(
                f"member {caller.member_id!r} of group {self.group_id!r} is at epoch "
                f"{member.member_epoch}, and the request says {caller.epoch}"
            )

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        return any(topic in self.read_by(member) for member in self.members.values())

    def expires_at(self, commit: OffsetCommitValue, retention_ms: int) -> int | None:
        """So long after the commit; see `Group`."""
        if commit.expire_timestamp != -1:
            return commit.expire_timestamp  # of an old client, which said so
        return commit.commit_timestamp + retention_ms

    def read_by(self, member: ConsumerMember) -> frozenset[str]:
        """All topics that the member subscribes to, by name or by regular expression."""
        if not member.regex:
            return member.subscribed
        return member.subscribed | self.resolved.get(member.regex, frozenset())

    # ---- what requests ask -----------------------------------------------------------------------

    def is_reconciled(self, member: ConsumerMember) -> bool:
        """Whether it has all that it should."""
        at_target = member.member_epoch == self.assignment_epoch
        return member.state is MemberState.STABLE and at_target

    def supports(self, names: Iterable[str]) -> bool:
        """Whether a member that speaks the classic protocol with these strategies may join: all
        members that speak it support one of them. Of the consumer protocol any member may.
        """
        common = set(names)
        for member in self.members.values():
            if member.classic is not None:
                common &= {each.name for each in member.classic.supported_protocols}
        return bool(common)

    def described(self) -> DescribedConsumerGroup:
        """All that anybody may know."""
        members = tuple(
            DescribedConsumer(
                member.member_id,
                member.instance_id,
                member.rack_id,
                member.member_epoch,
                member.client_id,
                member.client_host,
                tuple(sorted(member.subscribed)),
                member.regex or None,
                member.assigned,
                self.target.get(member.member_id, NO_PARTITIONS),
                member.classic is not None,
            )
            for member in self.members.values()
        )
        return DescribedConsumerGroup(
            self.group_id,
            self.state_name,
            self.group_epoch,
            self.assignment_epoch,
            preferred_assignor(self.members.values()),
            members,
        )

    # ---- replay ----------------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """A member is new, or says something else of itself. Its assignment is as before."""
        before = self.members.get(member.member_id)
        if before is not None and before.instance_id != member.instance_id:
            self._forget_instance(before)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def give(self, member: ConsumerMember) -> None:
        """A member has now what it says."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before, before.held - member.held)
        self.members[member.member_id] = member
        for partition in member.held:
            self.owners[partition] = member.member_id

    def remove(self, member_id: str) -> None:
        """A member is none any more."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member, member.held)
        self._forget_instance(member)

    def _release(self, member: ConsumerMember, partitions: Partitions) -> None:
        for partition in partitions:
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def _forget_instance(self, member: ConsumerMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static.get(instance_id) == member.member_id:
            del self.static[instance_id]


def preferred_assignor(members: Iterable[ConsumerMember]) -> str:
    """The one that most members ask for; the first of the broker's, where several are."""
    counts = Counter(member.server_assignor for member in members if member.server_assignor)
    return max(ASSIGNORS, key=lambda name: counts[name])
