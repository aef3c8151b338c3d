"""The state of a partition's records as the share coordinator keeps it: batches in order. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final

from pylog_broker.share.record_states import RecordState, StateBatch

_FIRST: Final = attrgetter("first_offset")


def combined(
    present: Sequence[StateBatch], news: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """`present` with what is new of the same records, without those before the start offset;
    batches next to each other that are alike are one. `present` is in order, without a record in
    two of its batches.
    """
    newer = sorted(news, key=_FIRST)
    found = [*newer]
    index = 0
    for batch in present:
        first = batch.first_offset
        while index < len(newer) and newer[index].last_offset < first:
            index += 1
        over = index
        while over < len(newer) and newer[over].first_offset <= batch.last_offset:
            if first < newer[over].first_offset:
                end = newer[over].first_offset - 1
                found.append(batch._replace(first_offset=first, last_offset=end))
            first = newer[over].last_offset + 1
            over += 1
        if first <= batch.last_offset:
            found.append(batch._replace(first_offset=first))
    found.sort(key=_FIRST)
    joined: list[StateBatch] = []
    for batch in found:
        if batch.last_offset < start_offset:
            continue
        if batch.first_offset < start_offset:
            batch = batch._replace(first_offset=start_offset)
        last = joined[-1] if joined else None
        if (
            last is not None
            and batch.first_offset == last.last_offset + 1
            and batch[2:] == last[2:]
        ):
            joined[-1] = last._replace(last_offset=batch.last_offset)
        else:
            joined.append(batch)
    return tuple(joined)


def newer(
    present: Sequence[StateBatch], told: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """The parts of `told` that are news beside `present`, which is in order, from the start offset
    on and in order. A record that is done stays so, and it is delivered more often, never less.
    """
    return _parts(present, told, start_offset, _is_news)


def changed(present: Sequence[StateBatch], told: Iterable[StateBatch]) -> tuple[StateBatch, ...]:
    """The parts of `told` that say something else than `present`, or of other records."""
    return _parts(present, told, 0, _differs)


def _parts(
    present: Sequence[StateBatch],
    told: Iterable[StateBatch],
    start_offset: int,
    counts: Callable[[StateBatch, StateBatch], bool],
) -> tuple[StateBatch, ...]:
    found: list[StateBatch] = []
    for batch in sorted(told, key=_FIRST):
        first = max(batch.first_offset, start_offset)
        index = max(bisect_right(present, first, key=_FIRST) - 1, 0)
        for known in islice(present, index, None):
            if known.first_offset > batch.last_offset:
                break
            if known.last_offset < first or counts(known, batch):
                continue
            if first < known.first_offset:
                before = known.first_offset - 1
                found.append(batch._replace(first_offset=first, last_offset=before))
            first = known.last_offset + 1
        if first <= batch.last_offset:
            found.append(batch._replace(first_offset=first))
    return tuple(found)


def _differs(known: StateBatch, told: StateBatch) -> bool:
    return known[2:] != told[2:]


def _is_news(known: StateBatch, told: StateBatch) -> bool:
    if not _differs(known, told) or told.delivery_count < known.delivery_count:
        return False
    if known.state is RecordState.ARCHIVING:
        return told.state in (RecordState.ARCHIVING, RecordState.ARCHIVED)
    return not known.state.is_final or told.state is known.state


def fault_in(batches: Iterable[StateBatch]) -> str | None:
    """The fault in batches that a client sent; None: there is none."""
    after = 0
    for batch in sorted(batches, key=_FIRST):
        if batch.first_offset < after or batch.last_offset < batch.first_offset:
            return f"state batch {batch.first_offset} to {batch.last_offset} overlaps, or is none"
        after = batch.last_offset + 1
    return None
