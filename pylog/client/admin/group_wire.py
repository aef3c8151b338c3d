"""Groups as messages of the Group service, and back; and errors that tell an operator what to do
about a refusal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pylog import errors
from pylog.client.admin.admin_types import (
    GROUP_STATES,
    GROUP_TYPES,
    GroupDescription,
    GroupListing,
    GroupMember,
    StreamsTask,
    StreamsTasks,
)
from pylog.client.arguments import mapping, several, shown, whole_or_none
from pylog.client.cluster.wire import error_of
from pylog.client.topics_and_partitions import check_metadata, one_partition
from pylog.config import LONG_MAX
from pylog.consumer_protocol import decode_assignment, decode_subscription
from pylog.model import NO_EPOCH, BrokerDescription, OffsetAndMetadata, TopicPartition
from pylog.plain_text import is_text
from pylog.rpc.v1 import common_pb2, group_pb2, streams_group_pb2

CONSUMERS: Final = "consumer"
"""The protocol type of consumers; others join classic groups for ends of their own."""

_ALIVE: Final = (
    errors.UnknownMemberId.code,
    errors.RebalanceInProgress.code,
    errors.IllegalGeneration.code,
    errors.StaleMemberEpoch.code,
    errors.FencedMemberEpoch.code,
)
"""Codes by which a coordinator refuses a commit that comes from none of the group's members."""


# ---- what callers give ---------------------------------------------------------------------------


def group_ids(given: object) -> list[str]:
    """Groups by their ids: one, or several. InvalidGroupId for what is none."""
    wanted = "a group's id, or several"
    ids = [given] if isinstance(given, str) else several(given, "groups", wanted)
    return [group_id(each) for each in dict.fromkeys(ids)]


def group_id(given: object) -> str:
    """A group's id; InvalidGroupId for what is none."""
    if not is_text(given) or not given:
        raise errors.InvalidGroupId(
            f"{shown(given)} is no group's id: give a text in UTF-8, not empty"
        )
    return given


def named(given: object, argument: str, known: Sequence[str]) -> list[str]:
    """Some of the `known` names, in any case, as they are spelled; None: nothing is chosen."""
    if given is None:
        return []
    wanted = f"some of {', '.join(known)}"
    names = [given] if isinstance(given, str) else several(given, argument, wanted)
    spelled = {name.lower(): name for name in known}
    found = []
    for name in names:
        if not isinstance(name, str) or name.lower() not in spelled:
            raise errors.InvalidRequest(f"{argument}: {shown(name)} is none; give {wanted}")
        found.append(spelled[name.lower()])
    return found


def list_request(states: object, types: object) -> group_pb2.ListGroupsRequest:
    """The request that lists groups; InvalidRequest names a state or type that does not exist."""
    return group_pb2.ListGroupsRequest(
        states=named(states, "states", GROUP_STATES), types=named(types, "types", GROUP_TYPES)
    )


