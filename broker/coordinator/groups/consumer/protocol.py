"""The consumer protocol of groups: requests and time come in, decisions come out. Pure.

A heartbeat does in one decision all that it gives occasion for: the member is new or has changed,
or a topic has, so the group's epoch goes up; the epoch is above that of the target, so there is a
new target; the member is not at its target, so it makes the steps that it can make now. The others
go on reading, and make theirs with their own heartbeats. Each part that changes anything is a
record, and all of them are one append.

A heartbeat may stand: one that brings no news waits until there are some, or its time is over, so
that a member need not ask again to hear soon. After each change of a group its standing heartbeats
are looked at a moment later, one in each decision that changes anything.

A target for a large group costs, and so does telling it to all. After one is made, joins,
departures and changes of topics are collected for some milliseconds a member before the next is.

A member that has not given up what it should within its rebalance time-out is none any more, and so
is one that has been silent for a session time-out. Its partitions are free then: its epoch is
refused when it comes back, for heartbeats and for commits.

A member of the classic protocol makes the same steps by joining: what it asks is answered by
`consumer.classic_members`. The first member of the consumer protocol takes such a group over, and
when the last one goes it is given back (`consumer.migration`).

A member may subscribe by a regular expression. Matching names are searched for in turns of their
own (`consumer.regexes`), and once found they are a change of the group like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pylog.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from pylog.topic_patterns import topic_pattern
from pylog_broker.coordinator.generated.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from pylog_broker.coordinator.generated.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
)
from pylog_broker.coordinator.generated.consumer_group_metadata import ConsumerGroupMetadataKey
from pylog_broker.coordinator.generated.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
)
from pylog_broker.coordinator.generated.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from pylog_broker.coordinator.generated.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from pylog_broker.coordinator.generated.group_metadata import GroupMetadataKey
from pylog_broker.coordinator.groups.classic.group import ClassicGroup
from pylog_broker.coordinator.groups.classic.protocol import JoinTimer, SessionTimer
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.assignors import ASSIGNORS, AssignedMember
from pylog_broker.coordinator.groups.consumer.group import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    preferred_assignor,
)
from pylog_broker.coordinator.groups.consumer.messages import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
)
from pylog_broker.coordinator.groups.consumer.migration import (
    downgrade_records,
    downgraded,
    upgrade_records,
    upgraded,
)
from pylog_broker.coordinator.groups.consumer.reconciliation import reconciled
from pylog_broker.coordinator.groups.consumer.records import (
    current_record,
    group_record,
    member_record,
    member_tombstones,
    partitions_of,
    target_epoch_record,
    target_record,
    with_current,
    with_metadata,
)
from pylog_broker.coordinator.groups.consumer.regexes import (
    RegexSearches,
    regex_record,
    regexes_of,
    unused_regexes,
)
from pylog_broker.coordinator.groups.consumer.topics import (
    NO_PARTITIONS,
    Partitions,
    SubscribedTopic,
    TopicIdPartition,
    Topics,
    metadata_hash,
)
from pylog_broker.coordinator.groups.group import Group, GroupType
from pylog_broker.coordinator.runtime.decision import (
    CancelTimer,
    Decision,
    Record,
    Reply,
    RequestId,
    SetTimer,
)

WAKE_AFTER_MS: Final = 5
"""After a change of a group: members that join together are one change to the others."""
WAKE_MS_PER_MEMBER: Final = 0.25
"""Likewise of a large group, as each change has all of its standing heartbeats looked at."""
COLLECTING_FROM: Final = 16
"""Members of a group whose changes are collected; a smaller one has a new target at once."""
COLLECT_MS_PER_MEMBER: Final = 3
COLLECT_MS_MAX: Final = 1_000
"""The time for which changes are collected: 0.6 s for 200 members."""
REGEX_AFTER_MS: Final = 100
"""After a change of topics: those that are created together are one change to the group."""


# Dataclasses, as a named tuple equals each one of another class with the same fields.
@dataclass(frozen=True, slots=True)
class ConsumerSessionTimer:
    """A member is not heard of."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RevocationTimer:
    """A member does not give up what it should. One of the classic protocol does not join again, or
    has joined and does not ask for its assignment.
    """

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class StandingTimer:
    """A heartbeat has stood long enough."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class WakeTimer:
    """A group has changed, and heartbeats of it stand."""

    group_id: str


@dataclass(frozen=True, slots=True)
class TargetTimer:
    """A group may have its next target."""

    group_id: str


@dataclass(frozen=True, slots=True)
class RegexTimer:
    """Names are to be matched with the regular expressions of a group."""

    group_id: str


ConsumerTimer = (
    ConsumerSessionTimer | RevocationTimer | StandingTimer | WakeTimer | TargetTimer | RegexTimer
)
ConsumerKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
"""Keys of the records that such a group has."""


class _Beat(NamedTuple):
    """A heartbeat with what the group knows of its sender."""

    request: ConsumerHeartbeat
    group: ConsumerGroup
    present: ConsumerMember
    """As it was; of a new one only the id."""
    owned: Partitions | None
    """The partitions that the member may read, as far as is known."""
    replaced: str | None = None
    """The id of the static member that has come back with another one."""


class _Standing(NamedTuple):
    """A heartbeat that waits for news, and its answer while there are none."""

    request_id: RequestId
    request: ConsumerHeartbeat
    answer: ConsumerHeartbeatAnswer


@dataclass(slots=True)
class _Round:
    """A look at a group's standing heartbeats, one after the other."""

    left: list[str] | None = None
    """The members whose heartbeats are still to be looked at; None: the round has not begun."""
    is_outdated: bool = False
    """The group has changed since it began."""


