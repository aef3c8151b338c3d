"""The records of the metadata log, as values. `codec.py` turns them into protobuf and back.

A record states the new value, never a difference: replaying a log and loading a snapshot are the
same code, and a record replayed twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pylog.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    ProducerId,
    TopicId,
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that others can reach."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


CLIENTS: Final = "clients"
BROKERS: Final = "brokers"
"""The purposes of a listener: programs of users, or other brokers."""

GRPC: Final = "grpc"
FRAMED: Final = "framed"
KAFKA: Final = "kafka"
"""The protocols of a listener: every call, streams in frames, or Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Listener:
    """The place where a broker listens, by the address that others connect to. A protocol or a
    purpose that this version does not know is kept as it is, for those that do.
    """

    name: str
    endpoint: Endpoint
    protocol: str
    purpose: str


def usual_listeners(
    clients: Endpoint, replication: Endpoint, streams: Endpoint | None = None
) -> tuple[Listener, ...]:
    """The listeners of a broker that has one for each purpose, under the names that these have."""
    listeners = [Listener("CLIENTS", clients, GRPC, CLIENTS)]
    if streams is not None:
        listeners.append(Listener("STREAMS", streams, FRAMED, CLIENTS))
    return (*listeners, Listener("REPLICATION", replication, KAFKA, BROKERS))


def endpoint_of(listeners: Iterable[Listener], protocol: str, purpose: str) -> Endpoint | None:
    """The address of the first listener that speaks this, for this purpose."""
    found = (
        each.endpoint for each in listeners if (each.protocol, each.purpose) == (protocol, purpose)
    )
    return next(found, None)


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """The levels of a feature that somebody supports (KIP-584)."""

    name: str
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class Software:
    """The software of a broker. `apis`: the highest version of each API that other brokers may ask
    it for.
    """

    name: str
    version: str
    apis: tuple[tuple[str, int], ...] = ()
    features: tuple[FeatureRange, ...] = ()


NOT_TOLD: Final = Software("", "")
"""The software of a broker whose version does not tell it."""


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The first record of every metadata log."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class ControllerEpochRecord:
    """A controller start: durable before it acts. `since_ms`: the time of day, 0 when an earlier
    version has not told it.
    """

    epoch: ControllerEpoch
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """The level at which a feature is finalized (KIP-584)."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    """One incarnation of a broker.

    `broker_epoch` is the record's own offset in the metadata log.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    incarnation_id: str
    host_id: str
    rack: str | None
    listeners: tuple[Listener, ...]
    directory_id: str
    boot_id: str
    fenced: bool = True
    in_controlled_shutdown: bool = False
    # what it was started with, by Kafka's names: not the defaults, no secrets
    static_config: tuple[tuple[str, str], ...] = ()
    # ids of all log directories, none for a broker with only one; and of those that do not work
    log_dirs: tuple[str, ...] = ()
    offline_log_dirs: tuple[str, ...] = ()
    software: Software = NOT_TOLD
    fenced_since_ms: int = 0
    """The time of day, for people; 0: not fenced, or not known."""

    @property
    def client_endpoint(self) -> Endpoint:
        """The address to which clients send their calls."""
        found = endpoint_of(self.listeners, GRPC, CLIENTS)
        assert found is not None, self.listeners  # no registration is taken without
        return found

    @property
    def stream_endpoint(self) -> Endpoint | None:
        """The address for framed streams of clients; None: the broker has none."""
        return endpoint_of(self.listeners, FRAMED, CLIENTS)

    @property
    def replication_endpoint(self) -> Endpoint:
        """The address from which other brokers fetch."""
        found = endpoint_of(self.listeners, KAFKA, BROKERS)
        assert found is not None, self.listeners  # no registration is taken without
        return found

    @property
    def all_log_dirs(self) -> tuple[str, ...]:
        """The ids of its log directories, whether they work or not."""
        return self.log_dirs or (self.directory_id,)

    @property
    def live_log_dirs(self) -> tuple[str, ...]:
        """The ids of those that work."""
        offline = self.offline_log_dirs
        return tuple(each for each in self.all_log_dirs if each not in offline)

    @property
    def inner_endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses of the clients' listener for others of the cluster, best first: the
        broker's own address, which replication uses, or the name that clients connect to.
        """
        own = Endpoint(self.replication_endpoint.host, self.client_endpoint.port)
        return tuple(dict.fromkeys((own, self.client_endpoint)))


@dataclass(frozen=True, slots=True)
class BrokerChangeRecord:
    """Fenced, unfenced or stopping; or a log directory has failed: all as it is now."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    fenced: bool
    in_controlled_shutdown: bool
    offline_log_dirs: tuple[str, ...] = ()
    fenced_since_ms: int = 0


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    """The broker is gone for good."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic's name and id; its partitions follow as PartitionRecords."""

    name: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """The whole state of one partition after a change.

    `replicas` in preference order; `isr` in order of joining; `directories` in the order of
    `replicas`. `failed_replicas`: their logs do not work in the present lives of their brokers;
    they are not in the ISR and do not lead until a next life has caught up. `emptied_replicas`:
    their logs began anew, without what they held, and they have not been in the ISR since.
    `never_committed`: no ISR has had `min.insync.replicas` members since the partition was made.
    `adding_replicas` and `removing_replicas`: a reassignment is going on (KIP-455), and `replicas`
    are those of the target, followed by the ones that leave when it is complete.
    """

    topic_id: TopicId
    partition: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId  # NO_LEADER: offline
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    eligible_leader_replicas: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    directories: tuple[str, ...] = ()
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    failed_replicas: tuple[BrokerId, ...] = ()
    emptied_replicas: tuple[BrokerId, ...] = ()
    never_committed: bool = False

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is going on."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def target_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas when a reassignment is complete; without one those of now."""
        leaving = self.removing_replicas
        return tuple(b for b in self.replicas if b not in leaving) if leaving else self.replicas

    @property
    def original_replicas(self) -> tuple[BrokerId, ...]:
        """The replicas without those that a reassignment adds: what the partition can count on."""
        added = self.adding_replicas
        return tuple(b for b in self.replicas if b not in added) if added else self.replicas

    def directory_of(self, broker: BrokerId) -> str:
        """The id of the log directory in which the broker has its replica; empty: not known."""
        places = dict(zip(self.replicas, self.directories, strict=False))
        return places.get(broker, "")


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """The topic and its partitions are gone; brokers delete their replicas."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord:
    """Ids below `next_producer_id` are handed out and never again."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    next_producer_id: ProducerId


class ConfigResourceType(IntEnum):
    """The kinds of things that a configuration belongs to."""

    CLUSTER = 0
    TOPIC = 1
    BROKER = 2
    GROUP = 32
    """Apache Kafka's number. The name is the group's id; there need not be such a group."""


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One configuration value; None puts the default back."""

    resource_type: ConfigResourceType
    resource_name: str
    name: str
    value: str | None


MetadataRecord = (
    ClusterRecord
    | ControllerEpochRecord
    | RegisterBrokerRecord
    | BrokerChangeRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | RemoveTopicRecord
    | ProducerIdsRecord
    | ConfigRecord
    | FeatureLevelRecord
)