def positions(given: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit; OffsetOutOfRange for what is none."""
    shape = "{TopicPartition(topic, number): offset}"
    wanted = {}
    for place, value in mapping(given, "offsets", shape).items():
        tp = one_partition(place)
        position = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
        if whole_or_none(position.offset, 0) is None:
            raise errors.OffsetOutOfRange(
                f"{tp}: offset {shown(position.offset)}; it must be from 0 to {LONG_MAX}"
            )
        check_metadata(tp, position)
        wanted[tp] = position
    return wanted


def commit_request(
    group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> group_pb2.OffsetCommitRequest:
    """A commit in the name of no member."""
    request = group_pb2.OffsetCommitRequest(group_id=group, generation_or_epoch=-1)
    for tp, position in offsets.items():
        request.offsets.add(
            topic=tp.topic,
            partition=tp.partition,
            offset=position.offset,
            leader_epoch=NO_EPOCH if position.leader_epoch is None else position.leader_epoch,
            metadata=position.metadata,
        )
    return request


def partition_names(partitions: Iterable[TopicPartition]) -> list[group_pb2.PartitionName]:
    """Partitions by name."""
    return [group_pb2.PartitionName(topic=t, partition=number) for t, number in partitions]


def start_offsets(given: object) -> dict[TopicPartition, int]:
    """The offsets at which a share group shall begin; OffsetOutOfRange for a value that is no
    offset."""
    wanted = {}
    for place, value in mapping(
        given, "offsets", "{TopicPartition(topic, number): offset}"
    ).items():
        tp = one_partition(place)
        offset = whole_or_none(value, 0)
        if offset is None:
            raise errors.OffsetOutOfRange(
                f"{tp}: offset {shown(value)}; it must be from 0 to {LONG_MAX}"
            )
        wanted[tp] = offset
    return wanted


# ---- what coordinators say -----------------------------------------------------------------------


def fault_of_group(error: common_pb2.Error, group: str) -> errors.PylogError | None:
    """The error of a group for which a coordinator did not do what was asked, with the remedy."""
    if error.code == errors.NonEmptyGroup.code:
        return errors.NonEmptyGroup(f"group {group!r} has live members: stop them first")
    return error_of(error, f"group {group!r}")


def fault_of_commit(
    error: common_pb2.Error, group: str, tp: TopicPartition | None = None
) -> errors.PylogError | None:
    """The reason why an operator could not set offsets. The answer of a coordinator to a caller who
    is no member (Kafka: UNKNOWN_MEMBER_ID) means that the group has members.
    """
    if error.code in _ALIVE:
        return errors.from_code(
            error.code,
            f"group {group!r} has live members, and they alone commit: stop them, then set its "
            "offsets",
        )
    return fault_of_group(error, group) if tp is None else error_of(error, str(tp))


def fault_of_deletion(
    error: common_pb2.Error, group: str, tp: TopicPartition
) -> errors.PylogError | None:
    """The reason why an operator could not delete an offset."""
    if error.code == errors.GroupSubscribedToTopic.code:
        return errors.GroupSubscribedToTopic(
            f"{tp}: live members of group {group!r} read {tp.topic}: stop them first"
        )
    return error_of(error, str(tp))


def listing_of(told: group_pb2.ListedGroup) -> GroupListing:
    """A group of a list."""
    return GroupListing(told.group_id, told.type, told.state, told.protocol_type)


def position_of(told: group_pb2.CommittedOffset) -> OffsetAndMetadata | None:
    """A committed position; None where nothing is committed."""
    if told.offset < 0:
        return None
    epoch = None if told.leader_epoch == NO_EPOCH else told.leader_epoch
    return OffsetAndMetadata(told.offset, told.metadata, epoch)


def consumer_group_of(
    told: group_pb2.DescribedConsumerGroup, coordinator: BrokerDescription
) -> GroupDescription:
    """A group of the consumer protocol."""
    return GroupDescription(
        told.group_id,
        "consumer",
        told.state,
        CONSUMERS,
        told.assignor,
        coordinator,
        tuple(
            GroupMember(
                member.member_id,
                member.type or "consumer",
                member.client_id,
                member.client_host,
                _maybe(member, "instance_id"),
                _maybe(member, "rack_id"),
                partitions_of(member.assigned),
                partitions_of(member.target),
                member.member_epoch,
                tuple(member.subscribed_topics),
                _maybe(member, "subscribed_topic_regex") or None,
            )
            for member in told.members
        ),
        told.group_epoch,
        told.assignment_epoch,
    )


def streams_group_of(
    told: streams_group_pb2.DescribedStreamsGroup, coordinator: BrokerDescription
) -> GroupDescription:
    """A streams group."""
    return GroupDescription(
        told.group_id,
        "streams",
        told.state,
        "streams",
        "",
        coordinator,
        tuple(
            GroupMember(
                member.member_id,
                "streams",
                member.client_id,
                member.client_host,
                _maybe(member, "instance_id"),
                _maybe(member, "rack_id"),
                None,
                epoch=member.member_epoch,
                tasks=_tasks_of(member.assigned),
                target_tasks=_tasks_of(member.target),
                process_id=member.process_id,
            )
            for member in told.members
        ),
        told.group_epoch,
        told.assignment_epoch,
    )


def _tasks_of(told: streams_group_pb2.StreamsTasks) -> StreamsTasks:
    def tasks(ids: Iterable[streams_group_pb2.TaskIds]) -> tuple[StreamsTask, ...]:
        return tuple(
            StreamsTask(each.subtopology_id, number) for each in ids for number in each.partitions
        )

    return StreamsTasks(tasks(told.active), tasks(told.standby), tasks(told.warmup))


def classic_group_of(
    told: group_pb2.DescribedGroup, coordinator: BrokerDescription
) -> GroupDescription:
    """A group of the classic protocol."""
    consumers = told.protocol_type == CONSUMERS
    return GroupDescription(
        told.group_id,
        "classic",
        told.state,
        told.protocol_type,
        told.protocol,
        coordinator,
        tuple(_classic_member(member, consumers=consumers) for member in told.members),
    )


def _classic_member(told: group_pb2.DescribedGroupMember, *, consumers: bool) -> GroupMember:
    member = GroupMember(
        told.member_id,
        "classic",
        told.client_id,
        told.client_host,
        _maybe(told, "instance_id"),
        assignment=None,
    )
    if not consumers:
        return member
    try:  # other clients wrote these bytes; the coordinator never looked into them
        subscription = decode_subscription(told.metadata) if told.metadata else None
        assignment = tuple(sorted(decode_assignment(told.assignment).partitions))
    except errors.InconsistentGroupProtocol:
        return member
    return dataclasses.replace(
        member,
        assignment=assignment,
        topics=None if subscription is None else subscription.topics,
        rack=None if subscription is None else subscription.rack,
    )


def _maybe(message: Any, field: str) -> str | None:
    return getattr(message, field) if message.HasField(field) else None


def partitions_of(told: group_pb2.AssignedPartitions) -> tuple[TopicPartition, ...]:
    """The partitions that a member is to read."""
    return tuple(
        sorted(
            TopicPartition(each.topic or each.topic_id, number)
            for each in told.topics
            for number in each.partitions
        )
    )