class ConsumerProtocol:
    """Decides for all groups of one shard that speak it. Operations raise before they change
    anything.

    A member has one standing heartbeat at most; groups without any are not in `_standing`.
    """

    def __init__(
        self,
        groups: MutableMapping[str, Group],
        config: GroupConfig,
        topics: Topics,
        lost: Counter[GroupType],
    ) -> None:
        self._groups = groups
        self._config = config
        self._topics = topics
        self._lost = lost
        self._standing: dict[str, dict[str, _Standing]] = {}
        self._rounds: dict[str, _Round] = {}
        self._collecting: set[str] = set()
        self._searches = RegexSearches()
        self._awaited: set[RevocationTimer] = set()
        """The timers of members of the classic protocol whose join or sync is awaited."""

    # ---- loading ---------------------------------------------------------------------------------

    def replay(self, key: ConsumerKey, value: Any | None) -> None:
        """Takes in a record. Compaction may leave any one of a group's records the first."""
        group = self._groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return
            group = self._groups[key.group_id] = ConsumerGroup(key.group_id)
        match key:
            case ConsumerGroupMetadataKey():
                if value is None:
                    del self._groups[key.group_id]
                else:
                    group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupMemberMetadataKey(_, member_id):
                if value is None:
                    group.remove(member_id)
                else:
                    group.put(with_metadata(_member(group, member_id), value))
            case ConsumerGroupTargetAssignmentMetadataKey():
                group.assignment_epoch = 0 if value is None else value.assignment_epoch
            case ConsumerGroupTargetAssignmentMemberKey(_, member_id):
                if value is None:
                    group.target.pop(member_id, None)
                else:
                    group.target[member_id] = partitions_of(value.topic_partitions)
            case ConsumerGroupRegularExpressionKey(_, regex):
                if value is None:
                    group.resolved.pop(regex, None)
                else:
                    group.resolved[regex] = frozenset(value.topics)
            case ConsumerGroupCurrentMemberAssignmentKey(_, member_id):
                if value is not None:
                    group.give(with_current(_member(group, member_id), value))
                elif member_id in group.members:
                    group.give(_without_partitions(group.members[member_id]))

    def on_loaded(self) -> Decision:
        """Members have one session time-out to be heard of, and as long as ever to give up."""
        decision = Decision()
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                for member in group.members.values():
                    self.heard_of(group, member, decision)
                    if member.state is MemberState.UNREVOKED_PARTITIONS:
                        self._await_revocation(group, member, decision)
                if regexes_of(group.members.values()):
                    self._search(group, decision)
        return decision

    # ---- heartbeat -------------------------------------------------------------------------------

    def heartbeat(self, request_id: RequestId, request: ConsumerHeartbeat) -> Decision:
        """`ConsumerHeartbeatAnswer`, at once or when there is news for a member whose heartbeat may
        stand. A later heartbeat of the same member has the one before it answered.

        Raises InvalidRequest, UnsupportedAssignor, InvalidRegularExpression, GroupIdNotFound,
        GroupMaxSizeReached, UnknownMemberId, FencedMemberEpoch, FencedInstanceId and
        UnreleasedInstanceId.
        """
        _check_request(request)
        decision = Decision()
        if request.member_epoch < 0:
            answer = self._leave(request, decision)
        elif request.member_epoch == JOINING:
            answer = self._go_on(self._joining(request, decision), decision)
        else:
            answer = self._go_on(self._known(request), decision)
        self._end_standing(request.group_id, answer.member_id, decision)
        if request.standing_ms > 0 and not _is_news(request, answer, decision):
            self._stand(_Standing(request_id, request, answer), decision)
        else:
            decision.effects.append(Reply(request_id, answer))
        if decision.records:
            self.wake(request.group_id, decision)
        return decision

    # ---- standing heartbeats ---------------------------------------------------------------------

    def _stand(self, standing: _Standing, decision: Decision) -> None:
        request = standing.request
        self._standing.setdefault(request.group_id, {})[request.member_id] = standing
        settings = self._config.of(request.group_id)
        longest_ms = settings.consumer_session_timeout_ms // 2
        timer = StandingTimer(request.group_id, request.member_id)
        decision.effects.append(SetTimer(timer, min(request.standing_ms, longest_ms)))

    def _end_standing(
        self,
        group_id: str,
        member_id: str,
        decision: Decision,
        response: ConsumerHeartbeatAnswer | PylogError | None = None,
    ) -> None:
        """Answer the member's standing heartbeat, if there is one; without a response, that there
        is no news.
        """
        members = self._standing.get(group_id, {})
        standing = members.pop(member_id, None)
        if standing is None:
            return
        if not members:
            del self._standing[group_id]
        decision.effects.append(CancelTimer(StandingTimer(group_id, member_id)))
        answer = standing.answer if response is None else response
        decision.effects.append(Reply(standing.request_id, answer))

    def wake(self, group_id: str, decision: Decision) -> None:
        """The group changes: have its standing heartbeats looked at."""
        if group_id not in self._standing:
            return
        present = self._rounds.get(group_id)
        if present is None:
            self._rounds[group_id] = _Round()
            group = self._groups.get(group_id)
            members = len(group.members) if isinstance(group, ConsumerGroup) else 0
            after_ms = max(WAKE_AFTER_MS, int(members * WAKE_MS_PER_MEMBER))
            decision.effects.append(SetTimer(WakeTimer(group_id), after_ms))
        elif present.left is not None:
            present.is_outdated = True

    def _look_again(self, group_id: str) -> Decision:
        """Answer the next standing heartbeat for which there is news. The others come after it, as
        they have to see what it changes; those before it in another round.
        """
        present, decision = self._rounds[group_id], Decision()
        if present.left is None:
            present.left = [*self._standing.get(group_id, ())]
            present.left.reverse()
        while present.left:
            member_id = present.left.pop()
            standing = self._standing.get(group_id, {}).get(member_id)
            if standing is None:
                continue
            answer: ConsumerHeartbeatAnswer | PylogError
            try:
                answer = self._go_on(self._known(standing.request), decision)
            except PylogError as error:
                answer = error
            else:
                if not _is_news(standing.request, answer, decision):
                    decision = Decision()
                    continue
            self._end_standing(group_id, member_id, decision, answer)
            present.is_outdated |= bool(decision.records)
            decision.effects.append(SetTimer(WakeTimer(group_id), 0))
            return decision
        del self._rounds[group_id]
        if present.is_outdated:
            self.wake(group_id, decision)
        return decision

    def _joining(self, request: ConsumerHeartbeat, decision: Decision) -> _Beat:
        group = self._group_to_join(request.group_id, decision)
        member_id = request.member_id or request.new_member_id
        instance_id = request.instance_id
        if instance_id is not None and instance_id in group.static:
            present = group.members[group.static[instance_id]]
            is_released = present.has_left_for_a_while or present.classic is not None
            if present.member_id != member_id and not is_released:
                raise UnreleasedInstanceId(
                    f"group.instance.id {instance_id!r} of group {group.group_id!r} is used by "
                    f"member {present.member_id!r}, which has not left: stop it, or wait for its "
                    "session to end"
                )
        elif member_id in group.members:
            present = group.members[member_id]
        else:
            self.check_size(group)
            return _Beat(request, group, ConsumerMember(member_id), request.owned)
        if present.member_id == member_id and not present.has_left_for_a_while:
            # It begins anew, or this is an old copy of its first request: until a later one says
            # what it reads, it keeps what it has.
            return _Beat(request, group, present, None)
        replaced = None
        if present.member_id != member_id:
            replaced = present.member_id
            self.replace_static(group, replaced, decision)
        back = replace(present, member_id=member_id, member_epoch=0, previous_epoch=0)
        return _Beat(request, group, back, request.owned, replaced)

    def replace_static(self, group: ConsumerGroup, replaced: str, decision: Decision) -> None:
        """A static member has come back with another id: this one is none any more."""
        decision.records += member_tombstones(group.group_id, replaced)
        self._cancel_timers(group, replaced, decision)

    def _group_to_join(self, group_id: str, decision: Decision) -> ConsumerGroup:
        group = self._groups.get(group_id)
        if isinstance(group, ClassicGroup):
            if not group.is_empty:
                made = upgraded(group, self._config, self._topics)
                self._take_over(group, made, decision)
                return made
            decision.records.append(Record(GroupMetadataKey(group_id), None))
            group = None  # its offsets stay
        if group is None:
            return ConsumerGroup(group_id)
        return _of_this_protocol(group)

    def _take_over(self, group: ClassicGroup, made: ConsumerGroup, decision: Decision) -> None:
        """Members of the classic group that wait get an answer to join again."""
        again = RebalanceInProgress(
            f"group {group.group_id!r} changes to the consumer protocol: the member must join again"
        )
        for member in group.members.values():
            for waiting in (member.joining, member.syncing, member.beating):
                if waiting is not None:
                    decision.effects.append(Reply(waiting, again))
        decision.records += upgrade_records(made)
        for each in made.members.values():
            self.heard_of(made, each, decision)

    def check_size(self, group: ConsumerGroup) -> None:
        """Whether one more member may come. Raises GroupMaxSizeReached."""
        if len(group.members) >= self._config.consumer_max_size:
            raise GroupMaxSizeReached(
                f"group {group.group_id!r} has {len(group.members)} members, as many as "
                "group.consumer.max.size of the broker allows"
            )

    def _known(self, request: ConsumerHeartbeat) -> _Beat:
        group, member = self._sender(request)
        said, epoch = request.member_epoch, member.member_epoch
        # The answer with the present epoch may have been lost: that member has nothing yet that it
        # was not given before.
        lost = (
            said == member.previous_epoch
            and said < epoch
            and request.owned is not None
            and request.owned <= member.held
        )
        if said != epoch and not lost:
            raise FencedMemberEpoch(
                f"member {member.member_id!r} of group {group.group_id!r} is at epoch {epoch}, and "
                f"the request says {said}: it must give up its partitions and join again"
            )
        return _Beat(request, group, member, request.owned)

    def _sender(self, request: ConsumerHeartbeat) -> tuple[ConsumerGroup, ConsumerMember]:
        """Raises GroupIdNotFound, UnknownMemberId and FencedInstanceId."""
        group = self._groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {request.group_id!r}")
        group = _of_this_protocol(group)
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is not None:
            present = group.static.get(instance_id)
            if present is None:
                raise UnknownMemberId(
                    f"group {group.group_id!r} has no static member {instance_id!r}"
                )
            if present != member_id:
                raise FencedInstanceId(
                    f"group.instance.id {instance_id!r} of group {group.group_id!r} is used by a "
                    f"later member: {member_id!r} has been replaced"
                )
        member = group.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"group {group.group_id!r} has no member {member_id!r}")
        return group, member

    def _go_on(self, beat: _Beat, decision: Decision) -> ConsumerHeartbeatAnswer:
        request, group, present, owned, replaced = beat
        member = _updated(present, request)
        after = self.advance(group, present, member, owned, replaced, decision)
        needs_all = (
            request.is_full
            or request.member_epoch != present.member_epoch
            or request.member_epoch == JOINING
            or after.assigned != present.assigned
        )
        return ConsumerHeartbeatAnswer(
            after.member_id,
            after.member_epoch,
            self._config.of(group.group_id).consumer_heartbeat_interval_ms,
            after.assigned if needs_all else None,
        )

    def advance(
        self,
        group: ConsumerGroup,
        present: ConsumerMember,
        member: ConsumerMember,
        owned: Partitions | None,
        replaced: str | None,
        decision: Decision,
    ) -> ConsumerMember:
        """All that a member gives occasion for that was `present`, and says now that it is `member`
        and reads `owned`; the member after that. `replaced`: the id of the static member whose
        place it takes.
        """
        is_new = member.member_id not in group.members
        if is_new or member != present:
            decision.records.append(member_record(group.group_id, member))
        members = {name: each for name, each in group.members.items() if name != replaced}
        members[member.member_id] = member
        if member.regex != present.regex:
            decision.records += unused_regexes(group, members.values())
            if member.regex and member.regex not in group.resolved:
                decision.effects.append(SetTimer(RegexTimer(group.group_id), 0))
        must_assign = not _reads_alike(present, member) or (is_new and replaced is None)
        epoch = self._next_epoch(group, members, must_assign, decision)
        target, assignment_epoch = self._target(
            group,
            member.member_id,
            replaced,
            members,
            epoch,
            may_wait=is_new or not must_assign,
            decision=decision,
        )

        def is_free(partition: TopicIdPartition) -> bool:
            return group.owners.get(partition) in (None, present.member_id, replaced)

        after = reconciled(member, target, assignment_epoch, is_free, owned)
        if after != member:
            decision.records.append(current_record(group.group_id, after))
            if after.classic is not None:
                pass  # its joins and syncs have their own time
            elif after.state is MemberState.UNREVOKED_PARTITIONS:
                self._await_revocation(group, after, decision)
            elif present.state is MemberState.UNREVOKED_PARTITIONS:
                timer = RevocationTimer(group.group_id, after.member_id)
                decision.effects.append(CancelTimer(timer))
        self.heard_of(group, after, decision)
        return after

    # ---- epochs ----------------------------------------------------------------------------------

    def _read_by(
        self, group: ConsumerGroup, members: Iterable[ConsumerMember]
    ) -> list[SubscribedTopic]:
        names = frozenset[str]().union(*map(group.read_by, members))
        found = (self._topics.topic(name) for name in sorted(names))
        return [topic for topic in found if topic is not None]

    def epoch_of(self, group: ConsumerGroup, decision: Decision) -> int:
        """The group's epoch, one more where topics have changed."""
        return self._next_epoch(group, group.members, must_assign=False, decision=decision)

    def _next_epoch(
        self,
        group: ConsumerGroup,
        members: dict[str, ConsumerMember],
        must_assign: bool,
        decision: Decision,
    ) -> int:
        """The group's epoch, one more where subscriptions or topics have changed."""
        if not must_assign and group.is_refreshed:
            return group.group_epoch
        found = metadata_hash(self._read_by(group, members.values()))
        group.is_refreshed = True
        if not must_assign and found == group.metadata_hash:
            return group.group_epoch
        epoch = group.group_epoch + 1
        decision.records.append(group_record(group.group_id, epoch, found))
        return epoch

    def _target(
        self,
        group: ConsumerGroup,
        member_id: str,
        replaced: str | None,
        members: dict[str, ConsumerMember],
        epoch: int,
        may_wait: bool,
        decision: Decision,
    ) -> tuple[Partitions, int]:
        """The member's target, and the epoch of that target. It is the group's, or the one before
        where changes are collected and `may_wait`: the epoch is always that of the target.
        """
        known = dict(group.target)
        if replaced is not None:
            known[member_id] = known.pop(replaced, NO_PARTITIONS)
            record = target_record(group.group_id, member_id, known[member_id])
            decision.records.append(record)
        is_collecting = group.group_id in self._collecting and group.assignment_epoch > 0
        if epoch == group.assignment_epoch or (is_collecting and may_wait):
            return known.get(member_id, NO_PARTITIONS), group.assignment_epoch
        assign = ASSIGNORS[preferred_assignor(members.values())]
        asked = {
            name: AssignedMember(
                group.read_by(member),
                known.get(name, NO_PARTITIONS),
                member.instance_id,
                member.rack_id,
            )
            for name, member in members.items()
        }
        assigned = assign(asked, self._read_by(group, members.values()))
        decision.records += (
            target_record(group.group_id, name, partitions)
            for name, partitions in assigned.items()
            if partitions != known.get(name)
        )
        decision.records.append(target_epoch_record(group.group_id, epoch))
        if len(members) >= COLLECTING_FROM:
            self._collecting.add(group.group_id)
            after_ms = min(len(members) * COLLECT_MS_PER_MEMBER, COLLECT_MS_MAX)
            decision.effects.append(SetTimer(TargetTimer(group.group_id), after_ms))
        return assigned[member_id], epoch

    def on_topics_changed(self, names: Collection[str]) -> Decision:
        """Topics were created, have grown, have moved to other racks, or are gone: the groups that
        subscribe to them look at them with the next heartbeat, or with one that stands.
        """
        decision = Decision()
        for group in self._groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            if any(map(group.subscribes_to, names)):
                group.is_refreshed = False
                self.wake(group.group_id, decision)
            if regexes_of(group.members.values()):
                self._searches.look_at(group, names)
                timer = RegexTimer(group.group_id)
                decision.effects.append(SetTimer(timer, REGEX_AFTER_MS))
        return decision

    # ---- topics by regular expression ------------------------------------------------------------

    def _search(self, group: ConsumerGroup, decision: Decision) -> None:
        self._searches.begin(group, self._topics.names())
        decision.effects.append(SetTimer(RegexTimer(group.group_id), 0))

    def _match(self, wall_ms: int, group_id: str) -> Decision:
        """Look at the next names; begin with all of them for an expression that is new."""
        decision = Decision()
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            self._searches.forget(group_id)
            return decision
        found = self._searches.advance(group, self._topics.names())
        regexes = regexes_of(group.members.values())
        if found is None:
            decision.effects.append(SetTimer(RegexTimer(group_id), 0))
            return decision
        if any(regex not in found and regex not in group.resolved for regex in regexes):
            self._search(group, decision)
            return decision
        changed = {
            regex: topics for regex, topics in found.items() if group.resolved.get(regex) != topics
        }
        decision.records += (
            regex_record(group_id, regex, topics, wall_ms) for regex, topics in changed.items()
        )
        if any(topics or group.resolved.get(regex) for regex, topics in changed.items()):
            ahead = replace(group, resolved={**group.resolved, **changed})
            topics_hash = metadata_hash(self._read_by(ahead, group.members.values()))
            decision.records.append(group_record(group_id, group.group_epoch + 1, topics_hash))
            self.wake(group_id, decision)
        return decision

    # ---- leaving ---------------------------------------------------------------------------------

    def _leave(self, request: ConsumerHeartbeat, decision: Decision) -> ConsumerHeartbeatAnswer:
        group, member = self._sender(request)
        if request.member_epoch == LEAVING:
            self.drop(group, (member,), decision)
        else:
            away = replace(_without_revoking(member), member_epoch=LEAVING_FOR_A_WHILE)
            decision.records.append(current_record(group.group_id, away))
            timer = RevocationTimer(group.group_id, member.member_id)
            decision.effects.append(CancelTimer(timer))
        return ConsumerHeartbeatAnswer(member.member_id, request.member_epoch)

    def drop(
        self, group: ConsumerGroup, members: Collection[ConsumerMember], decision: Decision
    ) -> None:
        """They are none any more. The next heartbeat of another one finds a higher epoch, or, where
        all others speak the classic protocol, a classic group that rebalances.
        """
        gone = {member.member_id for member in members}
        made = downgraded(group, gone, self._config, self._topics)
        if made is not None:
            self._give_back(group, made, decision)
            return
        others = [each for name, each in group.members.items() if name not in gone]
        found = metadata_hash(self._read_by(group, others))
        for member_id in gone:
            decision.records += member_tombstones(group.group_id, member_id)
        decision.records += unused_regexes(group, others)
        decision.records.append(group_record(group.group_id, group.group_epoch + 1, found))
        for member_id in gone:
            self._cancel_timers(group, member_id, decision)

    def _give_back(self, group: ConsumerGroup, made: ClassicGroup, decision: Decision) -> None:
        """The members that stay have their sessions, and the classic group rebalances at once."""
        decision.records += downgrade_records(group, made)
        for member_id in group.members:
            self._cancel_timers(group, member_id, decision)
        decision.effects += (
            SetTimer(SessionTimer(group.group_id, each.member_id), each.session_timeout_ms)
            for each in made.members.values()
        )
        decision.effects.append(SetTimer(JoinTimer(group.group_id), 0))

    def _cancel_timers(self, group: ConsumerGroup, member_id: str, decision: Decision) -> None:
        decision.effects.append(CancelTimer(ConsumerSessionTimer(group.group_id, member_id)))
        self.has_stepped(group.group_id, member_id, decision)

    # ---- time ------------------------------------------------------------------------------------

    def heard_of(self, group: ConsumerGroup, member: ConsumerMember, decision: Decision) -> None:
        """The member lives."""
        timer = ConsumerSessionTimer(group.group_id, member.member_id)
        session_ms = self._config.of(group.group_id).consumer_session_timeout_ms
        if member.classic is not None:
            session_ms = member.classic.session_timeout_ms
        decision.effects.append(SetTimer(timer, session_ms))

    def await_step(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        decision: Decision,
        *,
        anew: bool = False,
    ) -> None:
        """A member of the classic protocol should join or sync; its time begins when it is told
        first, or `anew`.
        """
        timer = RevocationTimer(group.group_id, member.member_id)
        if anew or timer not in self._awaited:
            self._awaited.add(timer)
            self._await_revocation(group, member, decision)

    def has_stepped(self, group_id: str, member_id: str, decision: Decision) -> None:
        """It has, or is no member any more."""
        timer = RevocationTimer(group_id, member_id)
        self._awaited.discard(timer)
        decision.effects.append(CancelTimer(timer))

    def _await_revocation(
        self, group: ConsumerGroup, member: ConsumerMember, decision: Decision
    ) -> None:
        timer = RevocationTimer(group.group_id, member.member_id)
        decision.effects.append(SetTimer(timer, max(member.rebalance_timeout_ms, 0)))

    def on_timer(self, wall_ms: int, due: ConsumerTimer) -> Decision:
        """The time of a member, or of a heartbeat, is over."""
        decision = Decision()
        if isinstance(due, RegexTimer):
            return self._match(wall_ms, due.group_id)
        if isinstance(due, WakeTimer):
            return self._look_again(due.group_id)
        if isinstance(due, StandingTimer):
            self._end_standing(due.group_id, due.member_id, decision)
            return decision
        if isinstance(due, TargetTimer):
            self._collecting.discard(due.group_id)
            self.wake(due.group_id, decision)
            return decision
        group = self._groups.get(due.group_id)
        if isinstance(group, ConsumerGroup):
            member = group.members.get(due.member_id)
            if member is not None:
                self._lost[GroupType.CONSUMER] += 1
                self.drop(group, (member,), decision)
                self.wake(group.group_id, decision)
        return decision


