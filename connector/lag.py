"""The lag of a query behind the newest offsets, for its progress. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pylog.model import TopicPartition
from pylog_connector.offsets import StreamOffset
from pylog_connector.planning import Bounds

PARTITIONS_TOLD_MAX: Final = 100
"""The most partitions that are told of, those that are furthest behind: the progress is written to
logs and kept in memory for each of the last 100 batches."""


@dataclass(frozen=True, slots=True)
class Unread:
    """The unread records, as far as leaders tell of them: the time of the first one, and the bytes,
    by partition.
    """

    times: Mapping[TopicPartition, int] = field(default_factory=dict)
    bytes: Mapping[TopicPartition, int] = field(default_factory=dict)


NOTHING_TOLD: Final = Unread()


@dataclass(frozen=True, slots=True)
class Lag:
    """After a batch that ends somewhere. `records` are left in each partition; `behind`: between
    which offsets, in those that have some left.
    """

    latest: Mapping[str, Mapping[str, int]]
    records: tuple[int, ...]
    behind: Mapping[TopicPartition, tuple[int, int]]

    @classmethod
    def of(cls, bounds: Bounds, end: StreamOffset) -> Lag:
        """The lag after a batch that ends at `end`, by the bounds of the cluster."""
        records, behind = [], {}
        for name, has in bounds.items():
            topic = end.topics.get(name)
            for partition, bound in has.partitions.items():
                at = topic.partitions.get(partition) if topic is not None else None
                offset = at.offset if at is not None else 0
                records.append(max(0, bound.latest - offset))
                if records[-1]:
                    behind[TopicPartition(name, partition)] = offset, bound.latest
        latest = {
            name: {str(p): has.partitions[p].latest for p in sorted(has.partitions)}
            for name, has in sorted(bounds.items())
        }
        return cls(latest, tuple(records), behind)

    def told(self, unread: Unread, now_ms: int) -> dict[str, Any]:
        """As the progress shows it: over all partitions, and of each one that is behind; seconds
        and bytes where leaders tell them.
        """
        told: dict[str, Any] = {}
        if self.records:
            told = {
                "avgOffsetsBehindLatest": round(sum(self.records) / len(self.records), 1),
                "maxOffsetsBehindLatest": max(self.records),
                "minOffsetsBehindLatest": min(self.records),
                "recordsBehindLatest": sum(self.records),
            }
            times = [time_ms for at, time_ms in unread.times.items() if at in self.behind]
            if times or not self.behind:
                told["secondsBehindLatest"] = _seconds(min(times, default=now_ms), now_ms)
            if all(at in unread.bytes for at in self.behind):
                told["bytesBehindLatest"] = sum(unread.bytes[at] for at in self.behind)
        if self.behind:
            told["partitionsBehindLatest"] = self._by_partition(unread, now_ms)
        # A topic of such a name would win: offsets are what Spark's own source shows here.
        return told | dict(self.latest)

    def _by_partition(self, unread: Unread, now_ms: int) -> dict[str, dict[str, Any]]:
        def records(at: TopicPartition) -> int:
            start, end = self.behind[at]
            return end - start

        furthest = sorted(self.behind, key=records, reverse=True)[:PARTITIONS_TOLD_MAX]
        found: dict[str, dict[str, Any]] = {}
        for at in sorted(furthest):
            shown: dict[str, Any] = {"records": records(at)}
            if at in unread.bytes:
                shown["bytes"] = unread.bytes[at]
            if at in unread.times:
                shown["seconds"] = _seconds(unread.times[at], now_ms)
            found.setdefault(at.topic, {})[str(at.partition)] = shown
        return found


def _seconds(time_ms: int, now_ms: int) -> float:
    return max(now_ms - time_ms, 0) / 1000
