"""The records that a group of the consumer protocol writes, and how they are read. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, TypeVar

from pylog.model import TopicId, topic_id_from_bytes, topic_id_to_bytes
from pylog_broker.coordinator.generated import (
    consumer_group_current_member_assignment as current,
)
from pylog_broker.coordinator.generated import (
    consumer_group_member_metadata as metadata,
)
from pylog_broker.coordinator.generated import (
    consumer_group_target_assignment_member as target,
)
from pylog_broker.coordinator.generated import (
    consumer_group_target_assignment_metadata as target_epoch,
)
from pylog_broker.coordinator.generated.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from pylog_broker.coordinator.groups.consumer.group import ConsumerMember, MemberState
from pylog_broker.coordinator.groups.consumer.topics import Partitions, TopicIdPartition
from pylog_broker.coordinator.runtime.decision import Record


class _Topic(Protocol):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> tuple[int, ...]: ...


_TopicT = TypeVar("_TopicT", current.AssignedTopic, target.AssignedTopic)


def _by_topic(partitions: Partitions, kind: type[_TopicT]) -> tuple[_TopicT, ...]:
    by_topic: dict[TopicId, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(partitions):
        by_topic[topic_id].append(partition)
    return tuple(
        kind(topic_id_to_bytes(topic_id), tuple(found)) for topic_id, found in by_topic.items()
    )


def partitions_of(topics: Iterable[_Topic]) -> Partitions:
    """The partitions in a record's topics."""
    return frozenset(
        TopicIdPartition(topic_id_from_bytes(topic.topic_id), partition)
        for topic in topics
        for partition in topic.partitions
    )


# ---- to write ------------------------------------------------------------------------------------


def group_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group has that epoch."""
    value = ConsumerGroupMetadataValue(epoch, metadata_hash)
    return Record(ConsumerGroupMetadataKey(group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """The record of the member's metadata."""
    value = metadata.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.subscribed)),
        subscribed_topic_regex=member.regex or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    return Record(metadata.ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def target_record(group_id: str, member_id: str, partitions: Partitions) -> Record:
    """The record of the partitions that the member should have."""
    topics = _by_topic(partitions, target.AssignedTopic)
    key = target.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(key, target.ConsumerGroupTargetAssignmentMemberValue(topics))


def target_epoch_record(group_id: str, epoch: int) -> Record:
    """All targets are those of that epoch."""
    key = target_epoch.ConsumerGroupTargetAssignmentMetadataKey(group_id)
    return Record(key, target_epoch.ConsumerGroupTargetAssignmentMetadataValue(epoch))


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """The record of the partitions that the member has."""
    value = current.ConsumerGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_epoch,
        member.state,
        _by_topic(member.assigned, current.AssignedTopic),
        _by_topic(member.revoking, current.AssignedTopic),
    )
    key = current.ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id)
    return Record(key, value)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The member is none any more."""
    return [
        Record(current.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        Record(target.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        Record(metadata.ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """The group, which has no members, is no more."""
    return [
        Record(target_epoch.ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
        Record(ConsumerGroupMetadataKey(group_id), None),
    ]


# ---- to read -------------------------------------------------------------------------------------


def with_metadata(
    member: ConsumerMember, value: metadata.ConsumerGroupMemberMetadataValue
) -> ConsumerMember:
    """The member as its record says."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def with_current(
    member: ConsumerMember, value: current.ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerMember:
    """The member with what its record says that it has."""
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=partitions_of(value.assigned_partitions),
        revoking=partitions_of(value.partitions_pending_revocation),
    )
