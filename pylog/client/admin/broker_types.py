"""A broker's description of itself: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pylog.model import TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerListener:
    """A listener of a broker, by the address that others connect to. `protocol`: "grpc", "framed"
    or "kafka"; `purpose`: "clients" or "brokers". `connections`: None where they are not counted.
    """

    name: str
    host: str
    port: int
    protocol: str
    purpose: str
    is_open: bool
    connections: int | None


@dataclass(frozen=True, slots=True)
class BrokerPart:
    """A part of a broker: "lifecycle", "replica manager", "group coordinator", ... `state` is
    "starting", "running", "degraded", "stopping" or "off"; `detail` says it in figures.
    """

    name: str
    state: str
    detail: str


@dataclass(frozen=True, slots=True)
class HostedReplica:
    """A replica on a broker. `role`: "leader", "follower", "leaderless" (no broker leads the
    partition) or "offline" (its log does not work: `fault`). Offsets are -1 without a log, and the
    in-sync replicas are those that this broker knows of.
    """

    topic_id: str
    role: str
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...]
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    directory_id: str
    fault: str


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker as it sees itself. `epoch` and `registered_ms` (milliseconds since 1970) are of its
    present registration, None while it has none.
    """

    id: int
    epoch: int | None
    registered_ms: int | None
    rack: str | None
    version: str
    listeners: tuple[BrokerListener, ...] = ()
    parts: tuple[BrokerPart, ...] = ()
    replicas: Mapping[TopicPartition, HostedReplica] = field(default_factory=dict)
