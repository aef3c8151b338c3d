"""The partitions that get far more than their share of a topic's bytes. Pure.

Keys that skew, or a few big values, fill one partition, and with it one broker's disk and one
consumer, while the others idle. A broker compares the replicas that it has, which is all of a topic
where it has as many replicas as there are brokers, and a sample of it elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pylog.model import TopicPartition

LOOK_MS: Final = 300_000
"""From look to look: shorter ones would tell of every burst."""
SKEWED: Final = 4.0
"""A partition with so many times the mean of its topic is reported. A skew of two is what hashing
few keys gives."""
SKEWED_SHARE: Final = 0.8
"""So is one with this share of its topic, of which few partitions are here."""
BYTES_MIN: Final = 10 << 20
"""The fewest bytes of a topic from look to look; with fewer nobody is in trouble."""

BytesBetween = Callable[[TopicPartition, int, int], int]
"""About how many bytes a partition's log has from one offset to another."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The partition of a topic that grew most. `times`: as much as the mean of those here."""

    partition: TopicPartition
    bytes: int
    all_bytes: int
    partitions: int

    @property
    def times(self) -> float:
        """1: all grew alike."""
        return self.bytes * self.partitions / self.all_bytes

    @property
    def is_large(self) -> bool:
        """Whether it is to be told."""
        return self.times >= min(SKEWED, SKEWED_SHARE * self.partitions)

    def __str__(self) -> str:
        return (
            f"{self.partition} got {self.bytes} of the {self.all_bytes} bytes that came to "
            f"the {self.partitions} partitions of its topic here within {LOOK_MS // 60_000} min, "
            f"{self.times:.1f} times the mean: look at the keys, the partitioner and the largest "
            "values of its producers"
        )


class SkewWatch:
    """Compares the ends of logs from look to look."""

    def __init__(self) -> None:
        self.by_topic: dict[str, Skew] = {}
        """The topics with several partitions here that got `BYTES_MIN` before the last look."""
        self._ends: dict[TopicPartition, int] = {}

    def look(self, ends: Mapping[TopicPartition, int], bytes_between: BytesBetween) -> list[Skew]:
        """The topics that are skewed and were not the last time."""
        grown: dict[str, list[tuple[int, TopicPartition]]] = {}
        for name, end in ends.items():
            if (start := self._ends.get(name)) is not None:
                size = bytes_between(name, start, end) if start < end else 0
                grown.setdefault(name.topic, []).append((size, name))
        self._ends = dict(ends)
        before, self.by_topic = self.by_topic, {}
        for topic, growth in grown.items():
            total = sum(size for size, _ in growth)
            if len(growth) > 1 and total >= BYTES_MIN:
                size, largest = max(growth)
                self.by_topic[topic] = Skew(largest, size, total, len(growth))
        return [
            skew
            for topic, skew in self.by_topic.items()
            if skew.is_large and not (topic in before and before[topic].is_large)
        ]
