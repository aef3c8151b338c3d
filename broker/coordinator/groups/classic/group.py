"""A group of the classic protocol: its members, its generation, and its waiting requests.

The record of a group says who its members are and what each has been assigned, and is written when
the leader brings assignments, and when the group becomes empty. In between the group exists in the
memory of its coordinator only, as in Kafka: a new one finds the last generation, whose members it
gives a session time-out to be heard of.

Not here: what requests and time make of it (`classic.protocol`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pylog.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog_broker.coordinator.generated.group_metadata import ClassicMember, GroupMetadataValue
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitValue
from pylog_broker.coordinator.groups.classic.messages import (
    Joined,
    JoinedMember,
    MemberProtocol,
)
from pylog_broker.coordinator.groups.classic.subscriptions import topics_of
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.runtime.decision import RequestId

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers; others (Connect's workers) have their own."""


class ClassicState(Enum):
    """By Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_MAY_FOLLOW: Final = {
    ClassicState.EMPTY: {ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {
        ClassicState.EMPTY,
        ClassicState.STABLE,
        ClassicState.COMPLETING_REBALANCE,
    },
    ClassicState.COMPLETING_REBALANCE: {ClassicState.PREPARING_REBALANCE},
    ClassicState.STABLE: {ClassicState.COMPLETING_REBALANCE},
    ClassicState.DEAD: set(ClassicState),
}
"""The states that each one may come after."""


_MEMBER_BYTES: Final = 64
"""The most bytes of a member in its group's record, without its names, its metadata and its
assignment."""


@dataclass(slots=True)
class Member:
    """One member. `joining` and `syncing`: the request that waits for the phase to end; `beating`:
    the heartbeat that stands.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    joining: RequestId | None = None
    syncing: RequestId | None = None
    beating: RequestId | None = None
    is_new: bool = False
    """It has joined no generation yet."""

    @property
    def size(self) -> int:
        """The bytes that it says of itself, for the strategy of which it says most; its
        assignment is not among them.
        """
        names = (self.member_id, self.instance_id or "", self.client_id, self.client_host)
        metadata = max((len(each.metadata) for each in self.protocols), default=0)
        return _MEMBER_BYTES + sum(len(name.encode()) for name in names) + metadata

    def metadata_for(self, protocol: str) -> bytes:
        """The member's metadata for that strategy; empty for one that it does not support."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def vote(self, candidates: set[str]) -> str | None:
        """The candidate that it likes most."""
        return next((each.name for each in self.protocols if each.name in candidates), None)


@dataclass(slots=True)
class ClassicGroup:
    """Invariants: `static` names members that are in `members`; a leader is a member, and one with
    members has a leader but for a group that `must_rebalance`; a group without members is EMPTY,
    PREPARING_REBALANCE (when they all were lost in the middle) or DEAD.
    """

    group_id: str
    state: ClassicState = ClassicState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    since_ms: int = -1
    """Wall-clock ms of the present state; -1: not known."""
    members: dict[str, Member] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    """Member id by instance id."""
    pending: dict[str, None] = field(default_factory=dict)
    """Ids that were given out, and have not joined."""
    to_sync: dict[str, None] = field(default_factory=dict)
    """Members of the generation that have not asked for their assignment."""
    initial_ms_left: int = -1
    """The milliseconds that are left of the time in which the first members of an empty group are
    awaited; -1: not such a time.
    """
    new_member_came: bool = False
    """Likewise: since that time was extended last."""
    topics: frozenset[str] | None = None
    """The topics that consumers in the group subscribe to; None: not known, or its members are no
    consumers."""

    # ---- as any group ----------------------------------------------------------------------------

    @property
    def type(self) -> GroupType:
        """It is one of the classic protocol."""
        return GroupType.CLASSIC

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
        """Whether it has none, and nobody is about to become one."""
        return self.state is ClassicState.EMPTY and not self.members and not self.pending

    @property
    def must_rebalance(self) -> bool:
        """Whether it was one of the consumer protocol, and has not begun to rebalance since."""
        return self.state is ClassicState.STABLE and self.leader is None

    def check_commit(self, caller: Caller, *, transactional: bool = False) -> None:
        """Whether the caller may commit offsets; see `Group`."""
        if self.state is ClassicState.DEAD:
            raise CoordinatorNotAvailable(f"group {self.group_id!r} is gone")
        if caller.epoch < 0 and self.is_empty:
            return  # a consumer that assigns partitions to itself, or an operator
        if caller.is_member:
            self.check_member(caller.member_id, caller.instance_id, caller.epoch)
        elif not transactional:
            raise UnknownMemberId(
                f"group {self.group_id!r} has members, so only they may commit: give a member id, "
                "or stop them first"
            )
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"group {self.group_id!r} is waiting for its assignments")

    def check_fetch(self, caller: Caller) -> None:
        """Anybody may ask."""

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as anybody knows."""
        return self.topics is not None and topic in self.topics

    def expires_at(self, commit: OffsetCommitValue, retention_ms: int) -> int | None:
        """The time from which the commit is worth nothing (KIP-211): of a group that nobody ever
        joined, so long after the commit; of an empty one, after it became empty; of consumers that
        have left the topic, after the commit.
        """
        if commit.expire_timestamp != -1:
            return commit.expire_timestamp  # of an old client, which said so
        if self.protocol_type is None:
            return commit.commit_timestamp + retention_ms
        if self.protocol_type != CONSUMER_PROTOCOL and not self.is_empty:
            return None
        if self.is_empty and self.state is ClassicState.EMPTY:
            since = commit.commit_timestamp if self.since_ms < 0 else self.since_ms
            return max(since, commit.commit_timestamp) + retention_ms
        if self.topics is not None and self.state is ClassicState.STABLE:
            return commit.commit_timestamp + retention_ms
        return None

    # ---- members ---------------------------------------------------------------------------------

    def check_member(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        """The member. Raises UnknownMemberId, FencedInstanceId and IllegalGeneration."""
        member = self.check_id(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGeneration(
                f"group {self.group_id!r} is at generation {self.generation}, member {member_id!r} "
                f"says {generation}: it has missed a rebalance"
            )
        return member

    def check_id(self, member_id: str, instance_id: str | None) -> Member:
        """The member. Raises UnknownMemberId and FencedInstanceId."""
        if instance_id is not None:
            present = self.static.get(instance_id)
            if present is None:
                raise UnknownMemberId(
                    f"group {self.group_id!r} has no static member {instance_id!r}"
                )
            if present != member_id:
                raise FencedInstanceId(
                    f"group.instance.id {instance_id!r} of group {self.group_id!r} is used by a "
                    f"later member: {member_id!r} has been replaced"
                )
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {self.group_id!r} has no member {member_id!r}")
        return member

    def add(self, member: Member, protocol_type: str) -> None:
        """A member comes; the first one leads."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member:
        """A member goes; if it led, the next one does that is there for the rebalance."""
        member = self.members.pop(member_id)
        if member.instance_id is not None:
            del self.static[member.instance_id]
        self.to_sync.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace(self, instance_id: str, new_id: str) -> Member:
        """A static member has started again: it is known by another id from now on."""
        old_id = self.static[instance_id]
        member = self.members[old_id]
        members = [(new_id if each == old_id else each, m) for each, m in self.members.items()]
        self.members = dict(members)
        member.member_id = new_id
        self.static[instance_id] = new_id
        if old_id in self.to_sync:
            del self.to_sync[old_id]
            self.to_sync[new_id] = None
        if self.leader == old_id:
            self.leader = new_id
        return member

    # ---- protocols -------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody who speaks these may join: all members support one of them."""
        names = set(names)
        if not self.members:
            return protocol_type != "" and bool(names)
        return protocol_type == self.protocol_type and not names.isdisjoint(self.candidates())

    def candidates(self, but: str = "") -> set[str]:
        """Strategies that every member supports, that one excepted."""
        counts = Counter(
            name
            for member in self.members.values()
            if member.member_id != but
            for name in {each.name for each in member.protocols}
        )
        voters = len(self.members) - (but in self.members)
        return {name for name, count in counts.items() if count == voters}

    def elected(self) -> str:
        """The strategy that most members like most; there are members, and they have one in
        common. Of several the first in the order of the first member that voted so.
        """
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        name, _ = votes.most_common(1)[0]
        assert name is not None, "members without a common protocol"
        return name

    # ---- states ----------------------------------------------------------------------------------

    def move_to(self, state: ClassicState, wall_ms: int) -> None:
        """Go on to that state."""
        assert self.state in _MAY_FOLLOW[state], f"{self.group_id}: {self.state} to {state}"
        self.state = state
        self.since_ms = wall_ms

    @property
    def all_have_joined(self) -> bool:
        """Whether nobody is awaited any longer."""
        return not self.pending and all(
            member.joining is not None for member in self.members.values()
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest time that a member asks for."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def next_generation(self, wall_ms: int) -> None:
        """Those who are members now make up the next generation."""
        self.generation = 1 if self.generation >= 2**31 - 1 else self.generation + 1
        self.initial_ms_left = -1
        if self.members:
            self.protocol = self.elected()
            self.topics = self._subscribed()
            self.move_to(ClassicState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol = None
            self.leader = None
            self.topics = self._subscribed()
            self.move_to(ClassicState.EMPTY, wall_ms)
        self.to_sync.clear()

    def _subscribed(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        if self.protocol is None:
            return frozenset()
        found: set[str] = set()
        for member in self.members.values():
            topics = topics_of(member.metadata_for(self.protocol))
            if topics is None:
                return None
            found |= topics
        return frozenset(found)

    def joined(self, member: Member, *, skip_assignment: bool = False) -> Joined:
        """The answer to a member's join, by the present generation."""
        protocol = self.protocol or ""
        leads = member.member_id == self.leader
        return Joined(
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            tuple(
                JoinedMember(each.member_id, each.instance_id, each.metadata_for(protocol))
                for each in self.members.values()
            )
            if leads
            else (),
            skip_assignment and leads,
        )

    # ---- records ---------------------------------------------------------------------------------

    def record(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """The group as its log knows it, with these assignments."""
        protocol = self.protocol or ""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.since_ms,
            members=tuple(
                ClassicMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata_for(protocol),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )

    def take_in(self, value: GroupMetadataValue) -> None:
        """Replay: the group is what the record says. Of members that are here already only their
        assignments are news.
        """
        self.protocol_type = value.protocol_type or None
        self.generation = value.generation
        self.protocol = value.protocol
        self.leader = value.leader
        self.since_ms = value.current_state_timestamp
        members: dict[str, Member] = {}
        for each in value.members:
            member = self.members.get(each.member_id) or _restored(each, value.protocol or "")
            member.assignment = each.assignment
            members[each.member_id] = member
        self.members = members
        self.static = {
            member.instance_id: member.member_id
            for member in members.values()
            if member.instance_id is not None
        }
        self.state = ClassicState.STABLE if members else ClassicState.EMPTY
        self.topics = self._subscribed()


def _restored(each: ClassicMember, protocol: str) -> Member:
    return Member(
        each.member_id,
        each.group_instance_id,
        each.client_id,
        each.client_host,
        each.session_timeout,
        each.session_timeout if each.rebalance_timeout == -1 else each.rebalance_timeout,
        (MemberProtocol(protocol, each.subscription),),
        each.assignment,
    )
