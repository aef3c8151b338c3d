"""The choice of a partition for a record that names none.

Pure: random numbers are handed in. Three ways, as in Kafka: by key (murmur2, see
`TopicBuffer.partition_of`), sticky (records without a key stay together, KIP-480 and KIP-794), and
a partitioner of the user's, of which `RoundRobin` is one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """The topic, as a partitioner gets it."""

    count: int
    available: Sequence[int]
    """Those that have a live leader, in order; may be empty."""


@runtime_checkable
class Partitioner(Protocol):
    """An object with a state of its own. A plain callable `(topic, key, value, count)` will do
    where the number of partitions is all that is needed.
    """

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions
    ) -> int:
        """The record's partition; key and value are serialized. Called by the sending threads,
        perhaps by several at once.
        """


class RoundRobin:
    """Every record to the next partition that has a leader, keys or not (Kafka's
    RoundRobinPartitioner).

    With several threads, two of them may get the same number now and then.
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: TopicPartitions
    ) -> int:
        """The next one of the topic."""
        number = self._next.get(topic, 0)
        self._next[topic] = number + 1
        if partitions.available:
            return partitions.available[number % len(partitions.available)]
        return number % partitions.count


@dataclass(slots=True)
class StickyPartition:
    """The partition that a topic's keyless records stick to, until `batch.size` bytes went there.

    Then it is the next one's turn. With `adaptive`, while more batches wait for some than for
    others, the next one is drawn instead: the rarer, the more wait for it, so that a slow broker
    gets fewer records (KIP-794). The table of chances is made anew every few draws: over a
    thousand partitions that takes longer than to fill a batch.
    """

    adaptive: bool
    draw: Callable[[int], int]
    """`draw(n)` gives a number from 0 to n - 1."""
    current: int = 0
    produced: int = 0
    _partitions: Sequence[int] = ()
    _chances: Sequence[int] = ()
    _draws_left: int = field(default=0)

    def start(self, partitions: Sequence[int]) -> None:
        """Stick to any of these."""
        self.current = partitions[self.draw(len(partitions))]
        self.produced = 0

    def advance(
        self, partitions: Callable[[], Sequence[int]], waiting: Callable[[int], int]
    ) -> None:
        """Go on to another of `partitions()`, which are in order and at least one;
        `waiting(partition)` tells how many batches wait there.
        """
        self.produced = 0
        if self._draws_left <= 0:
            self._partitions = partitions()
            loads = [waiting(p) for p in self._partitions] if self.adaptive else []
            self._chances = chances(loads) if loads and max(loads) > min(loads) else ()
            self._draws_left = 1 + len(self._partitions) // 16
        self._draws_left -= 1
        if self._chances:
            place = bisect_right(self._chances, self.draw(self._chances[-1]))
            self.current = self._partitions[place]
        else:
            place = bisect_right(self._partitions, self.current)
            self.current = self._partitions[place if place < len(self._partitions) else 0]

    def forget_loads(self) -> None:
        """The partitions changed: look again."""
        self._draws_left = 0


def chances(loads: Sequence[int]) -> list[int]:
    """The running sum of each one's weight, which is by how much its load is below the largest
    one's, and one.
    """
    highest = max(loads)
    return list(accumulate(highest + 1 - load for load in loads))
