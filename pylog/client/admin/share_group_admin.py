"""Operators' calls about share groups: descriptions, and where they are in their partitions. On the
loop. Groups are listed and deleted as others are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pylog import errors
from pylog.client.admin import group_wire
from pylog.client.admin.admin_types import GroupDescription, GroupMember, SharePartitionOffset
from pylog.client.admin.coordinators import ask_coordinators
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.metadata import BrokerInfo
from pylog.client.cluster.offsets import Faults
from pylog.client.cluster.outcomes import Answers, Outcomes
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.model import NO_EPOCH, BrokerDescription, TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import common_pb2, share_pb2

LEAVES: Final = -1
"""The epoch with which a member goes."""

ShareOffsets = dict[TopicPartition, SharePartitionOffset | None]


async def describe(
    server: Server, coordinator: BrokerDescription, groups: Sequence[str], left_s: float
) -> list[tuple[str, errors.PylogError | None, Any]]:
    """A coordinator's answer about groups, as share groups."""
    request = share_pb2.ShareGroupDescribeRequest(group_ids=groups)
    response = await server.call(apis.SHARE_GROUP_DESCRIBE, request, left_s)
    answers: list[tuple[str, errors.PylogError | None, Any]] = []
    for told in response.groups:
        fault = group_wire.fault_of_group(told.error, told.group_id)
        found = _group_of(told, coordinator) if fault is None else None
        answers.append((told.group_id, fault, found))
    return answers


def _group_of(
    told: share_pb2.DescribedShareGroup, coordinator: BrokerDescription
) -> GroupDescription:
    members = tuple(
        GroupMember(
            member.member_id,
            "share",
            member.client_id,
            member.client_host,
            rack=member.rack_id if member.HasField("rack_id") else None,
            assignment=group_wire.partitions_of(member.assigned),
            epoch=member.member_epoch,
            topics=tuple(member.subscribed_topics),
        )
        for member in told.members
    )
    return GroupDescription(
        told.group_id,
        "share",
        told.state,
        "share",
        told.assignor,
        coordinator,
        members,
        told.group_epoch,
        told.assignment_epoch,
    )


async def offsets(
    cluster: Cluster,
    groups: Sequence[str],
    partitions: Sequence[TopicPartition] | None,
    timeout_ms: int,
) -> Outcomes[str, tuple[ShareOffsets, Faults]]:
    """The start offsets of each group: in these partitions, or in all that it has state of."""

    async def ask(
        server: Server, _broker: BrokerInfo, part: list[str], left_s: float
    ) -> Answers[str, tuple[ShareOffsets, Faults]]:
        request = share_pb2.DescribeShareGroupOffsetsRequest()
        for group in part:
            request.groups.add(
                group_id=group,
                all=partitions is None,
                partitions=group_wire.partition_names(partitions or ()),
            )
        response = await server.call(apis.DESCRIBE_SHARE_GROUP_OFFSETS, request, left_s)
        return [
            (
                told.group_id,
                group_wire.fault_of_group(told.error, told.group_id),
                _offsets_of(told.offsets),
            )
            for told in response.groups
        ]

    return await ask_coordinators(cluster, groups, ask, timeout_ms, "list offsets of share groups")


def _offsets_of(told: Iterable[share_pb2.ShareGroupOffset]) -> tuple[ShareOffsets, Faults]:
    found: ShareOffsets = {}
    faults: Faults = {}
    for each in told:
        tp = TopicPartition(each.topic, each.partition)
        fault = error_of(each.error, str(tp))
        if fault is not None:
            faults[tp] = fault
        elif each.start_offset < 0:
            found[tp] = None
        else:
            epoch = None if each.leader_epoch == NO_EPOCH else each.leader_epoch
            lag = None if each.lag < 0 else each.lag
            found[tp] = SharePartitionOffset(each.start_offset, epoch, lag)
    return found, faults


async def alter_offsets(
    cluster: Cluster, group: str, wanted: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, errors.PylogError | None]:
    """The outcome for each partition. Raises the fault of the group as such."""
    request = share_pb2.AlterShareGroupOffsetsRequest(group_id=group)
    for tp, offset in wanted.items():
        request.offsets.add(topic=tp.topic, partition=tp.partition, start_offset=offset)

    async def ask(
        server: Server, _broker: BrokerInfo, _part: list[str], left_s: float
    ) -> Answers[str, dict[TopicPartition, errors.PylogError | None]]:
        response = await server.call(apis.ALTER_SHARE_GROUP_OFFSETS, request, left_s)
        faults = {
            (tp := TopicPartition(told.topic, told.partition)): error_of(told.error, str(tp))
            for told in response.offsets
        }
        return [(group, group_wire.fault_of_group(response.error, group), faults)]

    what = "alter offsets of a share group"
    outcomes = await ask_coordinators(cluster, [group], ask, timeout_ms, what)
    for fault in outcomes.faults.values():
        raise fault
    return outcomes.results[group]


async def delete_offsets(
    cluster: Cluster, group: str, topics: Sequence[str], timeout_ms: int
) -> dict[str, errors.PylogError | None]:
    """The outcome for each topic. Raises the fault of the group as such."""
    request = share_pb2.DeleteShareGroupOffsetsRequest(group_id=group, topics=topics)

    async def ask(
        server: Server, _broker: BrokerInfo, _part: list[str], left_s: float
    ) -> Answers[str, dict[str, errors.PylogError | None]]:
        response = await server.call(apis.DELETE_SHARE_GROUP_OFFSETS, request, left_s)
        faults = {told.topic: error_of(told.error, told.topic) for told in response.topics}
        return [(group, group_wire.fault_of_group(response.error, group), faults)]

    what = "delete offsets of a share group"
    outcomes = await ask_coordinators(cluster, [group], ask, timeout_ms, what)
    for fault in outcomes.faults.values():
        raise fault
    return outcomes.results[group]


async def remove_member(
    server: Server, group: str, member: GroupMember, left_s: float
) -> common_pb2.Error:
    """The coordinator's answer when a member goes."""
    request = share_pb2.ShareGroupHeartbeatRequest(
        group_id=group, member_id=member.member_id, member_epoch=LEAVES
    )
    response = await server.call(apis.SHARE_GROUP_HEARTBEAT, request, left_s)
    return response.error
