"""A share consumer's requests to brokers, as messages of `share.proto`, and the answers."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pylog.client.membership.messages import CoordinatorFound, FindCoordinator
from pylog.client.sharing.messages import (
    AcquiredRange,
    PartitionShared,
    ShareAcknowledge,
    ShareAnswer,
    SharedPartition,
    ShareFetch,
    ShareGroupAnswer,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareRequest,
)
from pylog.client.sharing.share_membership import JOIN_EPOCH
from pylog.rpc import apis
from pylog.rpc.v1 import group_pb2, share_pb2

API_OF: Final[dict[type[Any], apis.UnaryApi[Any, Any]]] = {
    FindCoordinator: apis.FIND_COORDINATOR,
    ShareHeartbeat: apis.SHARE_GROUP_HEARTBEAT,
    ShareFetch: apis.SHARE_FETCH,
    ShareAcknowledge: apis.SHARE_ACKNOWLEDGE,
}
"""The call that each request is."""


class ShareWire(NamedTuple):
    """The fields that all messages of one consumer share."""

    group_id: str
    member_id: str
    client_id: str
    rack: str
    min_bytes: int
    max_bytes: int
    max_poll_records: int
    strict: bool

    # ---- requests -----------------------------------------------------------------------------

    def message(self, request: ShareRequest) -> Any:
        """The request as it is sent."""
        match request:
            case FindCoordinator(group_id):
                return group_pb2.FindCoordinatorRequest(
                    type=group_pb2.COORDINATOR_GROUP, keys=[group_id]
                )
            case ShareHeartbeat():
                return self._heartbeat(request)
            case ShareFetch():
                return self._fetch(request)
            case ShareAcknowledge(_, epoch, acks, renews):
                message = share_pb2.ShareAcknowledgeRequest(
                    group_id=self.group_id,
                    member_id=self.member_id,
                    share_session_epoch=epoch,
                    is_renew_ack=renews,
                    client_id=self.client_id,
                )
                for place, ranges in acks:
                    _acknowledge(message.partitions.add(), place, ranges)
                return message

    def _heartbeat(self, request: ShareHeartbeat) -> share_pb2.ShareGroupHeartbeatRequest:
        message = share_pb2.ShareGroupHeartbeatRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.epoch,
            client_id=self.client_id,
            standing_ms=request.standing_ms,
        )
        if self.rack and request.epoch == JOIN_EPOCH:
            message.rack_id = self.rack
        if request.topics is not None:
            message.subscribed_topics.names.extend(request.topics)
            message.subscribed_topics.SetInParent()
        return message

    def _fetch(self, request: ShareFetch) -> share_pb2.ShareFetchRequest:
        message = share_pb2.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=request.epoch,
            max_wait_ms=request.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=max(self.max_bytes, 1),
            max_records=request.max_records,
            batch_size=self.max_poll_records,
            acquire_mode="RECORD_LIMIT" if self.strict else "BATCH_OPTIMIZED",
            client_id=self.client_id,
            rack_id=self.rack,
        )
        acks = dict(request.acks)
        for place in dict.fromkeys([*request.added, *acks]):
            _acknowledge(message.partitions.add(), place, acks.get(place, ()))
        for place in request.forgotten:
            message.forgotten.add(topic_id=place.topic_id, partition=place.partition)
        return message

    # ---- answers ------------------------------------------------------------------------------

    def answer(self, request: ShareRequest, response: Any) -> ShareGroupAnswer:
        """The broker's answer."""
        match request:
            case FindCoordinator():
                (found,) = response.coordinators
                return CoordinatorFound(found.broker_id, found.error.code, found.error.message)
            case ShareHeartbeat():
                return _heartbeat_answer(response)
            case ShareFetch():
                parts = tuple(map(_fetched, response.partitions))
            case ShareAcknowledge():
                parts = tuple(map(_acknowledged, response.partitions))
        return ShareAnswer(
            parts,
            response.acquisition_lock_timeout_ms,
            response.error.code,
            response.error.message,
        )

    def refused(self, request: ShareRequest, code: int, message: str) -> ShareGroupAnswer:
        """The error of a broker that does not take the call at all."""
        match request:
            case FindCoordinator():
                return CoordinatorFound(code=code, message=message)
            case ShareHeartbeat():
                return ShareHeartbeatAnswer(code=code, message=message)
            case ShareFetch() | ShareAcknowledge():
                return ShareAnswer(code=code, message=message)


def _acknowledge(
    message: share_pb2.SharePartitionFetch, place: SharedPartition, ranges: Any
) -> None:
    message.topic_id, message.partition = place.topic_id, place.partition
    for first, last, types in ranges:
        message.acknowledgements.add(first_offset=first, last_offset=last, types=types)


def _heartbeat_answer(response: share_pb2.ShareGroupHeartbeatResponse) -> ShareHeartbeatAnswer:
    target = None
    if response.HasField("assignment"):
        target = tuple(
            (topic.topic_id, topic.topic, tuple(topic.partitions))
            for topic in response.assignment.topics
        )
    return ShareHeartbeatAnswer(
        response.member_epoch,
        response.heartbeat_interval_ms,
        target,
        response.error.code,
        response.error.message,
    )


def _fetched(told: share_pb2.SharePartitionData) -> PartitionShared:
    return PartitionShared(
        told.topic_id,
        told.partition,
        told.error.code,
        told.error.message,
        told.acknowledge_error.code,
        told.acknowledge_error.message,
        told.current_leader,
        told.current_leader_epoch,
        told.batches,
        tuple(
            AcquiredRange(each.first_offset, each.last_offset, each.delivery_count)
            for each in told.acquired
        ),
    )


def _acknowledged(told: share_pb2.SharePartitionAck) -> PartitionShared:
    return PartitionShared(
        told.topic_id,
        told.partition,
        ack_code=told.error.code,
        ack_message=told.error.message,
        leader=told.current_leader,
        leader_epoch=told.current_leader_epoch,
    )
