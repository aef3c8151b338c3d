"""The protocol of share groups: requests and time come in, decisions come out. Pure.

A heartbeat does in one decision all that it gives occasion for, as in the consumer protocol: the
group's epoch goes up, targets are computed anew, and the member gets its own. Partitions whose
state the share coordinator does not have yet are named in the answer, to whoever took the request:
that one has the state initialized and says so, and only then anybody reads them.

A member that has been silent for a session time-out is none any more. The records that it had
acquired are no affair of this module: its share sessions and the locks of records end by
themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pylog.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    NonEmptyGroup,
    UnknownMemberId,
)
from pylog.model import TopicId
from pylog_broker.coordinator.generated.share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentKey,
)
from pylog_broker.coordinator.generated.share_group_member_metadata import (
    ShareGroupMemberMetadataKey,
)
from pylog_broker.coordinator.generated.share_group_metadata import ShareGroupMetadataKey
from pylog_broker.coordinator.generated.share_group_state_partition_metadata import (
    ShareGroupStatePartitionMetadataKey,
)
from pylog_broker.coordinator.generated.share_group_target_assignment_member import (
    ShareGroupTargetAssignmentMemberKey,
)
from pylog_broker.coordinator.generated.share_group_target_assignment_metadata import (
    ShareGroupTargetAssignmentMetadataKey,
)
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.records import partitions_of
from pylog_broker.coordinator.groups.consumer.topics import (
    NO_PARTITIONS,
    Partitions,
    SubscribedTopic,
    TopicIdPartition,
    Topics,
    metadata_hash,
)
from pylog_broker.coordinator.groups.group import Group, GroupType
from pylog_broker.coordinator.groups.share.assignor import SharingMember, assign_simple
from pylog_broker.coordinator.groups.share.group import ShareGroup, ShareMember
from pylog_broker.coordinator.groups.share.messages import (
    JOINING,
    LEAVING,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from pylog_broker.coordinator.groups.share.records import (
    current_record,
    group_record,
    member_record,
    member_tombstones,
    state_record,
    take_state,
    target_epoch_record,
    target_record,
    with_current,
    with_metadata,
)
from pylog_broker.coordinator.groups.share.standing import (
    ShareStandingTimer,
    ShareWakeTimer,
    StandingShareHeartbeats,
)
from pylog_broker.coordinator.runtime.decision import (
    CancelTimer,
    Decision,
    Reply,
    RequestId,
    SetTimer,
)


# A dataclass, as a named tuple equals each one of another class with the same fields.
@dataclass(frozen=True, slots=True)
class ShareSessionTimer:
    """A member is not heard of."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ShareAskedTimer:
    """The broker that was to have state initialized has not reported the outcome."""

    group_id: str


ShareTimer = ShareSessionTimer | ShareStandingTimer | ShareWakeTimer | ShareAskedTimer
ASKED_MS: Final = 60_000
"""The time that state may take to be initialized before another heartbeat names it again."""

ShareKey = (
    ShareGroupMetadataKey
    | ShareGroupMemberMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)
"""Keys of the records that such a group has."""


