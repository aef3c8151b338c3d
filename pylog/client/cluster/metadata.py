"""A client's metadata: brokers, topics, and the leaders of partitions.

Pure. The shell asks for a snapshot and gives it to `ClusterMetadata.update`; answers of brokers
that name a newer leader (KIP-951) go to `learn_leader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pylog import errors
from pylog.model import NO_LEADER


@dataclass(frozen=True, slots=True)
class Address:
    """The host and port at which a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A registered broker."""

    id: int
    address: Address
    rack: str = ""
    epoch: int = -1
    stream: Address | None = None
    """The address for framed streams; None: none is known."""
    fenced_since_ms: int = 0
    """The time of day since when it does not serve; 0: it does, or that is not known."""


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition's leader (`NO_LEADER`: nobody), and the sets that admins ask for."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic; `partitions` by number, without gaps. With an `error` nothing else is known."""

    name: str
    topic_id: str = ""
    internal: bool = False
    partitions: tuple[PartitionInfo, ...] = ()
    error: errors.PylogError | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """One answer to a metadata request."""

    cluster_id: str
    controller_epoch: int
    brokers: tuple[BrokerInfo, ...]
    controller: Address | None
    topics: tuple[TopicInfo, ...]
    fenced_brokers: tuple[BrokerInfo, ...] = ()
    """Registered, but they do not serve; only where they were asked for."""
    controller_since_ms: int = 0
    """The time of day at which the controller's epoch began; 0: not told."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker to ask for a partition."""

    broker: int
    epoch: int


@dataclass(slots=True)
class ClusterMetadata:
    """The newest that any server said. A leader epoch never goes back for one topic id (KIP-320):
    a lagging broker's answer does not send the client to a deposed leader again.
    """

    cluster_id: str = ""
    controller_epoch: int = -1
    controller: Address | None = None
    brokers: dict[int, BrokerInfo] = field(default_factory=dict)
    topics: dict[str, TopicInfo] = field(default_factory=dict)
    version: int = 0

    def update(self, snapshot: ClusterSnapshot) -> list[TopicInfo]:
        """Take over a snapshot; returns the topics in it that it has errors for.

        A topic whose answer is an error keeps its last known partitions: a broker that lags or
        restarts must not make the client forget sequences or leaders.
        """
        self.version += 1
        if snapshot.cluster_id:
            self.cluster_id = snapshot.cluster_id
        self.controller_epoch = max(self.controller_epoch, snapshot.controller_epoch)
        if snapshot.controller is not None:
            self.controller = snapshot.controller
        if snapshot.brokers:
            self.brokers = {broker.id: broker for broker in snapshot.brokers}
        faulty = []
        for topic in snapshot.topics:
            if topic.error is not None:
                faulty.append(topic)
                continue
            self.topics[topic.name] = self._newer(self.topics.get(topic.name), topic)
        return faulty

    def _newer(self, known: TopicInfo | None, told: TopicInfo) -> TopicInfo:
        if known is None or known.topic_id != told.topic_id:
            return told
        partitions = list(told.partitions)
        for number, before in enumerate(known.partitions):
            if number >= len(partitions):
                partitions.append(before)  # partitions are never taken away
            elif before.leader_epoch > partitions[number].leader_epoch:
                partitions[number] = before
        return replace(told, partitions=tuple(partitions))

    def learn_leader(self, topic: str, partition: int, leader: int, epoch: int) -> bool:
        """A broker refused and named this leader; True when that is news and its address known."""
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return False
        before = known.partitions[partition]
        if epoch <= before.leader_epoch or leader not in self.brokers:
            return False
        partitions = list(known.partitions)
        partitions[partition] = replace(before, leader=leader, leader_epoch=epoch)
        self.topics[topic] = replace(known, partitions=tuple(partitions))
        self.version += 1
        return True

    def forget_topic(self, topic: str) -> None:
        """Drop a topic that this client no longer uses."""
        self.topics.pop(topic, None)

    def partition_count(self, topic: str) -> int | None:
        """The partition count of the topic, or None when the topic is not known."""
        known = self.topics.get(topic)
        return len(known.partitions) if known is not None else None

    def topic_id(self, topic: str) -> str:
        """The topic's id, empty when unknown."""
        known = self.topics.get(topic)
        return known.topic_id if known is not None else ""

    def leader(self, topic: str, partition: int) -> Leader | None:
        """The live leader, or None when unknown, none elected, or not among the live brokers."""
        known = self.topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        info = known.partitions[partition]
        if info.leader == NO_LEADER or info.leader not in self.brokers:
            return None
        return Leader(info.leader, info.leader_epoch)

    def available(self, topic: str) -> list[int]:
        """The partitions that have a live leader."""
        count = self.partition_count(topic) or 0
        return [p for p in range(count) if self.leader(topic, p) is not None]


def parse_addresses(given: Iterable[str]) -> tuple[Address, ...]:
    """Bootstrap addresses; InvalidConfig says which one is wrong, and how it should look."""
    addresses = []
    for text in given:
        host, colon, port = text.strip().rpartition(":")
        text = text if len(text) <= 80 else text[:77] + "..."
        if ":" in host and not (host.startswith("[") and host.endswith("]")) and "/" not in host:
            raise errors.InvalidConfig(
                f"bootstrap_servers: {text!r} has several colons; write an IPv6 address in "
                f"brackets, for example [::1]:9092"
            )
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host:
            raise errors.InvalidConfig(
                f"bootstrap_servers: {text!r} has no port; write host:port, for example "
                f"127.0.0.1:9092"
            )
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65_536):
            port = port if len(port) <= 20 else port[:17] + "..."
            raise errors.InvalidConfig(
                f"bootstrap_servers: {text!r} has port {port!r}; it must be 1 to 65535"
            )
        if "/" in host or any(c.isspace() for c in host):
            raise errors.InvalidConfig(
                f"bootstrap_servers: {text!r} is not host:port (no scheme, no blanks)"
            )
        addresses.append(Address(host, int(port)))
    if not addresses:
        raise errors.InvalidConfig(
            "bootstrap_servers is empty; give host:port, or several separated by commas"
        )
    return tuple(dict.fromkeys(addresses))


def addresses_to_ask(
    metadata: ClusterMetadata,
    bootstrap: tuple[Address, ...],
    load: Mapping[Address, int],
    shuffle: Callable[[list[Address]], None],
) -> list[Address]:
    """The order in which to ask for metadata: known brokers, least loaded first, then the bootstrap
    addresses, so that a cluster that moved as a whole is found again.
    """
    known = [broker.address for broker in metadata.brokers.values()]
    shuffle(known)
    known.sort(key=lambda address: load.get(address, 0))
    start = list(bootstrap)
    shuffle(start)
    return list(dict.fromkeys([*known, *start]))
