"""The positions of a stream that its commit group is to be told, and the time for it. Pure.

The group gets a partition's position when it has changed, and again before it could expire: an idle
query commits nothing new, and a coordinator forgets what nobody has committed for
`offsets.retention.minutes`. One commit is out at a time, so a slow cluster is told the newest
positions only; after a failure the next attempt waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pylog.model import TopicPartition
from pylog_connector.offsets import PartitionPosition

PARTITIONS_MAX: Final = 1_000
"""The most partitions of one commit: a coordinator writes its records at once, up to 1 MB, and a
record has group and topic of up to 255 characters each, and the metadata."""
RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 60_000
"""The waits after failures: doubled each time up to the second, and short again after a success."""
REPEAT_MS_MIN: Final = 5_000
REPEAT_MS_MAX: Final = 600_000
"""Also how soon a retention that an operator lowered is noticed."""
REPEAT_MS_UNKNOWN: Final = 15_000
"""A quarter of the least `offsets.retention.minutes` that there is, 1."""

Positions = Mapping[TopicPartition, PartitionPosition]


def repeat_ms(retention_ms: int | None) -> int:
    """The interval at which idle positions are committed again, by the cluster's retention; None:
    unknown.
    """
    if retention_ms is None:
        return REPEAT_MS_UNKNOWN
    return min(max(retention_ms // 4, REPEAT_MS_MIN), REPEAT_MS_MAX)


class GroupProgress:
    """Invariant: the query has finished the positions that `due` gives, and they are out until
    `committed` or `failed` is called. Times are of one monotonic clock.
    """

    def __init__(self) -> None:
        self.repeat_ms = REPEAT_MS_UNKNOWN
        self._finished: dict[TopicPartition, PartitionPosition] = {}
        self._told: dict[TopicPartition, tuple[PartitionPosition, int]] = {}
        self._failures = 0
        self._not_before_ms = 0

    def finished(self, positions: Positions) -> bool:
        """The query has finished up to here; whether that is news. A partition that is read no
        longer is left to expire.
        """
        if positions == self._finished:
            return False
        self._finished = dict(positions)
        self._told = {tp: told for tp, told in self._told.items() if tp in positions}
        return True

    @property
    def is_told(self) -> bool:
        """Whether the group has all that was finished."""
        return all(self._knows(tp, at) for tp, at in self._finished.items())

    def due(self, now_ms: int) -> dict[TopicPartition, PartitionPosition]:
        """The positions to commit now, `PARTITIONS_MAX` at most; empty when none is due."""
        if now_ms < self._not_before_ms:
            return {}
        late = [
            tp
            for tp, at in self._finished.items()
            if not self._knows(tp, at) or now_ms - self._told[tp][1] >= self.repeat_ms
        ]
        return {tp: self._finished[tp] for tp in late[:PARTITIONS_MAX]}

    def wait_ms(self, now_ms: int) -> int | None:
        """The time until a position is due, if the query does not go on before; None: never."""
        if not self._finished:
            return None
        repeats = [
            self._told[tp][1] + self.repeat_ms if self._knows(tp, at) else now_ms
            for tp, at in self._finished.items()
        ]
        return max(min(repeats), self._not_before_ms, now_ms) - now_ms

    def committed(self, positions: Positions, now_ms: int) -> None:
        """The coordinator has these, or has refused them for good."""
        self._failures = self._not_before_ms = 0
        self._told.update(
            (tp, (at, now_ms)) for tp, at in positions.items() if tp in self._finished
        )

    def failed(self, now_ms: int) -> None:
        """The last commit did not work: the next one waits."""
        wait_ms = min(RETRY_MS << min(self._failures, 10), RETRY_MS_MAX)
        self._failures += 1
        self._not_before_ms = now_ms + wait_ms

    def _knows(self, tp: TopicPartition, at: PartitionPosition) -> bool:
        told = self._told.get(tp)
        return told is not None and told[0].offset == at.offset


def flat(position: Mapping[str, Mapping[int, PartitionPosition]]) -> Positions:
    """Positions by topic as positions by partition."""
    return {
        TopicPartition(topic, partition): at
        for topic, partitions in position.items()
        for partition, at in partitions.items()
    }


def in_words(partitions: Iterable[TopicPartition], most: int = 3) -> str:
    """Some partitions for a line of the log."""
    named = [*map(str, partitions)]
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more
