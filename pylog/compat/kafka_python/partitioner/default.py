"""The partitioners, and the function that a producer makes of whatever a program gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pylog.records import murmur2 as signed
from pylog.records.murmur2 import partition_for_key


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key, from 0 to 2^32 - 1."""
    return signed.murmur2(data) & 0xFFFFFFFF


class Partitions:
    """The cluster as a partitioner sees it: the partitions of the topic at hand."""

    def __init__(self, topic: str, partitions: list[int]) -> None:
        self._topic, self._partitions = topic, partitions

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """The topic at hand."""
        return {self._topic}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partitions; None for another topic."""
        return set(self._partitions) if topic == self._topic else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """The same: records wait for a partition that has no leader at the moment."""
        return self.partitions_for_topic(topic)


class Partitioner(ABC):
    """Chooses the partition of each record that names none."""

    @abstractmethod
    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int | None:
        """A partition's number."""


class DefaultPartitioner(Partitioner):
    """Kafka's: by the key, and without one to a partition that changes with each batch."""

    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int | None:
        """The key's partition; None has the producer choose."""
        if serialized_key is None:
            return None
        return partition_for_key(serialized_key, len(cluster.partitions_for_topic(topic)))


class StickyPartitioner(DefaultPartitioner):
    """The same: the default sticks to a partition already."""


Choose = Callable[[str, Any, bytes | None, Any, bytes | None, list[int]], int | None]


def chooser(given: Any) -> Choose | None:
    """The function that a producer calls for a record's partition; None for the default, which
    pylog's producer has itself.

    `given`: a Partitioner, an object with a method `partition` of (topic, key, cluster), or a
    function of (key, all partitions, available partitions) as kafka-python had it before version 3.
    """
    if given is None or type(given) in (DefaultPartitioner, StickyPartitioner):
        return None
    if isinstance(given, Partitioner):
        return lambda topic, key, key_bytes, value, value_bytes, numbers: given.partition(
            topic, key, key_bytes, value, value_bytes, Partitions(topic, numbers)
        )
    if hasattr(given, "partition"):
        return lambda topic, _key, key_bytes, _value, _value_bytes, numbers: given.partition(
            topic, key_bytes, Partitions(topic, numbers)
        )
    if callable(given):
        return lambda _topic, _key, key_bytes, _value, _value_bytes, numbers: given(
            key_bytes, numbers, numbers
        )
    raise TypeError(f"partitioner={given!r}: give a Partitioner, or a function")
