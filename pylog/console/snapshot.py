"""The console's picture of the cluster, with the time since which each part is out of date. Pure
values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from pylog.client.admin.admin_types import (
    GroupDescription,
    GroupListing,
    LogDirDescription,
    PartitionLag,
)
from pylog.client.admin.transaction_types import TransactionListing
from pylog.model import ClusterDescription, TopicDescription, TopicPartition

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """One part of what is known. `at_ms`: when it was last learnt; None: never.

    `failing_since_ms` and `fault`: when it began that asking fails, and how it fails now. A part
    that could be had incompletely has both, and is of now all the same.
    """

    value: T
    at_ms: int | None = None
    failing_since_ms: int | None = None
    fault: str = ""

    def learnt(self, value: T, at_ms: int, fault: str = "") -> Part[T]:
        """With a new value, which may be incomplete."""
        since = None if not fault else self.failing_since_ms or at_ms
        return Part(value, at_ms, since, fault)

    def failed(self, at_ms: int, fault: str) -> Part[T]:
        """With the value of before, because asking failed."""
        return replace(self, failing_since_ms=self.failing_since_ms or at_ms, fault=fault)


@dataclass(frozen=True, slots=True)
class GroupLook:
    """A group at one moment. `description` and `lags` are None where they could not be had."""

    listing: GroupListing
    description: GroupDescription | None = None
    lags: Mapping[TopicPartition, PartitionLag] | None = None

    @property
    def lag(self) -> int | None:
        """In records, of the partitions whose lag is known; None where it is of none."""
        known = [each.lag for each in (self.lags or {}).values() if each.lag is not None]
        return sum(known) if known else None

    @property
    def lag_seconds(self) -> float | None:
        """The age of the oldest record that it has not passed."""
        ages = (each.lag_seconds for each in (self.lags or {}).values())
        return max((age for age in ages if age is not None), default=None)

    @property
    def members(self) -> int | None:
        """The number of members; None where that is not known."""
        return None if self.description is None else len(self.description.members)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the group reads, or has read."""
        return frozenset(tp.topic for tp in self.lags or {})

    @property
    def spark_query(self) -> str | None:
        """The description that a Spark query commits with its progress; None of other groups."""
        for each in (self.lags or {}).values():
            text = "" if each.committed is None else each.committed.metadata
            if text.startswith("Spark query"):
                return text
        return None


Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All parts. `version` grows whenever one of them was asked for again."""

    version: int = 0
    cluster: Part[ClusterDescription | None] = Part(None)
    topics: Part[Mapping[str, TopicDescription]] = field(default_factory=lambda: Part({}))
    ends: Part[Ends] = field(default_factory=lambda: Part({}))
    rates: Mapping[str, float] = field(default_factory=dict)
    """Records a second by topic."""
    byte_rates: Mapping[str, float] = field(default_factory=dict)
    """Bytes a second by topic, by which one replica of each partition grew on disk."""
    disks: Part[Mapping[int, list[LogDirDescription]]] = field(default_factory=lambda: Part({}))
    groups: Part[Mapping[str, GroupLook]] = field(default_factory=lambda: Part({}))
    transactions: Part[list[TransactionListing]] = field(default_factory=lambda: Part([]))

    def faults(self) -> list[tuple[str, Part[Any]]]:
        """The parts that cannot be had at the moment, by the name that people have for them."""
        parts: list[tuple[str, Part[Any]]] = [
            ("the cluster", self.cluster),
            ("topics", self.topics),
            ("ends of partitions", self.ends),
            ("disks", self.disks),
            ("groups", self.groups),
            ("transactions", self.transactions),
        ]
        return [(name, part) for name, part in parts if part.failing_since_ms is not None]


def partition_sizes(disks: Mapping[int, list[LogDirDescription]]) -> dict[TopicPartition, int]:
    """Bytes of each partition's largest replica: one that is being filled counts for nothing."""
    sizes: dict[TopicPartition, int] = {}
    for directories in disks.values():
        for directory in directories:
            for tp, replica in directory.replicas.items():
                sizes[tp] = max(sizes.get(tp, 0), replica.size)
    return sizes


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic in one line. `bytes` counts all replicas; None where no disk was asked yet, and
    `byte_rate` is None until they were asked twice.
    """

    name: str
    internal: bool
    partitions: int
    replication: int
    leaderless: int
    under_replicated: int
    rate: float | None
    byte_rate: float | None
    bytes: int | None


def topic_rows(snapshot: Snapshot) -> list[TopicRow]:
    """All topics, by name."""
    sizes: dict[str, int] = {}
    for directories in snapshot.disks.value.values():
        for directory in directories:
            for tp, replica in directory.replicas.items():
                sizes[tp.topic] = sizes.get(tp.topic, 0) + replica.size
    known = snapshot.disks.at_ms is not None
    return [
        TopicRow(
            name,
            topic.internal,
            len(topic.partitions),
            max((len(each.replicas) for each in topic.partitions), default=0),
            sum(each.leader is None for each in topic.partitions),
            sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
            snapshot.rates.get(name),
            snapshot.byte_rates.get(name),
            sizes.get(name, 0) if known else None,
        )
        for name, topic in sorted(snapshot.topics.value.items())
    ]
