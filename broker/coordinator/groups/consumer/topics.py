"""The topics that groups of the consumer protocol read, as the coordinator knows them. Pure.

Metadata belong to the broker: it gives the coordinator a `Topics`, and tells it which of them have
changed. A group keeps no copy, only a hash of what its target was computed from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import NamedTuple, Protocol

from pylog.model import TopicId


class TopicIdPartition(NamedTuple):
    """A partition of one topic, and of no later one by the same name."""

    topic_id: TopicId
    partition: int


Partitions = frozenset[TopicIdPartition]
NO_PARTITIONS: Partitions = frozenset()


class SubscribedTopic(NamedTuple):
    """A topic that exists."""

    name: str
    topic_id: TopicId
    partition_count: int
    racks: tuple[frozenset[str], ...] = ()
    """The racks of each partition's replicas; empty where brokers have no racks."""

    def partitions(self) -> Iterable[TopicIdPartition]:
        """All its partitions, in order."""
        return (TopicIdPartition(self.topic_id, each) for each in range(self.partition_count))


class Topics(Protocol):
    """The metadata of topics, as far as this broker knows them."""

    def topic(self, name: str) -> SubscribedTopic | None:
        """The topic of that name; None while there is none."""

    def names(self) -> Collection[str]:
        """The names of all topics. To look at, not to keep."""


def metadata_hash(topics: Iterable[SubscribedTopic]) -> int:
    """64 bits, signed, that change when any of these topics does; 0 of no topics. The same on every
    broker, whatever the order.
    """
    digest = blake2b(digest_size=8)
    found = False
    for topic in sorted(topics):
        found = True
        racks = [sorted(each) for each in topic.racks]
        digest.update(repr((topic.name, topic.topic_id, topic.partition_count, racks)).encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