class ShareProtocol:
    """Decides for all share groups of one shard. Operations raise before they change anything."""

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
        self._asked: dict[str, Partitions] = {}
        """By group: those for whose initialization this coordinator waits. None but it knows."""
        self._standing = StandingShareHeartbeats(config, self._look_again)

    # ---- loading ---------------------------------------------------------------------------------

    def replay(self, key: ShareKey, value: Any | None) -> None:
        """Takes in a record. Compaction may leave any one of a group's records the first."""
        group = self._groups.get(key.group_id)
        if not isinstance(group, ShareGroup):
            if value is None:
                return
            group = self._groups[key.group_id] = ShareGroup(key.group_id)
        match key:
            case ShareGroupMetadataKey():
                if value is None:
                    del self._groups[key.group_id]
                    self._asked.pop(key.group_id, None)
                else:
                    group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash
            case ShareGroupMemberMetadataKey(_, member_id):
                if value is None:
                    group.members.pop(member_id, None)
                else:
                    group.members[member_id] = with_metadata(_member(group, member_id), value)
            case ShareGroupTargetAssignmentMetadataKey():
                group.assignment_epoch = 0 if value is None else value.assignment_epoch
            case ShareGroupTargetAssignmentMemberKey(_, member_id):
                if value is None:
                    group.target.pop(member_id, None)
                else:
                    group.target[member_id] = partitions_of(value.topic_partitions)
            case ShareGroupCurrentMemberAssignmentKey(_, member_id):
                if value is not None:
                    group.members[member_id] = with_current(_member(group, member_id), value)
                elif member_id in group.members:
                    group.members[member_id] = replace(
                        group.members[member_id],
                        member_epoch=0,
                        previous_epoch=0,
                        assigned=NO_PARTITIONS,
                    )
            case ShareGroupStatePartitionMetadataKey():
                take_state(group, value)

    def on_loaded(self) -> Decision:
        """Members have one session time-out to be heard of."""
        decision = Decision()
        for group in self._groups.values():
            if isinstance(group, ShareGroup):
                for member_id in group.members:
                    self._heard_of(group, member_id, decision)
        return decision

    # ---- heartbeat -------------------------------------------------------------------------------

    def heartbeat(self, request_id: RequestId, request: ShareHeartbeat) -> Decision:
        """`ShareHeartbeatAnswer`, at once or when there is news for a member whose heartbeat may
        stand. A later heartbeat of the same member has the one before it answered.

        Raises InvalidRequest, GroupIdNotFound, GroupMaxSizeReached, UnknownMemberId and
        FencedMemberEpoch.
        """
        if fault := _fault(request):
            raise InvalidRequest(f"ShareGroupHeartbeat of group {request.group_id!r}: {fault}")
        decision = Decision()
        if request.member_epoch == LEAVING:
            group = self.group(request.group_id)
            self._drop(group, _known(group, request.member_id), decision)
            answer = ShareHeartbeatAnswer(request.member_id, LEAVING)
        else:
            group, member = self._sender(request)
            answer = self._go_on(group, member, request, decision)
        self._standing.answer(request_id, request, answer, decision)
        return decision

    def _look_again(self, request: ShareHeartbeat, decision: Decision) -> ShareHeartbeatAnswer:
        """The answer that a standing heartbeat gets now."""
        group, member = self._sender(request)
        return self._go_on(group, member, request, decision)

    def group(self, group_id: str) -> ShareGroup:
        """The share group of that name. Raises GroupIdNotFound."""
        group = self._groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(
                f"group {group_id!r} is of type {group.type.value}, and no share group: share "
                "consumers need a group of another name"
            )
        return group

    def _sender(self, request: ShareHeartbeat) -> tuple[ShareGroup, ShareMember]:
        member_id = request.member_id or request.new_member_id
        if request.member_epoch == JOINING:
            is_new = request.group_id not in self._groups
            group = ShareGroup(request.group_id) if is_new else self.group(request.group_id)
            member = group.members.get(member_id)
            if member is None and len(group.members) >= self._config.share_max_size:
                raise GroupMaxSizeReached(
                    f"group {group.group_id!r} has {len(group.members)} members, as many as "
                    "group.share.max.size of the broker allows"
                )
            return group, member or ShareMember(member_id)
        group = self.group(request.group_id)
        member = _known(group, member_id)
        # The answer with the present epoch may have been lost.
        if request.member_epoch not in (member.member_epoch, member.previous_epoch):
            raise FencedMemberEpoch(
                f"member {member_id!r} of group {group.group_id!r} is at epoch "
                f"{member.member_epoch}, and the request says {request.member_epoch}: it must join "
                "again"
            )
        return group, member

    def _go_on(
        self,
        group: ShareGroup,
        present: ShareMember,
        request: ShareHeartbeat,
        decision: Decision,
    ) -> ShareHeartbeatAnswer:
        names = request.subscribed_names
        member = replace(
            present,
            rack_id=request.rack_id or present.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            subscribed=present.subscribed if names is None else frozenset(names),
        )
        is_new = member.member_id not in group.members
        if is_new or member != present:
            decision.records.append(member_record(group.group_id, member))
        members = {**group.members, member.member_id: member}
        must_assign = is_new or member.subscribed != present.subscribed
        to_initialize = self._to_initialize(group, members, must_assign, decision)
        epoch = self._next_epoch(group, members, must_assign, decision)
        target = group.target.get(member.member_id, NO_PARTITIONS)
        if epoch != group.assignment_epoch:
            target = self._assign(group, members, epoch, decision)[member.member_id]
        after = member.at_target(target, epoch)
        if after != member:
            decision.records.append(current_record(group.group_id, after))
        self._heard_of(group, member.member_id, decision)
        needs_all = request.member_epoch != after.member_epoch or names is not None
        return ShareHeartbeatAnswer(
            after.member_id,
            after.member_epoch,
            self._config.of(group.group_id).share_heartbeat_interval_ms,
            after.assigned if needs_all else None,
            to_initialize,
        )

    # ---- epochs ----------------------------------------------------------------------------------

    def _read_by(self, members: Iterable[ShareMember]) -> list[SubscribedTopic]:
        names = frozenset[str]().union(*(member.subscribed for member in members))
        found = (self._topics.topic(name) for name in sorted(names))
        return [topic for topic in found if topic is not None]

    def _next_epoch(
        self,
        group: ShareGroup,
        members: Mapping[str, ShareMember],
        must_assign: bool,
        decision: Decision,
    ) -> int:
        """The group's epoch, one more where subscriptions or topics have changed."""
        if not must_assign and group.is_refreshed:
            return group.group_epoch
        found = metadata_hash(self._read_by(members.values()))
        group.is_refreshed = True
        if not must_assign and found == group.metadata_hash:
            return group.group_epoch
        epoch = group.group_epoch + 1
        decision.records.append(group_record(group.group_id, epoch, found))
        return epoch

    def _assign(
        self,
        group: ShareGroup,
        members: Mapping[str, ShareMember],
        epoch: int,
        decision: Decision,
    ) -> Mapping[str, Partitions]:
        asked = {
            name: SharingMember(member.subscribed, group.target.get(name, NO_PARTITIONS))
            for name, member in members.items()
        }
        topics = self._read_by(members.values())
        assigned = assign_simple(asked, topics, group.initialized)
        decision.records += (
            target_record(group.group_id, name, partitions)
            for name, partitions in assigned.items()
            if partitions != group.target.get(name)
        )
        decision.records.append(target_epoch_record(group.group_id, epoch))
        return assigned

    def on_topics_changed(self, names: Collection[str]) -> Decision:
        """Topics were created, have grown, or are gone: the groups that subscribe to them look at
        them with the next heartbeat, or with one that stands.
        """
        decision = Decision()
        for group in self._groups.values():
            if isinstance(group, ShareGroup) and any(map(group.subscribes_to, names)):
                group.is_refreshed = False
                self._standing.wake(group.group_id, decision)
        return decision

    def on_topics_deleted(self, names: Collection[str]) -> Decision:
        """Topics are gone, and so is the share coordinator's state of their partitions."""
        decision = self.on_topics_changed(names)
        decision.is_atomic = False
        for group in self._groups.values():
            if isinstance(group, ShareGroup):
                gone = {each for each, name in group.topic_names.items() if name in names}
                self._forget(group, gone, decision)
        return decision

    def _forget(self, group: ShareGroup, topics: Collection[TopicId], decision: Decision) -> bool:
        """The group has no state of these topics; whether it had any."""
        present = group.initializing | group.initialized
        found = frozenset(each for each in present if each.topic_id in topics)
        if found:
            self._forget_asked(group.group_id, found)
            decision.records.append(
                state_record(
                    group,
                    group.initializing - found,
                    group.initialized - found,
                    group.topic_names,
                )
            )
        return bool(found)

    # ---- the state of partitions -----------------------------------------------------------------

    def _to_initialize(
        self,
        group: ShareGroup,
        members: Mapping[str, ShareMember],
        must_assign: bool,
        decision: Decision,
    ) -> Partitions:
        """Partitions without state, of which nobody who takes requests was told yet."""
        asked = self._asked.get(group.group_id, NO_PARTITIONS)
        if not must_assign and group.is_refreshed and group.initializing <= asked:
            return NO_PARTITIONS
        topics = self._read_by(members.values())
        wanted = frozenset(each for topic in topics for each in topic.partitions())
        missing = wanted - group.initialized
        if not missing <= group.initializing:
            names = group.topic_names | {topic.topic_id: topic.name for topic in topics}
            record = state_record(group, group.initializing | missing, group.initialized, names)
            decision.records.append(record)
        self._asked[group.group_id] = asked | missing
        if missing - asked:
            decision.effects.append(SetTimer(ShareAskedTimer(group.group_id), ASKED_MS))
        return missing - asked

    def state_initialized(
        self, request_id: RequestId, group_id: str, partitions: Partitions
    ) -> Decision:
        """None: the share coordinator has the state of these, and members may read them. Raises
        GroupIdNotFound.
        """
        group = self.group(group_id)
        self._forget_asked(group_id, partitions)
        found = partitions & group.initializing
        decision = Decision(effects=[Reply(request_id, None)])
        if found:
            state = state_record(
                group,
                group.initializing - found,
                group.initialized | found,
                group.topic_names,
            )
            epoch = group_record(group_id, group.group_epoch + 1, group.metadata_hash)
            decision.records += (state, epoch)
            self._standing.wake(group_id, decision)
        return decision

    def state_not_initialized(
        self, request_id: RequestId, group_id: str, partitions: Partitions
    ) -> Decision:
        """None: that failed, so the next heartbeat names these again. Raises GroupIdNotFound."""
        self.group(group_id)
        self._forget_asked(group_id, partitions)
        return Decision(effects=[Reply(request_id, None)])

    def _forget_asked(self, group_id: str, partitions: Partitions) -> None:
        self._asked[group_id] = self._asked.get(group_id, NO_PARTITIONS) - partitions

    def state_to_delete(self, request_id: RequestId, group_id: str) -> Decision:
        """The partitions whose state is to be deleted before the group is. From then on none of
        them counts as initialized: a member that comes after all has it made anew. Raises
        GroupIdNotFound and NonEmptyGroup.
        """
        self.check_empty(request_id, group_id)
        group = self.group(group_id)
        partitions = group.initializing | group.initialized
        decision = Decision(effects=[Reply(request_id, partitions)])
        if group.initialized:
            self._forget_asked(group_id, partitions)
            decision.records += (
                state_record(group, partitions, NO_PARTITIONS, group.topic_names),
                group_record(group_id, group.group_epoch + 1, group.metadata_hash),
            )
        return decision

    def state_lost(self, request_id: RequestId, group_id: str, partitions: Partitions) -> Decision:
        """None: the state of these was deleted, though members came meanwhile that read them: it
        is made anew. Raises GroupIdNotFound.
        """
        group = self.group(group_id)
        decision = Decision(effects=[Reply(request_id, None)])
        lost = partitions & group.initialized
        if lost:
            self._forget_asked(group_id, lost)
            group.is_refreshed = False
            decision.records += (
                state_record(
                    group, group.initializing | lost, group.initialized - lost, group.topic_names
                ),
                group_record(group_id, group.group_epoch + 1, group.metadata_hash),
            )
            self._standing.wake(group_id, decision)
        return decision

    def check_empty(self, request_id: RequestId, group_id: str) -> Decision:
        """The group's epoch: it has no members now, so its offsets may be set. Raises
        GroupIdNotFound and NonEmptyGroup.
        """
        group = self.group(group_id)
        if group.members:
            raise NonEmptyGroup(f"group {group_id!r} has members: stop them first")
        return Decision(effects=[Reply(request_id, group.group_epoch)])

    def state_of(self, request_id: RequestId, group_id: str) -> Decision:
        """`Partitions` whose state the share coordinator has. Raises GroupIdNotFound."""
        return Decision(effects=[Reply(request_id, self.group(group_id).initialized)])

    def begin_anew(
        self, request_id: RequestId, group_id: str, partitions: Mapping[TopicIdPartition, str]
    ) -> Decision:
        """The state epoch with which these partitions, given with their topics' names, may begin
        elsewhere. Raises GroupIdNotFound and NonEmptyGroup.
        """
        self.check_empty(request_id, group_id)
        group = self.group(group_id)
        epoch = group.group_epoch + 1
        names = group.topic_names | {each.topic_id: name for each, name in partitions.items()}
        missing = frozenset(partitions) - group.initialized
        decision = Decision(effects=[Reply(request_id, epoch)])
        if missing:
            decision.records.append(
                state_record(group, group.initializing | missing, group.initialized, names)
            )
        decision.records.append(group_record(group_id, epoch, group.metadata_hash))
        return decision

    def begun_anew(
        self, request_id: RequestId, group_id: str, partitions: Partitions, state_epoch: int
    ) -> Decision:
        """None: these begin elsewhere, as their state of that epoch says, and members may read
        them. Raises GroupIdNotFound, and NonEmptyGroup where the group has changed since
        `begin_anew`: a member that has joined may have a partition begin anew once more.
        """
        if self.group(group_id).group_epoch != state_epoch:
            raise NonEmptyGroup(
                f"group {group_id!r} has changed while its offsets were altered, as somebody has "
                "joined or has altered them as well: they may be set in part"
            )
        return self.state_initialized(request_id, group_id, partitions)

    def forget_topics(
        self, request_id: RequestId, group_id: str, topics: Collection[TopicId]
    ) -> Decision:
        """None: the group has no state of these topics any more. Raises GroupIdNotFound and
        NonEmptyGroup.
        """
        decision = self.check_empty(request_id, group_id)
        group = self.group(group_id)
        decision.effects[:] = [Reply(request_id, None)]
        if self._forget(group, topics, decision):
            decision.records.append(
                group_record(group_id, group.group_epoch + 1, group.metadata_hash)
            )
        return decision

    # ---- leaving, and time -----------------------------------------------------------------------

    def _drop(self, group: ShareGroup, member: ShareMember, decision: Decision) -> None:
        """The member is none any more. The next heartbeat of another one finds a higher epoch."""
        member_id = member.member_id
        others = [each for name, each in group.members.items() if name != member_id]
        found = metadata_hash(self._read_by(others))
        decision.records += member_tombstones(group.group_id, member_id)
        decision.records.append(group_record(group.group_id, group.group_epoch + 1, found))
        decision.effects.append(CancelTimer(ShareSessionTimer(group.group_id, member_id)))

    def _heard_of(self, group: ShareGroup, member_id: str, decision: Decision) -> None:
        timer = ShareSessionTimer(group.group_id, member_id)
        session_ms = self._config.of(group.group_id).share_session_timeout_ms
        decision.effects.append(SetTimer(timer, session_ms))

    def on_timer(self, due: ShareTimer) -> Decision:
        """The time of a member, or of a heartbeat, is over."""
        if isinstance(due, ShareAskedTimer):
            self._asked.pop(due.group_id, None)
            decision = Decision()
            self._standing.wake(due.group_id, decision)
            return decision
        if not isinstance(due, ShareSessionTimer):
            return self._standing.on_timer(due)
        decision = Decision()
        group = self._groups.get(due.group_id)
        if isinstance(group, ShareGroup):
            member = group.members.get(due.member_id)
            if member is not None:
                self._lost[GroupType.SHARE] += 1
                self._drop(group, member, decision)
                self._standing.wake(group.group_id, decision)
        return decision


def _fault(request: ShareHeartbeat) -> str | None:
    epoch = request.member_epoch
    if not request.group_id:
        return "group_id is empty"
    if request.rack_id == "":
        return "rack_id is empty"
    if epoch < LEAVING:
        return f"member_epoch={epoch} means nothing: 0 joins, -1 leaves"
    if not request.member_id and (epoch != JOINING or not request.new_member_id):
        return "member_id is empty"
    if epoch == JOINING and not request.subscribed_names:
        return "subscribed_names is missing or empty, and a member that joins gives it"
    return None


def _member(group: ShareGroup, member_id: str) -> ShareMember:
    return group.members.get(member_id) or ShareMember(member_id)


def _known(group: ShareGroup, member_id: str) -> ShareMember:
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"group {group.group_id!r} has no member {member_id!r}")
    return member
