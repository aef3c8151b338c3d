"""Produce and fetch requests that name topics by id alone (KIP-516) get the topics' names.

It is done before anything looks at a request, because settings, the rules about internal topics and
whatever waits go by name.
"""

from __future__ import annotations

from collections.abc import Callable

from pylog.model import TopicId, TopicPartition
from pylog_broker.replication.fetch_messages import Fetch, PartitionFetch
from pylog_broker.replication.produce_messages import PartitionBatch, Produce

TopicName = Callable[[TopicId], str | None]
"""The name of the topic with an id; None when there is no such topic."""


def produce_by_name(request: Produce, topic_name: TopicName) -> Produce:
    """The request with a name for each batch whose topic id is known. An unknown id stays without
    one, and is refused with UNKNOWN_TOPIC_ID where partitions are looked up.
    """
    for item in request.batches:  # asked of every request: no generator
        if not item.topic_partition.topic:
            batches = tuple(_named(batch, topic_name) for batch in request.batches)
            return request._replace(batches=batches)
    return request


def fetch_by_name(request: Fetch, topic_name: TopicName) -> Fetch:
    """The same for the partitions of a fetch."""
    for item in request.partitions:
        if not item.topic_partition.topic:
            partitions = tuple(_asked(each, topic_name) for each in request.partitions)
            return request._replace(partitions=partitions)
    return request


def _named(item: PartitionBatch, topic_name: TopicName) -> PartitionBatch:
    return item._replace(topic_partition=_name_of(item.topic_partition, item.topic_id, topic_name))


def _asked(item: PartitionFetch, topic_name: TopicName) -> PartitionFetch:
    return item._replace(topic_partition=_name_of(item.topic_partition, item.topic_id, topic_name))


def _name_of(
    given: TopicPartition, topic_id: TopicId | None, topic_name: TopicName
) -> TopicPartition:
    if given.topic or topic_id is None:
        return given
    return TopicPartition(topic_name(topic_id) or "", given.partition)
