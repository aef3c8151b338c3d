"""Batches of a log as a share group sees them: where they lie, and whether members may see them.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pylog.errors import CorruptMessage
from pylog.records.batch import Buffer, iter_headers


class LogBatch(NamedTuple):
    """Not `is_for_members`: control records, or those of an aborted transaction."""

    first_offset: int
    last_offset: int
    is_for_members: bool = True


def log_batches(batches: Buffer, aborted: Iterable[tuple[int, int]] = ()) -> list[LogBatch]:
    """The batches of a read of the log. `aborted`: transactions with records in it that were
    aborted, by their producer's id and first offset.

    Ends where a batch cannot be read, which the next read tells by an error of its own.
    """
    found: list[LogBatch] = []
    waiting = sorted(aborted, key=lambda entry: entry[1], reverse=True)
    inside: set[int] = set()
    try:
        for _, header in iter_headers(batches):
            while waiting and waiting[-1][1] <= header.last_offset:
                inside.add(waiting.pop()[0])
            is_aborted = header.is_transactional and header.producer_id in inside
            if header.is_control:
                inside.discard(header.producer_id)
            is_for_members = not (header.is_control or is_aborted)
            found.append(LogBatch(header.base_offset, header.last_offset, is_for_members))
    except CorruptMessage:
        pass
    return found


def with_records_of(batches: Buffer, ranges: Sequence[tuple[int, int]]) -> Buffer:
    """Only the batches that hold offsets of one of these ranges, which are in order."""
    view = memoryview(batches)
    kept: list[Buffer] = []
    left = iter(ranges)
    wanted = next(left, None)
    for position, header in iter_headers(batches):
        while wanted is not None and wanted[1] < header.base_offset:
            wanted = next(left, None)
        if wanted is None:
            break
        if wanted[0] <= header.last_offset:
            kept.append(view[position : position + header.size])
    return kept[0] if len(kept) == 1 else b"".join(kept)
