"""A log's knowledge of its producers, as files: Kafka's `.snapshot`, and a companion of pylog's
own.

Pure: bytes in and out. Both are named by the offset that they stand before, and both are caches:
a reader that finds one missing or damaged reads the batches.

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
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from pylog.records.batch import SEQUENCE_MAX
from pylog_broker.storage.producers.producer_entry import (
    BATCH,
    ROW_BYTES,
    AppendedBatch,
    ProducerEntry,
    pack,
)

SNAPSHOT_VERSION: Final = 1
COMPANION_VERSION: Final = 1

_START: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ROW: Final = struct.Struct(">qhiqiqiq")
_COMPANION_START: Final = struct.Struct(">bi")
_COMPANION_ROW: Final = struct.Struct(">qqB")
_ID: Final = struct.Struct(">q")
_SEEN_AND_COUNT: Final = struct.Struct(">qB")

START_BYTES: Final = _START.size


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


# ---- to files -----------------------------------------------------------------------------------


def snapshot_start(count: int) -> bytes:
    """The bytes in a snapshot before so many rows, without the file's first `START_BYTES`."""
    return _COUNT.pack(count)


def companion_start(count: int, *, forgot: bool) -> bytes:
    """The same of a companion."""
    return _COMPANION_START.pack(forgot, count)


def snapshot_rows(packed: Iterable[tuple[int, bytes]]) -> bytes:
    """The rows of these producers, as they are packed, in a snapshot."""
    id_bytes = _ID.pack
    return b"".join([id_bytes(producer_id) + entry[:ROW_BYTES] for producer_id, entry in packed])


def companion_rows(packed: Iterable[tuple[int, bytes]]) -> bytes:
    """The same in a companion."""
    id_bytes = _ID.pack
    return b"".join([id_bytes(producer_id) + entry[ROW_BYTES:] for producer_id, entry in packed])


def file_start(version: int, crc: int) -> bytes:
    """A file's first `START_BYTES`, before a body of that CRC-32C."""
    return _START.pack(version, crc)


def encode_snapshot(packed: Mapping[int, bytes]) -> bytes:
    """The file for these producers, as they are packed."""
    body = snapshot_start(len(packed)) + snapshot_rows(packed.items())
    return file_start(SNAPSHOT_VERSION, crc32c(body)) + body


def encode_companion(packed: Mapping[int, bytes], *, forgot: bool) -> bytes:
    """The companion for the same producers."""
    body = companion_start(len(packed), forgot=forgot) + companion_rows(packed.items())
    return file_start(COMPANION_VERSION, crc32c(body)) + body


# ---- from files ---------------------------------------------------------------------------------


def decode_snapshot(data: bytes) -> list[SnapshotRow]:
    """The producers in a file; BadSnapshot when it is damaged or of another version."""
    return [SnapshotRow._make(row) for row in _ROW.iter_unpack(_snapshot_rows_of(data))]


def decode_companion(data: bytes) -> tuple[dict[int, tuple[int, tuple[AppendedBatch, ...]]], bool]:
    """(when last heard, batches) by producer, and whether some were forgotten. BadSnapshot."""
    rows, forgot = _companion_rows_of(data)
    found = {}
    for id_bytes, row in rows.items():
        seen_ms, _ = _SEEN_AND_COUNT.unpack_from(row)
        batches = BATCH.iter_unpack(row[_SEEN_AND_COUNT.size :])
        found[_ID.unpack(id_bytes)[0]] = seen_ms, tuple(map(AppendedBatch._make, batches))
    return found, forgot


def restore(data: bytes, companion: bytes | None) -> tuple[dict[int, bytes], bool]:
    """The producers of a snapshot, packed, with all batches that a fitting companion knows; and
    whether a producer that is not among them may have been forgotten.

    Raises BadSnapshot; a damaged companion counts as missing.
    """
    rows = _snapshot_rows_of(data)
    known: dict[bytes, bytes] = {}
    forgot = True
    if companion is not None:
        try:
            known, forgot = _companion_rows_of(companion)
        except BadSnapshot:
            forgot = True
    packed = {}
    for position in range(0, len(rows), _ROW.size):
        id_bytes = rows[position : position + 8]
        row = rows[position + 8 : position + 46]
        more = known.get(id_bytes, b"")
        # the last offset, of the newest batch and of the row
        if len(more) > _SEEN_AND_COUNT.size and more[-16:-8] == row[6:14]:
            packed[int.from_bytes(id_bytes, signed=True)] = row + more
        else:
            seen_ms = _SEEN_AND_COUNT.unpack_from(more)[0] if more else -1
            alone = SnapshotRow(*_ROW.unpack_from(rows, position))
            packed[alone.producer_id] = _alone(alone, seen_ms)
    return packed, forgot


def _alone(row: SnapshotRow, seen_ms: int) -> bytes:
    """A producer of which one batch is known at most."""
    batches: tuple[AppendedBatch, ...] = ()
    if row.last_offset >= 0:
        first_sequence = (row.last_sequence - row.offset_delta) & SEQUENCE_MAX
        first_offset = row.last_offset - row.offset_delta
        batch = AppendedBatch(
            first_sequence, row.last_sequence, first_offset, row.last_offset, row.timestamp
        )
        batches = (batch,)
    return pack(
        ProducerEntry(
            row.producer_epoch,
            batches,
            row.transaction_start,
            row.timestamp,
            row.coordinator_epoch,
            seen_ms,
        )
    )


def _snapshot_rows_of(data: bytes) -> bytes:
    body = _checked(data, SNAPSHOT_VERSION, _COUNT.size)
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) != _COUNT.size + count * _ROW.size:
        raise BadSnapshot(f"{count} producers do not take {len(data)} bytes")
    return body[_COUNT.size :]


def _companion_rows_of(data: bytes) -> tuple[dict[bytes, bytes], bool]:
    """The row behind each producer's id, by the bytes of the id; and whether some were
    forgotten.
    """
    body = _checked(data, COMPANION_VERSION, _COMPANION_START.size)
    forgot, count = _COMPANION_START.unpack_from(body)
    position, size = _COMPANION_START.size, len(body)
    found: dict[bytes, bytes] = {}
    for _ in range(count):
        end = position + _COMPANION_ROW.size
        if end <= size:
            end += body[end - 1] * BATCH.size
        if end > size:
            raise BadSnapshot(f"{count} producers are declared, the bytes end before")
        found[body[position : position + 8]] = body[position + 8 : end]
        position = end
    return found, bool(forgot)


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
