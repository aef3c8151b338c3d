"""Creating and deleting topics: what is refused and why, and the records of what is not.

Every item is checked whole before any record of it is written, so nothing is created in part.
`topic_growth.py` adds partitions by the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pylog import errors
from pylog.model import (
    INTERNAL_PREFIX,
    BrokerId,
    LeaderEpoch,
    NewTopic,
    PartitionEpoch,
    TopicId,
    is_internal,
    topic_name_fault,
)
from pylog_broker.config import TopicConfig
from pylog_broker.controller.ledger import Ledger
from pylog_broker.controller.partitions import is_enough
from pylog_broker.controller.placement import place, ring
from pylog_broker.controller.settings import MIN_ISR, ControllerSettings
from pylog_broker.metadata.admin import (
    CreatedTopic,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    TopicsCreated,
    TopicsDeleted,
)
from pylog_broker.metadata.image import MetadataImage, TopicImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import (
    ConfigRecord,
    ConfigResourceType,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

REPLICATION_FACTOR_MAX: Final = 32_767

TWICE: Final = "the request names it twice"
NO_SUCH_TOPIC: Final = "it does not exist"
THE_CLUSTERS_OWN: Final = f"names with {INTERNAL_PREFIX} in front are the cluster's own"

Replicas = list[tuple[BrokerId, ...]]


class Refused(Exception):
    """A request about a topic is refused; the message begins with the topic's name."""

    def __init__(self, error: type[errors.PylogError], topic: str, why: str) -> None:
        message = f"{shown(topic)}: {why}"
        super().__init__(message)
        self.failure = Failure(error.code, message)


def shown(topic: str) -> str:
    """The topic in a message; text that cannot name a topic is quoted and cut."""
    return f"topic {topic}" if topic_name_fault(topic) is None else f"topic {topic[:80]!a}"


