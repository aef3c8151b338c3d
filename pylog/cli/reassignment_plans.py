"""Plans of moves: the file of Kafka's `kafka-reassign-partitions`, and a plan for given brokers.

The file is `{"version": 1, "partitions": [{"topic": ..., "partition": ..., "replicas": [...]}]}`,
with the preferred leader first in each list.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
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
    """Replicas on these brokers alone, spread evenly: each partition with as many as it has, or
    with `factor`. A replica that can stay on its broker stays there, so that little is copied.

    `racks`: of each broker that may be used. Replicas that move go to racks in which the partition
    has none yet, if there are. UsageError where there are too few brokers.
    """
    wanted = {tp: len(replicas) if factor is None else factor for tp, replicas in current.items()}
    for tp, count in wanted.items():
        if count > len(racks):
            raise click.UsageError(f"{tp} needs {count} brokers; there are {len(racks)}")
    most = -(-sum(wanted.values()) // len(racks))
    load: Counter[int] = Counter(dict.fromkeys(racks, 0))
    kept: dict[TopicPartition, list[int]] = {}
    # those first that need the most brokers: they have the least choice
    for tp in sorted(current, key=lambda tp: (-wanted[tp], tp)):
        kept[tp] = []
        for broker in current[tp]:
            if broker in racks and load[broker] < most and len(kept[tp]) < wanted[tp]:
                kept[tp].append(broker)
                load[broker] += 1
    for tp, chosen in kept.items():
        while len(chosen) < wanted[tp]:
            chosen.append(_best(chosen, load, racks))
            load[chosen[-1]] += 1
    return _with_leaders(kept, racks)


def _best(chosen: Sequence[int], load: Counter[int], racks: Mapping[int, str | None]) -> int:
    held = Counter(racks[broker] for broker in chosen if racks[broker] is not None)
    others = (broker for broker in sorted(racks) if broker not in chosen)
    return min(others, key=lambda broker: (held[racks[broker]], load[broker], broker))


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
