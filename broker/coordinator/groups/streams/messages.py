"""The heartbeat of a streams group, its answer, and a streams group's description. Plain values."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from pylog_broker.coordinator.generated.streams_group_topology import (
    StreamsGroupTopologyValue,
    TopicInfo,
)
from pylog_broker.coordinator.groups.streams.tasks import Tasks

JOINING: Final = 0
LEAVING: Final = -1


class Endpoint(NamedTuple):
    """The address at which a member answers queries of its state."""

    host: str
    port: int


class StatusCode(IntEnum):
    """By Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4


class Status(NamedTuple):
    """The reason why the application does not work, or the next duty of its members."""

    code: StatusCode
    detail: str


class EndpointPartitions(NamedTuple):
    """The partitions whose state a member has, by topic."""

    endpoint: Endpoint
    active: tuple[tuple[str, tuple[int, ...]], ...]
    standby: tuple[tuple[str, tuple[int, ...]], ...]


class StreamsHeartbeat(NamedTuple):
    """A member lives, wants to become one, or goes. A field that is None has not changed since its
    last request; a member that joins gives all of them.
    """

    group_id: str
    member_id: str
    """Made by the member itself."""
    member_epoch: int
    endpoint_epoch: int = 0
    """The epoch of the newest endpoint information that the member has."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """The time that the member may take to give tasks up; -1: as before."""
    topology: StreamsGroupTopologyValue | None = None
    owned: Tasks | None = None
    """The tasks that the member works on now; None: as before."""
    process_id: str | None = None
    """The id of the process that the member is a thread of."""
    endpoint: Endpoint | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    shutdown_application: bool = False
    client_id: str = ""
    client_host: str = ""


class StreamsHeartbeatAnswer(NamedTuple):
    """The member's epoch and tasks from now on."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    status: tuple[Status, ...] = ()
    assigned: Tasks | None = None
    """The tasks that the member is to work on; None: as before."""
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    """The members that have each partition's state, with their endpoints; None: as the member
    knows."""
    to_create: tuple[TopicInfo, ...] = ()
    """Not for the member: internal topics that the broker that took the request has the controller
    create.
    """


class DescribedStreamsMember(NamedTuple):
    """A member of a streams group."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    endpoint: Endpoint | None
    client_tags: tuple[tuple[str, str], ...]
    assigned: Tasks
    target: Tasks


class DescribedStreamsGroup(NamedTuple):
    """A streams group."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    topology: StreamsGroupTopologyValue | None
    members: tuple[DescribedStreamsMember, ...]
