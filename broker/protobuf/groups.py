"""The messages of groups, and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from pylog.errors import InvalidRequest, PylogError
from pylog.model import (
    ZERO_TOPIC_ID,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    topic_id_to_bytes,
)
from pylog.rpc.v1 import common_pb2, group_pb2
from pylog_broker.api.groups.committed_offsets import CommitOffsets
from pylog_broker.api.groups.find_coordinator import (
    CoordinatorType,
    FindCoordinators,
    FoundCoordinator,
)
from pylog_broker.api.groups.group_admin import (
    DeletedGroup,
    DescribedClassic,
    DescribedModern,
    ListGroups,
)
from pylog_broker.api.groups.members import HeartbeatAnswered, MemberLeft
from pylog_broker.api.limits import named_twice
from pylog_broker.coordinator.groups.classic.messages import (
    NO_GENERATION,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaving,
    MemberProtocol,
    Synced,
    SyncGroup,
)
from pylog_broker.coordinator.groups.consumer.messages import ConsumerHeartbeat, DescribedConsumer
from pylog_broker.coordinator.groups.consumer.topics import Partitions, TopicIdPartition
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import (
    NO_OFFSET,
    CommittedOffset,
    DescribedMember,
    ListedGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from pylog_broker.metadata.messages import failure_of
from pylog_broker.protobuf.failures import error_of

ResponseT = TypeVar("ResponseT", bound=Message)

_DEAD: Final = "Dead"
"""The state of a group that is not there."""


def _text(message: Message, field: str) -> str | None:
    """An optional text; None where it is absent."""
    text: str = getattr(message, field)
    return text if message.HasField(field) else None


def _error(error: PylogError | None) -> common_pb2.Error | None:
    return error_of(failure_of(error))


def refusal(response: type[ResponseT], **fields: Any) -> Any:
    """A maker of such answers, of the error that a call fails with."""

    def refused(fault: PylogError) -> ResponseT:
        return response(error=_error(fault), **fields)

    return refused


# ---- coordinators -------------------------------------------------------------------------------

_TYPES: Final = {
    group_pb2.COORDINATOR_GROUP: CoordinatorType.GROUP,
    group_pb2.COORDINATOR_TRANSACTION: CoordinatorType.TRANSACTION,
    group_pb2.COORDINATOR_SHARE: CoordinatorType.SHARE,
}


def keys_from(request: group_pb2.FindCoordinatorRequest) -> FindCoordinators:
    """The keys whose coordinators a request asks for. InvalidRequest for a type that is not
    known."""
    found = _TYPES.get(request.type)
    if found is None:
        raise InvalidRequest(f"type={request.type}: there are no such coordinators")
    return FindCoordinators(found, tuple(request.keys))


def coordinators_found(found: Iterable[FoundCoordinator]) -> group_pb2.FindCoordinatorResponse:
    """Its answer."""
    return group_pb2.FindCoordinatorResponse(
        coordinators=[
            group_pb2.Coordinator(
                error=error_of(each.failure), key=each.key, broker_id=each.broker_id
            )
            for each in found
        ]
    )


# ---- the classic protocol -----------------------------------------------------------------------


def join_from(request: group_pb2.JoinGroupRequest) -> JoinGroup:
    """A member that joins. Where it comes from is the call's, and not in the message."""
    return JoinGroup(
        request.group_id,
        request.member_id,
        _text(request, "instance_id"),
        client_id="",
        client_host="",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(MemberProtocol(each.name, each.metadata) for each in request.protocols),
        new_member_id="",
        reason=request.reason,
    )


def joined(answer: Joined) -> group_pb2.JoinGroupResponse:
    """Its answer."""
    return group_pb2.JoinGroupResponse(
        error=_error(answer.error),
        generation=answer.generation,
        protocol_type=answer.protocol_type,
        protocol=answer.protocol,
        leader=answer.leader,
        member_id=answer.member_id,
        members=[
            group_pb2.JoinedMember(
                member_id=each.member_id, instance_id=each.instance_id, metadata=each.metadata
            )
            for each in answer.members
        ],
        skip_assignment=answer.skip_assignment,
    )


join_refused: Final = refusal(group_pb2.JoinGroupResponse, generation=NO_GENERATION)


def sync_from(request: group_pb2.SyncGroupRequest) -> SyncGroup:
    """A member that asks for its assignment."""
    return SyncGroup(
        request.group_id,
        request.member_id,
        _text(request, "instance_id"),
        request.generation,
        _text(request, "protocol_type"),
        _text(request, "protocol"),
        dict(request.assignments),
    )


def synced(answer: Synced) -> group_pb2.SyncGroupResponse:
    """Its answer."""
    return group_pb2.SyncGroupResponse(
        protocol_type=answer.protocol_type,
        protocol=answer.protocol,
        assignment=answer.assignment,
    )


