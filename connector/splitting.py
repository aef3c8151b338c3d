"""The tasks that read a batch: how many, and which ranges each has. Pure.

Without options there is one task for each partition, except that a micro-batch's partitions
with few records share one (`packed`). With the options:

First every range is cut where brokers say that pieces of `maxBytesPerPartition` end, then so that
no piece has more offsets than `maxRecordsPerPartition`; where that gives fewer than `minPartitions`
pieces, all ranges are cut in proportion to their sizes. A range that would make up less than one
and a half of the wanted pieces stays whole, and is left out of the proportions of the others
(SPARK-36576). Pieces are disjoint, in order, never empty, and cover exactly what the ranges did.
Sizes are offsets, of which compaction may have emptied some, but where they are said to be bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pylog.model import TopicPartition
from pylog_connector.ranges import ReadRange

PACKED_MAX: Final = 1_000
"""A task costs tens of milliseconds of Spark's and Python's time, this many records one or two."""


def split(
    ranges: Sequence[ReadRange],
    *,
    min_partitions: int | None,
    max_records: int | None,
    cuts: Mapping[TopicPartition, Sequence[int]] | None = None,
) -> list[ReadRange]:
    """The ranges in pieces; ends that are looked up late keep their meaning in the outer pieces.

    `cuts` are offsets, in order, at which a partition's range is cut first; those outside of it do
    not count.
    """
    pieces = [
        piece
        for whole in ranges
        for piece in _cut_at(whole, (cuts or {}).get(TopicPartition(whole.topic, whole.partition)))
    ]
    if max_records is not None:
        pieces = [
            piece for whole in pieces for piece in _cut(whole, -(-whole.size // max_records) or 1)
        ]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    return [
        piece
        for whole, parts in zip(
            pieces, shares([p.size for p in pieces], min_partitions), strict=True
        )
        for piece in _cut(whole, parts)
    ]


def packed(ranges: Sequence[ReadRange]) -> list[list[ReadRange]]:
    """The ranges of each task, in order: small ones together, up to `PACKED_MAX` offsets a task."""
    packs: list[list[ReadRange]] = []
    room = 0
    for whole in ranges:
        if not packs or whole.size > room:
            packs.append([])
            room = PACKED_MAX
        packs[-1].append(whole)
        room -= whole.size
    return packs


def shares(sizes: Sequence[int], wanted: int) -> list[int]:
    """The number of pieces into which each range is cut, for `wanted` in all, about."""
    total = sum(sizes)
    whole = [_rounded(size, total, wanted) <= 1 for size in sizes]
    left = total - sum(size for size, keep in zip(sizes, whole, strict=True) if keep)
    parts = max(1, wanted - sum(whole))
    return [
        1 if keep else min(max(1, size), max(1, _rounded(size, left, parts)))
        for size, keep in zip(sizes, whole, strict=True)
    ]


def _rounded(size: int, total: int, wanted: int) -> int:
    """`size / total * wanted`, rounded half up, in whole numbers: offsets pass 2**53."""
    return (2 * size * wanted + total) // (2 * total) if total else 0


def _cut(whole: ReadRange, parts: int) -> list[ReadRange]:
    first, last = whole.known
    size = last - first
    parts = min(parts, max(1, size))
    return _cut_at(whole, [first + size * n // parts for n in range(1, parts)])


def _cut_at(whole: ReadRange, cuts: Sequence[int] | None) -> list[ReadRange]:
    first, last = whole.known
    edges = [first, *(cut for cut in cuts or () if first < cut < last), last]
    parts = len(edges) - 1
    if parts == 1:
        return [whole]
    pieces = [
        replace(whole, start=edges[n], end=edges[n + 1], known=(edges[n], edges[n + 1]))
        for n in range(parts)
    ]
    # The outer pieces keep what is looked up late, and the first one what else its task reads.
    for n in range(parts):
        last_one = n == parts - 1
        pieces[n] = replace(
            pieces[n],
            start=whole.start if n == 0 else pieces[n].start,
            end=whole.end if last_one else pieces[n].end,
            end_time=whole.end_time if last_one else None,
            others=whole.others if n == 0 else None,
        )
    return pieces
