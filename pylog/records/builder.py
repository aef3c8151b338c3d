"""Record batches from Python values: whole lists at once, and control batches.

Arrow columns are encoded by `columnar`. Lists of more than a few records go through a compiled
kernel (`list_encoder`) where that is loaded (`compiled` tells when), else through `joined`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from enum import IntEnum
from functools import cache
from importlib import import_module
from struct import Struct
from types import ModuleType
from typing import Any, Final, cast

from pylog.errors import InvalidRecord
from pylog.model import NO_TIMESTAMP
from pylog.records import compiled, kernels_pure
from pylog.records.batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    CompressionType,
    header_before,
    pack_header,
    seal,
)
from pylog.records.compression import Compression, compress
from pylog.records.headers import Header, encode_headers
from pylog.records.joined import encode_joined
from pylog.records.plain_bytes import plain_bytes

_CONTROL_KEY: Final = Struct(">hh")  # version, type
_CONTROL_VALUE: Final = Struct(">hi")  # version, coordinator epoch


class ControlType(IntEnum):
    """The word of a control batch about its producer's transaction."""

    ABORT = 0
    COMMIT = 1


def encode_batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Iterable[Header] | None] | None = None,
    header_blobs: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | int | None = None,
    compression: str | Compression = "none",
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
    compression = Compression.of(compression)
    codec = compression.codec
    count = len(values)
    stamps = NO_TIMESTAMP if timestamps is None else timestamps
    _check_lengths(count, keys, headers, header_blobs, stamps)
    if headers is not None:
        header_blobs = [encode_headers(pairs) for pairs in headers]
    room = 0
    encoded: bytes
    if compiled.is_loaded() and count > compiled.SMALL_BATCH_RECORDS:
        # Without a codec the records are written where they stay, behind room for the header.
        room = HEADER_SIZE if codec is CompressionType.NONE else 0
        encoded, base_timestamp, max_timestamp = _list_encoder().encode_lists(
            room, values, keys, header_blobs, stamps
        )
    else:
        encoded, base_timestamp, max_timestamp = _encoded_plainly(
            values, keys, header_blobs, stamps
        )
    records = memoryview(encoded)[room:] if room else compress(compression, encoded)
    header = header_before(
        records,
        codec | TRANSACTIONAL_BIT if transactional else codec,
        count,
        base_timestamp,
        max_timestamp,
        base_offset,
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
    )
    if room:
        batch: bytes = _list_encoder().put_header(encoded, header)
        return batch
    return header + records


def _encoded_plainly(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    header_blobs: Sequence[bytes | None] | None,
    stamps: Sequence[int] | int,
) -> tuple[bytes, int, int]:
    """(the records, base timestamp, max timestamp) without the kernels."""
    if hasattr(stamps, "dtype"):  # numpy's integers overflow where Python's grow
        stamps = cast(Any, stamps).tolist()
    base = stamps if isinstance(stamps, int) else int(stamps[0])
    largest = stamps if isinstance(stamps, int) else int(max(stamps))
    if len(values) > compiled.SMALL_BATCH_RECORDS and header_blobs is None:
        joined = encode_joined(values, keys, stamps, base)
        if joined is not None:
            return joined, base, largest
    encoded = kernels_pure.encode_records(
        plain_bytes(values, "value"),
        None if keys is None else plain_bytes(keys, "key"),
        header_blobs,
        [stamps] * len(values) if isinstance(stamps, int) else [int(stamp) for stamp in stamps],
        base,
    )
    return encoded, base, largest


@cache
def _list_encoder() -> ModuleType:
    compiled.load()
    return import_module("pylog.records.native.list_encoder")


def _check_lengths(
    count: int,
    keys: Sized | None,
    headers: Sized | None,
    header_blobs: Sized | None,
    timestamps: Sized | int,
) -> None:
    if count == 0:
        raise ValueError("a record batch needs at least one record")
    if keys is not None and len(keys) != count:
        raise ValueError(f"{len(keys)} keys for {count} values")
    if headers is not None and len(headers) != count:
        raise ValueError(f"{len(headers)} headers for {count} values")
    if header_blobs is not None and len(header_blobs) != count:
        raise ValueError(f"{len(header_blobs)} header blobs for {count} values")
    if not isinstance(timestamps, int) and len(timestamps) != count:
        raise ValueError(f"{len(timestamps)} timestamps for {count} values")


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
        [timestamp_ms],
        timestamp_ms,
    )
    header = pack_header(
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
