"""Adding partitions to topics. Records stay where they are.

Keys go to other partitions from then on: that is the caller's business, as in Kafka.
"""

from __future__ import annotations

from collections import Counter

from pylog import errors
from pylog.model import is_internal
from pylog_broker.controller.ledger import Ledger
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.controller.topics import (
    NO_SUCH_TOPIC,
    THE_CLUSTERS_OWN,
    TWICE,
    Refused,
    checked_replicas,
    placed_replicas,
    write_partition,
)
from pylog_broker.metadata.admin import (
    CreatePartitions,
    GrownTopic,
    NewPartitionsOf,
    PartitionsCreated,
)


class TopicGrowth:
    """Writes new partitions to the ledger. Owns no state."""

    def __init__(self, ledger: Ledger, settings: ControllerSettings) -> None:
        self._ledger = ledger
        self._settings = settings

    def create(self, request: CreatePartitions) -> PartitionsCreated:
        """Writes what can be added; the answer is to be given when the brokers know of it."""
        names = Counter(topic.topic for topic in request.topics)
        grown = []
        for topic in request.topics:
            try:
                if names[topic.topic] > 1:
                    raise Refused(errors.InvalidRequest, topic.topic, TWICE)
                grown.append(self._grow(topic, validate_only=request.validate_only))
            except Refused as refused:
                grown.append(GrownTopic(topic.topic, refused.failure))
        return PartitionsCreated(tuple(grown))

    def _grow(self, wanted: NewPartitionsOf, *, validate_only: bool) -> GrownTopic:
        image = self._ledger.decided
        name = wanted.topic
        topic = image.topics_by_name.get(name)
        if topic is None:
            raise Refused(errors.UnknownTopicOrPartition, name, NO_SUCH_TOPIC)
        if is_internal(name):
            raise Refused(errors.InvalidTopic, name, THE_CLUSTERS_OWN)
        there = len(topic.partitions)
        added = wanted.total_count - there
        self._check_count(name, there, wanted.total_count)
        factor = len(topic.partitions[0].target_replicas)
        if wanted.assignment is None:
            replicas = placed_replicas(image, name, added, factor)
        elif len(wanted.assignment) != added:
            raise Refused(
                errors.InvalidReplicaAssignment,
                name,
                f"{added} partitions are added, but the assignment has {len(wanted.assignment)}",
            )
        else:
            replicas = checked_replicas(image, name, wanted.assignment, first=there, factor=factor)
        if not validate_only:
            min_isr = self._settings.min_isr(image.topic_configs(name), image.cluster_configs())
            for number, brokers in enumerate(replicas, there):
                write_partition(self._ledger, topic.topic_id, number, brokers, min_isr)
        return GrownTopic(name, None, wanted.total_count)

    def _check_count(self, name: str, there: int, wanted: int) -> None:
        if wanted <= there:
            why = "that is what it has" if wanted == there else "partitions cannot be taken away"
            raise Refused(
                errors.InvalidPartitions,
                name,
                f"it has {there} partitions, {wanted} were asked for: {why}",
            )
        most = self._settings.partitions_per_request_max
        if wanted - there > most:
            raise Refused(
                errors.InvalidPartitions,
                name,
                f"{wanted - there} more partitions; the limit is {most} in one request",
            )
        all_there = self._ledger.decided.partition_count
        if all_there + wanted - there > self._settings.partitions_max:
            raise Refused(
                errors.InvalidPartitions,
                name,
                f"the cluster has {all_there} partitions, {wanted - there} more "
                f"would exceed its limit of {self._settings.partitions_max}",
            )
