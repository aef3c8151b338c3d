"""The assignment in a classic group: the assignors that run at the group's leader. Pure.

Each has Kafka's name and gives what Kafka's says it gives: `range` deals out each topic by itself,
`roundrobin` all partitions in turn, `sticky` and `cooperative-sticky` keep what members have as far
as balance allows. Racks are not looked at.
"""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple, Protocol

from pylog import errors
from pylog.consumer_protocol import (
    NO_GENERATION,
    Reader,
    Subscription,
    encode_partitions,
)
from pylog.model import TopicPartition

Plan = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id; each member stands in it."""


class Member(NamedTuple):
    """A member of the group, as its leader sees it."""

    member_id: str
    subscription: Subscription
    instance_id: str | None = None


class Assignor(Protocol):
    """One way to share partitions out. A user's own one has a name of its own."""

    @property
    def name(self) -> str:
        """The name on which members of a group agree, and which `groups describe` shows."""

    @property
    def cooperative(self) -> bool:
        """Whether a member may keep what it has while the group rebalances (KIP-429). A partition
        that moves is then to be left out until its owner has given it up.
        """

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """User data of a member for the leader, beside its topics; `owned`: its last partitions."""

    def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
        """Share out the topics' partitions, each to a member that is subscribed to its topic."""


class RangeAssignor:
    """An assignor that gives each member neighbouring partitions of each topic, the first members
    getting those that are left over: so partitions of the same number meet, and many topics add up
    to a skew.
    """

    name: ClassVar[str] = "range"
    cooperative: ClassVar[bool] = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Nothing."""
        return None

    def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
        """Topic by topic."""
        plan: Plan = {member.member_id: [] for member in members}
        for topic, subscribers in _subscribers(partition_counts, members).items():
            span, left_over = divmod(partition_counts[topic], len(subscribers))
            start = 0
            for place, member_id in enumerate(subscribers):
                end = start + span + (place < left_over)
                plan[member_id] += (TopicPartition(topic, number) for number in range(start, end))
                start = end
        return plan


class RoundRobinAssignor:
    """All partitions in order, dealt out to the members in turn."""

    name: ClassVar[str] = "roundrobin"
    cooperative: ClassVar[bool] = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Nothing."""
        return None

    def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
        """A member that is not subscribed to a partition's topic is passed over."""
        plan: Plan = {member.member_id: [] for member in members}
        turn = itertools.cycle(_in_order(members))
        subscribers = _subscribers(partition_counts, members)
        for topic in sorted(subscribers):
            for number in range(partition_counts[topic]):
                member = next(m for m in turn if topic in m.subscription.topics)
                plan[member.member_id].append(TopicPartition(topic, number))
        return plan


class StickyAssignor:
    """As even as it can be, and of that as close as can be to what members had before.

    Even: no member has two partitions more than another one that could take one of them.
    """

    name: ClassVar[str] = "sticky"
    cooperative: ClassVar[bool] = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The partitions that the member had, with their generation, encoded as Kafka's
        `StickyAssignorUserData`, version 1: the member gives all of them up before it joins.
        """
        return encode_partitions(owned) + _INT32.pack(generation)

    def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
        """Keep, fill up, even out."""
        return _Sharing(partition_counts, members).plan()


class CooperativeStickyAssignor:
    """The sticky assignor's plan, in two steps: a partition that moves goes to nobody until its
    owner has given it up and the group rebalances again. Partitions that do not move are read on.
    Where members want different topics, it can take a third step.
    """

    name: ClassVar[str] = "cooperative-sticky"
    cooperative: ClassVar[bool] = True

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The generation, for members that do not write it into their subscription."""
        return _INT32.pack(generation)

    def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
        """The sticky plan without what another member still holds."""
        plan = _Sharing(partition_counts, members).plan()
        held_by: dict[TopicPartition, set[str]] = {}
        for member in members:
            for tp in member.subscription.owned:
                held_by.setdefault(tp, set()).add(member.member_id)
        return {
            member_id: [tp for tp in share if held_by.get(tp, _NOBODY) <= {member_id}]
            for member_id, share in plan.items()
        }


