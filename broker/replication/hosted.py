"""The replicas of one broker, found by name or by topic id, and why one is not found."""

from __future__ import annotations

from dataclasses import dataclass

from pylog.errors import NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition
from pylog.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import IsrChanges
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.throttle import ReplicationThrottles


@dataclass(frozen=True, slots=True)
class Missing:
    """No replica here, and where the partition is led instead, as far as known."""

    failure: Failure
    leader: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)


class HostedPartitions:
    """Every replica here, and what the metadata says about the brokers they deal with."""

    def __init__(self, me: BrokerId) -> None:
        self.me = me
        self.image = MetadataImage()
        self.by_name: dict[TopicPartition, Partition] = {}
        self.by_id: dict[tuple[TopicId, int], Partition] = {}
        self.isr_changes = IsrChanges()
        self.throttles = ReplicationThrottles()
        # current epochs of all registered brokers, and of those that may join an ISR
        self.registered: dict[BrokerId, BrokerEpoch] = {}
        self.eligible: dict[BrokerId, BrokerEpoch] = {}

    def add(self, partition: Partition) -> None:
        """Host it."""
        self.by_name[partition.topic_partition] = partition
        self.by_id[partition.topic_id, partition.topic_partition.partition] = partition

    def remove(self, partition: Partition) -> None:
        """Host it no more."""
        name = partition.topic_partition
        if self.by_name.get(name) is partition:
            del self.by_name[name]
        del self.by_id[partition.topic_id, name.partition]

    def find(
        self, topic_partition: TopicPartition, topic_id: TopicId | None = None
    ) -> Partition | Missing:
        """The replica by name, and by id where the caller knows it."""
        partition = self.by_name.get(topic_partition)
        if partition is not None and (topic_id is None or topic_id == partition.topic_id):
            return partition
        return self._missing(topic_partition, topic_id)

    def find_by_id(self, topic_id: TopicId, partition: int) -> Partition | Missing:
        """The replica by topic id."""
        found = self.by_id.get((topic_id, partition))
        if found is not None:
            return found
        name = self.image.topic_name(topic_id)
        if name is None:
            return Missing(Failure(UnknownTopicId.code, f"no topic has the id {topic_id}"))
        return self._missing(TopicPartition(name, partition), topic_id)

    def _missing(self, topic_partition: TopicPartition, topic_id: TopicId | None) -> Missing:
        name, number = topic_partition
        topic = self.image.topics_by_name.get(name)
        if topic is None:
            if topic_id is not None and not name:
                return Missing(Failure(UnknownTopicId.code, f"no topic has the id {topic_id[:64]}"))
            if topic_id is not None:
                return Missing(
                    Failure(UnknownTopicId.code, f"topic {name} with id {topic_id} does not exist")
                )
            return Missing(Failure(UnknownTopicOrPartition.code, f"topic {name} does not exist"))
        if topic_id is not None and topic_id != topic.topic_id:
            return Missing(
                Failure(
                    UnknownTopicId.code,
                    f"topic {name} with id {topic_id} was deleted; "
                    f"the one of that name has id {topic.topic_id}",
                )
            )
        record = topic.partitions.get(number)
        if record is None:
            return Missing(
                Failure(
                    UnknownTopicOrPartition.code,
                    f"topic {name} has no partition {number}, it has {len(topic.partitions)}",
                )
            )
        return Missing(
            Failure(
                NotLeaderOrFollower.code,
                f"broker {self.me} has no replica of {topic_partition}; "
                f"its leader is broker {record.leader}",
            ),
            record.leader,
            record.leader_epoch,
        )
