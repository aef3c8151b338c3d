"""The assignors that the broker has, by Kafka's names: they say what each member should read. Pure.

`uniform` gives every member about as many partitions, and moves as few as that takes. Where members
subscribe to the same topics, their shares differ by one at most. Racks decide among shares that are
as even: a partition goes to a member in the rack of one of its replicas where there is one.

`range` gives every member a contiguous span of each topic, in the order of the members' names. So
topics with as many partitions and the same subscribers are assigned alike, which joins rest on. It
does not look at what members had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heapreplace
from types import MappingProxyType
from typing import Final, NamedTuple

from pylog_broker.coordinator.groups.consumer.topics import (
    NO_PARTITIONS,
    Partitions,
    SubscribedTopic,
    TopicIdPartition,
)


class AssignedMember(NamedTuple):
    """A member, as an assignor sees it."""

    subscribed: frozenset[str]
    present: Partitions = NO_PARTITIONS
    """The partitions that the member had to read until now."""
    instance_id: str | None = None
    rack_id: str | None = None


Members = Mapping[str, AssignedMember]
Assignment = dict[str, Partitions]
Assignor = Callable[[Members, Iterable[SubscribedTopic]], Assignment]


def _subscribers(members: Members, topic: SubscribedTopic) -> list[str]:
    return [name for name in sorted(members) if topic.name in members[name].subscribed]


# ---- range ---------------------------------------------------------------------------------------


def assign_range(members: Members, topics: Iterable[SubscribedTopic]) -> Assignment:
    """Contiguous spans of each topic; the first members have one more where it does not divide.

    Static members come first, by their instance ids, so that one that starts again has its old
    span.
    """
    order = sorted(members, key=lambda name: (_place(members[name]), name))
    found: dict[str, list[TopicIdPartition]] = {name: [] for name in members}
    for topic in topics:
        readers = [name for name in order if topic.name in members[name].subscribed]
        if not readers:
            continue
        share, more = divmod(topic.partition_count, len(readers))
        start = 0
        for number, name in enumerate(readers):
            end = start + share + (number < more)
            found[name] += (TopicIdPartition(topic.topic_id, p) for p in range(start, end))
            start = end
    return {name: frozenset(partitions) for name, partitions in found.items()}


def _place(member: AssignedMember) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or ""


# ---- uniform -------------------------------------------------------------------------------------


def assign_uniform(members: Members, topics: Iterable[SubscribedTopic]) -> Assignment:
    """Even shares, as near as can be to what members had."""
    if not members:
        return {}
    return _Uniform(members, topics).assign()


class _Uniform:
    """One computation. Invariant: every partition of `shares` is of a topic that its member
    subscribes to, and in one share only; `loads` has how many each share has.
    """

    def __init__(self, members: Members, topics: Iterable[SubscribedTopic]) -> None:
        self._members = members
        self._subscribers = {
            topic: readers
            for topic in sorted(topics, key=lambda each: each.name)
            if topic.partition_count > 0 and (readers := _subscribers(members, topic))
        }
        self._shares: dict[str, set[TopicIdPartition]] = {name: set() for name in members}
        self._loads = dict.fromkeys(members, 0)
        self._has_racks = any(member.rack_id is not None for member in members.values())

    def assign(self) -> Assignment:
        left = self._keep()
        if self._has_racks:
            left = self._fill_by_rack(left)
        self._fill(left)
        self._balance()
        return {name: frozenset(share) for name, share in self._shares.items()}

    def _keep(self) -> dict[SubscribedTopic, list[int]]:
        """Every member keeps what it had and may still have. Gives what is left."""
        by_id = {topic.topic_id: topic for topic in self._subscribers}
        taken: set[TopicIdPartition] = set()
        for name in sorted(self._members):
            member = self._members[name]
            readable = {
                topic_id: topic.partition_count
                for topic_id, topic in by_id.items()
                if topic.name in member.subscribed
            }
            kept = {p for p in member.present if p.partition < readable.get(p.topic_id, 0)} - taken
            taken |= kept
            self._shares[name] = kept
            self._loads[name] = len(kept)
        return {
            topic: [each.partition for each in topic.partitions() if each not in taken]
            for topic in self._subscribers
        }

    def _fill_by_rack(
        self, left: dict[SubscribedTopic, list[int]]
    ) -> dict[SubscribedTopic, list[int]]:
        """Partitions with a replica in a member's rack go there, up to an even share. Gives what is
        still left.
        """
        total = sum(topic.partition_count for topic in self._subscribers)
        share, more = divmod(total, len(self._members))
        more -= sum(load > share for load in self._loads.values())
        still: dict[SubscribedTopic, list[int]] = {}
        for topic, partitions in left.items():
            still[topic] = []
            for partition in partitions:
                near = [
                    name
                    for name in self._subscribers[topic]
                    if self._is_near(name, topic, partition)
                    and self._loads[name] < share + (more > 0)
                ]
                if near:
                    name = min(near, key=self._loads.__getitem__)
                    more -= self._loads[name] == share
                    self._give(name, TopicIdPartition(topic.topic_id, partition))
                else:
                    still[topic].append(partition)
        return still

    def _fill(self, left: dict[SubscribedTopic, list[int]]) -> None:
        """Give the partitions that are left to the members with the fewest, topics with the fewest
        readers first."""
        for topic in sorted(left, key=lambda each: (len(self._subscribers[each]), each.name)):
            if not left[topic]:
                continue
            heap = [(self._loads[name], name) for name in self._subscribers[topic]]
            heapify(heap)
            for partition in left[topic]:
                load, name = heap[0]
                self._give(name, TopicIdPartition(topic.topic_id, partition))
                heapreplace(heap, (load + 1, name))

    def _balance(self) -> None:
        """Partitions move from members with more to members with fewer, while that makes shares
        more even.

        They move from the members with most of all readers of the topic, so that no member gives
        away a partition for which it must get another back; from others only where those have none
        of any topic to give. One of a topic in each pass, so that topics are spread, too. Each move
        makes the sum of the shares' squares smaller, so it ends.
        """
        while self._move_some(from_fullest=True) or self._move_some(from_fullest=False):
            pass

    def _move_some(self, *, from_fullest: bool) -> bool:
        """Whether anything moved: from others than the fullest one partition at most."""
        moved = False
        for topic, readers in self._subscribers.items():
            if self._is_even():
                return False
            if self._move_one(topic, readers, from_fullest):
                moved = True
                if not from_fullest:
                    return True
        return moved

    def _is_even(self) -> bool:
        loads = self._loads.values()
        return max(loads) - min(loads) <= 1

    def _move_one(self, topic: SubscribedTopic, readers: list[str], from_fullest: bool) -> bool:
        loads = self._loads
        receiver = min(readers, key=loads.__getitem__)
        enough = loads[receiver] + 2
        if from_fullest:
            enough = max(enough, max(map(loads.__getitem__, readers)))
        givers = [name for name in readers if loads[name] >= enough]
        for giver in sorted(givers, key=loads.__getitem__, reverse=True):
            mine = [each for each in self._shares[giver] if each.topic_id == topic.topic_id]
            if mine:
                moving = max(mine, key=lambda each: self._fitness(each, topic, giver, receiver))
                self._shares[giver].remove(moving)
                loads[giver] -= 1
                self._give(receiver, moving)
                return True
        return False

    def _fitness(
        self, each: TopicIdPartition, topic: SubscribedTopic, giver: str, receiver: str
    ) -> tuple[int, int]:
        gained = self._is_near(receiver, topic, each.partition)
        lost = self._is_near(giver, topic, each.partition)
        return gained - lost, each.partition

    def _is_near(self, name: str, topic: SubscribedTopic, partition: int) -> bool:
        rack_id = self._members[name].rack_id
        return partition < len(topic.racks) and rack_id in topic.racks[partition]

    def _give(self, name: str, partition: TopicIdPartition) -> None:
        self._shares[name].add(partition)
        self._loads[name] += 1


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {"uniform": assign_uniform, "range": assign_range}
)
"""By the names that members ask for. The first one is the default."""
