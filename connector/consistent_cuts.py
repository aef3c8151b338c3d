"""Consistent cuts: ends of a micro-batch that split no transaction over partitions. Pure.

A cut is an end for each partition, such that every transaction lies wholly below the ends, with its
markers, or has no record below them. Records that are no part of a transaction are never split, and
aborted transactions do not matter, as nobody sees them. Of two cuts the lower ends are a cut, and
so are the higher ones; so below any ends there is a highest cut, and above a start a lowest one
that goes beyond it in a partition.

Where transactions overlap without a gap there may be no cut between them, however many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pylog.config import LONG_MAX
from pylog.model import TopicPartition, TransactionName, TransactionSpan

Ends = Mapping[TopicPartition, int]
Spans = Mapping[TopicPartition, Mapping[TransactionName, TransactionSpan]]
"""The parts of transactions, by partition and name."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The ends, and the transactions with records behind them."""

    ends: dict[TopicPartition, int]
    excluded: frozenset[TransactionName]


def lowered(starts: Ends, ends: Ends, spans: Spans) -> Cut:
    """The highest cut at `ends` or below. It is nowhere below `starts`: where one of these lies
    inside a transaction, that counts from there on.
    """
    cut = dict(ends)
    parts = _by_name(spans)
    # of each partition, the last marker at the end
    rows = {
        at: sorted(
            (span.marker if span.marker >= 0 else LONG_MAX, name) for name, span in of.items()
        )
        for at, of in spans.items()
        if at in cut
    }
    excluded: set[TransactionName] = set()
    todo = list(rows)
    while todo:
        at = todo.pop()
        left = rows.get(at, [])
        while left and left[-1][0] >= cut[at]:
            _, name = left.pop()
            if name in excluded:
                continue
            excluded.add(name)
            for other, span in parts[name]:
                if other in cut and max(span.first, starts[other]) < cut[other]:
                    cut[other] = max(span.first, starts[other])
                    todo.append(other)
    return Cut(cut, frozenset(excluded))


def raised(
    starts: Ends, limits: Ends, spans: Spans, at: TopicPartition
) -> dict[TopicPartition, int] | None:
    """The lowest cut above `starts` that goes beyond it in one partition; None when that is not
    below `limits`.
    """
    cut = dict(starts)
    if cut[at] >= limits[at]:
        return None
    cut[at] += 1
    parts = _by_name(spans)
    # of each partition, the first record at the end
    rows = {
        other: sorted(((span.first, name) for name, span in of.items()), reverse=True)
        for other, of in spans.items()
        if other in cut
    }
    included: set[TransactionName] = set()
    todo = [at]
    while todo:
        left = rows.get(todo[-1], [])
        if not left or left[-1][0] >= cut[todo[-1]]:
            todo.pop()
            continue
        _, name = left.pop()
        if name in included:
            continue
        included.add(name)
        for other, span in parts[name]:
            if other not in cut:
                continue
            if not 0 <= span.marker < limits[other]:
                return None
            if span.marker >= cut[other]:
                cut[other] = span.marker + 1
                todo.append(other)
    return cut


def joined(one: Ends, other: Ends) -> dict[TopicPartition, int]:
    """The higher ends of two cuts, which are a cut."""
    return {at: max(end, other[at]) for at, end in one.items()}


def added(
    known: Mapping[TransactionName, TransactionSpan], found: Iterable[TransactionSpan]
) -> dict[TransactionName, TransactionSpan]:
    """What is known of a partition's transactions after a later question about older offsets: a
    marker that is known stays.
    """
    spans = dict(known)
    for span in found:
        before = spans.get(span.name)
        if before is not None:
            span = span._replace(first=min(span.first, before.first), marker=before.marker)
        spans[span.name] = span
    return spans


def _by_name(
    spans: Spans,
) -> dict[TransactionName, list[tuple[TopicPartition, TransactionSpan]]]:
    parts: dict[TransactionName, list[tuple[TopicPartition, TransactionSpan]]] = {}
    for at, of in spans.items():
        for name, span in of.items():
            parts.setdefault(name, []).append((at, span))
    return parts
