"""The results of `list_topics`, which all clients have."""

from __future__ import annotations

from typing import Any

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.compat.confluent_kafka.error import KafkaError, error_of, translating
from pylog.model import TopicDescription


class BrokerMetadata:
    """A broker."""

    def __init__(self) -> None:
        self.id = -1
        self.host: str | None = None
        self.port = -1

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"


class PartitionMetadata:
    """A partition."""

    def __init__(self) -> None:
        self.id = -1
        self.leader = -1
        self.replicas: list[int] = []
        self.isrs: list[int] = []
        self.error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"PartitionMetadata({self.id})"

    def __str__(self) -> str:
        return str(self.id)


class TopicMetadata:
    """A topic with its partitions; `error` where it is not there."""

    def __init__(self) -> None:
        self.topic: str | None = None
        self.partitions: dict[int, PartitionMetadata] = {}
        self.error: KafkaError | None = None

    def __repr__(self) -> str:
        return f"TopicMetadata({self.topic}, {len(self.partitions)} partitions)"

    def __str__(self) -> str:
        return str(self.topic)


class ClusterMetadata:
    """The cluster with its brokers and topics. `controller_id` is the first broker's: pylog's
    controller is no broker, and every broker passes on what is for it.
    """

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.orig_broker_id = -1
        self.orig_broker_name: str | None = None

    def __repr__(self) -> str:
        return f"ClusterMetadata({self.cluster_id})"

    def __str__(self) -> str:
        return str(self.cluster_id)


class GroupMember:
    """A member of a group."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.client_id: str | None = None
        self.client_host: str | None = None
        self.metadata: bytes | None = None
        self.assignment: bytes | None = None


class GroupMetadata:
    """A group."""

    def __init__(self) -> None:
        self.broker: BrokerMetadata | None = None
        self.id: str | None = None
        self.error: KafkaError | None = None
        self.state: str | None = None
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.members: list[GroupMember] = []

    def __repr__(self) -> str:
        return f"GroupMetadata({self.id})"

    def __str__(self) -> str:
        return str(self.id)


def seconds(timeout: float | None) -> float | None:
    """A timeout for pylog; librdkafka's -1 is none."""
    return None if timeout is None or timeout < 0 else float(timeout)


def cluster_metadata(
    admin: AdminClient, topic: str | None = None, timeout: float | None = -1
) -> ClusterMetadata:
    """The cluster with all topics, or with one, whose `error` says that it is not there."""
    with translating():
        cluster = admin.describe_cluster(timeout=seconds(timeout))
        found = ClusterMetadata()
        found.cluster_id = cluster.cluster_id
        for each in cluster.brokers:
            broker = BrokerMetadata()
            broker.id, broker.host, broker.port = each.id, each.host, each.port
            found.brokers[each.id] = broker
        found.controller_id = min(found.brokers, default=-1)
        found.orig_broker_id = found.controller_id
        first = found.brokers.get(found.controller_id)
        found.orig_broker_name = None if first is None else str(first)
        names: Any = [topic] if topic is not None else admin.list_topics(internal=True)
        if not names:
            return found
        try:
            described = admin.describe_topics(names, timeout=seconds(timeout))
            faults: dict[Any, errors.PylogError] = {}
        except errors.PartialFailure as failure:
            described, faults = dict(failure.results), dict(failure.errors)  # type: ignore[arg-type]
        except errors.UnknownTopicOrPartition as error:
            described, faults = {}, {topic or names[0]: error}
    for name, told in described.items():
        found.topics[name] = _topic(told)
    for name, fault in faults.items():
        missing = TopicMetadata()
        missing.topic, missing.error = name, error_of(fault)
        found.topics[name] = missing
    return found


def _topic(told: TopicDescription) -> TopicMetadata:
    topic = TopicMetadata()
    topic.topic = told.name
    for each in told.partitions:
        partition = PartitionMetadata()
        partition.id = each.partition
        partition.leader = -1 if each.leader is None else each.leader
        partition.replicas, partition.isrs = list(each.replicas), list(each.isr)
        if each.leader is None:
            partition.error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
        topic.partitions[each.partition] = partition
    return topic
