"""The cluster's metadata as a replay of its log: the same code in the controller and in brokers.

Covers the state, its replay record by record, and what a batch changed (`MetadataDelta`). It does
not decide who may change what, nor how records reach a log or a broker.

A registration's or a partition's state *is* the last record about it: records state whole values,
so no second set of classes could say anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pylog.model import BrokerId, ControllerEpoch, Offset, ProducerId, TopicId
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import (
    BrokerChangeRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResourceType,
    ControllerEpochRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

BrokerRegistration = RegisterBrokerRecord
"""A broker's newest incarnation, with `fenced` and `in_controlled_shutdown` as last changed."""

ConfigResource = tuple[ConfigResourceType, str]
"""The thing that a configuration belongs to: its kind and its name (of the cluster: the empty
name).
"""

CLUSTER_CONFIG: Final[ConfigResource] = (ConfigResourceType.CLUSTER, "")

_NO_CONFIG: Final[Mapping[str, str]] = {}


class MetadataGap(ValueError):
    """A batch begins beyond the next offset: records are missing, ask again from `offset + 1`."""


@dataclass(slots=True)
class TopicImage:
    """One topic. `partitions` holds each partition's newest record, in the order of creation."""

    name: str
    topic_id: TopicId
    partitions: dict[int, PartitionRecord] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemovedTopic:
    """A topic that is gone, with the last state of its partitions."""

    topic_id: TopicId
    name: str
    partitions: tuple[PartitionRecord, ...]


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """The changes of a batch, each thing once, in the order of its first change.

    A partition that came and went within the batch is in neither tuple; a topic that was removed
    and created anew under its name is in both, with different ids. `configs` also lists the
    resources that lost a value.
    """

    first_offset: Offset = Offset(-1)
    last_offset: Offset = Offset(-1)
    partitions: tuple[PartitionRecord, ...] = ()
    new_topics: tuple[TopicId, ...] = ()
    removed_topics: tuple[RemovedTopic, ...] = ()
    brokers: tuple[BrokerId, ...] = ()
    configs: tuple[ConfigResource, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing that a broker acts upon has changed."""
        return not (self.partitions or self.removed_topics or self.brokers or self.configs)


@dataclass(slots=True)
class MetadataImage:
    """Everything that the metadata log says up to and including `offset`.

    Changed only by `replay` (and `apply`, which calls it). Two images are equal when they say the
    same, whichever way they came about: a log, a snapshot, or both.
    """

    offset: Offset = Offset(-1)
    cluster_id: str = ""
    controller_epoch: ControllerEpoch = ControllerEpoch(-1)
    controller_since_ms: int = 0
    """The time of day at which the controller's epoch began; 0: not known."""
    features: dict[str, int] = field(default_factory=dict)
    """Finalized levels by the features' names; those that were never finalized are not in it."""
    brokers: dict[BrokerId, BrokerRegistration] = field(default_factory=dict)
    topics_by_id: dict[TopicId, TopicImage] = field(default_factory=dict)
    topics_by_name: dict[str, TopicImage] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    producer_ids: ProducerIdsRecord | None = None
    # The partitions that each broker holds a replica of: a lost broker is looked up, not searched
    # for. A dict stands for an ordered set.
    _by_broker: dict[BrokerId, dict[tuple[TopicId, int], None]] = field(
        default_factory=dict, repr=False
    )
    # The number of replicas in each log directory, by its id.
    _by_directory: dict[str, int] = field(default_factory=dict, repr=False)
    partition_count: int = 0

    # ---- look-ups ------------------------------------------------------------------------------

    @property
    def next_producer_id(self) -> ProducerId:
        """The first producer id that nobody holds."""
        return self.producer_ids.next_producer_id if self.producer_ids else ProducerId(0)

    def partition(self, topic_id: TopicId, partition: int) -> PartitionRecord | None:
        """The newest state of one partition, or None when there is none."""
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def partitions(self) -> Iterator[PartitionRecord]:
        """Every partition, topics in the order of creation."""
        for topic in self.topics_by_id.values():
            yield from topic.partitions.values()

    def partitions_of(self, broker: BrokerId) -> list[PartitionRecord]:
        """Every partition of which `broker` holds a replica, in a stable order."""
        topics = self.topics_by_id
        return [
            topics[topic_id].partitions[partition]
            for topic_id, partition in self._by_broker.get(broker, ())
        ]

    def topic_name(self, topic_id: TopicId) -> str | None:
        """The name that goes with an id."""
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def topic_configs(self, name: str) -> Mapping[str, str]:
        """The topic's own configuration values, as strings; not the defaults they override."""
        return self.configs.get((ConfigResourceType.TOPIC, name), _NO_CONFIG)

    def cluster_configs(self) -> Mapping[str, str]:
        """Values set for all brokers, below a topic's or broker's own."""
        return self.configs.get(CLUSTER_CONFIG, _NO_CONFIG)

    def broker_configs(self, broker: BrokerId) -> Mapping[str, str]:
        """The broker's own values."""
        return self.configs.get((ConfigResourceType.BROKER, str(broker)), _NO_CONFIG)

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        """The group's own values, whether there is such a group or not."""
        return self.configs.get((ConfigResourceType.GROUP, group_id), _NO_CONFIG)

    def is_live(self, broker: BrokerId) -> bool:
        """Whether the broker may join ISRs and lead: registered, not fenced, not stopping."""
        registration = self.brokers.get(broker)
        return (
            registration is not None
            and not registration.fenced
            and not registration.in_controlled_shutdown
        )

    def directory_for(self, broker: BrokerId) -> str:
        """The id of the log directory for one more replica on this broker: of those that work, the
        one with the fewest replicas, the first of several.
        """
        registration = self.brokers[broker]
        candidates = registration.live_log_dirs or registration.all_log_dirs
        return min(candidates, key=lambda each: self._by_directory.get(each, 0))

    def live_brokers(self) -> list[BrokerId]:
        """The brokers for which `is_live` holds, ascending."""
        return [broker for broker in sorted(self.brokers) if self.is_live(broker)]

    # ---- replay --------------------------------------------------------------------------------

    def replay(self, record: MetadataRecord, offset: Offset) -> None:
        """Takes in one record, which lies at `offset` of the metadata log."""
        _REPLAY[type(record)](self, record)
        self.offset = offset

    def apply(self, batch: MetadataBatch) -> MetadataDelta:
        """Takes in a batch and tells what changed.

        Records at or below `offset` are skipped, so a batch may be delivered twice. MetadataGap
        when records are missing in between; the image is then unchanged. An older snapshot than
        the image changes nothing.
        """
        if batch.snapshot:
            return self._apply_snapshot(batch)
        previous = batch.previous_offset
        if self.offset < (batch.first_offset - 1 if previous is None else previous):
            raise MetadataGap(
                f"the batch begins at offset {batch.first_offset}, the image ends at {self.offset}"
            )
        first = max(self.offset + 1, batch.first_offset)
        changes = _Changes()
        for offset, record in enumerate(batch.records[first - batch.first_offset :], first):
            changes.before(self, record)
            self.replay(record, Offset(offset))
        return changes.delta(self, Offset(first))

    def _apply_snapshot(self, batch: MetadataBatch) -> MetadataDelta:
        if batch.first_offset < self.offset:
            return MetadataDelta()
        new = MetadataImage.from_records(batch.records, batch.first_offset)
        delta = _difference(self, new)
        for name in MetadataImage.__slots__:
            setattr(self, name, getattr(new, name))
        return delta

    def records(self) -> tuple[MetadataRecord, ...]:
        """The image as records: a snapshot.

        `from_records(image.records(), image.offset) == image`, always in the same order.
        """
        found: list[MetadataRecord] = []
        if self.cluster_id:
            found.append(ClusterRecord(self.cluster_id))
        if self.controller_epoch >= 0:
            epoch = ControllerEpochRecord(self.controller_epoch, self.controller_since_ms)
            found.append(epoch)
        found.extend(
            FeatureLevelRecord(name, self.features[name]) for name in sorted(self.features)
        )
        found.extend(self.brokers[broker] for broker in sorted(self.brokers))
        for topic in self.topics_by_id.values():
            found.append(TopicRecord(topic.name, topic.topic_id))
            found.extend(topic.partitions.values())
        for kind, name in sorted(self.configs):
            values = self.configs[kind, name]
            found.extend(ConfigRecord(kind, name, key, values[key]) for key in sorted(values))
        if self.producer_ids is not None:
            found.append(self.producer_ids)
        return tuple(found)

    @classmethod
    def from_records(cls, records: Iterable[MetadataRecord], offset: Offset) -> MetadataImage:
        """The image that a snapshot of everything up to `offset` stands for."""
        image = cls()
        for record in records:
            image.replay(record, offset)
        image.offset = offset
        return image

    def _cluster(self, record: ClusterRecord) -> None:
        self.cluster_id = record.cluster_id

    def _controller_epoch(self, record: ControllerEpochRecord) -> None:
        self.controller_epoch = record.epoch
        self.controller_since_ms = record.since_ms

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        self.features[record.name] = record.level

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = record

    def _broker_change(self, record: BrokerChangeRecord) -> None:
        known = self.brokers.get(record.broker_id)
        # An older incarnation's change says nothing about the newer one.
        if known is not None and known.broker_epoch == record.broker_epoch:
            self.brokers[record.broker_id] = replace(
                known,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                offline_log_dirs=record.offline_log_dirs,
                fenced_since_ms=record.fenced_since_ms,
            )

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    def _topic(self, record: TopicRecord) -> None:
        if record.topic_id not in self.topics_by_id:
            topic = TopicImage(record.name, record.topic_id)
            self.topics_by_id[record.topic_id] = topic
            self.topics_by_name[record.name] = topic

    def _partition(self, record: PartitionRecord) -> None:
        partitions = self.topics_by_id[record.topic_id].partitions
        known = partitions.get(record.partition)
        if known is None:
            self.partition_count += 1
        if known is None or known.replicas != record.replicas:
            self._forget_replicas(known)
            key = (record.topic_id, record.partition)
            for broker in record.replicas:
                self._by_broker.setdefault(broker, {})[key] = None
        if known is None or known.directories != record.directories:
            self._count_directories(known, -1)
            self._count_directories(record, 1)
        partitions[record.partition] = record

    def _count_directories(self, record: PartitionRecord | None, change: int) -> None:
        for directory in record.directories if record is not None else ():
            count = self._by_directory.get(directory, 0) + change
            if count:
                self._by_directory[directory] = count
            else:
                del self._by_directory[directory]

    def _forget_replicas(self, record: PartitionRecord | None) -> None:
        if record is None:
            return
        for broker in record.replicas:
            held = self._by_broker[broker]
            del held[record.topic_id, record.partition]
            if not held:
                del self._by_broker[broker]

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(record.topic_id, None)
        if topic is None:
            return
        del self.topics_by_name[topic.name]
        self.configs.pop((ConfigResourceType.TOPIC, topic.name), None)
        self.partition_count -= len(topic.partitions)
        for partition in topic.partitions.values():
            self._forget_replicas(partition)
            self._count_directories(partition, -1)

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.producer_ids = record

    def _config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        if record.value is not None:
            self.configs.setdefault(resource, {})[record.name] = record.value
            return
        values = self.configs.get(resource)
        if values is not None:
            values.pop(record.name, None)
            if not values:
                del self.configs[resource]


_REPLAY: Final[Mapping[type[Any], Callable[[MetadataImage, Any], None]]] = {
    ClusterRecord: MetadataImage._cluster,
    ControllerEpochRecord: MetadataImage._controller_epoch,
    RegisterBrokerRecord: MetadataImage._register_broker,
    BrokerChangeRecord: MetadataImage._broker_change,
    UnregisterBrokerRecord: MetadataImage._unregister_broker,
    TopicRecord: MetadataImage._topic,
    PartitionRecord: MetadataImage._partition,
    RemoveTopicRecord: MetadataImage._remove_topic,
    ProducerIdsRecord: MetadataImage._producer_ids,
    ConfigRecord: MetadataImage._config,
    FeatureLevelRecord: MetadataImage._feature_level,
}


@dataclass(slots=True)
class _Changes:
    """The things that a batch touches, noted before each record is replayed. Dicts are ordered
    sets.
    """

    partitions: dict[tuple[TopicId, int], None] = field(default_factory=dict)
    new_topics: dict[TopicId, None] = field(default_factory=dict)
    removed_topics: dict[TopicId, RemovedTopic] = field(default_factory=dict)
    brokers: dict[BrokerId, None] = field(default_factory=dict)
    configs: dict[ConfigResource, None] = field(default_factory=dict)

    def before(self, image: MetadataImage, record: MetadataRecord) -> None:
        match record:
            case PartitionRecord():
                self.partitions[record.topic_id, record.partition] = None
            case TopicRecord():
                if record.topic_id not in image.topics_by_id:
                    self.new_topics[record.topic_id] = None
            case RemoveTopicRecord():
                self._removed(image, record.topic_id)
            case RegisterBrokerRecord() | BrokerChangeRecord() | UnregisterBrokerRecord():
                self.brokers[record.broker_id] = None
            case ConfigRecord():
                self.configs[record.resource_type, record.resource_name] = None

    def _removed(self, image: MetadataImage, topic_id: TopicId) -> None:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            return
        if topic_id in self.new_topics:
            del self.new_topics[topic_id]
        else:
            self.removed_topics[topic_id] = RemovedTopic(
                topic_id, topic.name, tuple(topic.partitions.values())
            )

    def delta(self, image: MetadataImage, first_offset: Offset) -> MetadataDelta:
        found = (image.partition(*key) for key in self.partitions)
        return MetadataDelta(
            first_offset=first_offset,
            last_offset=image.offset,
            partitions=tuple(partition for partition in found if partition is not None),
            new_topics=tuple(self.new_topics),
            removed_topics=tuple(self.removed_topics.values()),
            brokers=tuple(self.brokers),
            configs=tuple(self.configs),
        )


def _difference(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
    """The changes of a snapshot: the same answer as the batches that it stands for."""
    brokers = sorted(old.brokers.keys() | new.brokers.keys())
    configs = sorted(old.configs.keys() | new.configs.keys())
    return MetadataDelta(
        first_offset=Offset(old.offset + 1),
        last_offset=new.offset,
        partitions=tuple(
            partition
            for partition in new.partitions()
            if partition != old.partition(partition.topic_id, partition.partition)
        ),
        new_topics=tuple(topic for topic in new.topics_by_id if topic not in old.topics_by_id),
        removed_topics=tuple(
            RemovedTopic(topic.topic_id, topic.name, tuple(topic.partitions.values()))
            for topic in old.topics_by_id.values()
            if topic.topic_id not in new.topics_by_id
        ),
        brokers=tuple(b for b in brokers if old.brokers.get(b) != new.brokers.get(b)),
        configs=tuple(c for c in configs if old.configs.get(c) != new.configs.get(c)),
    )
