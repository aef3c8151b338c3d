"""A streams group: epochs, topology, members, what each should work on and what it has. Pure.

    group epoch        goes up when a member, the topology, its topics or the number of standby
                       tasks change
    assignment epoch   the group epoch that the targets were computed for
    member epoch       the assignment epoch that the member has got to

Everything but `configured` is what replay has made of records. As in the consumer protocol, a later
record wins in `owners`, and a release by another than the owner changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum

from pylog.errors import StaleMemberEpoch, UnknownMemberId
from pylog.model import TopicPartition
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitValue
from pylog_broker.coordinator.generated.streams_group_topology import StreamsGroupTopologyValue
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.streams.messages import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    Endpoint,
)
from pylog_broker.coordinator.groups.streams.tasks import (
    NO_TASKS,
    TaskId,
    TaskRole,
    Tasks,
    TaskSet,
)
from pylog_broker.coordinator.groups.streams.topology import (
    ConfiguredTopology,
    parts_by_topic,
    source_topics,
)


class StreamsGroupState(Enum):
    """By Kafka's names."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """The states of a member, by the numbers of its record."""

    STABLE = 0
    """It has all that it should at its epoch."""
    UNREVOKED_TASKS = 1
    """It has been told to give tasks up, and has not said that it did."""
    UNRELEASED_TASKS = 2
    """It gets more when those who have them have given them up."""


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member. Invariant: in each role, `assigned` and `revoking` have nothing in common."""

    member_id: str
    instance_id: str | None = None
    """As a Kafka broker wrote it."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    member_epoch: int = 0
    previous_epoch: int = 0
    """The epoch that the member had before, in case the answer with the present one was lost."""
    state: MemberState = MemberState.STABLE
    assigned: Tasks = NO_TASKS
    revoking: Tasks = NO_TASKS
    since: Mapping[TaskId, int] = field(default_factory=dict)
    """The epoch at which it got each active task that it holds."""

    @property
    def held(self) -> Tasks:
        """The tasks that the member works on, or may still."""
        return self.assigned | self.revoking

    def at_epoch(self, epoch: int) -> StreamsMember:
        """The member at that epoch."""
        if epoch == self.member_epoch:
            return self
        return replace(self, member_epoch=epoch, previous_epoch=self.member_epoch)


@dataclass(slots=True)
class StreamsGroup:
    """Invariant: `owners` has the active tasks that members hold, once the log is read."""

    group_id: str
    group_epoch: int = 0
    metadata_hash: int = 0
    """The hash of the topics that the topology needs, at that epoch."""
    validated_epoch: int = -1
    """The epoch of the topology that had all its topics, at that group epoch; -1: it had not."""
    assignment_configs: tuple[tuple[str, str], ...] = ()
    """The settings that the targets depend on, at that epoch."""
    topology: StreamsGroupTopologyValue | None = None
    assignment_epoch: int = 0
    members: dict[str, StreamsMember] = field(default_factory=dict)
    target: dict[str, Tasks] = field(default_factory=dict)
    owners: dict[TaskId, str] = field(default_factory=dict)
    """Member id by active task."""
    configured: ConfiguredTopology | None = field(default=None, compare=False)
    """The topology on the topics, as this coordinator has seen them; None: to be looked at."""

    # ---- as any group ----------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        """It is a streams group."""
        return GroupType.STREAMS

    @property
    def state(self) -> StreamsGroupState:
        """The state of the group that administrators see."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return StreamsGroupState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(self.is_reconciled(member) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

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
            return  # an operator
        if transactional and not caller.is_member:
            return
        self._check_epoch(caller)

    def check_commit_of(self, caller: Caller, partitions: Iterable[TopicPartition]) -> None:
        """Whether the caller may commit offsets of these partitions. One that has not heard of its
        present epoch yet commits those of the tasks that it has had since its own, as in Kafka.
        """
        member = self.members.get(caller.member_id)
        if member is None or not 0 <= caller.epoch < member.member_epoch:
            self.check_commit(caller)
            return
        parts = {} if self.topology is None else parts_by_topic(self.topology)
        for topic, partition in partitions:
            since = member.since.get(TaskId(parts.get(topic, ""), partition))
            if since is None or caller.epoch < since:
                had = "does not have it" if since is None else f"has it since epoch {since}"
                raise StaleMemberEpoch(
                    f"{topic}-{partition}: member {caller.member_id!r} of group {self.group_id!r} "
                    f"is at epoch {member.member_epoch} and {had}; the request says {caller.epoch}"
                )

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
            raise StaleMemberEpoch(
                f"member {caller.member_id!r} of group {self.group_id!r} is at epoch "
                f"{member.member_epoch}, and the request says {caller.epoch}"
            )

    def subscribes_to(self, topic: str) -> bool:
        """Whether its members read the topic."""
        return bool(self.members) and topic in self.read

    def expires_at(self, commit: OffsetCommitValue, retention_ms: int) -> int | None:
        """So long after the commit; see `Group`."""
        if commit.expire_timestamp != -1:
            return commit.expire_timestamp
        return commit.commit_timestamp + retention_ms

    # ---- what requests ask -----------------------------------------------------------------------

    @property
    def read(self) -> set[str]:
        """The names of the topics that the topology reads."""
        return set() if self.topology is None else source_topics(self.topology)

    def is_reconciled(self, member: StreamsMember) -> bool:
        """Whether it has all that it should."""
        at_target = member.member_epoch == self.assignment_epoch
        return member.state is MemberState.STABLE and at_target

    def held_beside(self, member: StreamsMember) -> TaskSet:
        """The tasks that other members of its process hold, in any role."""
        held: set[TaskId] = set()
        for other in self.members.values():
            if other.process_id == member.process_id and other.member_id != member.member_id:
                held.update(other.held.all())
        return frozenset(held)

    def is_free(self, member: StreamsMember, beside: TaskSet, role: TaskRole, task: TaskId) -> bool:
        """Whether the member may have that task now. `beside`: what its process has without it."""
        if task in beside:
            return False
        return role is not TaskRole.ACTIVE or self.owners.get(task) in (None, member.member_id)

    def described(self) -> DescribedStreamsGroup:
        """All that anybody may know."""
        members = tuple(
            DescribedStreamsMember(
                member.member_id,
                member.member_epoch,
                member.instance_id,
                member.rack_id,
                member.client_id,
                member.client_host,
                member.topology_epoch,
                member.process_id,
                member.endpoint,
                member.client_tags,
                member.assigned,
                self.target.get(member.member_id, NO_TASKS),
            )
            for member in self.members.values()
        )
        return DescribedStreamsGroup(
            self.group_id,
            self.state_name,
            self.group_epoch,
            self.assignment_epoch,
            self.topology,
            members,
        )

    # ---- replay ----------------------------------------------------------------------------------

    def give(self, member: StreamsMember) -> None:
        """A member has now what it says."""
        before = self.members.get(member.member_id)
        if before is not None:
            self._release(before, before.held.active - member.held.active)
        self.members[member.member_id] = member
        for task in member.held.active:
            self.owners[task] = member.member_id

    def remove(self, member_id: str) -> None:
        """A member is none any more."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member, member.held.active)

    def _release(self, member: StreamsMember, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            if self.owners.get(task) == member.member_id:
                del self.owners[task]
