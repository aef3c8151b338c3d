"""The way from acquired batches to records, on the thread that polls.

A log may have no record at an acquired offset, or one that nobody can read. The consumer
acknowledges those by itself: what is not there as a gap; a record that the deserializer fails on is
released, as another consumer may know better; one in a batch that is broken is rejected (KIP-932).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pylog import errors
from pylog.client.consumer.consumer_settings import UserCode
from pylog.client.consumer.decoding import Deserialize
from pylog.client.sharing.ack_ranges import ranges_of
from pylog.client.sharing.acknowledgements import AckParcel
from pylog.client.sharing.messages import GAP, Acquired, AcquiredRange
from pylog.model import AcknowledgeType
from pylog.records import compiled, kernels
from pylog.records.batch import Buffer, iter_headers
from pylog.records.reader import iter_chunks
from pylog.records.record import Record, RecordChunk

_NOT_MINE = 0
"""The delivery count of a record that was not acquired."""


@dataclass(slots=True)
class Decoded:
    """Acquired records, in order, and errors in the places of those that are none."""

    acquired: Acquired
    items: list[list[Record] | errors.PylogError] = field(default_factory=list)
    by_itself: AckParcel | None = None
    """Acknowledgements that the consumer gives without its user."""


def decode(acquired: Acquired, code: UserCode, *, check_crcs: bool) -> Decoded:
    """The acquired records, deserialized."""
    own: dict[int, int] = {}
    found = Decoded(acquired)
    seen = 0
    for part in _chunks(acquired, check_crcs):
        if isinstance(part, _Broken):
            found.items.append(part.error)
            mine = [at for at in range(part.first, part.last + 1) if _count(acquired.ranges, at)]
            own.update(dict.fromkeys(mine, AcknowledgeType.REJECT))
            seen += len(mine)
            continue
        counts = _counts(part, acquired.ranges)
        part.delivery_counts = counts
        faults = _deserialize(part, code)
        records: list[Record] = []
        for index, record in enumerate(part.records()):
            if counts[index] == _NOT_MINE:
                continue
            seen += 1
            fault = faults.get(index)
            if fault is None:
                records.append(record)
                continue
            own[record.offset] = AcknowledgeType.RELEASE
            found.items += (records, _serialization_failed(record, fault))
            records = []
        found.items.append(records)
    found.items = _joined(found.items)
    if seen < sum(each.last_offset - each.first_offset + 1 for each in acquired.ranges):
        own.update(_gaps(found, own))
    if own:
        found.by_itself = AckParcel(
            acquired.partition,
            acquired.broker,
            acquired.session,
            ranges_of(own.items()),
            by_user=False,
        )
    return found


def _joined(
    items: list[list[Record] | errors.PylogError],
) -> list[list[Record] | errors.PylogError]:
    """Lists that follow each other as one, and none that is empty."""
    found: list[list[Record] | errors.PylogError] = []
    for item in items:
        last = found[-1] if found else None
        if isinstance(item, list) and isinstance(last, list):
            last.extend(item)
        elif item:
            found.append(item)
    return found


# ---- batches -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Broken:
    """A batch that cannot be read."""

    first: int
    last: int
    error: errors.PylogError


def _chunks(acquired: Acquired, check_crcs: bool) -> Iterator[RecordChunk | _Broken]:
    """The batches' records; a batch at a time where one of them is broken, and while kernels are
    loaded: plain Python reads single batches, and the locks of records do not wait for kernels.
    """
    is_cold = len(acquired.batches) >= compiled.COLD_READ_BYTES and not compiled.is_loaded()
    if is_cold:
        kernels.warm_in_background()
    else:
        try:
            yield from list(_read(acquired, acquired.batches, check_crcs))
            return
        except errors.PylogError:
            pass
    first_offset = acquired.ranges[0].first_offset
    batches = memoryview(acquired.batches)
    for position, header in iter_headers(batches):
        if header.last_offset < first_offset:
            continue
        try:
            batch = batches[position : position + header.size]
            yield from list(_read(acquired, batch, check_crcs))
        except errors.PylogError as error:
            yield _Broken(header.base_offset, header.last_offset, error)


def _read(acquired: Acquired, batches: Buffer, check_crcs: bool) -> Iterator[RecordChunk]:
    return iter_chunks(
        batches,
        acquired.partition.topic,
        acquired.partition.partition,
        from_offset=acquired.ranges[0].first_offset,
        check_crcs=check_crcs,
    )


# ---- which records were acquired ---------------------------------------------------------------


def _counts(chunk: RecordChunk, ranges: tuple[AcquiredRange, ...]) -> list[int]:
    """Each record's delivery count."""
    offsets = chunk.offsets
    only = ranges[0]
    if len(ranges) == 1 and only.first_offset <= offsets[0] and offsets[-1] <= only.last_offset:
        return [only.delivery_count] * len(offsets)
    return [_count(ranges, offset) for offset in offsets]


def _count(ranges: tuple[AcquiredRange, ...], offset: int) -> int:
    index = bisect_right(ranges, offset, key=lambda each: each.first_offset) - 1
    if index < 0 or offset > ranges[index].last_offset:
        return _NOT_MINE
    return ranges[index].delivery_count


def _gaps(found: Decoded, own: Mapping[int, int]) -> dict[int, int]:
    """Acquired offsets at which there is no record."""
    there = {record.offset for item in found.items if isinstance(item, list) for record in item}
    return {
        offset: GAP
        for each in found.acquired.ranges
        for offset in range(each.first_offset, each.last_offset + 1)
        if offset not in there and offset not in own
    }


# ---- the user's code ---------------------------------------------------------------------------


def _deserialize(chunk: RecordChunk, code: UserCode) -> dict[int, tuple[str, Exception]]:
    """Apply the deserializers in place; by index what failed: a key or a value, and why."""
    faults: dict[int, tuple[str, Exception]] = {}
    if code.deserialize_value is not None:
        chunk.values = _column(code.deserialize_value, chunk, chunk.values, "value", faults)
    if code.deserialize_key is not None:
        chunk.keys = _column(code.deserialize_key, chunk, chunk.keys, "key", faults)
    return faults


def _column(
    deserialize: Deserialize,
    chunk: RecordChunk,
    column: list[Any],
    what: str,
    faults: dict[int, tuple[str, Exception]],
) -> list[Any]:
    assert chunk.delivery_counts is not None
    done: list[Any] = []
    for index, data in enumerate(column):
        if chunk.delivery_counts[index] == _NOT_MINE:
            done.append(data)
            continue
        try:
            done.append(deserialize(chunk.topic, data))
        except Exception as error:  # noqa: BLE001  the user's code: told by the poll
            faults.setdefault(index, (what, error))
            done.append(data)
    return done


def _serialization_failed(record: Record, fault: tuple[str, Exception]) -> errors.PylogError:
    what, error = fault
    told = errors.SerializationFailed(
        f"{record.topic}-{record.partition} at offset {record.offset}: the deserializer failed on "
        f"the {what}: {error!r}; the record was released, and is delivered again until its group's "
        "limit is reached",
        record,
    )
    told.__cause__ = error
    return told
