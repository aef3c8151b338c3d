"""How far a query is behind what there is, for its progress. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pylog.model import TopicPartition
from pylog_connector.offsets import StreamOffset
from pylog_connector.planning import Bounds


@dataclass(frozen=True, slots=True)
class Lag:
    """After a batch that ends somewhere. `records` are left in each partition; `behind`: where, in
    those that have some left.
    """

    latest: Mapping[str, Mapping[str, int]]
    records: tuple[int, ...]
    behind: Mapping[TopicPartition, int]

    @classmethod
    def of(cls, bounds: Bounds, end: StreamOffset) -> Lag:
        """What lies between the end of a batch and what the cluster has."""
        records, behind = [], {}
        for name, has in bounds.items():
            topic = end.topics.get(name)
            for partition, bound in has.partitions.items():
                at = topic.partitions.get(partition) if topic is not None else None
                offset = at.offset if at is not None else 0
                records.append(max(0, bound.latest - offset))
                if records[-1]:
                    behind[TopicPartition(name, partition)] = offset
        latest = {
            name: {str(p): has.partitions[p].latest for p in sorted(has.partitions)}
            for name, has in sorted(bounds.items())
        }
        return cls(latest, tuple(records), behind)

    def told(self, oldest_ms: int | None, now_ms: int) -> dict[str, Any]:
        """As the progress shows it; `oldest_ms`: the time of the oldest record that is left, None
        where it is not known.
        """
        told: dict[str, Any] = {}
        if self.records:
            told = {
                "avgOffsetsBehindLatest": round(sum(self.records) / len(self.records), 1),
                "maxOffsetsBehindLatest": max(self.records),
                "minOffsetsBehindLatest": min(self.records),
                "recordsBehindLatest": sum(self.records),
            }
            if not self.behind:
                told["secondsBehindLatest"] = 0.0
            elif oldest_ms is not None:
                told["secondsBehindLatest"] = max(now_ms - oldest_ms, 0) / 1000
        # A topic of such a name would win: offsets are what Spark's own source shows here.
        return told | dict(self.latest)
