"""Plans of moves: the file of Kafka's `kafka-reassign-partitions`, and a plan for given brokers.

The file is `{"version": 1, "partitions": [{"topic": ..., "partition": ..., "replicas": [...]}]}`,
with the preferred leader first in each list.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Final

import click

from pylog.config import INT_MAX
from pylog.model import TopicPartition, topic_name_fault

Plan = dict[TopicPartition, tuple[int, ...]]
"""The replicas of each partition."""

VERSION: Final = 1


# ---- the file ------------------------------------------------------------------------------------


def written(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """The plan as the text of a file."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in sorted(plan.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions})


def read(text: str) -> Plan:
    """The plan in a file; UsageError names what is wrong in it."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"the plan is no JSON: {error}") from None
    if not isinstance(told, dict) or not isinstance(told.get("partitions"), list):
        raise click.UsageError('the plan must be {"version": 1, "partitions": [...]}')
    if told.get("version", VERSION) != VERSION:
        raise click.UsageError(f"the plan has version {told['version']!r:.40}; it must be 1")
    plan: Plan = {}
    for number, item in enumerate(told["partitions"]):
        tp, replicas = _partition(item, f"partitions[{number}]")
        if tp in plan:
            raise click.UsageError(f"the plan names {tp} twice")
        plan[tp] = replicas
    if not plan:
        raise click.UsageError("the plan names no partition")
    return plan


def _partition(item: Any, where: str) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(item, dict):
        raise click.UsageError(f"the plan's {where} must be an object")
    strange = sorted(item.keys() - {"topic", "partition", "replicas", "log_dirs"})
    if strange:
        raise click.UsageError(f"the plan's {where} has {strange[0]!r:.60}, which is not known")
    topic = item.get("topic")
    fault = topic_name_fault(topic) if isinstance(topic, str) else "it must be a text"
    if fault is not None:
        raise click.UsageError(f"the plan's {where}.topic: {fault}")
    if not _is_number(item.get("partition")):
        raise click.UsageError(f"the plan's {where}.partition must be a number from 0")
    replicas = item.get("replicas")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise click.UsageError(f"the plan's {where}.replicas must be a list of brokers' ids")
    if any(directory != "any" for directory in item.get("log_dirs") or ()):
        raise click.UsageError(
            f"the plan's {where}.log_dirs: the controller chooses log directories; leave it out, "
            'or write "any"'
        )
    return TopicPartition(str(topic), item["partition"]), tuple(replicas)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT_MAX


# ---- a plan for given brokers --------------------------------------------------------------------


def planned(current: Plan, racks: Mapping[int, str | None], factor: int | None = None) -> Plan:
    """Replicas on these brokers alone, each partition with as many as it has, or with `factor`.

    No broker holds two more than another. A replica moves only for that, or because its broker is
    not to be used, so that little is copied; those move first whose topic lies least evenly.
    `racks`: of each broker that may be used; a partition is never in fewer of them for the sake of
    even numbers. UsageError where there are too few brokers.
    """
    spread = _Spread(racks)
    for tp, replicas in sorted(current.items()):
        for broker in replicas:
            if broker in racks:
                spread.add(tp, broker)
    for tp, replicas in sorted(current.items()):
        count = len(replicas) if factor is None else factor
        if count > len(racks):
            raise click.UsageError(f"{tp} needs {count} brokers; there are {len(racks)}")
        spread.bring_to(tp, count)
    spread.even_out()
    return _with_leaders({tp: spread.chosen[tp] for tp in current}, racks)


_Partitions = dict[TopicPartition, None]
"""A set that keeps its order, so that a plan is the same each time."""


class _Spread:
    """The replicas of a plan in the making, and how many of them each broker holds."""

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        self._racks = racks
        self.chosen: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        self._held: defaultdict[str, dict[int, _Partitions]] = defaultdict(
            lambda: {broker: {} for broker in racks}
        )
        self._load = dict.fromkeys(racks, 0)
        self._ranked: dict[tuple[int, int], list[tuple[int, str]]] = {}
        """For giver and taker: the topics of which the giver holds more, by how many (a heap)."""

    def add(self, tp: TopicPartition, broker: int) -> None:
        self.chosen[tp].append(broker)
        self._held[tp.topic][broker][tp] = None
        self._load[broker] += 1

    def bring_to(self, tp: TopicPartition, count: int) -> None:
        """Take replicas from those who hold the most, or give them to those who hold the fewest."""
        held, chosen = self._held[tp.topic], self.chosen[tp]
        while len(chosen) > count:
            most = max(reversed(chosen), key=lambda b: (self._load[b], len(held[b])))
            self._take(tp, most)
        while len(chosen) < count:
            racks = self._racks_of(chosen)
            self.add(
                tp,
                min(
                    (broker for broker in self._racks if broker not in chosen),
                    key=lambda b: (self._racks[b] in racks, self._load[b], len(held[b]), b),
                ),
            )

    def even_out(self) -> None:
        """Until no broker holds two more replicas than another, if racks allow."""
        while self._move_one():
            pass

    def _move_one(self) -> bool:
        """Move a replica from a broker to one that holds two less; False: there is none."""
        load = self._load
        ranked = sorted(load, key=lambda broker: (load[broker], broker))
        for giver in reversed(ranked):
            for taker in ranked:
                if load[giver] - load[taker] < 2:
                    break
                tp = self._best_of(giver, taker)
                if tp is not None:
                    self._take(tp, giver)
                    self.add(tp, taker)
                    return True
        return False

    def _best_of(self, giver: int, taker: int) -> TopicPartition | None:
        """A partition of the topic of which the giver holds the most more than the taker."""

        def unevenness(topic: str) -> int:
            held = self._held[topic]
            return len(held[taker]) - len(held[giver])

        ranked = self._ranked.get((giver, taker))
        if ranked is None:
            ranked = [(less, topic) for topic in self._held if (less := unevenness(topic)) < 0]
            heapify(ranked)
            self._ranked[giver, taker] = ranked
        blocked: list[tuple[int, str]] = []
        found: TopicPartition | None = None
        while ranked and found is None:
            less, topic = ranked[0]
            if less == (now := unevenness(topic)):
                found = self._movable(topic, giver, taker)
                if found is None:
                    blocked.append(heappop(ranked))
            elif now < 0:  # moves between other brokers have changed it
                heapreplace(ranked, (now, topic))
            else:
                heappop(ranked)
        for item in blocked:
            heappush(ranked, item)
        return found

    def _movable(self, topic: str, giver: int, taker: int) -> TopicPartition | None:
        held = self._held[topic]
        for tp in held[giver]:
            if tp not in held[taker] and self._may_move(tp, giver, taker):
                return tp
        return None

    def _may_move(self, tp: TopicPartition, giver: int, taker: int) -> bool:
        before = self.chosen[tp]
        after = [taker if broker == giver else broker for broker in before]
        return len(self._racks_of(after)) >= len(self._racks_of(before))

    def _racks_of(self, brokers: Sequence[int]) -> set[str]:
        return {rack for broker in brokers if (rack := self._racks[broker]) is not None}

    def _take(self, tp: TopicPartition, broker: int) -> None:
        self.chosen[tp].remove(broker)
        del self._held[tp.topic][broker][tp]
        self._load[broker] -= 1


def _with_leaders(chosen: Mapping[TopicPartition, list[int]], racks: Mapping[int, Any]) -> Plan:
    """The same replicas, first the one that shall lead: brokers lead equally many, if they can, of
    each topic and of all together.
    """
    most = -(-len(chosen) // len(racks))
    partitions = Counter(tp.topic for tp in chosen)
    leads: Counter[int] = Counter()
    of_topic: Counter[tuple[str, int]] = Counter()
    plan: Plan = {}
    for tp, replicas in sorted(chosen.items()):
        most_of_topic = -(-partitions[tp.topic] // len(racks))
        led = {b: (of_topic[tp.topic, b] - most_of_topic, leads[b] - most) for b in replicas}
        first = next((b for b in replicas if max(led[b]) < 0), min(replicas, key=led.__getitem__))
        leads[first] += 1
        of_topic[tp.topic, first] += 1
        plan[tp] = (first, *(broker for broker in replicas if broker != first))
    return plan


# ---- throttles -----------------------------------------------------------------------------------


def throttled(current: Plan, target: Plan) -> dict[str, dict[str, str]]:
    """Topic settings by topic: which replicas keep to the brokers' rates in these moves (KIP-73).

    All replicas of now are copied from, whichever leads; those that come are copied to.
    """
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for tp, replicas in sorted(target.items()):
        known = current.get(tp, ())
        new = [broker for broker in replicas if broker not in known]
        if new:
            leaders.setdefault(tp.topic, []).extend(f"{tp.partition}:{b}" for b in known)
            followers.setdefault(tp.topic, []).extend(f"{tp.partition}:{b}" for b in new)
    return {
        topic: {
            "leader.replication.throttled.replicas": ",".join(leaders[topic]),
            "follower.replication.throttled.replicas": ",".join(followers[topic]),
        }
        for topic in leaders
    }
