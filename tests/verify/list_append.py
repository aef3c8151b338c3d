"""A checker of what transactions have sent and polled: lists to which transactions append.

A key is a partition, and a value a number that is sent once. Pure. The version order of a key is
that of the offsets which the final readers found. `check` names every anomaly; those which
transactions of a log allow (G0: writes of two transactions stand between each other in one key, and
the other way round in another) are counted apart.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

Key = str
Places = Sequence[tuple[int, int]]
"""Offset and value of what was polled, in the order in which it came."""


class Outcome(Enum):
    """The outcome of a transaction."""

    OK = "it was committed"
    FAIL = "it was aborted, or certainly not committed"
    INFO = "nobody knows"


@dataclass
class Transaction:
    """One of a process: what it has sent, and what its reader of committed records has polled
    meanwhile. `offsets` are known of acknowledged sends.
    """

    process: str
    outcome: Outcome = Outcome.INFO
    sent: list[tuple[Key, int]] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    polled: dict[Key, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))


Final = Mapping[Key, Places]
Anomalies = dict[str, list[str]]


def check(history: Sequence[Transaction], final: Final) -> Anomalies:
    """Anomalies that must never be, by name; nothing: all is well."""
    found: Anomalies = defaultdict(list)
    writers = {value: (number, key) for number, t in enumerate(history) for key, value in t.sent}
    _check_places(history, final, writers, found)
    _check_reads(history, final, writers, found)
    _check_outcomes(history, final, found)
    _check_order(history, final, found)
    for cycle in _cycles(_write_read(history, writers)):
        found["G1c"].append(f"transactions {cycle} have read each other's records")
    return dict(found)


def count_g0(history: Sequence[Transaction], final: Final) -> int:
    """Groups of transactions whose writes stand in different orders in different keys."""
    writers = {value: number for number, t in enumerate(history) for _, value in t.sent}
    edges: dict[int, set[int]] = defaultdict(set)
    for places in final.values():
        numbers = [writers[value] for _, value in places if value in writers]
        for before, after in itertools.pairwise(numbers):
            if before != after:
                edges[before].add(after)
    return len(_cycles(edges))


def _all_polled(history: Sequence[Transaction], final: Final) -> Iterable[tuple[Key, int, int]]:
    for transaction in history:
        for key, places in transaction.polled.items():
            for offset, value in places:
                yield key, offset, value
    for key, places in final.items():
        for offset, value in places:
            yield key, offset, value


def _check_places(
    history: Sequence[Transaction],
    final: Final,
    writers: Mapping[int, tuple[int, Key]],
    found: Anomalies,
) -> None:
    values: dict[tuple[Key, int], int] = {}
    offsets: dict[tuple[Key, int], int] = {}
    acknowledged = [
        (key, transaction.offsets[value], value)
        for transaction in history
        for key, value in transaction.sent
        if value in transaction.offsets
    ]
    for key, offset, value in (*acknowledged, *_all_polled(history, final)):
        if values.setdefault((key, offset), value) != value:
            found["inconsistent-offset"].append(f"{key}@{offset}: {values[key, offset]}, {value}")
        if offsets.setdefault((key, value), offset) != offset:
            found["duplicate"].append(f"{key}: {value} at {offsets[key, value]} and {offset}")
    for key, _, value in _all_polled(history, final):
        if value not in writers:
            found["phantom"].append(f"{key}: nobody sent {value}")
        elif writers[value][1] != key:
            found["misrouted"].append(f"{value} was sent to {writers[value][1]}, read from {key}")


def _check_reads(
    history: Sequence[Transaction],
    final: Final,
    writers: Mapping[int, tuple[int, Key]],
    found: Anomalies,
) -> None:
    for number, transaction in enumerate(history):
        for key, places in transaction.polled.items():
            for _, value in places:
                if value in writers and writers[value][0] == number:
                    found["precommitted-read"].append(f"{key}: {value} by its own transaction")
    for key, _, value in _all_polled(history, final):
        if value in writers and history[writers[value][0]].outcome is Outcome.FAIL:
            found["G1a"].append(f"{key}: {value} is of an aborted transaction")


def _check_outcomes(history: Sequence[Transaction], final: Final, found: Anomalies) -> None:
    stored = {value for places in final.values() for _, value in places}
    for transaction in history:
        values = {value for _, value in transaction.sent}
        there = values & stored
        if there and there != values:
            found["torn"].append(f"{transaction.process}: {sorted(there)} without the rest")
        elif transaction.outcome is Outcome.OK and not there and values:
            found["lost-write"].append(f"{transaction.process}: {sorted(values)}")


def _check_order(history: Sequence[Transaction], final: Final, found: Anomalies) -> None:
    order = {key: [value for _, value in sorted(places)] for key, places in final.items()}
    index = {key: {value: at for at, value in enumerate(values)} for key, values in order.items()}
    at_key: dict[tuple[str, Key], int] = {}
    last_sent: dict[tuple[str, Key], int] = {}
    for transaction in history:
        for key, places in transaction.polled.items():
            for _, value in places:
                at = index.get(key, {}).get(value)
                if at is None:
                    continue  # it is told elsewhere
                expected = at_key.get((transaction.process, key), -1) + 1
                if at < expected:
                    found["nonmonotonic-poll"].append(f"{transaction.process} {key}: {value}")
                elif at > expected:
                    missed = order[key][expected:at]
                    found["poll-skip"].append(f"{transaction.process} {key}: without {missed[:5]}")
                at_key[transaction.process, key] = at
        for key, value in transaction.sent:
            at = index.get(key, {}).get(value)
            if at is not None:
                if at < last_sent.get((transaction.process, key), -1):
                    found["nonmonotonic-send"].append(f"{transaction.process} {key}: {value}")
                last_sent[transaction.process, key] = at


def _write_read(
    history: Sequence[Transaction], writers: Mapping[int, tuple[int, Key]]
) -> dict[int, set[int]]:
    """The transactions that have read records of each one."""
    edges: dict[int, set[int]] = defaultdict(set)
    for number, transaction in enumerate(history):
        for places in transaction.polled.values():
            for _, value in places:
                writer = writers.get(value, (number, ""))[0]
                if writer != number:
                    edges[writer].add(number)
    return edges


def _cycles(edges: Mapping[int, set[int]]) -> list[list[int]]:
    """Strongly connected groups of more than one (Tarjan's algorithm, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: dict[int, None] = {}
    groups: list[list[int]] = []
    for root in edges:
        work = [(root, iter(edges.get(root, ())))] if root not in index else []
        if work:
            index[root] = low[root] = len(index)
            on_stack[root] = None
        while work:
            node, following = work[-1]
            for other in following:
                if other not in index:
                    index[other] = low[other] = len(index)
                    on_stack[other] = None
                    work.append((other, iter(edges.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        member, _ = on_stack.popitem()
                        group.append(member)
                        if member == node:
                            break
                    if len(group) > 1:
                        groups.append(sorted(group))
    return groups