class Topics:
    """Writes topics to the ledger. Owns no state."""

    def __init__(
        self, ledger: Ledger, settings: ControllerSettings, new_id: Callable[[], str]
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._new_id = new_id

    # ---- create --------------------------------------------------------------------------------

    def create(self, request: CreateTopics) -> TopicsCreated:
        """Writes what can be created; the answer is to be given when the brokers know of it."""
        names = Counter(topic.name for topic in request.topics)
        asked = sum(max(0, self._partitions_asked(topic)) for topic in request.topics)
        created = []
        for topic in request.topics:
            try:
                if names[topic.name] > 1:
                    raise Refused(errors.InvalidRequest, topic.name, TWICE)
                self._check_size(topic, asked)
                created.append(self._create(topic, request))
            except Refused as refused:
                created.append(CreatedTopic(topic.name, refused.failure))
        return TopicsCreated(tuple(created))

    def _partitions_asked(self, topic: NewTopic) -> int:
        if topic.replica_assignment is not None:
            return len(topic.replica_assignment)
        return self._settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions

    def _check_size(self, topic: NewTopic, asked: int) -> None:
        most = self._settings.partitions_per_request_max
        count = self._partitions_asked(topic)
        if not 1 <= count <= most:
            raise Refused(
                errors.InvalidPartitions,
                topic.name,
                f"{count} partitions; it must be 1 to {most}",
            )
        if asked > most:
            raise Refused(
                errors.InvalidPartitions,
                topic.name,
                f"the request asks for {asked} partitions; the limit is {most} in one request",
            )
        there = self._ledger.decided.partition_count
        if there + count > self._settings.partitions_max:
            raise Refused(
                errors.InvalidPartitions,
                topic.name,
                f"the cluster has {there} partitions, {count} more "
                f"would exceed its limit of {self._settings.partitions_max}",
            )

    def _create(self, topic: NewTopic, request: CreateTopics) -> CreatedTopic:
        image = self._ledger.decided
        fault = topic_name_fault(topic.name)
        if fault is not None:
            raise Refused(errors.InvalidTopic, topic.name, fault)
        if is_internal(topic.name) and not request.internal:
            raise Refused(errors.InvalidTopic, topic.name, THE_CLUSTERS_OWN)
        if topic.name in image.topics_by_name:
            raise Refused(errors.TopicAlreadyExists, topic.name, "it already exists")
        if topic.replica_assignment is not None:
            replicas = _assigned(image, topic, topic.replica_assignment)
        else:
            replicas = self._placed(image, topic)
        factor = len(replicas[0])
        values = self._checked_config(image, topic, factor)
        topic_id = None
        if not request.validate_only:
            topic_id = TopicId(self._new_id())
            assert topic_id not in image.topics_by_id
            self._write(topic.name, topic_id, replicas, values)
        return CreatedTopic(topic.name, None, topic_id, len(replicas), factor)

    def _placed(self, image: MetadataImage, topic: NewTopic) -> Replicas:
        factor = topic.replication_factor
        if factor == -1:
            factor = self._settings.default_replication_factor
        if not 1 <= factor <= REPLICATION_FACTOR_MAX:
            raise Refused(
                errors.InvalidReplicationFactor,
                topic.name,
                f"replication factor {factor}; it must be 1 to "
                f"{REPLICATION_FACTOR_MAX} and at most the number of brokers",
            )
        return placed_replicas(image, topic.name, self._partitions_asked(topic), factor)

    def _checked_config(
        self, image: MetadataImage, topic: NewTopic, factor: int
    ) -> Mapping[str, str]:
        values = dict(topic.config or {})
        try:
            TopicConfig.from_mapping(values, self._settings.topic_defaults)
        except errors.InvalidConfig as error:
            raise Refused(errors.InvalidConfig, topic.name, str(error)) from None
        wanted = self._settings.min_isr(values, image.cluster_configs())
        if wanted > factor and MIN_ISR in values:
            # Taken from a default it only means "as many as there are" (KIP-966).
            raise Refused(
                errors.InvalidConfig,
                topic.name,
                f"{MIN_ISR}={wanted} is above the replication "
                f"factor {factor}, so that no acks=all write could ever succeed",
            )
        return values

    def _write(
        self, name: str, topic_id: TopicId, replicas: Replicas, values: Mapping[str, str]
    ) -> None:
        write = self._ledger.write
        write(TopicRecord(name, topic_id))
        for key in sorted(values):
            write(ConfigRecord(ConfigResourceType.TOPIC, name, key, values[key]))
        min_isr = self._settings.min_isr(values, self._ledger.decided.cluster_configs())
        for number, brokers in enumerate(replicas):
            write_partition(self._ledger, topic_id, number, brokers, min_isr)

    # ---- delete --------------------------------------------------------------------------------

    def delete(self, request: DeleteTopics) -> TopicsDeleted:
        """Writes the removal of what is there. Named twice, the second finds nothing."""
        image = self._ledger.decided
        deleted = []
        for name in request.names:
            try:
                topic = image.topics_by_name.get(name)
                deleted.append(self._delete(name, topic, request))
            except Refused as refused:
                deleted.append(DeletedTopic(name, None, refused.failure))
        for topic_id in request.topic_ids:
            topic = image.topics_by_id.get(topic_id)
            try:
                if topic is None:
                    why = f"topic id {topic_id[:64]}: {NO_SUCH_TOPIC}"
                    failure = Failure(errors.UnknownTopicId.code, why)
                    deleted.append(DeletedTopic(None, topic_id, failure))
                else:
                    deleted.append(self._delete(topic.name, topic, request))
            except Refused as refused:
                deleted.append(DeletedTopic(None, topic_id, refused.failure))
        return TopicsDeleted(tuple(deleted))

    def _delete(self, name: str, topic: TopicImage | None, request: DeleteTopics) -> DeletedTopic:
        if is_internal(name) and not request.internal:
            raise Refused(errors.InvalidTopic, name, THE_CLUSTERS_OWN)
        if topic is None:
            fault = topic_name_fault(name)
            error = errors.UnknownTopicOrPartition if fault is None else errors.InvalidTopic
            raise Refused(error, name, fault or NO_SUCH_TOPIC)
        self._ledger.write(RemoveTopicRecord(topic.topic_id))
        return DeletedTopic(topic.name, topic.topic_id)


def placed_replicas(image: MetadataImage, name: str, count: int, factor: int) -> Replicas:
    """Brokers for so many new partitions of topic `name`; Refused where there are too few."""
    live = image.live_brokers()
    if factor > len(image.brokers):
        raise Refused(
            errors.InvalidReplicationFactor,
            name,
            f"replication factor {factor}, but only {len(image.brokers)} brokers are registered",
        )
    if not live:
        raise Refused(
            errors.InvalidReplicationFactor,
            name,
            f"none of {len(image.brokers)} registered brokers is live; try again when one is back",
        )
    spots = ring(image.brokers[broker] for broker in live)
    placed = place(spots, count, min(factor, len(live)), start=image.partition_count)
    away = [broker for broker in sorted(image.brokers) if broker not in live]
    # As in Kafka, a broker that is down for a moment gets its replicas all the same: last in
    # order, outside the ISR, and it joins when it is back.
    return [
        replicas + tuple(away[(n + index) % len(away)] for n in range(factor - len(replicas)))
        for index, replicas in enumerate(placed)
    ]


def write_partition(
    ledger: Ledger, topic_id: TopicId, number: int, brokers: tuple[BrokerId, ...], min_isr: int
) -> None:
    """A new partition: its live replicas are in sync, the first of them leads."""
    image = ledger.decided
    isr = tuple(broker for broker in brokers if image.is_live(broker))
    ledger.write(
        PartitionRecord(
            topic_id=topic_id,
            partition=number,
            replicas=brokers,
            isr=isr,
            leader=isr[0],
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
            directories=tuple(map(image.directory_for, brokers)),
            never_committed=not is_enough(isr, brokers, min_isr),
        )
    )


def _assigned(
    image: MetadataImage, topic: NewTopic, assignment: Mapping[int, Sequence[int]]
) -> Replicas:
    """The replicas that the caller chose; every partition with equally many."""

    def refuse(why: str) -> Refused:
        return Refused(errors.InvalidReplicaAssignment, topic.name, why)

    # NewTopic's own default for the partitions is 1.
    if topic.num_partitions not in (-1, 1) or topic.replication_factor != -1:
        raise Refused(
            errors.InvalidRequest,
            topic.name,
            "give either counts or a replica assignment, not both",
        )
    if sorted(assignment) != list(range(len(assignment))):
        raise refuse(f"the partitions must be numbered 0 to {len(assignment) - 1} without a gap")
    lists = [assignment[number] for number in range(len(assignment))]
    return checked_replicas(image, topic.name, lists, first=0, factor=len(assignment[0]))


def checked_replicas(
    image: MetadataImage, name: str, lists: Sequence[Sequence[int]], *, first: int, factor: int
) -> Replicas:
    """The brokers that the caller chose for the partitions from `first` on, all with `factor`."""

    def refuse(why: str) -> Refused:
        return Refused(errors.InvalidReplicaAssignment, name, why)

    replicas: Replicas = []
    for number, chosen in enumerate(lists, first):
        brokers = tuple(BrokerId(broker) for broker in chosen)
        if not brokers or len(set(brokers)) != len(brokers):
            raise refuse(f"partition {number} must name one or more different brokers")
        if len(brokers) != factor:
            raise refuse(
                f"partition {number} has {len(brokers)} replicas, partition 0 has {factor}: all "
                "must have equally many"
            )
        unknown = [broker for broker in brokers if broker not in image.brokers]
        if unknown:
            raise refuse(f"partition {number} names broker {unknown[0]}, which is not registered")
        if not any(image.is_live(broker) for broker in brokers):
            raise refuse(f"none of the brokers {list(brokers)} of partition {number} is live")
        replicas.append(brokers)
    return replicas
