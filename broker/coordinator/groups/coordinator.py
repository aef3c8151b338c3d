"""The group coordinator: one shard's groups, of all types, and their offsets. Pure.

A `Coordinator` of the runtime. Each operation takes a request as a value and gives a `Decision`
whose reply is the answer as a value; a PylogError that it raises is the answer, too. The protocol
of a group's type, in a package of its own, decides what its members do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from typing import Final

from pylog.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    NonEmptyGroup,
    PylogError,
    UnknownMemberId,
)
from pylog.model import Offset
from pylog_broker.coordinator.expiry import BY_WALL_CLOCK, Expiry
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
from pylog_broker.coordinator.generated.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey, OffsetCommitValue
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
from pylog_broker.coordinator.generated.streams_group_current_member_assignment import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from pylog_broker.coordinator.generated.streams_group_member_metadata import (
    StreamsGroupMemberMetadataKey,
)
from pylog_broker.coordinator.generated.streams_group_metadata import StreamsGroupMetadataKey
from pylog_broker.coordinator.generated.streams_group_target_assignment_member import (
    StreamsGroupTargetAssignmentMemberKey,
)
from pylog_broker.coordinator.generated.streams_group_target_assignment_metadata import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from pylog_broker.coordinator.generated.streams_group_topology import StreamsGroupTopologyKey
from pylog_broker.coordinator.groups.classic.group import ClassicGroup, ClassicState
from pylog_broker.coordinator.groups.classic.messages import (
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from pylog_broker.coordinator.groups.classic.protocol import (
    ClassicProtocol,
    HeartbeatTimer,
    JoinTimer,
    PendingTimer,
    SessionTimer,
    SyncTimer,
)
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.classic_members import ClassicMembers
from pylog_broker.coordinator.groups.consumer.group import ConsumerGroup
from pylog_broker.coordinator.groups.consumer.messages import ConsumerHeartbeat
from pylog_broker.coordinator.groups.consumer.protocol import (
    ConsumerProtocol,
    ConsumerSessionTimer,
    RegexTimer,
    RevocationTimer,
    StandingTimer,
    TargetTimer,
    WakeTimer,
)
from pylog_broker.coordinator.groups.consumer.records import group_tombstones
from pylog_broker.coordinator.groups.consumer.topics import NO_PARTITIONS, Topics
from pylog_broker.coordinator.groups.group import Caller, Group, GroupType
from pylog_broker.coordinator.groups.messages import (
    DeleteGroups,
    DescribedGroup,
    DescribedMember,
    GroupsDeleted,
    ListedGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from pylog_broker.coordinator.groups.offsets import GroupOffsets
from pylog_broker.coordinator.groups.share.group import ShareGroup
from pylog_broker.coordinator.groups.share.messages import ShareHeartbeat
from pylog_broker.coordinator.groups.share.protocol import (
    ShareAskedTimer,
    ShareProtocol,
    ShareSessionTimer,
)
from pylog_broker.coordinator.groups.share.records import (
    group_tombstones as share_group_tombstones,
)
from pylog_broker.coordinator.groups.share.standing import ShareStandingTimer, ShareWakeTimer
from pylog_broker.coordinator.groups.streams.group import StreamsGroup
from pylog_broker.coordinator.groups.streams.messages import StreamsHeartbeat
from pylog_broker.coordinator.groups.streams.protocol import (
    InitialTimer,
    StreamsProtocol,
    StreamsSessionTimer,
    TaskRevocationTimer,
)
from pylog_broker.coordinator.groups.streams.records import (
    group_tombstones as streams_group_tombstones,
)
from pylog_broker.coordinator.runtime.decision import (
    Decision,
    Producer,
    Record,
    Reply,
    RequestId,
    SetTimer,
    TransactionEnd,
)

EXPIRY: Final = "expiry"
"""The timer of the pass that forgets what nobody has needed for long."""


class GroupCoordinator:
    """Invariant: every group that has a position or a member is in `groups`.

    It counts the members that were put out, for they were silent or slow, in `lost`: by type of
    group, and beyond its own life.
    """

    def __init__(
        self,
        config: GroupConfig,
        topics: Topics,
        lost: Counter[GroupType],
        expiry: Expiry = BY_WALL_CLOCK,
    ) -> None:
        self._config = config
        self.groups: dict[str, Group] = {}
        self.offsets = GroupOffsets(config, expiry)
        self.classic = ClassicProtocol(self.groups, config, lost)
        self.consumer = ConsumerProtocol(self.groups, config, topics, lost)
        self._classic_members = ClassicMembers(self.consumer, topics)
        self.share = ShareProtocol(self.groups, config, topics, lost)
        self.streams = StreamsProtocol(self.groups, config, topics, lost)

    # ---- as any coordinator ----------------------------------------------------------------------

    def replay(self, record: Record, offset: Offset) -> None:
        """Takes in a record."""
        key, value, producer_id = record
        match key:
            case OffsetCommitKey() if producer_id >= 0:
                self.offsets.replay(key, value, producer_id)
            case TransactionEnd():
                for group_id in self.offsets.replay_end(key):
                    self.groups.setdefault(group_id, ClassicGroup(group_id))
            case OffsetCommitKey():
                assert value is None or isinstance(value, OffsetCommitValue)
                self.offsets.replay(key, value)
                if value is not None and key.group not in self.groups:
                    self.groups[key.group] = ClassicGroup(key.group)
            case GroupMetadataKey():
                assert value is None or isinstance(value, GroupMetadataValue)
                self.classic.replay(key, value)
            case (
                ConsumerGroupMetadataKey()
                | ConsumerGroupMemberMetadataKey()
                | ConsumerGroupTargetAssignmentMetadataKey()
                | ConsumerGroupTargetAssignmentMemberKey()
                | ConsumerGroupCurrentMemberAssignmentKey()
                | ConsumerGroupRegularExpressionKey()
            ):
                self.consumer.replay(key, value)
            case (
                ShareGroupMetadataKey()
                | ShareGroupMemberMetadataKey()
                | ShareGroupTargetAssignmentMetadataKey()
                | ShareGroupTargetAssignmentMemberKey()
                | ShareGroupCurrentMemberAssignmentKey()
                | ShareGroupStatePartitionMetadataKey()
            ):
                self.share.replay(key, value)
            case (
                StreamsGroupMetadataKey()
                | StreamsGroupMemberMetadataKey()
                | StreamsGroupTargetAssignmentMetadataKey()
                | StreamsGroupTargetAssignmentMemberKey()
                | StreamsGroupCurrentMemberAssignmentKey()
                | StreamsGroupTopologyKey()
            ):
                self.streams.replay(key, value)
            case _:
                # A Kafka broker wrote it: the topics' metadata, which serve that broker alone.
                pass

        if value is None:
            match key:
                case GroupMetadataKey(group_id):
                    self._keep_positions(group_id)
                case ConsumerGroupMetadataKey(group_id) | StreamsGroupMetadataKey(group_id):
                    self._keep_positions(group_id)

    def _keep_positions(self, group_id: str) -> None:
        """The group's type has ended, and not its positions: the next one has not begun yet."""
        if group_id not in self.groups and self.offsets.of(group_id):
            self.groups[group_id] = ClassicGroup(group_id)

    def on_loaded(self, now_ms: int, wall_ms: int) -> Decision:
        """Members have a session time-out to be heard of."""
        decision = self.classic.on_loaded()
        decision.effects += self.consumer.on_loaded().effects
        decision.effects += self.share.on_loaded().effects
        decision.effects += self.streams.on_loaded().effects
        decision.effects.append(self._expiry_timer())
        return decision

    def on_timer(self, now_ms: int, wall_ms: int, key: Hashable) -> Decision:
        """The time of a member, of a phase, or of old positions has come."""
        match key:
            case SessionTimer() | PendingTimer() | JoinTimer() | SyncTimer() | HeartbeatTimer():
                return self.classic.on_timer(wall_ms, key)
            case ConsumerSessionTimer() | RevocationTimer() | RegexTimer():
                return self.consumer.on_timer(wall_ms, key)
            case StandingTimer() | WakeTimer() | TargetTimer():
                return self.consumer.on_timer(wall_ms, key)
            case ShareSessionTimer() | ShareStandingTimer() | ShareWakeTimer() | ShareAskedTimer():
                return self.share.on_timer(key)
            case StreamsSessionTimer() | TaskRevocationTimer() | InitialTimer():
                return self.streams.on_timer(key)
            case _:
                assert key == EXPIRY, key
                return self._expire(wall_ms)

    def _expiry_timer(self) -> SetTimer:
        return SetTimer(EXPIRY, self._config.offsets_retention_check_interval_ms)

    # ---- the classic protocol --------------------------------------------------------------------

    def join(self, wall_ms: int, request_id: RequestId, request: JoinGroup) -> Decision:
        """`Joined`; see `ClassicProtocol`, and `ClassicMembers` for a group of consumers that has
        members. One that has none, and a streams group that has none, becomes a classic group, and
        keeps its offsets.
        """
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            self.classic.check_join(request)
            return self._classic_members.join(request_id, request, group)
        if not isinstance(group, ConsumerGroup | StreamsGroup) or not group.is_empty:
            return self.classic.join(wall_ms, request_id, request)
        self.classic.check_join(request)
        if request.member_id:
            raise UnknownMemberId(f"group {group.group_id!r} has no member {request.member_id!r}")
        self.groups[group.group_id] = ClassicGroup(group.group_id)
        try:
            decision = self.classic.join(wall_ms, request_id, request)
        except PylogError:
            self.groups[group.group_id] = group
            raise
        decision.records[:0] = self._tombstones(group)
        return decision

    def sync(self, wall_ms: int, request_id: RequestId, request: SyncGroup) -> Decision:
        """`Synced`; see `ClassicProtocol` and `ClassicMembers`."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.sync(request_id, request, group)
        return self.classic.sync(wall_ms, request_id, request)

    def heartbeat(self, request_id: RequestId, request: Heartbeat) -> Decision:
        """None, or RebalanceInProgress; see `ClassicProtocol` and `ClassicMembers`."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(request_id, request, group)
        return self.classic.heartbeat(request_id, request)

    def leave(self, wall_ms: int, request_id: RequestId, request: LeaveGroup) -> Decision:
        """`Left`; see `ClassicProtocol` and `ClassicMembers`."""
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.leave(request_id, request, group)
        return self.classic.leave(wall_ms, request_id, request)

    # ---- the consumer protocol -------------------------------------------------------------------

    def consumer_heartbeat(self, request_id: RequestId, request: ConsumerHeartbeat) -> Decision:
        """`ConsumerHeartbeatAnswer`; see `ConsumerProtocol`."""
        return self.consumer.heartbeat(request_id, request)

    def describe_consumer(self, request_id: RequestId, group_id: str) -> Decision:
        """`DescribedConsumerGroup`. Raises GroupIdNotFound."""
        group = self._group(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"group {group_id!r} is no group of the consumer protocol")
        return Decision(effects=[Reply(request_id, group.described())])

    # ---- share groups ----------------------------------------------------------------------------

    def share_heartbeat(self, request_id: RequestId, request: ShareHeartbeat) -> Decision:
        """`ShareHeartbeatAnswer`; see `ShareProtocol`, also for what follows from it."""
        return self.share.heartbeat(request_id, request)

    def describe_share(self, request_id: RequestId, group_id: str) -> Decision:
        """`DescribedShareGroup`. Raises GroupIdNotFound."""
        return Decision(effects=[Reply(request_id, self.share.group(group_id).described())])

    def share_state_to_delete(self, request_id: RequestId, group_id: str) -> Decision:
        """`Partitions`: see `ShareProtocol.state_to_delete`; none for groups of other types, and
        for one that is not there.
        """
        if isinstance(self.groups.get(group_id), ShareGroup):
            return self.share.state_to_delete(request_id, group_id)
        return Decision(effects=[Reply(request_id, NO_PARTITIONS)])

    # ---- streams groups --------------------------------------------------------------------------

    def streams_heartbeat(self, request_id: RequestId, request: StreamsHeartbeat) -> Decision:
        """`StreamsHeartbeatAnswer`; see `StreamsProtocol`, also for what follows from it."""
        return self.streams.heartbeat(request_id, request)

    def describe_streams(self, request_id: RequestId, group_id: str) -> Decision:
        """`DescribedStreamsGroup`. Raises GroupIdNotFound."""
        return Decision(effects=[Reply(request_id, self.streams.group(group_id).described())])

    # ---- offsets ---------------------------------------------------------------------------------

    def commit_offsets(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: OffsetCommit,
        producer: Producer | None = None,
    ) -> Decision:
        """`OffsetsCommitted`; of a `producer` the positions count when its transaction commits.
        Raises what the group's `check_commit` raises, InvalidGroupId, and
        IllegalGeneration where a member of a group that is not there commits.
        """
        if not request.group_id:
            raise InvalidGroupId("group_id is empty")
        group = self.groups.get(request.group_id)
        if group is None:
            if request.caller.epoch >= 0:
                raise IllegalGeneration(
                    f"group {request.group_id!r} does not exist, so it has no generation "
                    f"{request.caller.epoch}"
                )
        elif isinstance(group, StreamsGroup):
            group.check_commit_of(request.caller, request.offsets)
        else:
            group.check_commit(request.caller)
        decision = self.offsets.commit(wall_ms, request_id, request)
        if decision.records:
            decision.producer = producer
        if isinstance(group, ClassicGroup):
            self.classic.heard_of(group, request.caller.member_id, decision)
        return decision

    def fetch_offsets(self, request_id: RequestId, request: OffsetFetch) -> Decision:
        """`OffsetsFetched`; of a group that does not exist nothing is committed."""
        group = self.groups.get(request.group_id)
        if group is not None:
            group.check_fetch(request.caller)
        return self.offsets.fetch(request_id, request)

    def end_transaction(self, request_id: RequestId, end: TransactionEnd) -> Decision:
        """None, when the marker is committed: the transaction's offsets count now, or never."""
        return Decision([Record(end, None)], [Reply(request_id, None)])

    def delete_offsets(self, request_id: RequestId, request: OffsetDelete) -> Decision:
        """`OffsetsDeleted`. Raises GroupIdNotFound, also for a group of a type that has no offsets;
        NonEmptyGroup where members of the group speak of no topics, so that nobody knows what they
        read.
        """
        if request.group_id not in self.groups and self.offsets.is_pending(request.group_id):
            return self.offsets.delete(request_id, request, None)
        group = self._group(request.group_id)
        group.check_fetch(Caller())
        if isinstance(group, ClassicGroup) and group.members and group.topics is None:
            raise NonEmptyGroup(
                f"group {group.group_id!r} has members, and what they read is not known: stop them "
                "first"
            )
        return self.offsets.delete(request_id, request, group)

    # ---- groups as such --------------------------------------------------------------------------

    def _group(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        return group

    def list_groups(self, request_id: RequestId) -> Decision:
        """A list of `ListedGroup`."""
        listed = [
            ListedGroup(
                group.group_id,
                group.type,
                (group.protocol_type or "")
                if isinstance(group, ClassicGroup)
                else group.type.value,
                group.state_name,
            )
            for group in self.groups.values()
        ]
        return Decision(effects=[Reply(request_id, listed)])

    def describe_classic(self, request_id: RequestId, group_id: str) -> Decision:
        """`DescribedGroup`. Raises GroupIdNotFound."""
        group = self._group(group_id)
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"group {group_id!r} is no group of the classic protocol")
        shows = group.state is ClassicState.STABLE
        protocol = (group.protocol or "") if shows else ""
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata_for(protocol),
                member.assignment if shows else b"",
            )
            for member in group.members.values()
        )
        described = DescribedGroup(
            group_id, group.state_name, group.protocol_type or "", protocol, members
        )
        return Decision(effects=[Reply(request_id, described)])

    def delete_groups(self, request_id: RequestId, request: DeleteGroups) -> Decision:
        """`GroupsDeleted`: each has GroupIdNotFound, or NonEmptyGroup while it has members. The
        group's own tombstone comes last: a crash in the middle leaves a group to delete again.
        """
        decision = Decision(is_atomic=False)
        outcomes: dict[str, PylogError | None] = {}
        for group_id in request.group_ids:
            outcomes[group_id] = None
            try:
                group = self._group(group_id)
            except GroupIdNotFound as error:
                pending = self.offsets.forget_all(group_id)
                decision.records += pending
                outcomes[group_id] = None if pending else error
                continue
            if not group.is_empty:
                outcomes[group_id] = NonEmptyGroup(
                    f"group {group_id!r} has members: stop them first"
                )
                continue
            decision.records += self.offsets.forget_all(group_id)
            decision.records += self._tombstones(group)
        decision.effects.append(Reply(request_id, GroupsDeleted(outcomes)))
        return decision

    def _tombstones(self, group: Group) -> list[Record]:
        if isinstance(group, ConsumerGroup):
            return group_tombstones(group.group_id)
        if isinstance(group, ShareGroup):
            return share_group_tombstones(group.group_id)
        if isinstance(group, StreamsGroup):
            return streams_group_tombstones(group.group_id)
        assert isinstance(group, ClassicGroup)
        return [Record(GroupMetadataKey(group.group_id), None)]

    # ---- what nobody asked for -------------------------------------------------------------------

    def on_topics_changed(self, topics: Collection[str]) -> Decision:
        """Topics are new, or have other partitions or racks: the groups that subscribe to them by
        the consumer protocol assign anew.
        """
        decision = self.consumer.on_topics_changed(topics)
        decision.effects += self.share.on_topics_changed(topics).effects
        self.streams.on_topics_changed(topics)
        return decision

    def on_topics_deleted(self, topics: Collection[str]) -> Decision:
        """Positions in topics that are gone go, too: one of that name is another topic."""
        self.streams.on_topics_changed(topics)
        decision = self.share.on_topics_deleted(topics)
        decision.effects += self.consumer.on_topics_changed(topics).effects
        decision.records += self.offsets.forget_topics(topics)
        decision.is_atomic = False
        return decision

    def _expire(self, wall_ms: int) -> Decision:
        """Positions that nobody has needed for so long go, and groups without any and without
        members.
        """
        decision = Decision(effects=[self._expiry_timer()], is_atomic=False)
        for group in self.groups.values():
            expired = self.offsets.expired(wall_ms, group)
            decision.records += expired
            nothing_is_left = len(expired) == len(self.offsets.of(group.group_id))
            pending = self.offsets.is_pending(group.group_id)
            if nothing_is_left and group.is_unused and not pending:
                decision.records += self._tombstones(group)
        return decision
