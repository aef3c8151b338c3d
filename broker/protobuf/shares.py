"""The messages of share groups, and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pylog.errors import InvalidRequest
from pylog.model import TopicId, TopicPartition, topic_id_to_bytes
from pylog.rpc.v1 import share_pb2
from pylog_broker.api.share_groups.members import DescribedShare, ShareHeartbeatAnswered
from pylog_broker.api.share_groups.offsets import (
    AlterOffsets,
    DeletedOffsets,
    DeleteOffsets,
    DescribeOffsets,
    ShareOffset,
    ShareOffsets,
)
from pylog_broker.coordinator.groups.share.messages import DescribedShareMember, ShareHeartbeat
from pylog_broker.protobuf.failures import error_of
from pylog_broker.protobuf.groups import assigned
from pylog_broker.share.requests import (
    ShareAcknowledge,
    ShareAcknowledged,
    ShareFetch,
    ShareFetched,
    SharePartitionData,
    SharePartitionFetch,
)
from pylog_broker.share.share_partition import AcknowledgementBatch, Wanted

_DEAD: Final = "Dead"
"""The state of a group that is not there."""

# ---- members ------------------------------------------------------------------------------------


def has_no_news(request: share_pb2.ShareGroupHeartbeatRequest) -> bool:
    """Whether a member only says that it is there."""
    return request.member_epoch > 0 and not request.HasField("subscribed_topics")


def heartbeat_from(request: share_pb2.ShareGroupHeartbeatRequest) -> ShareHeartbeat:
    """A member's heartbeat, without the client's id and host: the call has them."""
    names = None
    if request.HasField("subscribed_topics"):
        names = tuple(request.subscribed_topics.names)
    return ShareHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.rack_id if request.HasField("rack_id") else None,
        names,
        standing_ms=request.standing_ms,
    )


def heartbeat_answered(answered: ShareHeartbeatAnswered) -> share_pb2.ShareGroupHeartbeatResponse:
    """Its answer."""
    answer = answered.answer
    return share_pb2.ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assigned is None else assigned(answer.assigned, answered.topics),
    )


def groups_from(request: share_pb2.ShareGroupDescribeRequest) -> tuple[str, ...]:
    """The groups that are asked about."""
    return tuple(request.group_ids)


def described(groups: Iterable[DescribedShare]) -> share_pb2.ShareGroupDescribeResponse:
    """Share groups."""
    return share_pb2.ShareGroupDescribeResponse(groups=map(_described, groups))


def _described(group: DescribedShare) -> share_pb2.DescribedShareGroup:
    found = group.described
    if found is None:
        return share_pb2.DescribedShareGroup(
            error=error_of(group.failure), group_id=group.group_id, state=_DEAD
        )
    return share_pb2.DescribedShareGroup(
        group_id=group.group_id,
        state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor=found.assignor,
        members=[_member(member, group.topics) for member in found.members],
    )


def _member(
    member: DescribedShareMember, topics: Mapping[TopicId, str]
) -> share_pb2.DescribedShareMember:
    return share_pb2.DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topics=member.subscribed_names,
        assigned=assigned(member.assigned, topics),
    )


# ---- records ------------------------------------------------------------------------------------


def _topic_id(text: str) -> TopicId:
    try:
        topic_id_to_bytes(TopicId(text))
    except ValueError as error:
        raise InvalidRequest(f"topic_id: {error}") from None
    return TopicId(text)


def _partition_from(item: share_pb2.SharePartitionFetch) -> SharePartitionFetch:
    return SharePartitionFetch(
        _topic_id(item.topic_id),
        item.partition,
        tuple(
            AcknowledgementBatch(each.first_offset, each.last_offset, each.types)
            for each in item.acknowledgements
        ),
    )


def fetch_from(request: share_pb2.ShareFetchRequest) -> ShareFetch:
    """A member's fetch. InvalidRequest for a topic id that is none."""
    wanted = Wanted(
        request.max_records,
        request.batch_size,
        request.acquire_mode == share_pb2.RECORD_LIMIT,
    )
    return ShareFetch(
        request.group_id,
        request.member_id,
        request.share_session_epoch,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        wanted,
        request.is_renew_ack,
        tuple(map(_partition_from, request.partitions)),
        tuple((_topic_id(each.topic_id), each.partition) for each in request.forgotten),
    )


