"""A consumer's requests to its group's coordinator, as messages of `group.proto`, and the answers.

Pure. `broken` makes the answer that stands for a broker's refusal of the whole call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pylog.client.membership.messages import (
    Acknowledged,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswer,
    CoordinatorFound,
    FindCoordinator,
    GroupAnswer,
    GroupRequest,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsFetched,
    PartitionCommitted,
    PartitionOffset,
    Synced,
    SyncGroup,
    TargetPartitions,
)
from pylog.model import OffsetAndMetadata, TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import common_pb2, group_pb2

PROTOCOL_TYPE: Final = "consumer"
_NO_EPOCH: Final = -1
_NO_OFFSET: Final = -1

TopicId = Callable[[str], str]
"""A topic's id by its name; empty: not known."""

API_OF: Final[dict[type[Any], apis.UnaryApi[Any, Any]]] = {
    FindCoordinator: apis.FIND_COORDINATOR,
    JoinGroup: apis.JOIN_GROUP,
    SyncGroup: apis.SYNC_GROUP,
    Heartbeat: apis.HEARTBEAT,
    LeaveGroup: apis.LEAVE_GROUP,
    OffsetCommit: apis.OFFSET_COMMIT,
    OffsetFetch: apis.OFFSET_FETCH,
    ConsumerGroupHeartbeat: apis.CONSUMER_GROUP_HEARTBEAT,
}
"""The call that each request is."""


class GroupWire:
    """The fields that all messages of one consumer share."""

    def __init__(
        self,
        client_id: str,
        timeout_ms: int,
        *,
        rack: str = "",
        assignor: str | None = None,
        require_stable: bool = False,
    ) -> None:
        """`timeout_ms`: how long a commit may wait for other replicas. `assignor`: the
        coordinator's, of the new protocol. `require_stable`: offsets of open transactions count.
        """
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._rack = rack
        self._assignor = assignor
        self._require_stable = require_stable

    # ---- requests -----------------------------------------------------------------------------

    def message(self, request: GroupRequest, topic_id: TopicId) -> Any:
        """The request as it is sent."""
        match request:
            case FindCoordinator(group_id):
                return group_pb2.FindCoordinatorRequest(
                    type=group_pb2.COORDINATOR_GROUP, keys=[group_id]
                )
            case JoinGroup():
                return self._join(request)
            case SyncGroup():
                return group_pb2.SyncGroupRequest(
                    group_id=request.group_id,
                    member_id=request.member_id,
                    instance_id=request.instance_id,
                    generation=request.generation,
                    protocol_type=PROTOCOL_TYPE,
                    protocol=request.protocol,
                    assignments=dict(request.assignments),
                )
            case Heartbeat(_, group_id, generation, member_id, instance_id, standing_ms):
                return group_pb2.GroupHeartbeatRequest(
                    group_id=group_id,
                    member_id=member_id,
                    instance_id=instance_id,
                    generation=generation,
                    standing_ms=standing_ms,
                )
            case LeaveGroup(_, group_id, member_id, reason):
                member = group_pb2.LeavingMember(member_id=member_id, reason=reason)
                return group_pb2.LeaveGroupRequest(group_id=group_id, members=[member])
            case OffsetCommit():
                return self.commit(request)
            case OffsetFetch(_, group_id, partitions):
                return group_pb2.OffsetFetchRequest(
                    group_id=group_id,
                    member_epoch=_NO_EPOCH,
                    partitions=[
                        group_pb2.PartitionName(topic=tp.topic, partition=tp.partition)
                        for tp in partitions
                    ],
                    require_stable=self._require_stable,
                )
            case ConsumerGroupHeartbeat():
                return self._beat(request, topic_id)

    def _join(self, request: JoinGroup) -> group_pb2.JoinGroupRequest:
        return group_pb2.JoinGroupRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.instance_id,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                group_pb2.MemberProtocol(name=name, metadata=metadata)
                for name, metadata in request.protocols
            ],
            reason=request.reason,
            client_id=self._client_id,
        )

    def commit(self, request: OffsetCommit) -> group_pb2.OffsetCommitRequest:
        """A commit as it is sent."""
        offsets = [
            group_pb2.CommittedOffset(
                topic=tp.topic,
                partition=tp.partition,
                offset=committed.offset,
                leader_epoch=(
                    _NO_EPOCH if committed.leader_epoch is None else committed.leader_epoch
                ),
                metadata=committed.metadata,
                topic_id=topic_id,
            )
            for (tp, committed), topic_id in zip(request.offsets, request.topic_ids, strict=True)
        ]
        return group_pb2.OffsetCommitRequest(
            group_id=request.group_id,
            generation_or_epoch=request.generation,
            member_id=request.member_id,
            instance_id=request.instance_id,
            offsets=offsets,
            timeout_ms=self._timeout_ms,
        )

    def _beat(
        self, request: ConsumerGroupHeartbeat, topic_id: TopicId
    ) -> group_pb2.ConsumerGroupHeartbeatRequest:
        message = group_pb2.ConsumerGroupHeartbeatRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.epoch,
            instance_id=request.instance_id,
            client_id=self._client_id,
            standing_ms=request.standing_ms,
        )
        if request.rebalance_timeout_ms is not None:  # it says everything
            message.rebalance_timeout_ms = request.rebalance_timeout_ms
            if self._rack:
                message.rack_id = self._rack
            if self._assignor is not None:
                message.server_assignor = self._assignor
        if request.topics is not None:
            message.subscribed_topics.names.extend(request.topics)
            message.subscribed_topics.SetInParent()
        if request.regex is not None:
            message.subscribed_topic_regex = request.regex
        if request.owned is not None:
            message.owned.SetInParent()
            for topic, numbers in _by_topic(request.owned).items():
                message.owned.topics.add(topic_id=topic_id(topic), topic=topic, partitions=numbers)
        return message

    # ---- answers ------------------------------------------------------------------------------

    def answer(self, request: GroupRequest, response: Any) -> GroupAnswer:
        """The broker's answer."""
        match request:
            case FindCoordinator():
                (found,) = response.coordinators
                return CoordinatorFound(found.broker_id, found.error.code, found.error.message)
            case JoinGroup():
                return _joined(response)
            case SyncGroup():
                return Synced(response.assignment, response.error.code, response.error.message)
            case Heartbeat() | LeaveGroup():
                return Acknowledged(response.error.code, response.error.message)
            case OffsetCommit():
                return _committed(request, response)
            case OffsetFetch():
                return _fetched(response)
            case ConsumerGroupHeartbeat():
                return ConsumerGroupHeartbeatAnswer(
                    response.member_epoch,
                    response.heartbeat_interval_ms,
                    code=response.error.code,
                    message=response.error.message,
                    target=_target(response),
                )

    def refused(self, request: GroupRequest, code: int, message: str) -> GroupAnswer:
        """The error of a broker that does not take the call at all."""
        match request:
            case FindCoordinator():
                return CoordinatorFound(code=code, message=message)
            case JoinGroup():
                return Joined(code=code, message=message)
            case SyncGroup():
                return Synced(code=code, message=message)
            case Heartbeat() | LeaveGroup():
                return Acknowledged(code, message)
            case OffsetCommit():
                return OffsetsCommitted(
                    tuple(PartitionCommitted(tp, code, message) for tp, _ in request.offsets)
                )
            case OffsetFetch():
                return OffsetsFetched(code=code, message=message)
            case ConsumerGroupHeartbeat():
                return ConsumerGroupHeartbeatAnswer(code=code, message=message)


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for tp in partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return by_topic


