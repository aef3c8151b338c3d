"""The messages of streams groups, and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from pylog.rpc.v1 import streams_group_pb2 as pb
from pylog_broker.api.groups.streams import DescribedStreams
from pylog_broker.coordinator.generated.streams_group_topology import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from pylog_broker.coordinator.groups.streams.messages import (
    DescribedStreamsMember,
    Endpoint,
    EndpointPartitions,
    StreamsHeartbeat,
    StreamsHeartbeatAnswer,
)
from pylog_broker.coordinator.groups.streams.records import by_subtopology
from pylog_broker.coordinator.groups.streams.tasks import TaskId, Tasks, TaskSet
from pylog_broker.protobuf.failures import error_of


def _given(message: Message, field: str) -> Any | None:
    """An optional field; None where it is absent."""
    return getattr(message, field) if message.HasField(field) else None


# ---- topology -----------------------------------------------------------------------------------


def _topic_from(topic: pb.StreamsTopicInfo) -> TopicInfo:
    configs = tuple(TopicConfig(*each) for each in sorted(topic.configs.items()))
    return TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def _subtopology_from(told: pb.Subtopology) -> Subtopology:
    return Subtopology(
        told.subtopology_id,
        tuple(told.source_topics),
        tuple(told.source_topic_regex),
        tuple(map(_topic_from, told.state_changelog_topics)),
        tuple(told.repartition_sink_topics),
        tuple(map(_topic_from, told.repartition_source_topics)),
        tuple(
            CopartitionGroup(
                tuple(group.source_topics),
                tuple(group.source_topic_regex),
                tuple(group.repartition_source_topics),
            )
            for group in told.copartition_groups
        ),
    )


def _topology_from(told: pb.Topology) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(told.epoch, tuple(map(_subtopology_from, told.subtopologies)))


def _topic(topic: TopicInfo) -> pb.StreamsTopicInfo:
    return pb.StreamsTopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs={each.key: each.value for each in topic.topic_configs},
    )


def _topology(topology: StreamsGroupTopologyValue) -> pb.Topology:
    return pb.Topology(
        epoch=topology.epoch,
        subtopologies=[
            pb.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=map(_topic, each.state_changelog_topics),
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=map(_topic, each.repartition_source_topics),
                copartition_groups=[
                    pb.CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


# ---- tasks --------------------------------------------------------------------------------------


def _task_set(told: Iterable[pb.TaskIds]) -> TaskSet:
    return frozenset(
        TaskId(each.subtopology_id, number) for each in told for number in each.partitions
    )


def _task_ids(tasks: TaskSet) -> list[pb.TaskIds]:
    return [
        pb.TaskIds(subtopology_id=subtopology_id, partitions=numbers)
        for subtopology_id, numbers in by_subtopology(tasks).items()
    ]


def _tasks(tasks: Tasks) -> pb.StreamsTasks:
    return pb.StreamsTasks(
        active=_task_ids(tasks.active),
        standby=_task_ids(tasks.standby),
        warmup=_task_ids(tasks.warmup),
    )


# ---- heartbeat ----------------------------------------------------------------------------------


def heartbeat_from(request: pb.StreamsGroupHeartbeatRequest) -> StreamsHeartbeat:
    """A member that lives, joins or goes."""
    timeout_ms = _given(request, "rebalance_timeout_ms")
    topology = _given(request, "topology")
    owned = _given(request, "owned")
    endpoint = _given(request, "user_endpoint")
    tags = _given(request, "client_tags")
    return StreamsHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.endpoint_information_epoch,
        _given(request, "instance_id"),
        _given(request, "rack_id"),
        -1 if timeout_ms is None else timeout_ms,
        None if topology is None else _topology_from(topology),
        None
        if owned is None
        else Tasks(_task_set(owned.active), _task_set(owned.standby), _task_set(owned.warmup)),
        _given(request, "process_id"),
        None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        None if tags is None else tuple((each.key, each.value) for each in tags.tags),
        request.shutdown_application,
    )


def _endpoint(endpoint: Endpoint) -> pb.StreamsEndpoint:
    return pb.StreamsEndpoint(host=endpoint.host, port=endpoint.port)


def _partitions(told: EndpointPartitions) -> pb.EndpointToPartitions:
    def each(by_topic: Iterable[tuple[str, tuple[int, ...]]]) -> list[pb.StreamsTopicPartitions]:
        return [
            pb.StreamsTopicPartitions(topic=topic, partitions=numbers)
            for topic, numbers in by_topic
        ]

    return pb.EndpointToPartitions(
        user_endpoint=_endpoint(told.endpoint),
        active=each(told.active),
        standby=each(told.standby),
    )


def heartbeat_answered(answer: StreamsHeartbeatAnswer) -> pb.StreamsGroupHeartbeatResponse:
    """Its answer."""
    endpoints = answer.endpoints
    return pb.StreamsGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        status=[
            pb.StreamsStatus(code=pb.StreamsStatus.Code.Name(each.code), detail=each.detail)
            for each in answer.status
        ],
        tasks=None if answer.assigned is None else _tasks(answer.assigned),
        endpoint_information_epoch=answer.endpoint_epoch,
        endpoints=None
        if endpoints is None
        else pb.EndpointInformation(endpoints=map(_partitions, endpoints)),
    )


# ---- to look at ---------------------------------------------------------------------------------


def groups_from(request: pb.StreamsGroupDescribeRequest) -> list[str]:
    """The groups to describe."""
    return list(request.group_ids)


def described(groups: Iterable[DescribedStreams]) -> pb.StreamsGroupDescribeResponse:
    """Its answer."""
    return pb.StreamsGroupDescribeResponse(groups=map(_described, groups))


def _described(group: DescribedStreams) -> pb.DescribedStreamsGroup:
    found = group.described
    if found is None:
        return pb.DescribedStreamsGroup(error=error_of(group.failure), group_id=group.group_id)
    return pb.DescribedStreamsGroup(
        group_id=found.group_id,
        state=found.state,
        group_epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        topology=None if found.topology is None else _topology(found.topology),
        members=map(_member, found.members),
    )


def _member(member: DescribedStreamsMember) -> pb.DescribedStreamsMember:
    return pb.DescribedStreamsMember(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else _endpoint(member.endpoint),
        client_tags=[pb.StreamsTag(key=key, value=value) for key, value in member.client_tags],
        assigned=_tasks(member.assigned),
        target=_tasks(member.target),
    )
