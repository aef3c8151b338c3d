"""The partitions that get far more than their share of a topic's records. Pure.

A partition function that skews fills one partition, and with it one broker's disk and one consumer,
while the others idle. A broker compares the replicas that it has, which is all of a topic where it
has as many replicas as there are brokers, and a sample of it elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pylog.model import TopicPartition

LOOK_MS: Final = 300_000
"""From look to look: shorter ones would tell of every burst."""
SKEWED: Final = 4.0
"""A partition with so many times the mean of its topic is reported. A skew of two is what hashing
few keys gives."""
RECORDS_MIN: Final = 10_000
"""The fewest records of a topic from look to look; with fewer nobody is in trouble."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The partition of a topic that grew most. `times`: as much as the mean of those here."""

    partition: TopicPartition
    records: int
    all_records: int
    partitions: int
    times: float

    def __str__(self) -> str:
        return (
            f"{self.partition} got {self.records} of the {self.all_records} records that came to "
            f"the {self.partitions} partitions of its topic here within {LOOK_MS // 60_000} min, "
            f"{self.times:.1f} times the mean: look at the keys, or the partitioner, of its "
            "producers"
        )


class SkewWatch:
    """Compares the ends of logs from look to look."""

    def __init__(self) -> None:
        self.by_topic: dict[str, float] = {}
        """The largest growth of a partition by the mean of its topic; 1: all grow alike. Topics
        with several partitions here that got `RECORDS_MIN` records before the last look.
        """
        self._ends: dict[TopicPartition, int] = {}
        self._told: set[str] = set()

    def look(self, ends: Mapping[TopicPartition, int]) -> list[Skew]:
        """The topics that are skewed and were not the last time."""
        grown: dict[str, list[tuple[int, TopicPartition]]] = {}
        for name, end in ends.items():
            if name in self._ends:
                grown.setdefault(name.topic, []).append((max(0, end - self._ends[name]), name))
        self._ends = dict(ends)
        self.by_topic = {}
        found = []
        for topic, growth in grown.items():
            total = sum(records for records, _ in growth)
            if len(growth) < 2 or total < RECORDS_MIN:
                continue
            records, largest = max(growth)
            times = self.by_topic[topic] = records * len(growth) / total
            if times >= min(SKEWED, len(growth)):
                found.append(Skew(largest, records, total, len(growth), times))
        skewed = {skew.partition.topic for skew in found}
        news = [skew for skew in found if skew.partition.topic not in self._told]
        self._told = skewed
        return news
