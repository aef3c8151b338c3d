"""The records that a streams group writes, and how they are read. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from pylog_broker.coordinator.generated import (
    streams_group_current_member_assignment as current,
)
from pylog_broker.coordinator.generated import streams_group_member_metadata as metadata
from pylog_broker.coordinator.generated import streams_group_metadata as group_metadata
from pylog_broker.coordinator.generated import streams_group_target_assignment_member as target
from pylog_broker.coordinator.generated import (
    streams_group_target_assignment_metadata as target_epoch,
)
from pylog_broker.coordinator.generated.streams_group_topology import (
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from pylog_broker.coordinator.groups.streams.group import MemberState, StreamsMember
from pylog_broker.coordinator.groups.streams.messages import Endpoint
from pylog_broker.coordinator.groups.streams.tasks import TaskId, Tasks, TaskSet
from pylog_broker.coordinator.runtime.decision import Record


class _TaskIds(Protocol):
    @property
    def subtopology_id(self) -> str: ...

    @property
    def partitions(self) -> tuple[int, ...]: ...


_TaskIdsT = TypeVar("_TaskIdsT", current.TaskIds, target.TaskIds)


def by_subtopology(tasks: TaskSet) -> dict[str, tuple[int, ...]]:
    """Partitions in order, by the subtopology's id."""
    found: dict[str, list[int]] = defaultdict(list)
    for subtopology_id, partition in sorted(tasks):
        found[subtopology_id].append(partition)
    return {subtopology_id: tuple(numbers) for subtopology_id, numbers in found.items()}


def _task_ids(tasks: TaskSet, kind: type[_TaskIdsT]) -> tuple[_TaskIdsT, ...]:
    return tuple(kind(name, numbers) for name, numbers in by_subtopology(tasks).items())


def _with_epochs(tasks: TaskSet, since: Mapping[TaskId, int]) -> tuple[current.TaskIds, ...]:
    return tuple(
        current.TaskIds(
            name, numbers, tuple(since.get(TaskId(name, number), 0) for number in numbers)
        )
        for name, numbers in by_subtopology(tasks).items()
    )


def _epochs_of(told: Iterable[current.TaskIds], epoch: int) -> Iterator[tuple[TaskId, int]]:
    """By task; `epoch` where none are told, as before Kafka 4.2."""
    for each in told:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = (epoch,) * len(each.partitions)
        for number, since in zip(each.partitions, epochs, strict=True):
            yield TaskId(each.subtopology_id, number), since


def _tasks_of(told: Iterable[_TaskIds]) -> TaskSet:
    return frozenset(
        TaskId(each.subtopology_id, number) for each in told for number in each.partitions
    )


# ---- to write ------------------------------------------------------------------------------------


def group_record(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Iterable[tuple[str, str]],
) -> Record:
    """The group has that epoch."""
    value = group_metadata.StreamsGroupMetadataValue(
        epoch,
        metadata_hash,
        validated_epoch,
        tuple(group_metadata.KeyValue(*each) for each in configs),
    )
    return Record(group_metadata.StreamsGroupMetadataKey(group_id), value)


def topology_record(group_id: str, topology: StreamsGroupTopologyValue) -> Record:
    """The record of the topology that the group's members run."""
    return Record(StreamsGroupTopologyKey(group_id), topology)


def member_record(group_id: str, member: StreamsMember) -> Record:
    """The record of the member's metadata."""
    endpoint = member.endpoint
    value = metadata.StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else metadata.Endpoint(*endpoint),
        client_tags=tuple(metadata.KeyValue(*each) for each in member.client_tags),
    )
    return Record(metadata.StreamsGroupMemberMetadataKey(group_id, member.member_id), value)


def target_record(group_id: str, member_id: str, tasks: Tasks) -> Record:
    """The record of the tasks that the member should work on."""
    key = target.StreamsGroupTargetAssignmentMemberKey(group_id, member_id)
    value = target.StreamsGroupTargetAssignmentMemberValue(
        _task_ids(tasks.active, target.TaskIds),
        _task_ids(tasks.standby, target.TaskIds),
        _task_ids(tasks.warmup, target.TaskIds),
    )
    return Record(key, value)


def target_epoch_record(group_id: str, epoch: int) -> Record:
    """All targets are those of that epoch."""
    key = target_epoch.StreamsGroupTargetAssignmentMetadataKey(group_id)
    return Record(key, target_epoch.StreamsGroupTargetAssignmentMetadataValue(epoch))


def current_record(group_id: str, member: StreamsMember) -> Record:
    """The record of the tasks that the member has."""
    assigned, revoking = member.assigned, member.revoking
    value = current.StreamsGroupCurrentMemberAssignmentValue(
        member.member_epoch,
        member.previous_epoch,
        member.state,
        _with_epochs(assigned.active, member.since),
        _task_ids(assigned.standby, current.TaskIds),
        _task_ids(assigned.warmup, current.TaskIds),
        _with_epochs(revoking.active, member.since),
        _task_ids(revoking.standby, current.TaskIds),
        _task_ids(revoking.warmup, current.TaskIds),
    )
    key = current.StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id)
    return Record(key, value)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """The member is none any more."""
    return [
        Record(current.StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        Record(target.StreamsGroupTargetAssignmentMemberKey(group_id, member_id), None),
        Record(metadata.StreamsGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group_id: str) -> list[Record]:
    """The group, which has no members, is no more."""
    return [
        Record(target_epoch.StreamsGroupTargetAssignmentMetadataKey(group_id), None),
        Record(StreamsGroupTopologyKey(group_id), None),
        Record(group_metadata.StreamsGroupMetadataKey(group_id), None),
    ]


# ---- to read -------------------------------------------------------------------------------------


def with_metadata(
    member: StreamsMember, value: metadata.StreamsGroupMemberMetadataValue
) -> StreamsMember:
    """The member as its record says."""
    endpoint = value.user_endpoint
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        client_tags=tuple((each.key, each.value) for each in value.client_tags),
    )


def with_current(
    member: StreamsMember, value: current.StreamsGroupCurrentMemberAssignmentValue
) -> StreamsMember:
    """The member with what its record says that it has."""
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=Tasks(
            _tasks_of(value.active_tasks),
            _tasks_of(value.standby_tasks),
            _tasks_of(value.warmup_tasks),
        ),
        revoking=Tasks(
            _tasks_of(value.active_tasks_pending_revocation),
            _tasks_of(value.standby_tasks_pending_revocation),
            _tasks_of(value.warmup_tasks_pending_revocation),
        ),
        since={
            **dict(_epochs_of(value.active_tasks_pending_revocation, value.member_epoch)),
            **dict(_epochs_of(value.active_tasks, value.member_epoch)),
        },
    )


def target_of(value: target.StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    """The tasks of a record that a member should work on."""
    return Tasks(
        _tasks_of(value.active_tasks),
        _tasks_of(value.standby_tasks),
        _tasks_of(value.warmup_tasks),
    )
