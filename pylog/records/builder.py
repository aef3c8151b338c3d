"""Record batches from Python values: whole lists at once, and control batches.

Arrow columns are encoded by `columnar`. Lists of more than a few records go through a compiled
kernel, which is loaded at the first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final

from pylog.errors import InvalidRecord, MessageTooLarge
from pylog.model import NO_TIMESTAMP
from pylog.records import kernels_pure
from pylog.records.batch import (
    BATCH_LENGTH_MIN,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    CompressionType,
    pack_header,
    seal,
)
from pylog.records.compression import codec_from_name, compress
from pylog.records.headers import Header, encode_headers

BATCH_LENGTH_MAX: Final = 2**31 - 1

_CONTROL_KEY: Final = Struct(">hh")  # version, type
_CONTROL_VALUE: Final = Struct(">hi")  # version, coordinator epoch


class ControlType(IntEnum):
    """What a control batch says about its producer's transaction."""

    ABORT = 0
    COMMIT = 1


def encode_batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Iterable[Header] | None] | None = None,
    header_blobs: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | int | None = None,
    compression: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    base_offset: int = 0,
    leader_epoch: int = -1,
    transactional: bool = False,
) -> bytes:
    """One record batch that holds `values`, record by record with `keys`, `headers` and
    `timestamps` (milliseconds; one for all, or one each; None: no timestamp, -1). Headers may also
    come encoded already, as `header_blobs` of `headers.encode_headers`.

    Raises ValueError without values or for lists of different lengths, TypeError for a value that
    is not bytes or None, UnsupportedCompressionType, and MessageTooLarge beyond 2 GiB.
    """
    codec = codec_from_name(compression)
    count = len(values)
    if count == 0:
        raise ValueError("a record batch needs at least one record")
    for name, column in (("keys", keys), ("headers", headers), ("header blobs", header_blobs)):
        if column is not None and len(column) != count:
            raise ValueError(f"{len(column)} {name} for {count} values")
    stamps = NO_TIMESTAMP if timestamps is None else timestamps
    if isinstance(stamps, int):
        base_timestamp = max_timestamp = stamps
    else:
        if len(stamps) != count:
            raise ValueError(f"{len(stamps)} timestamps for {count} values")
        base_timestamp, max_timestamp = int(stamps[0]), int(max(stamps))
    if headers is not None:
        header_blobs = [encode_headers(pairs) for pairs in headers]
    records = kernels_pure.encode_records(values, keys, header_blobs, stamps, base_timestamp)
    body = compress(codec, records)
    if len(body) > BATCH_LENGTH_MAX - BATCH_LENGTH_MIN:
        raise MessageTooLarge(
            f"{count} records take {len(body)} bytes; a batch ends at {BATCH_LENGTH_MAX}"
        )
    header = pack_header(
        records_size=len(body),
        attributes=codec | (TRANSACTIONAL_BIT if transactional else 0),
        record_count=count,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    return seal(header, body)


def encode_control_batch(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The batch of one record that ends a producer's transaction in a partition (KIP-98)."""
    records = kernels_pure.encode_records(
        [_CONTROL_VALUE.pack(0, coordinator_epoch)],
        [_CONTROL_KEY.pack(0, control_type)],
        None,
        timestamp_ms,
        timestamp_ms,
    )
    header = pack_header(
        records_size=len(records),
        attributes=CompressionType.NONE | TRANSACTIONAL_BIT | CONTROL_BIT,
        record_count=1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    return seal(header, records)


def read_control(key: bytes | None, value: bytes | None) -> tuple[ControlType, int]:
    """(what, coordinator epoch) of a control record; InvalidRecord when it is not one of these.

    Later versions may only add fields at the end, so the length is a lower bound.
    """
    if key is None or value is None or len(key) < 4 or len(value) < 6:
        raise InvalidRecord("a control record's key and value need 4 and 6 bytes", record_index=0)
    kind = _CONTROL_KEY.unpack_from(key)[1]
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecord(f"control record of unknown type {kind}", record_index=0)
    return ControlType(kind), _CONTROL_VALUE.unpack_from(value)[1]
