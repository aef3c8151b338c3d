"""The records that a share group writes, and how they are read. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from pylog.model import TopicId, topic_id_from_bytes, topic_id_to_bytes
from pylog_broker.coordinator.generated import (
    share_group_current_member_assignment as current,
)
from pylog_broker.coordinator.generated import share_group_member_metadata as metadata
from pylog_broker.coordinator.generated import (
    share_group_state_partition_metadata as state_metadata,
)
from pylog_broker.coordinator.generated import share_group_target_assignment_member as target
from pylog_broker.coordinator.generated import (
    share_group_target_assignment_metadata as target_epoch,
)
from pylog_broker.coordinator.generated.share_group_metadata import (
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from pylog_broker.coordinator.groups.consumer.records import partitions_of
from pylog_broker.coordinator.groups.consumer.topics import Partitions
from pylog_broker.coordinator.groups.share.group import ShareGroup, ShareMember
from pylog_broker.coordinator.runtime.decision import Record

_STABLE: Final = 0
"""The one state of a member that Kafka's records of share groups have."""

_TopicT = TypeVar("_TopicT", current.AssignedTopic, target.AssignedTopic)


def _numbers_by_topic(partitions: Partitions) -> dict[TopicId, tuple[int, ...]]:
    by_topic: dict[TopicId, list[int]] = defaultdict(list)
    for topic_id, partition in sorted(partitions):
        by_topic[topic_id].append(partition)
    return {topic_id: tuple(found) for topic_id, found in by_topic.items()}


def _by_topic(partitions: Partitions, kind: type[_TopicT]) -> tuple[_TopicT, ...]:
    return tuple(
        kind(topic_id_to_bytes(topic_id), found)
        for topic_id, found in _numbers_by_topic(partitions).items()
    )


# ---- to write ------------------------------------------------------------------------------------


def group_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """The group has that epoch."""
    return Record(ShareGroupMetadataKey(group_id), ShareGroupMetadataValue(epoch, metadata_hash))


def member_record(group_id: str, member: ShareMember) -> Record:
    """The record of the member's metadata."""
    value = metadata.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.subscribed)),
    )
    return Record(metadata.ShareGroupMemberMetadataKey(group_id, member.member_id), value)


def target_record(group_id: str, member_id: str, partitions: Partitions) -> Record:
    """The record of the partitions that the member should read."""
    topics = _by_topic(partitions, target.AssignedTopic)
    key = target.ShareGroupTargetAssignmentMemberKey(group_id, member_id)
    return Record(key, target.ShareGroupTargetAssignmentMemberValue(topics))


def target_epoch_record(group_id: str, epoch: int) -> Record:
    """All targets are those of that epoch."""
    key = target_epoch.ShareGroupTargetAssignmentMetadataKey(group_id)
    return Record(key, target_epoch.ShareGroupTargetAssignmentMetadataValue(epoch))


def current_record(group_id: str, member: ShareMember) -> Record:
    """The record of the partitions that the member reads."""
    value = current.ShareGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_epoch,
        _STABLE,
        _by_topic(member.assigned, current.AssignedTopic),
    )
    return Record(current.ShareGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def state_record(
    group: ShareGroup,
    initializing: Partitions,
    initialized: Partitions,
    names: Mapping[TopicId, str],
) -> Record:
    """The record of the partitions that have state, and of those that are about to."""

    def topics(partitions: Partitions) -> tuple[state_metadata.SharedTopic, ...]:
        return tuple(
            state_metadata.SharedTopic(topic_id_to_bytes(topic_id), names[topic_id], found)
            for topic_id, found in _numbers_by_topic(partitions).items()
        )

    value = state_metadata.ShareGroupStatePartitionMetadataValue(
        topics(initializing), topics(initialized), group.deleting
    )
    return Record(state_metadata.ShareGroupStatePartitionMetadataKey(group.group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The member is none any more."""
    return [
        Record(current.ShareGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        Record(target.ShareGroupTargetAssignmentMemberKey(group_id, member_id), None),
        Record(metadata.ShareGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """The group, which has no members, is no more."""
    return [
        Record(state_metadata.ShareGroupStatePartitionMetadataKey(group_id), None),
        Record(target_epoch.ShareGroupTargetAssignmentMetadataKey(group_id), None),
        Record(ShareGroupMetadataKey(group_id), None),
    ]


# ---- to read -------------------------------------------------------------------------------------


def with_metadata(
    member: ShareMember, value: metadata.ShareGroupMemberMetadataValue
) -> ShareMember:
    """The member as its record says."""
    return replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed=frozenset(value.subscribed_topic_names),
    )


def with_current(
    member: ShareMember, value: current.ShareGroupCurrentMemberAssignmentValue
) -> ShareMember:
    """The member with what its record says that it reads."""
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        assigned=partitions_of(value.assigned_partitions),
    )


def take_state(
    group: ShareGroup, value: state_metadata.ShareGroupStatePartitionMetadataValue | None
) -> None:
    """The group knows of that state, and of no other."""
    value = value or state_metadata.ShareGroupStatePartitionMetadataValue()
    group.initializing = partitions_of(value.initializing_topics)
    group.initialized = partitions_of(value.initialized_topics)
    group.deleting = value.deleting_topics
    group.topic_names = _names((*value.initializing_topics, *value.initialized_topics))


def _names(topics: Iterable[state_metadata.SharedTopic]) -> dict[TopicId, str]:
    return {topic_id_from_bytes(topic.topic_id): topic.topic_name for topic in topics}
