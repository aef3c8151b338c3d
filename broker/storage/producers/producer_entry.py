"""A log's knowledge of one producer, and the bytes in which it keeps that.

Pure. A log may know tens of thousands of producers, nearly all of them idle. As bytes one takes 112
bytes with one batch and 240 with five, half to a sixth of what tuples take, and the garbage
collector need not visit it. The bytes are those of the snapshot files (`producer_snapshot`), each
without the producer id that stands before it there, so that a snapshot is joined and not made.
Big-endian:

    Kafka's row
     0  2  producer epoch
     2  4  last sequence          -1 when only a marker is known
     6  8  last offset            -1 likewise
    14  4  offset delta           of that last batch
    18  8  timestamp              of the last batch or marker
    26  4  coordinator epoch      of the last marker, -1 without one
    30  8  first offset of the open transaction, -1 without one
    the companion's row
    38  8  when the broker last heard of it (ms), -1 when that is not known
    46  1  number of batches, oldest first, each of 32 bytes:
            4 first sequence, 4 last sequence, 8 first offset, 8 last offset, 8 timestamp
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

BATCHES_KEPT: Final = 5
"""As many as an idempotent producer may have in flight."""

ROW_BYTES: Final = 38
HEAD: Final = struct.Struct(">hiqiqiqqB")
BATCH: Final = struct.Struct(">iiqqq")
_KEPT_BEFORE_NEXT: Final = (BATCHES_KEPT - 1) * BATCH.size

EPOCH_AND_SEQUENCE: Final = struct.Struct(">hi")
_TIMES: Final = struct.Struct(">18xq12xq")
_EPOCH_AND_OFFSET: Final = struct.Struct(">h4xq")
_TRANSACTION: Final = slice(30, 38)
_NO_TRANSACTION: Final = (-1).to_bytes(8, signed=True)


class AppendedBatch(NamedTuple):
    """One of a producer's newest batches."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry(NamedTuple):
    """One producer: its newest epoch, and its last batches in that epoch, oldest first.

    `transaction_start` is the first offset of its open transaction, -1 without one. `timestamp` is
    that of its newest batch or marker, `seen_ms` when this broker was given that (-1: unknown),
    `coordinator_epoch` that of its newest marker.
    """

    epoch: int
    batches: tuple[AppendedBatch, ...]
    transaction_start: int = -1
    timestamp: int = -1
    coordinator_epoch: int = -1
    seen_ms: int = -1


def pack(entry: ProducerEntry) -> bytes:
    """The bytes of a producer."""
    last = entry.batches[-1] if entry.batches else None
    head = HEAD.pack(
        entry.epoch,
        last.last_sequence if last else -1,
        last.last_offset if last else -1,
        last.last_offset - last.first_offset if last else 0,
        entry.timestamp,
        entry.coordinator_epoch,
        entry.transaction_start,
        entry.seen_ms,
        len(entry.batches),
    )
    return b"".join((head, *(BATCH.pack(*batch) for batch in entry.batches)))


def unpack(packed: bytes) -> ProducerEntry:
    """The producer of these bytes."""
    epoch, _, _, _, timestamp, coordinator, start, seen_ms, _ = HEAD.unpack_from(packed)
    batches = tuple(map(AppendedBatch._make, BATCH.iter_unpack(packed[HEAD.size :])))
    return ProducerEntry(epoch, batches, start, timestamp, coordinator, seen_ms)


def is_open(packed: bytes) -> bool:
    """Whether a transaction of the producer is open."""
    return packed[_TRANSACTION] != _NO_TRANSACTION


def transaction_start(packed: bytes) -> int:
    """The first offset of its open transaction."""
    return int.from_bytes(packed[_TRANSACTION])


def last_heard_ms(packed: bytes) -> int:
    """The later one of its last timestamp and of when it was heard of; -1 when the latter is not
    known.
    """
    timestamp, seen_ms = _TIMES.unpack_from(packed)
    return -1 if seen_ms < 0 else max(timestamp, seen_ms)


def last_record(packed: bytes) -> tuple[int, int]:
    """(offset of its newest record, -1 when none is known; epoch)."""
    epoch, offset = _EPOCH_AND_OFFSET.unpack_from(packed)
    return offset, epoch


def batches_before_next(packed: bytes) -> bytes:
    """The batches that are kept when one more comes."""
    return packed[max(HEAD.size, len(packed) - _KEPT_BEFORE_NEXT) :]