def heartbeat_from(request: group_pb2.GroupHeartbeatRequest) -> Heartbeat:
    """A member that lives."""
    return Heartbeat(
        request.group_id,
        request.member_id,
        _text(request, "instance_id"),
        request.generation,
        request.standing_ms,
    )


def heartbeat_taken(_answer: None) -> group_pb2.GroupHeartbeatResponse:
    """Its answer."""
    return group_pb2.GroupHeartbeatResponse()


def leave_from(request: group_pb2.LeaveGroupRequest) -> LeaveGroup:
    """Members that go."""
    return LeaveGroup(
        request.group_id,
        tuple(
            Leaving(each.member_id, _text(each, "instance_id"), each.reason)
            for each in request.members
        ),
    )


def left(answer: Iterable[MemberLeft]) -> group_pb2.LeaveGroupResponse:
    """Its answer."""
    return group_pb2.LeaveGroupResponse(
        members=[
            group_pb2.LeavingMember(
                error=error_of(each.failure),
                member_id=each.member_id,
                instance_id=each.instance_id,
            )
            for each in answer
        ]
    )


# ---- the consumer protocol ----------------------------------------------------------------------


def has_no_news(request: group_pb2.ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a member only says that it is there."""
    return request.member_epoch > 0 and not (
        request.HasField("owned")
        or request.HasField("subscribed_topics")
        or request.HasField("subscribed_topic_regex")
    )


def consumer_heartbeat_from(
    request: group_pb2.ConsumerGroupHeartbeatRequest,
) -> ConsumerHeartbeat:
    """A member's heartbeat, without the client's id and host: the call has them. InvalidRequest for
    a topic id that is none.
    """
    names, timeout_ms = None, -1
    if request.HasField("subscribed_topics"):
        names = tuple(request.subscribed_topics.names)
    if request.HasField("rebalance_timeout_ms"):
        timeout_ms = request.rebalance_timeout_ms
    return ConsumerHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        _text(request, "instance_id"),
        _text(request, "rack_id"),
        timeout_ms,
        names,
        _text(request, "subscribed_topic_regex"),
        _text(request, "server_assignor"),
        _partitions_from(request.owned) if request.HasField("owned") else None,
        standing_ms=request.standing_ms,
    )


def _partitions_from(owned: group_pb2.AssignedPartitions) -> Partitions:
    found: set[TopicIdPartition] = set()
    for topic in owned.topics:
        try:
            topic_id_to_bytes(TopicId(topic.topic_id))
        except ValueError as error:
            raise InvalidRequest(f"owned: {error}") from None
        found.update(TopicIdPartition(TopicId(topic.topic_id), each) for each in topic.partitions)
    return frozenset(found)


def assigned(partitions: Partitions, topics: Mapping[TopicId, str]) -> group_pb2.AssignedPartitions:
    """Partitions by topic, in order, with the names that are known."""
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return group_pb2.AssignedPartitions(
        topics=[
            group_pb2.TopicPartitions(
                topic_id=topic_id, topic=topics.get(topic_id, ""), partitions=numbers
            )
            for topic_id, numbers in by_topic.items()
        ]
    )


def consumer_heartbeat_answered(
    answered: HeartbeatAnswered,
) -> group_pb2.ConsumerGroupHeartbeatResponse:
    """Its answer."""
    answer = answered.answer
    return group_pb2.ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assigned is None else assigned(answer.assigned, answered.topics),
    )


# ---- offsets ------------------------------------------------------------------------------------


def commit_from(request: group_pb2.OffsetCommitRequest) -> CommitOffsets:
    """Positions to keep. InvalidRequest for a partition that is named more than once."""
    twice = named_twice((item.topic, item.partition) for item in request.offsets)
    if twice is not None:
        raise InvalidRequest(twice.message)
    caller = Caller(request.member_id, _text(request, "instance_id"), request.generation_or_epoch)
    offsets = {
        TopicPartition(item.topic, item.partition): CommittedOffset(
            item.offset,
            LeaderEpoch(item.leader_epoch),
            item.metadata,
            TopicId(item.topic_id) if item.topic_id else ZERO_TOPIC_ID,
        )
        for item in request.offsets
    }
    return CommitOffsets(OffsetCommit(request.group_id, caller, offsets), request.timeout_ms)


def committed(answer: OffsetsCommitted) -> group_pb2.OffsetCommitResponse:
    """Its answer."""
    return group_pb2.OffsetCommitResponse(offsets=_outcomes(answer.partitions))


def _outcomes(
    outcomes: Mapping[TopicPartition, PylogError | None],
) -> list[group_pb2.CommittedOffset]:
    return [
        group_pb2.CommittedOffset(
            error=_error(error), topic=partition.topic, partition=partition.partition
        )
        for partition, error in outcomes.items()
    ]


def fetch_from(request: group_pb2.OffsetFetchRequest) -> OffsetFetch:
    """The group and the partitions whose committed offsets a request asks for."""
    caller = Caller(request.member_id, None, request.member_epoch)
    partitions = None if request.all else _named(request.partitions)
    return OffsetFetch(request.group_id, caller, partitions, request.require_stable)


def _named(partitions: Iterable[group_pb2.PartitionName]) -> tuple[TopicPartition, ...]:
    return tuple(dict.fromkeys(TopicPartition(each.topic, each.partition) for each in partitions))


def fetched(answer: OffsetsFetched) -> group_pb2.OffsetFetchResponse:
    """Its answer."""
    return group_pb2.OffsetFetchResponse(
        offsets=[_position(*each) for each in answer.partitions.items()]
    )


def _position(
    partition: TopicPartition, found: CommittedOffset | PylogError | None
) -> group_pb2.CommittedOffset:
    fault = found if isinstance(found, PylogError) else None
    position = CommittedOffset(NO_OFFSET)
    if found is not None and not isinstance(found, PylogError):
        position = found
    return group_pb2.CommittedOffset(
        error=_error(fault),
        topic=partition.topic,
        partition=partition.partition,
        offset=position.offset,
        leader_epoch=position.leader_epoch,
        metadata=position.metadata,
        topic_id="" if position.topic_id == ZERO_TOPIC_ID else position.topic_id,
    )


def deletion_from(request: group_pb2.OffsetDeleteRequest) -> OffsetDelete:
    """Positions to forget."""
    return OffsetDelete(request.group_id, _named(request.partitions))


def deleted(answer: OffsetsDeleted) -> group_pb2.OffsetDeleteResponse:
    """Its answer."""
    return group_pb2.OffsetDeleteResponse(offsets=_outcomes(answer.partitions))


# ---- groups -------------------------------------------------------------------------------------


def filters_from(request: group_pb2.ListGroupsRequest) -> ListGroups:
    """The groups that a request asks for."""
    return ListGroups(tuple(request.states), tuple(request.types))


def listed(groups: Iterable[ListedGroup]) -> group_pb2.ListGroupsResponse:
    """Its answer."""
    return group_pb2.ListGroupsResponse(
        groups=[
            group_pb2.ListedGroup(
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                state=each.state,
                type=each.type.value,
            )
            for each in groups
        ]
    )


def groups_from(
    request: group_pb2.DescribeGroupsRequest
    | group_pb2.ConsumerGroupDescribeRequest
    | group_pb2.DeleteGroupsRequest,
) -> tuple[str, ...]:
    """The groups that are asked about."""
    return tuple(request.group_ids)


def described(groups: Iterable[DescribedClassic]) -> group_pb2.DescribeGroupsResponse:
    """Groups of the classic protocol."""
    return group_pb2.DescribeGroupsResponse(groups=map(_described, groups))


def _described(group: DescribedClassic) -> group_pb2.DescribedGroup:
    found = group.described
    if found is None:
        return group_pb2.DescribedGroup(
            error=error_of(group.failure), group_id=group.group_id, state=_DEAD
        )
    return group_pb2.DescribedGroup(
        group_id=group.group_id,
        state=found.state,
        protocol_type=found.protocol_type,
        protocol=found.protocol,
        members=map(_member, found.members),
    )


def _member(member: DescribedMember) -> group_pb2.DescribedGroupMember:
    return group_pb2.DescribedGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.metadata,
        assignment=member.assignment,
    )


def described_consumers(
    groups: Iterable[DescribedModern],
) -> group_pb2.ConsumerGroupDescribeResponse:
    """Groups of the consumer protocol."""
    return group_pb2.ConsumerGroupDescribeResponse(groups=map(_described_consumers, groups))


def _described_consumers(group: DescribedModern) -> group_pb2.DescribedConsumerGroup:
    found = group.described
    if found is None:
        return group_pb2.DescribedConsumerGroup(
            error=error_of(group.failure), group_id=group.group_id, state=_DEAD
        )
    return group_pb2.DescribedConsumerGroup(
        group_id=group.group_id,
        state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor=found.assignor,
        members=[_consumer(member, group.topics) for member in found.members],
    )


def _consumer(
    member: DescribedConsumer, topics: Mapping[TopicId, str]
) -> group_pb2.DescribedConsumerMember:
    return group_pb2.DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topics=member.subscribed_names,
        subscribed_topic_regex=member.subscribed_regex,
        assigned=assigned(member.assigned, topics),
        target=assigned(member.target, topics),
        type="classic" if member.speaks_classic else "consumer",
    )


def groups_deleted(groups: Iterable[DeletedGroup]) -> group_pb2.DeleteGroupsResponse:
    """The outcome of each."""
    return group_pb2.DeleteGroupsResponse(
        groups=[
            group_pb2.DeletedGroup(error=error_of(each.failure), group_id=each.group_id)
            for each in groups
        ]
    )
