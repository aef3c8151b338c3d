"""The classic protocol of groups: requests and time come in, decisions come out. Pure.

    EMPTY --join--> PREPARING_REBALANCE --all have joined, or time is up--> COMPLETING_REBALANCE
      ^                 ^        |                                              |      |
      |                 |        +--nobody is left--> EMPTY                     |      |
      |                 +--a member comes, goes or changes----------------------+      |
      |                 +--------------------------- STABLE <--the leader syncs--------+
      +--the last member has gone, by way of PREPARING_REBALANCE

A group that was empty waits `initial_rebalance_delay_ms` for more members, and so long again
whenever one came, within the first member's rebalance time-out (KIP-134). Any other rebalance ends
as soon as all members have joined again; those that have not when the time-out is over are no
members any more, static ones excepted (KIP-345).

A join and a sync may wait for long: their request ids are kept with the member, and answered by
what ends the phase. Decisions change who waits at once, and members by the record that they write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Final

from pylog.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog_broker.coordinator.generated.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from pylog_broker.coordinator.groups.classic.group import ClassicGroup, ClassicState, Member
from pylog_broker.coordinator.groups.classic.messages import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaving,
    Left,
    Synced,
    SyncGroup,
)
from pylog_broker.coordinator.groups.classic.subscriptions import topics_of
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.group import Group, GroupType
from pylog_broker.coordinator.runtime.decision import (
    DECISION_BYTES_MAX,
    CancelTimer,
    Decision,
    Record,
    Reply,
    RequestId,
    SetTimer,
)

MEMBERS_BYTES_MAX: Final = 600_000
"""The metadata of all members of a group together. The record of a group holds that and all
assignments, and a coordinator that cannot write its record begins again, with all its groups.
"""
ASSIGNMENTS_BYTES_MAX: Final = DECISION_BYTES_MAX - MEMBERS_BYTES_MAX - 10_000
"""The bytes that a leader may assign."""


# Dataclasses, as a named tuple equals each one of another class with the same fields.
@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A member is not heard of."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class PendingTimer:
    """An id was given out, and nobody joined with it."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """The joining phase has lasted long enough, or is to begin."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """Not all members of the generation have asked for their assignment."""

    group_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class HeartbeatTimer:
    """A heartbeat has stood long enough."""

    group_id: str
    member_id: str


ClassicTimer = SessionTimer | PendingTimer | JoinTimer | SyncTimer | HeartbeatTimer


class ClassicProtocol:
    """Decides for all groups of one shard that speak it. Operations raise before they change
    anything.
    """

    def __init__(
        self, groups: MutableMapping[str, Group], config: GroupConfig, lost: Counter[GroupType]
    ) -> None:
        self._groups = groups
        self._config = config
        self._lost = lost

    # ---- loading ---------------------------------------------------------------------------------

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Takes in a record."""
        group = self._groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                del self._groups[key.group]
            return
        if not isinstance(group, ClassicGroup):
            group = self._groups[key.group] = ClassicGroup(key.group)
        group.take_in(value)

    def on_loaded(self) -> Decision:
        """Members of the last generation have one session time-out to be heard of."""
        decision = Decision()
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    self._heard_of(group, member, decision)
                if group.must_rebalance:
                    decision.effects.append(SetTimer(JoinTimer(group.group_id), 0))
        return decision

    # ---- join ------------------------------------------------------------------------------------

    def join(self, wall_ms: int, request_id: RequestId, request: JoinGroup) -> Decision:
        """`Joined` when the phase is over. With MEMBER_ID_REQUIRED in it a new member hears its id.

        Raises InvalidGroupId, InvalidSessionTimeout, UnknownMemberId, FencedInstanceId,
        InconsistentGroupProtocol and GroupMaxSizeReached, also for members that say too much.
        """
        self.check_join(request)
        group = self._groups.get(request.group_id)
        if group is not None and not isinstance(group, ClassicGroup):
            raise InconsistentGroupProtocol(
                f"group {request.group_id!r} is of type {group.type.value}: its members do not "
                "speak the classic protocol"
            )
        if group is None:
            if request.member_id:
                raise UnknownMemberId(
                    f"group {request.group_id!r} has no member {request.member_id!r}"
                )
            group = ClassicGroup(request.group_id)
        self._check_protocols(group, request)
        _check_bytes(group, request)
        if not request.member_id:
            return self._join_as_new(wall_ms, request_id, request, group)
        return self._join_again(wall_ms, request_id, request, group)

    def check_join(self, request: JoinGroup) -> None:
        """Raises InvalidGroupId and InvalidSessionTimeout."""
        if not request.group_id:
            raise InvalidGroupId("group_id is empty")
        low, high = self._config.min_session_timeout_ms, self._config.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise InvalidSessionTimeout(
                f"session_timeout_ms={request.session_timeout_ms} is not from {low} to {high} "
                "(group.min.session.timeout.ms and group.max.session.timeout.ms of the broker)"
            )

    def _check_protocols(self, group: ClassicGroup, request: JoinGroup) -> None:
        names = [each.name for each in request.protocols]
        if group.supports(request.protocol_type, names):
            return
        if not group.members:
            raise InconsistentGroupProtocol(
                f"group {group.group_id!r}: a protocol type and one assignment strategy at least "
                "are needed to join"
            )
        raise InconsistentGroupProtocol(
            f"group {group.group_id!r} is of protocol type {group.protocol_type!r} and its members "
            f"have in common {sorted(group.candidates())}; {request.protocol_type!r} with {names} "
            "does not go with them"
        )

    def _check_size(self, group: ClassicGroup) -> None:
        if len(group.members) + len(group.pending) >= self._config.max_size:
            raise GroupMaxSizeReached(
                f"group {group.group_id!r} has {len(group.members)} members, as many as "
                "group.max.size of the broker allows"
            )

    def _join_as_new(
        self, wall_ms: int, request_id: RequestId, request: JoinGroup, group: ClassicGroup
    ) -> Decision:
        decision = Decision()
        instance_id = request.instance_id
        if instance_id is not None and instance_id in group.static:
            self._join_instead(wall_ms, request_id, request, group, decision)
            return decision
        self._check_size(group)
        self._groups[group.group_id] = group
        if instance_id is None and request.requires_known_member_id:
            new_id = request.new_member_id
            group.pending[new_id] = None
            needed = MemberIdRequired(f"join group {group.group_id!r} again with this member id")
            decision.effects += (
                SetTimer(PendingTimer(group.group_id, new_id), request.session_timeout_ms),
                Reply(request_id, Joined(new_id, error=needed)),
            )
            return decision
        self._add(wall_ms, request_id, request, group, request.new_member_id, decision)
        return decision

    def _join_again(
        self, wall_ms: int, request_id: RequestId, request: JoinGroup, group: ClassicGroup
    ) -> Decision:
        decision = Decision()
        if request.member_id in group.pending:
            if request.instance_id is not None:
                raise UnknownMemberId(
                    f"group {group.group_id!r}: the id {request.member_id!r} was given to a member "
                    "without group.instance.id"
                )
            self._add(wall_ms, request_id, request, group, request.member_id, decision)
            return decision
        member = group.check_id(request.member_id, request.instance_id)
        changed = member.protocols != request.protocols
        if group.state is ClassicState.EMPTY:
            raise UnknownMemberId(f"group {group.group_id!r} is empty")
        is_lost_answer = group.state is ClassicState.COMPLETING_REBALANCE and not changed
        follows = (
            group.state is ClassicState.STABLE and not changed and member.member_id != group.leader
        )
        if is_lost_answer or follows:
            decision.effects.append(Reply(request_id, group.joined(member)))
            self._heard_of(group, member, decision)
            return decision
        self._wants_to_join(request_id, request, member, decision)
        self._rebalance(wall_ms, group, decision)
        return decision

    def _add(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: JoinGroup,
        group: ClassicGroup,
        member_id: str,
        decision: Decision,
    ) -> None:
        if member_id in group.pending:
            decision.effects.append(CancelTimer(PendingTimer(group.group_id, member_id)))
        member = Member(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.protocols,
            joining=request_id,
            is_new=True,
        )
        group.add(member, request.protocol_type)
        group.new_member_came = True
        timeout_ms = self._config.new_member_join_timeout_ms
        decision.effects.append(SetTimer(SessionTimer(group.group_id, member_id), timeout_ms))
        self._rebalance(wall_ms, group, decision)

    def _wants_to_join(
        self, request_id: RequestId, request: JoinGroup, member: Member, decision: Decision
    ) -> None:
        if member.joining is not None:
            later = RebalanceInProgress(f"member {member.member_id!r} has joined anew")
            decision.effects.append(Reply(member.joining, later))
        member.joining = request_id
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms

    def _join_instead(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: JoinGroup,
        group: ClassicGroup,
        decision: Decision,
    ) -> None:
        """A static member has started again. While the group is stable that need not disturb the
        others: it hears what its earlier self had.
        """
        instance_id = request.instance_id
        assert instance_id is not None
        protocol = group.protocol or ""
        old_id = group.static[instance_id]
        topics = topics_of(group.members[old_id].metadata_for(protocol))
        member = group.replace(instance_id, request.new_member_id)
        fenced = FencedInstanceId(
            f"group.instance.id {instance_id!r} of group {group.group_id!r} is used by a later "
            f"member: {old_id!r} has been replaced"
        )
        self._end_waiting(group, member, fenced, decision)
        decision.effects.append(CancelTimer(SessionTimer(group.group_id, old_id)))
        self._wants_to_join(request_id, request, member, decision)
        as_before = (
            group.state is ClassicState.STABLE
            and group.elected() == protocol
            and topics_of(member.metadata_for(protocol)) == topics
        )
        self._heard_of(group, member, decision)
        if not as_before:
            self._rebalance(wall_ms, group, decision)
            return
        member.joining = None
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        decision.records.append(_record(group, assignments))
        answer = group.joined(member, skip_assignment=True)
        decision.effects.append(Reply(request_id, answer))

    # ---- rebalancing -----------------------------------------------------------------------------

    def _rebalance(self, wall_ms: int, group: ClassicGroup, decision: Decision) -> None:
        """Begin to collect members, or see whether all are there."""
        if group.state is ClassicState.PREPARING_REBALANCE:
            self._maybe_complete_join(wall_ms, group, decision)
            return
        if group.state is ClassicState.COMPLETING_REBALANCE:
            again = RebalanceInProgress(f"group {group.group_id!r} begins another rebalance")
            for member in group.members.values():
                member.assignment = b""
                self._end_syncing(member, again, decision)
        was_empty = group.state is ClassicState.EMPTY
        decision.effects.append(CancelTimer(SyncTimer(group.group_id, group.generation)))
        group.to_sync.clear()
        group.move_to(ClassicState.PREPARING_REBALANCE, wall_ms)
        for member in group.members.values():
            self._end_beating(group, member, _collecting(group), decision)
        delay_ms = self._config.initial_rebalance_delay_ms
        if was_empty and delay_ms > 0:
            group.initial_ms_left = max(group.rebalance_timeout_ms - delay_ms, 0)
            group.new_member_came = False
            delay_ms = min(delay_ms, group.rebalance_timeout_ms)
            decision.effects.append(SetTimer(JoinTimer(group.group_id), delay_ms))
            return
        timeout_ms = group.rebalance_timeout_ms
        decision.effects.append(SetTimer(JoinTimer(group.group_id), timeout_ms))
        self._maybe_complete_join(wall_ms, group, decision)

    def _maybe_complete_join(self, wall_ms: int, group: ClassicGroup, decision: Decision) -> None:
        if group.initial_ms_left < 0 and group.all_have_joined:
            self._complete_join(wall_ms, group, decision)

    def _complete_join(self, wall_ms: int, group: ClassicGroup, decision: Decision) -> None:
        """The members that have joined make up the next generation."""
        for member in [*group.members.values()]:
            if member.joining is None and member.instance_id is None:
                group.remove(member.member_id)
                session = SessionTimer(group.group_id, member.member_id)
                decision.effects.append(CancelTimer(session))
        there = [member for member in group.members.values() if member.joining is not None]
        if group.members and not there:
            # Static members only, none of which has come back: they have their sessions.
            timeout_ms = group.rebalance_timeout_ms
            decision.effects.append(SetTimer(JoinTimer(group.group_id), timeout_ms))
            return
        leader = group.members.get(group.leader or "")
        if there and (leader is None or leader.joining is None):
            group.leader = there[0].member_id
        decision.effects.append(CancelTimer(JoinTimer(group.group_id)))
        group.next_generation(wall_ms)
        if not group.members:
            decision.records.append(_record(group, {}))
            return
        for member in group.members.values():
            member.is_new = False
            group.to_sync[member.member_id] = None
            if member.joining is not None:
                decision.effects.append(Reply(member.joining, group.joined(member)))
                member.joining = None
            self._heard_of(group, member, decision)
        timer = SyncTimer(group.group_id, group.generation)
        decision.effects.append(SetTimer(timer, group.rebalance_timeout_ms))

    def _end_waiting(
        self, group: ClassicGroup, member: Member, error: PylogError, decision: Decision
    ) -> None:
        self._end_beating(group, member, error, decision)
        if member.joining is not None:
            decision.effects.append(Reply(member.joining, error))
            member.joining = None
        self._end_syncing(member, error, decision)

    def _end_syncing(self, member: Member, error: PylogError, decision: Decision) -> None:
        if member.syncing is not None:
            decision.effects.append(Reply(member.syncing, error))
            member.syncing = None

    # ---- sync ------------------------------------------------------------------------------------

    def sync(self, wall_ms: int, request_id: RequestId, request: SyncGroup) -> Decision:
        """`Synced` when the leader has brought the assignments.

        Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, InconsistentGroupProtocol,
        RebalanceInProgress, and InvalidRequest for assignments that are too much to write.
        """
        group = self._group_of(request.group_id, request.member_id)
        member = group.check_member(request.member_id, request.instance_id, request.generation)
        _check_assignments(request)
        for said, known in (
            (request.protocol_type, group.protocol_type),
            (request.protocol, group.protocol),
        ):
            if said is not None and said != known:
                raise InconsistentGroupProtocol(
                    f"group {group.group_id!r} is at {known!r}, member {member.member_id!r} at "
                    f"{said!r}"
                )
        decision = Decision()
        match group.state:
            case ClassicState.PREPARING_REBALANCE:
                raise RebalanceInProgress(f"group {group.group_id!r} is collecting its members")
            case ClassicState.STABLE:
                self._synced(group, member, decision)
                assert group.protocol_type is not None
                answer = Synced(group.protocol_type, group.protocol or "", member.assignment)
                decision.effects.append(Reply(request_id, answer))
            case ClassicState.COMPLETING_REBALANCE:
                later = RebalanceInProgress(f"member {member.member_id!r} has asked anew")
                self._end_syncing(member, later, decision)
                member.syncing = request_id
                group.to_sync.pop(member.member_id, None)
                if member.member_id == group.leader:
                    self._assign(group, request.assignments, decision)
            case _:
                raise UnknownMemberId(f"group {group.group_id!r} has no members")
        return decision

    def _assign(
        self, group: ClassicGroup, assignments: dict[str, bytes], decision: Decision
    ) -> None:
        """The leader has brought them: with the record that says so the group is stable."""
        decision.records.append(_record(group, assignments))
        assert group.protocol_type is not None
        for member in group.members.values():
            if member.syncing is not None:
                assignment = assignments.get(member.member_id, b"")
                answer = Synced(group.protocol_type, group.protocol or "", assignment)
                decision.effects.append(Reply(member.syncing, answer))
                member.syncing = None
                self._synced(group, member, decision)

    def _synced(self, group: ClassicGroup, member: Member, decision: Decision) -> None:
        group.to_sync.pop(member.member_id, None)
        if not group.to_sync:
            decision.effects.append(CancelTimer(SyncTimer(group.group_id, group.generation)))
        self._heard_of(group, member, decision)

    # ---- heartbeat and leave ---------------------------------------------------------------------

    def heartbeat(self, request_id: RequestId, request: Heartbeat) -> Decision:
        """None: all is well. Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, and
        RebalanceInProgress: then the member must join again. One that may stand is answered when
        its time is over, or the group begins to rebalance.
        """
        group = self._group_of(request.group_id, request.member_id)
        member = group.check_member(request.member_id, request.instance_id, request.generation)
        decision = Decision()
        self._heard_of(group, member, decision)
        self._end_beating(group, member, None, decision)
        if request.standing_ms > 0 and group.state is ClassicState.STABLE:
            member.beating = request_id
            standing_ms = min(request.standing_ms, member.session_timeout_ms // 2)
            timer = HeartbeatTimer(group.group_id, member.member_id)
            decision.effects.append(SetTimer(timer, standing_ms))
            return decision
        collects = group.state is ClassicState.PREPARING_REBALANCE
        decision.effects.append(Reply(request_id, _collecting(group) if collects else None))
        return decision

    def _end_beating(
        self, group: ClassicGroup, member: Member, error: PylogError | None, decision: Decision
    ) -> None:
        """Answer the heartbeat that stands."""
        if member.beating is not None:
            timer = HeartbeatTimer(group.group_id, member.member_id)
            decision.effects += (CancelTimer(timer), Reply(member.beating, error))
            member.beating = None

    def leave(self, wall_ms: int, request_id: RequestId, request: LeaveGroup) -> Decision:
        """`Left`, with an error for each member that could not go. Raises UnknownMemberId for a
        group that is not there.
        """
        first = request.members[0].member_id if request.members else ""
        group = self._group_of(request.group_id, first)
        decision = Decision()
        outcomes: list[tuple[Leaving, PylogError | None]] = []
        gone = 0
        for leaving in request.members:
            fault: PylogError | None = None
            if leaving.instance_id is None and leaving.member_id in group.pending:
                del group.pending[leaving.member_id]
                timer = PendingTimer(group.group_id, leaving.member_id)
                decision.effects.append(CancelTimer(timer))
                gone += 1
            else:
                try:
                    member = self._leaving(group, leaving)
                except (UnknownMemberId, FencedInstanceId) as error:
                    fault = error
                else:
                    self._drop(group, member, decision)
                    gone += 1
            outcomes.append((leaving, fault))
        if gone:
            self._after_removal(wall_ms, group, decision)
        decision.effects.append(Reply(request_id, Left(tuple(outcomes))))
        return decision

    def _leaving(self, group: ClassicGroup, leaving: Leaving) -> Member:
        if not leaving.member_id and leaving.instance_id is not None:
            present = group.static.get(leaving.instance_id)
            if present is None:
                raise UnknownMemberId(
                    f"group {group.group_id!r} has no static member {leaving.instance_id!r}"
                )
            return group.members[present]
        return group.check_id(leaving.member_id, leaving.instance_id)

    def _drop(self, group: ClassicGroup, member: Member, decision: Decision) -> None:
        """The member is none any more; if it waits, it hears so."""
        gone = UnknownMemberId(f"{member.member_id!r} is no member of {group.group_id!r} any more")
        self._end_waiting(group, member, gone, decision)
        group.remove(member.member_id)
        decision.effects.append(CancelTimer(SessionTimer(group.group_id, member.member_id)))

    def _after_removal(self, wall_ms: int, group: ClassicGroup, decision: Decision) -> None:
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self._rebalance(wall_ms, group, decision)
        elif group.state is ClassicState.PREPARING_REBALANCE:
            self._maybe_complete_join(wall_ms, group, decision)

    def _group_of(self, group_id: str, member_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise UnknownMemberId(f"group {group_id!r} has no member {member_id!r}")
        return group

    # ---- time ------------------------------------------------------------------------------------

    def _heard_of(self, group: ClassicGroup, member: Member, decision: Decision) -> None:
        timer = SessionTimer(group.group_id, member.member_id)
        decision.effects.append(SetTimer(timer, member.session_timeout_ms))

    def heard_of(self, group: ClassicGroup, member_id: str, decision: Decision) -> None:
        """A member that commits lives, too."""
        if member_id in group.members and group.state in (
            ClassicState.STABLE,
            ClassicState.PREPARING_REBALANCE,
        ):
            self._heard_of(group, group.members[member_id], decision)

    def on_timer(self, wall_ms: int, due: ClassicTimer) -> Decision:
        """The group's decision when one of its timers is due."""
        decision = Decision()
        group = self._groups.get(due.group_id)
        if not isinstance(group, ClassicGroup):
            return decision
        match due:
            case PendingTimer(_, member_id):
                if member_id in group.pending:
                    del group.pending[member_id]
                    self._after_removal(wall_ms, group, decision)
            case SessionTimer(_, member_id):
                member = group.members.get(member_id)
                waits = (
                    member is not None
                    and not member.is_new
                    and (member.joining is not None or member.syncing is not None)
                )
                if member is not None and not waits:
                    self._lost[GroupType.CLASSIC] += 1
                    self._drop(group, member, decision)
                    self._after_removal(wall_ms, group, decision)
            case SyncTimer(_, generation):
                if generation == group.generation and group.to_sync:
                    self._lost[GroupType.CLASSIC] += len(group.to_sync)
                    for member_id in [*group.to_sync]:
                        self._drop(group, group.members[member_id], decision)
                    self._after_removal(wall_ms, group, decision)
            case JoinTimer():
                self._on_join_timer(wall_ms, group, decision)
            case HeartbeatTimer(_, member_id):
                if member_id in group.members:
                    self._end_beating(group, group.members[member_id], None, decision)
        return decision

    def _on_join_timer(self, wall_ms: int, group: ClassicGroup, decision: Decision) -> None:
        if group.must_rebalance:
            self._rebalance(wall_ms, group, decision)
            return
        if group.state is not ClassicState.PREPARING_REBALANCE:
            return
        if group.initial_ms_left > 0 and group.new_member_came:
            delay_ms = min(self._config.initial_rebalance_delay_ms, group.initial_ms_left)
            group.initial_ms_left -= delay_ms
            group.new_member_came = False
            decision.effects.append(SetTimer(JoinTimer(group.group_id), delay_ms))
            return
        self._complete_join(wall_ms, group, decision)


def _check_bytes(group: ClassicGroup, request: JoinGroup) -> None:
    """Whether the group's record would hold what all members say of themselves."""
    instance_id = request.instance_id
    own_id = request.member_id or (group.static.get(instance_id) if instance_id else None)
    joining = Member(
        request.member_id or request.new_member_id,
        instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
    )
    others = sum(each.size for each in group.members.values() if each.member_id != own_id)
    if others + joining.size > MEMBERS_BYTES_MAX:
        raise GroupMaxSizeReached(
            f"group {group.group_id!r}: its members would have {others + joining.size} bytes of "
            f"ids and metadata; the limit is {MEMBERS_BYTES_MAX}"
        )


def _check_assignments(request: SyncGroup) -> None:
    size = sum(map(len, request.assignments.values()))
    if size > ASSIGNMENTS_BYTES_MAX:
        raise InvalidRequest(
            f"group {request.group_id!r}: its leader's assignments have {size} bytes; the limit is "
            f"{ASSIGNMENTS_BYTES_MAX}"
        )


def _collecting(group: ClassicGroup) -> RebalanceInProgress:
    return RebalanceInProgress(f"group {group.group_id!r} is collecting its members")


def _record(group: ClassicGroup, assignments: dict[str, bytes]) -> Record:
    return Record(GroupMetadataKey(group.group_id), group.record(assignments))
