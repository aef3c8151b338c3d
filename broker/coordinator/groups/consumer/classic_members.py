"""Members of the classic protocol in a group of the consumer protocol. Pure: decisions come out.

Such a member joins, syncs and sends heartbeats as ever, and the group is to it one whose leader is
another: the coordinator assigns. Its generation is its member epoch. Nobody waits in a join: the
answer says at which epoch the member is, and with the sync it hears what it has. A heartbeat tells
it to join again when it must give partitions up, or get some, so each of the steps that another
member makes with a heartbeat is a join of this one.

A member that is told to join again, or has joined and does not sync, has its rebalance time-out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from pylog.consumer_protocol import decode_subscription
from pylog.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog_broker.coordinator.generated.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from pylog_broker.coordinator.groups.classic.group import CONSUMER_PROTOCOL
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
from pylog_broker.coordinator.groups.consumer.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from pylog_broker.coordinator.groups.consumer.migration import assignment_bytes, by_id
from pylog_broker.coordinator.groups.consumer.protocol import ConsumerProtocol
from pylog_broker.coordinator.groups.consumer.topics import NO_PARTITIONS, Topics
from pylog_broker.coordinator.runtime.decision import (
    Decision,
    Reply,
    RequestId,
)


class _Joining(NamedTuple):
    """A member as it was before it joined; of a new one only the id."""

    present: ConsumerMember
    replaced: str | None = None
    """The id of the static member that has come back with another one."""


class ClassicMembers:
    """Answers them, for all groups of one shard that have some. Operations raise before they change
    anything.
    """

    def __init__(self, protocol: ConsumerProtocol, topics: Topics) -> None:
        self._protocol = protocol
        self._topics = topics

    # ---- join ------------------------------------------------------------------------------------

    def join(self, request_id: RequestId, request: JoinGroup, group: ConsumerGroup) -> Decision:
        """`Joined`, at once.

        Raises InconsistentGroupProtocol, UnknownMemberId, FencedInstanceId and GroupMaxSizeReached.
        """
        names = [each.name for each in request.protocols]
        if request.protocol_type != CONSUMER_PROTOCOL or not group.supports(names):
            raise InconsistentGroupProtocol(
                f"group {group.group_id!r} is of type consumer: {request.protocol_type!r} with "
                f"{names} does not go with its members"
            )
        subscription = decode_subscription(request.protocols[0].metadata)
        joining = self._joining(request, group, owns_some=bool(subscription.owned))
        decision = Decision()
        asks_for_id = not request.member_id and request.instance_id is None
        if asks_for_id and request.requires_known_member_id:
            needed = MemberIdRequired(f"join group {group.group_id!r} again with this member id")
            joined = Joined(joining.present.member_id, error=needed)
            decision.effects.append(Reply(request_id, joined))
            return decision
        present = joining.present
        member = replace(
            present,
            instance_id=request.instance_id or present.instance_id,
            rack_id=subscription.rack or present.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            subscribed=frozenset(subscription.topics),
            regex="",
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(
                request.session_timeout_ms,
                tuple(ClassicProtocol(each.name, each.metadata) for each in request.protocols),
            ),
        )
        if joining.replaced is not None:
            self._protocol.replace_static(group, joining.replaced, decision)
        owned = by_id(subscription.owned, self._topics)
        after = self._protocol.advance(group, present, member, owned, joining.replaced, decision)
        self._protocol.await_step(group, after, decision, anew=True)
        joined = Joined(
            after.member_id, after.member_epoch, CONSUMER_PROTOCOL, request.protocols[0].name
        )
        decision.effects.append(Reply(request_id, joined))
        self._protocol.wake(group.group_id, decision)
        return decision

    def _joining(self, request: JoinGroup, group: ConsumerGroup, *, owns_some: bool) -> _Joining:
        member_id, instance_id = request.member_id, request.instance_id
        known = group.static.get(instance_id) if instance_id is not None else member_id
        if known is not None and known in group.members:
            member = group.members[known]
            if instance_id is None or known == member_id:
                return _Joining(member)
            if member_id:
                raise _fenced(group, instance_id, member_id)
            back = replace(
                member, member_id=request.new_member_id, member_epoch=0, previous_epoch=0
            )
            return _Joining(back, known)
        if instance_id is not None and member_id:
            raise UnknownMemberId(f"group {group.group_id!r} has no static member {instance_id!r}")
        if member_id and owns_some:
            # It was put out and has not heard of it: others may have its partitions, and as a new
            # member it would commit for them until it hears what it is given.
            raise _unknown(group, member_id)
        self._protocol.check_size(group)
        return _Joining(ConsumerMember(member_id or request.new_member_id))

    # ---- sync ------------------------------------------------------------------------------------

    def sync(self, request_id: RequestId, request: SyncGroup, group: ConsumerGroup) -> Decision:
        """`Synced`, at once, or RebalanceInProgress: the member must join again.

        Raises UnknownMemberId, FencedInstanceId, IllegalGeneration and InconsistentGroupProtocol.
        """
        member, classic = _sender(group, request.member_id, request.instance_id, request.generation)
        protocol = classic.supported_protocols[0]
        for said, known in (
            (request.protocol_type, CONSUMER_PROTOCOL),
            (request.protocol, protocol.name),
        ):
            if said is not None and said != known:
                raise InconsistentGroupProtocol(
                    f"group {group.group_id!r} is at {known!r} with member {member.member_id!r}, "
                    f"which says {said!r}"
                )
        decision = Decision()
        self._protocol.heard_of(group, member, decision)
        revokes = member.state is MemberState.UNREVOKED_PARTITIONS
        if group.group_epoch > member.member_epoch and not revokes:
            self._protocol.await_step(group, member, decision)
            decision.effects.append(Reply(request_id, _rebalancing(group)))
            return decision
        assignment = assignment_bytes(
            member.assigned, group.read_by(member), self._topics, protocol.metadata
        )
        self._protocol.has_stepped(group.group_id, member.member_id, decision)
        synced = Synced(CONSUMER_PROTOCOL, protocol.name, assignment)
        decision.effects.append(Reply(request_id, synced))
        return decision

    # ---- heartbeat and leave ---------------------------------------------------------------------

    def heartbeat(
        self, request_id: RequestId, request: Heartbeat, group: ConsumerGroup
    ) -> Decision:
        """None, or RebalanceInProgress: then the member must join again; always at once.

        Raises UnknownMemberId, FencedInstanceId and IllegalGeneration.
        """
        member, _ = _sender(group, request.member_id, request.instance_id, request.generation)
        decision = Decision()
        self._protocol.heard_of(group, member, decision)
        epoch = self._protocol.epoch_of(group, decision)
        if member.member_epoch < epoch or _must_step(group, member):
            self._protocol.await_step(group, member, decision)
            decision.effects.append(Reply(request_id, _rebalancing(group)))
        else:
            decision.effects.append(Reply(request_id, None))
        if decision.records:
            self._protocol.wake(group.group_id, decision)
        return decision

    def leave(self, request_id: RequestId, request: LeaveGroup, group: ConsumerGroup) -> Decision:
        """`Left`, with an error for each member that could not go. An operator removes members of
        the consumer protocol by the same request.
        """
        decision = Decision()
        outcomes: list[tuple[Leaving, PylogError | None]] = []
        gone: dict[str, ConsumerMember] = {}
        for leaving in request.members:
            fault: PylogError | None = None
            try:
                member = _leaving(group, leaving)
                if member.member_id in gone:
                    raise _unknown(group, leaving.member_id)
                gone[member.member_id] = member
            except (UnknownMemberId, FencedInstanceId) as error:
                fault = error
            outcomes.append((leaving, fault))
        if gone:
            self._protocol.drop(group, gone.values(), decision)
            self._protocol.wake(group.group_id, decision)
        decision.effects.append(Reply(request_id, Left(tuple(outcomes))))
        return decision


def _must_step(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a member at the group's epoch has a step to make now."""
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        wanted = group.target.get(member.member_id, NO_PARTITIONS) - member.assigned
        return not any(each in group.owners for each in wanted)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _leaving(group: ConsumerGroup, leaving: Leaving) -> ConsumerMember:
    if leaving.instance_id is None:
        return _known(group, leaving.member_id, None)
    if not leaving.member_id:
        present = group.static.get(leaving.instance_id, "")
        return _known(group, present, leaving.instance_id)
    return _known(group, leaving.member_id, leaving.instance_id)