def _is_news(
    request: ConsumerHeartbeat, answer: ConsumerHeartbeatAnswer, decision: Decision
) -> bool:
    """Whether the member must hear the answer at once."""
    return bool(
        decision.records
        or answer.assigned is not None
        or answer.member_epoch != request.member_epoch
    )


def _check_request(request: ConsumerHeartbeat) -> None:
    """Raises InvalidRequest, UnsupportedAssignor and InvalidRegularExpression."""
    epoch = request.member_epoch
    if fault := _fault(request) or (epoch == JOINING and _fault_of_join(request)):
        raise InvalidRequest(f"ConsumerGroupHeartbeat of group {request.group_id!r}: {fault}")
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        raise UnsupportedAssignor(
            f"server_assignor {request.server_assignor!r} of group {request.group_id!r}: this "
            f"broker has {', '.join(ASSIGNORS)}"
        )
    if request.subscribed_regex:
        topic_pattern(request.subscribed_regex)


def _fault(request: ConsumerHeartbeat) -> str | None:
    epoch = request.member_epoch
    for name in ("group_id", "instance_id", "rack_id", "server_assignor"):
        if getattr(request, name) == "":
            return f"{name} is empty"
    if epoch < LEAVING_FOR_A_WHILE:
        return f"member_epoch={epoch} means nothing: 0 joins, -1 and -2 leave"
    if not request.member_id and (epoch != JOINING or not request.new_member_id):
        return "member_id is empty"
    if epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        return "instance_id is missing, and only static members leave with member_epoch=-2"
    if request.rebalance_timeout_ms < -1:
        return f"rebalance_timeout_ms={request.rebalance_timeout_ms} is below 0"
    return None


