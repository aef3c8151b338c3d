"""What a log knows of its producers, as files: Kafka's `.snapshot`, and a companion of pylog's own.

Pure: bytes in and out. Both are named by the offset that they stand before, and both are caches:
who finds one missing or damaged reads the batches instead.

Kafka's snapshot (`ProducerSnapshot`, version 1), big-endian:

     0  2  version = 1
     2  4  CRC-32C of byte 6 to the end
     6  4  number of producers
    then for each producer, 46 bytes:
        8  producer id
        2  producer epoch
        4  last sequence          -1 when only a marker is known
        8  last offset            -1 likewise
        4  offset delta           of that last batch
        8  timestamp              of the last batch or marker
        4  coordinator epoch      of the last marker, -1 without one
        8  first offset of the open transaction, -1 without one

It keeps one batch of each producer; five may be in flight. So that a retry of an earlier one is
still known as a duplicate after a restart, the companion (`.producers`) has them all:

     0  2  version = 1
     2  4  CRC-32C of byte 6 to the end
     6  1  1 when some producer was forgotten for its age
     7  4  number of producers
    then for each producer:
        8  producer id
        8  when the broker last heard of it (ms)
        1  number of batches, oldest first, each of 32 bytes:
            4 first sequence, 4 last sequence, 8 first offset, 8 last offset, 8 timestamp
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from broker.storage.producers.producer_state import AppendedBatch, ProducerEntry
from pylog.records.batch import SEQUENCE_MAX

SNAPSHOT_VERSION: Final = 1
COMPANION_VERSION: Final = 1

_START: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ROW: Final = struct.Struct(">qhiqiqiq")
_COMPANION_START: Final = struct.Struct(">bi")
_COMPANION_ROW: Final = struct.Struct(">qqB")
_BATCH: Final = struct.Struct(">iiqqq")


class SnapshotRow(NamedTuple):
    """One producer in a snapshot, by Kafka's fields."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_start: int


class BadSnapshot(ValueError):
    """The bytes are no snapshot; the message says why."""


def encode_snapshot(entries: dict[int, ProducerEntry]) -> bytes:
    """The file for these producers."""
    body = bytearray(_COUNT.pack(len(entries)))
    for producer_id, entry in entries.items():
        last = entry.batches[-1] if entry.batches else None
        body += _ROW.pack(
            producer_id,
            entry.epoch,
            last.last_sequence if last else -1,
            last.last_offset if last else -1,
            last.last_offset - last.first_offset if last else 0,
            entry.timestamp,
            entry.coordinator_epoch,
            entry.transaction_start,
        )
    return _START.pack(SNAPSHOT_VERSION, crc32c(bytes(body))) + bytes(body)


def decode_snapshot(data: bytes) -> list[SnapshotRow]:
    """The producers in a file; BadSnapshot when it is damaged or of another version."""
    body = _checked(data, SNAPSHOT_VERSION, _COUNT.size)
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ROW.size:
        raise BadSnapshot(f"{count} producers do not take {len(data)} bytes")
    return [
        SnapshotRow(*_ROW.unpack_from(body, _COUNT.size + number * _ROW.size))
        for number in range(count)
    ]


def encode_companion(entries: dict[int, ProducerEntry], *, forgot: bool) -> bytes:
    """The companion for the same producers."""
    body = bytearray(_COMPANION_START.pack(forgot, len(entries)))
    for producer_id, entry in entries.items():
        body += _COMPANION_ROW.pack(producer_id, entry.seen_ms, len(entry.batches))
        for batch in entry.batches:
            body += _BATCH.pack(*batch)
    return _START.pack(COMPANION_VERSION, crc32c(bytes(body))) + bytes(body)


def decode_companion(data: bytes) -> tuple[dict[int, tuple[int, tuple[AppendedBatch, ...]]], bool]:
    """(when last heard, batches) by producer, and whether some were forgotten. BadSnapshot."""
    body = _checked(data, COMPANION_VERSION, _COMPANION_START.size)
    forgot, count = _COMPANION_START.unpack_from(body)
    position = _COMPANION_START.size
    found: dict[int, tuple[int, tuple[AppendedBatch, ...]]] = {}
    try:
        for _ in range(count):
            producer_id, seen_ms, batches = _COMPANION_ROW.unpack_from(body, position)
            position += _COMPANION_ROW.size
            rows = []
            for _ in range(batches):
                rows.append(AppendedBatch(*_BATCH.unpack_from(body, position)))
                position += _BATCH.size
            found[producer_id] = (seen_ms, tuple(rows))
    except struct.error as error:
        raise BadSnapshot(f"{count} producers are declared, the bytes end before") from error
    return found, bool(forgot)


def restore(
    rows: list[SnapshotRow], companion: bytes | None
) -> tuple[dict[int, ProducerEntry], bool]:
    """The producers of a snapshot, with all batches that a fitting companion knows; and whether a
    producer that is not among them may have been forgotten.
    """
    known: dict[int, tuple[int, tuple[AppendedBatch, ...]]] = {}
    forgot = True
    if companion is not None:
        try:
            known, forgot = decode_companion(companion)
        except BadSnapshot:
            forgot = True
    entries = {}
    for row in rows:
        batches: tuple[AppendedBatch, ...] = ()
        if row.last_offset >= 0:
            first_sequence = (row.last_sequence - row.offset_delta) & SEQUENCE_MAX
            first_offset = row.last_offset - row.offset_delta
            batches = (
                AppendedBatch(
                    first_sequence, row.last_sequence, first_offset, row.last_offset, row.timestamp
                ),
            )
        seen_ms, more = known.get(row.producer_id, (-1, ()))
        if more and more[-1].last_offset == row.last_offset:
            batches = more
        entries[row.producer_id] = ProducerEntry(
            row.producer_epoch,
            batches,
            row.transaction_start,
            row.timestamp,
            row.coordinator_epoch,
            seen_ms,
        )
    return entries, forgot


def _checked(data: bytes, version: int, least: int) -> bytes:
    if len(data) < _START.size + least:
        raise BadSnapshot(f"{len(data)} bytes are too few")
    found, crc = _START.unpack_from(data)
    if found != version:
        raise BadSnapshot(f"version {found}; this release knows {version}")
    body = data[_START.size :]
    if crc32c(body) != crc:
        raise BadSnapshot("the CRC does not match")
    return body