def _joined(response: group_pb2.JoinGroupResponse) -> Joined:
    members = tuple(
        (
            member.member_id,
            member.instance_id if member.HasField("instance_id") else None,
            member.metadata,
        )
        for member in response.members
    )
    return Joined(
        response.generation,
        response.member_id,
        response.leader,
        response.protocol,
        members,
        response.skip_assignment,
        response.error.code,
        response.error.message,
    )


def _committed(request: OffsetCommit, response: group_pb2.OffsetCommitResponse) -> OffsetsCommitted:
    whole: common_pb2.Error = response.error
    if whole.code:
        return OffsetsCommitted(
            tuple(PartitionCommitted(tp, whole.code, whole.message) for tp, _ in request.offsets)
        )
    return OffsetsCommitted(
        tuple(
            PartitionCommitted(_partition(told), told.error.code, told.error.message)
            for told in response.offsets
        )
    )


def _fetched(response: group_pb2.OffsetFetchResponse) -> OffsetsFetched:
    told = []
    for one in response.offsets:
        committed = None
        if one.offset != _NO_OFFSET and not one.error.code:
            epoch = one.leader_epoch if one.leader_epoch >= 0 else None
            committed = OffsetAndMetadata(one.offset, one.metadata, epoch)
        told.append(
            PartitionOffset(
                _partition(one), committed, one.error.code, one.error.message, one.topic_id
            )
        )
    return OffsetsFetched(tuple(told), response.error.code, response.error.message)


def _partition(told: group_pb2.CommittedOffset) -> TopicPartition:
    return TopicPartition(told.topic, told.partition)


def _target(response: group_pb2.ConsumerGroupHeartbeatResponse) -> TargetPartitions | None:
    if not response.HasField("assignment"):
        return None
    return tuple(
        (topic.topic_id, topic.topic, tuple(topic.partitions))
        for topic in response.assignment.topics
    )