def _fault_of_join(request: ConsumerHeartbeat) -> str | None:
    if request.rebalance_timeout_ms == -1:
        return "rebalance_timeout_ms is missing, and a member that joins gives it"
    if request.owned is None:
        return "owned (the topic partitions) is missing, and a member that joins gives it"
    if request.owned:
        return "owned (the topic partitions) is not empty: a member that joins has given up all"
    if not request.subscribed_names and not request.subscribed_regex:
        return "subscribed_names and subscribed_regex are empty, and a member that joins gives one"
    return None


def _of_this_protocol(group: Group) -> ConsumerGroup:
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFound(
            f"group {group.group_id!r} is of type {group.type.value}, and no group of the consumer "
            "protocol"
        )
    return group


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)


def _without_revoking(member: ConsumerMember) -> ConsumerMember:
    return replace(member, state=MemberState.STABLE, revoking=NO_PARTITIONS)


def _without_partitions(member: ConsumerMember) -> ConsumerMember:
    return replace(
        _without_revoking(member), member_epoch=0, previous_epoch=0, assigned=NO_PARTITIONS
    )


def _updated(member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member as the request says."""
    names, timeout_ms = request.subscribed_names, request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed=member.subscribed if names is None else frozenset(names),
        regex=member.regex if request.subscribed_regex is None else request.subscribed_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or member.server_assignor,
        classic=None,
    )


def _reads_alike(before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether a target is as good for the one as for the other."""
    return (before.subscribed, before.regex, before.rack_id, before.server_assignor) == (
        after.subscribed, after.regex, after.rack_id, after.server_assignor,
    )  # fmt: skip