def fetched(answer: ShareFetched) -> share_pb2.ShareFetchResponse:
    """Its answer."""
    return share_pb2.ShareFetchResponse(
        acquisition_lock_timeout_ms=answer.lock_ms, partitions=map(_data, answer.partitions)
    )


def _data(item: SharePartitionData) -> share_pb2.SharePartitionData:
    return share_pb2.SharePartitionData(
        error=error_of(item.failure),
        topic_id=item.topic_id,
        partition=item.partition,
        acknowledge_error=error_of(item.acknowledge_failure),
        current_leader=item.current_leader,
        current_leader_epoch=item.current_leader_epoch,
        batches=bytes(item.records),
        acquired=[
            share_pb2.AcquiredRecords(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_count=each.delivery_count,
            )
            for each in item.acquired
        ],
    )


def acknowledge_from(request: share_pb2.ShareAcknowledgeRequest) -> ShareAcknowledge:
    """Acknowledgements alone. InvalidRequest for a topic id that is none."""
    return ShareAcknowledge(
        request.group_id,
        request.member_id,
        request.share_session_epoch,
        request.is_renew_ack,
        tuple(map(_partition_from, request.partitions)),
    )


def acknowledged(answer: ShareAcknowledged) -> share_pb2.ShareAcknowledgeResponse:
    """The outcome of the acknowledgements."""
    return share_pb2.ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=answer.lock_ms,
        partitions=[
            share_pb2.SharePartitionAck(
                error=error_of(each.failure),
                topic_id=each.topic_id,
                partition=each.partition,
                current_leader=each.current_leader,
                current_leader_epoch=each.current_leader_epoch,
            )
            for each in answer.partitions
        ],
    )


# ---- offsets ------------------------------------------------------------------------------------


def offsets_asked(
    request: share_pb2.DescribeShareGroupOffsetsRequest,
) -> tuple[DescribeOffsets, ...]:
    """The groups whose offsets are asked for."""
    return tuple(
        DescribeOffsets(
            each.group_id,
            None
            if each.all
            else tuple(TopicPartition(item.topic, item.partition) for item in each.partitions),
        )
        for each in request.groups
    )


def offsets_told(
    groups: Iterable[ShareOffsets],
) -> share_pb2.DescribeShareGroupOffsetsResponse:
    """The answer with the progress of groups."""
    return share_pb2.DescribeShareGroupOffsetsResponse(
        groups=[
            share_pb2.ShareGroupOffsets(
                error=error_of(each.failure),
                group_id=each.group_id,
                offsets=map(_offset, each.offsets),
            )
            for each in groups
        ]
    )


def _offset(each: ShareOffset) -> share_pb2.ShareGroupOffset:
    return share_pb2.ShareGroupOffset(
        error=error_of(each.failure),
        topic=each.topic_partition.topic,
        partition=each.topic_partition.partition,
        start_offset=each.start_offset,
        leader_epoch=each.leader_epoch,
        lag=each.lag,
        topic_id=each.topic_id or "",
    )


def alter_from(request: share_pb2.AlterShareGroupOffsetsRequest) -> AlterOffsets:
    """The offsets at which a group shall begin anew."""
    return AlterOffsets(
        request.group_id,
        tuple(
            (TopicPartition(each.topic, each.partition), each.start_offset)
            for each in request.offsets
        ),
    )


def altered(offsets: Iterable[ShareOffset]) -> share_pb2.AlterShareGroupOffsetsResponse:
    """The outcome of each."""
    return share_pb2.AlterShareGroupOffsetsResponse(offsets=map(_offset, offsets))


def delete_from(request: share_pb2.DeleteShareGroupOffsetsRequest) -> DeleteOffsets:
    """The topics of which a group is to have no state."""
    return DeleteOffsets(request.group_id, tuple(request.topics))


def deleted(topics: Iterable[DeletedOffsets]) -> share_pb2.DeleteShareGroupOffsetsResponse:
    """The outcome of each."""
    return share_pb2.DeleteShareGroupOffsetsResponse(
        topics=[
            share_pb2.ShareGroupTopic(
                error=error_of(each.failure), topic=each.topic, topic_id=each.topic_id or ""
            )
            for each in topics
        ]
    )
