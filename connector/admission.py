"""The size of a micro-batch in records, and the time for it. Pure.

`minOffsetsPerTrigger` waits for enough records, `maxTriggerDelay` bounds that wait,
`maxOffsetsPerTrigger` shares a batch's size among the partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Offsets = Mapping[str, Mapping[int, int]]
"""Topic to partition to offset."""


@dataclass(slots=True)
class Pace:
    """The time at which the next batch is due. It lives as long as the query's run, like the wait
    itself.
    """

    min_offsets: int | None = None
    max_delay_ms: int = 0
    last_ms: int | None = None
    """The time at which the last batch was let through; None before the first, which never
    waits."""

    def due(self, waiting: int, now_ms: int) -> bool:
        """Whether `waiting` records are enough, or the wait was long enough.

        Time counts from the last batch that was let through, in `now_ms` of one monotonic clock.
        """
        if self.min_offsets is not None and self.last_ms is not None:
            late = now_ms - self.last_ms >= self.max_delay_ms
            if waiting < self.min_offsets and not late:
                return False
        self.last_ms = now_ms
        return True

    def left_ms(self, now_ms: int) -> int:
        """The longest time that a batch that is not due still has to wait."""
        assert self.last_ms is not None
        return max(0, self.last_ms + self.max_delay_ms - now_ms)


def waiting(begins: Offsets, latest: Offsets) -> int:
    """The number of offsets between the two, over all partitions."""
    return sum(
        max(0, latest[topic][p] - begin)
        for topic, offsets in begins.items()
        for p, begin in offsets.items()
    )


def limited(begins: Offsets, latest: Offsets, limit: int | None) -> dict[str, dict[int, int]]:
    """The ends when at most about `limit` records are read.

    Each partition gets max(1, floor(limit x its lag / all lag)), which is what Spark's Kafka
    connector gives: 3 over lags 5 and 3 reads 1 + 1, and many small lags may exceed the limit
    rather than starve.
    """
    total = waiting(begins, latest)
    ends: dict[str, dict[int, int]] = {}
    for topic, offsets in begins.items():
        ends[topic] = {}
        for partition, begin in offsets.items():
            lag = max(0, latest[topic][partition] - begin)
            share = lag
            if limit is not None and lag and total > limit:
                share = min(lag, max(1, limit * lag // total))
            ends[topic][partition] = begin + share
    return ends
