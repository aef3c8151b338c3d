"""The members that answer queries about partitions: for Interactive Queries of the application.
Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pylog_broker.coordinator.generated.streams_group_topology import StreamsGroupTopologyValue
from pylog_broker.coordinator.groups.streams.group import StreamsMember
from pylog_broker.coordinator.groups.streams.messages import EndpointPartitions
from pylog_broker.coordinator.groups.streams.tasks import TaskSet
from pylog_broker.coordinator.groups.streams.topology import ConfiguredTopology

_ByTopic = tuple[tuple[str, tuple[int, ...]], ...]


def endpoint_partitions(
    members: Iterable[StreamsMember],
    topology: StreamsGroupTopologyValue,
    configured: ConfiguredTopology,
) -> tuple[EndpointPartitions, ...]:
    """The partitions that each member with an endpoint reads, actively or for a standby."""
    read = {
        each.subtopology_id: (
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        )
        for each in topology.subtopologies
    }

    def partitions(tasks: TaskSet) -> _ByTopic:
        found: dict[str, set[int]] = defaultdict(set)
        for subtopology_id, number in tasks:
            for name in read.get(subtopology_id, ()):
                if number < configured.partition_counts.get(name, 0):
                    found[name].add(number)
        return tuple((name, tuple(sorted(numbers))) for name, numbers in sorted(found.items()))

    return tuple(
        EndpointPartitions(
            member.endpoint,
            partitions(member.assigned.active),
            partitions(member.assigned.standby),
        )
        for member in members
        if member.endpoint is not None
    )
