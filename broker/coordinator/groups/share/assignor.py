"""The assignor of share groups, `simple` by Kafka's name: partitions have several readers. Pure.

Among members that subscribe to the same topics, every partition has as many readers as any other,
the fewest with which every member has something to read; and members' shares differ by one at
most. As far as that allows, members keep what they had. Racks do not count.

Topics with other subscribers are assigned for themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from pylog_broker.coordinator.groups.consumer.topics import (
    NO_PARTITIONS,
    Partitions,
    SubscribedTopic,
    TopicIdPartition,
)

SIMPLE: Final = "simple"
"""The assignor's name."""

_Shares = dict[str, set[TopicIdPartition]]


class SharingMember(NamedTuple):
    """A member, as the assignor sees it."""

    subscribed: frozenset[str]
    present: Partitions = NO_PARTITIONS
    """The partitions that the member had to read until now."""


def assign_simple(
    members: Mapping[str, SharingMember],
    topics: Iterable[SubscribedTopic],
    assignable: Partitions,
) -> dict[str, Partitions]:
    """The partitions that each member reads, of those that are `assignable`."""
    found: dict[str, Partitions] = dict.fromkeys(members, NO_PARTITIONS)
    by_readers: dict[tuple[str, ...], list[TopicIdPartition]] = defaultdict(list)
    for topic in sorted(topics, key=lambda each: each.name):
        readers = tuple(name for name in sorted(members) if topic.name in members[name].subscribed)
        if readers:
            by_readers[readers] += (each for each in topic.partitions() if each in assignable)
    for readers, partitions in by_readers.items():
        if not partitions:
            continue
        present = {name: members[name].present for name in readers}
        for name, share in _assign(readers, partitions, present).items():
            found[name] = found[name].union(share)
    return found


def _assign(
    readers: Sequence[str],
    partitions: Sequence[TopicIdPartition],
    present: Mapping[str, Partitions],
) -> Mapping[str, Iterable[TopicIdPartition]]:
    """Shares for members that all read all of the topics."""
    sharing = -(-len(readers) // len(partitions))
    kept = _kept(readers, partitions, present, sharing)
    return _filled(kept, partitions, sharing) or _anew(readers, partitions, sharing)


def _kept(
    readers: Sequence[str],
    partitions: Sequence[TopicIdPartition],
    present: Mapping[str, Partitions],
    sharing: int,
) -> _Shares:
    """The partitions of each share that may stay: no partition has too many readers then, no member
    too much."""
    quota, larger = divmod(len(partitions) * sharing, len(readers))
    free = dict.fromkeys(partitions, sharing)
    kept: _Shares = {}
    # Those with the largest shares first: they are the ones that may have one more.
    for name in sorted(readers, key=lambda each: (-len(present[each]), each)):
        stays = [each for each in sorted(present[name]) if free.get(each, 0) > 0]
        allowed = quota + (larger > 0)
        if len(stays) >= allowed:
            larger -= allowed > quota
            stays = stays[:allowed]
        for each in stays:
            free[each] -= 1
        kept[name] = set(stays)
    return kept


def _filled(
    shares: _Shares, partitions: Sequence[TopicIdPartition], sharing: int
) -> _Shares | None:
    """The shares with all that is missing; None where those that have least have it already, so
    that shares would not be even.
    """
    readers_of = dict.fromkeys(partitions, 0)
    for share in shares.values():
        for each in share:
            readers_of[each] += 1
    heap = [(len(share), name) for name, share in shares.items()]
    heapify(heap)
    for partition, count in readers_of.items():
        passed = []
        for _ in range(sharing - count):
            while heap and partition in shares[heap[0][1]]:
                passed.append(heappop(heap))
            if not heap:
                return None
            load, name = heappop(heap)
            shares[name].add(partition)
            passed.append((load + 1, name))
        for entry in passed:
            heappush(heap, entry)
    loads = [len(share) for share in shares.values()]
    return shares if max(loads) - min(loads) <= 1 else None


def _anew(readers: Sequence[str], partitions: Sequence[TopicIdPartition], sharing: int) -> _Shares:
    """Partitions are dealt out to members in turn, so many times that all have been served. No
    member gets one twice: that would take more rounds than there are.
    """
    shares: _Shares = {name: set() for name in readers}
    for number in range(len(partitions) * sharing):
        shares[readers[number % len(readers)]].add(partitions[number % len(partitions)])
    return shares