def _sender(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Raises UnknownMemberId, FencedInstanceId and IllegalGeneration."""
    member = _known(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberId(
            f"member {member_id!r} of group {group.group_id!r} speaks the consumer protocol"
        )
    if generation != member.member_epoch:
        raise IllegalGeneration(
            f"member {member_id!r} of group {group.group_id!r} is at generation "
            f"{member.member_epoch}, and the request says {generation}: it has missed a rebalance"
        )
    return member, member.classic


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is not None:
        present = group.static.get(instance_id)
        if present is None:
            raise UnknownMemberId(f"group {group.group_id!r} has no static member {instance_id!r}")
        if present != member_id:
            raise _fenced(group, instance_id, member_id)
    member = group.members.get(member_id)
    if member is None:
        raise _unknown(group, member_id)
    return member


def _unknown(group: ConsumerGroup, member_id: str) -> UnknownMemberId:
    return UnknownMemberId(f"group {group.group_id!r} has no member {member_id!r}")


def _fenced(group: ConsumerGroup, instance_id: str, member_id: str) -> FencedInstanceId:
    return FencedInstanceId(
        f"group.instance.id {instance_id!r} of group {group.group_id!r} is used by a later member: "
        f"{member_id!r} has been replaced"
    )


def _rebalancing(group: ConsumerGroup) -> RebalanceInProgress:
    return RebalanceInProgress(
        f"group {group.group_id!r} is at epoch {group.group_epoch}: the member must join again"
    )