OWN_ASSIGNORS: Final[Mapping[str, type[Assignor]]] = {
    kind.name: kind
    for kind in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
"""Kafka's, by their names."""

_INT32: Final = struct.Struct(">i")
_NOBODY: Final[frozenset[str]] = frozenset()


def _in_order(members: Iterable[Member]) -> list[Member]:
    """Static members first, by their instance: they keep their place when they come back."""
    return sorted(members, key=lambda m: (m.instance_id is None, m.instance_id or m.member_id))


def _subscribers(
    partition_counts: Mapping[str, int], members: Iterable[Member]
) -> dict[str, list[str]]:
    """The members that want a topic, in order, for each topic that exists."""
    by_topic: dict[str, list[str]] = {}
    for member in _in_order(members):
        for topic in dict.fromkeys(member.subscription.topics):
            if partition_counts.get(topic, 0) > 0:
                by_topic.setdefault(topic, []).append(member.member_id)
    return by_topic


# ---- sticky ------------------------------------------------------------------------------------


class _Sharing:
    """One run of the sticky assignor.

    Topics that the same members want are shared out together: `_wanted_by` is their members, and in
    most groups all topics have the same one.
    """

    def __init__(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> None:
        self._counts = partition_counts
        by_topic = _subscribers(partition_counts, members)
        self._wanted_by = {topic: tuple(wanting) for topic, wanting in by_topic.items()}
        self._shares: dict[str, dict[TopicPartition, None]] = {
            member.member_id: {} for member in members
        }
        self._kept: dict[TopicPartition, str] = {}
        for tp, owner in _last_owners(members).items():
            exists = tp.partition < partition_counts.get(tp.topic, 0)
            if exists and owner in self._wanted_by.get(tp.topic, ()):
                self._shares[owner][tp] = None
                self._kept[tp] = owner

    def plan(self) -> Plan:
        """Each member's share, in order."""
        self._fill_up()
        classes = sorted(set(self._wanted_by.values()), key=lambda wanting: (len(wanting), wanting))
        while any([self._even_out(wanting) for wanting in classes]):
            pass  # what one class has moved may make another one uneven
        return {member_id: sorted(share) for member_id, share in self._shares.items()}

    def _fill_up(self) -> None:
        """Free partitions go to those with least, first where the fewest could take them."""
        heaps: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
        topics = sorted(self._wanted_by, key=lambda topic: (len(self._wanted_by[topic]), topic))
        for topic in topics:
            wanting = self._wanted_by[topic]
            heap = heaps.get(wanting)
            if heap is None:
                heap = [(len(self._shares[m]), place, m) for place, m in enumerate(wanting)]
                heapq.heapify(heap)
                heaps[wanting] = heap
            for number in range(self._counts[topic]):
                tp = TopicPartition(topic, number)
                if tp in self._kept:
                    continue
                count, place, member_id = heap[0]
                while count != (now := len(self._shares[member_id])):  # grown by another class
                    heapq.heapreplace(heap, (now, place, member_id))
                    count, place, member_id = heap[0]
                self._shares[member_id][tp] = None
                heapq.heapreplace(heap, (count + 1, place, member_id))

    def _even_out(self, wanting: tuple[str, ...]) -> bool:
        """Move partitions of this class from those with most to the one with least, while that
        helps; whether it did. Each move lowers the sum of the squares, so it comes to an end.
        """
        moved = False
        while True:
            counts = {member_id: len(self._shares[member_id]) for member_id in wanting}
            taker = min(wanting, key=counts.__getitem__)
            for giver in sorted(wanting, key=counts.__getitem__, reverse=True):
                if counts[giver] < counts[taker] + 2:
                    return moved
                given = self._to_give(giver, wanting)
                if given is not None:
                    del self._shares[giver][given]
                    self._shares[taker][given] = None
                    moved = True
                    break
            else:
                return moved

    def _to_give(self, giver: str, wanting: tuple[str, ...]) -> TopicPartition | None:
        """One of the class, rather one that it has not had before."""
        wanted_by = self._wanted_by
        movable = [tp for tp in self._shares[giver] if wanted_by[tp.topic] == wanting]
        fresh = (tp for tp in movable if self._kept.get(tp) != giver)
        return next(fresh, movable[-1] if movable else None)


def _last_owners(members: Sequence[Member]) -> dict[TopicPartition, str]:
    """The owner of each partition: the member that got it in the newest generation. Two of the same
    generation cannot both be right, and it is neither's.
    """
    owners: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in _in_order(members):
        owned, generation = _owned(member.subscription)
        for tp in dict.fromkeys(owned):
            known = owners.get(tp)
            if known is None or known[0] < generation:
                owners[tp] = generation, member.member_id
            elif known[0] == generation:
                owners[tp] = generation, None
    return {tp: owner for tp, (_, owner) in owners.items() if owner is not None}


def _owned(subscription: Subscription) -> tuple[tuple[TopicPartition, ...], int]:
    """A member's partitions, and since when: from its subscription, or from its user data."""
    data, generation = subscription.user_data, subscription.generation
    if subscription.owned:
        if generation == NO_GENERATION and data is not None and len(data) == _INT32.size:
            generation = _INT32.unpack(data)[0]
        return subscription.owned, generation
    if data is None or len(data) <= _INT32.size:
        return (), generation
    reader = Reader(data, "what a member had before")
    try:
        owned = reader.partitions()
        return owned, reader.int32()
    except errors.InconsistentGroupProtocol:
        return (), generation  # of another assignor, or of none that is known: as in Kafka
