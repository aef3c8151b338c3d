"""Arrow columns to record batches in plain Python: for a process without numba.

The same bytes as `arrow_writer`, row by row and so tens of times slower.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from pylog.model import NO_EPOCH
from pylog.records.arrow_columns import NO_BYTES, NO_WORDS, ByteColumn, HeaderColumn, Words, frozen
from pylog.records.batch import HEADER_SIZE, TRANSACTIONAL_BIT, add_to_sequence, header_before
from pylog.records.compression import Compression, compress
from pylog.records.headers import NO_HEADERS
from pylog.records.kernels_pure import wrap_int64
from pylog.records.varint import encode_varint

if TYPE_CHECKING:
    from pylog.records.arrow_encoder import BatchSettings

BATCH_RECORDS_MAX = 2**31 - 1
_NULL = encode_varint(-1)


def put_header(batch: bytes, header: bytes) -> bytes:
    """The batch with another header."""
    return header + batch[HEADER_SIZE:]


def header_sizes(headers: HeaderColumn | None) -> Words:
    """Bytes of each row's encoded headers, their count included."""
    if headers is None:
        return NO_WORDS
    return frozen(np.array([len(blob) for blob in _header_blobs(headers)], np.int64))


def encode(
    value: ByteColumn,
    key: ByteColumn,
    headers: HeaderColumn | None,
    timestamps: Words,
    settings: BatchSettings,
) -> list[bytes]:
    """Batches of all rows, each of at most `batch_size` bytes or one larger record."""
    values = _byte_strings(value)
    keys = [None] * len(values) if key is NO_BYTES else _byte_strings(key)
    blobs = [NO_HEADERS] * len(values) if headers is None else _header_blobs(headers)
    times: list[int] = timestamps.tolist()
    limit = settings.batch_size - HEADER_SIZE
    batches: list[bytes] = []
    parts: list[bytes] = []
    first = size = 0
    sequence = settings.base_sequence
    for row, stamp in enumerate(times):
        body = _tail(keys[row], values[row], blobs[row])
        record = _record(wrap_int64(stamp - times[first]), row - first, body)
        if row > first and (size + len(record) > limit or row - first >= BATCH_RECORDS_MAX):
            batches.append(_finished(parts, times[first:row], sequence, settings))
            sequence = _after(sequence, row - first)
            parts, first, size = [], row, 0
            record = _record(0, 0, body)
        parts.append(record)
        size += len(record)
    batches.append(_finished(parts, times[first:], sequence, settings))
    return batches


def _record(timestamp_delta: int, offset_delta: int, tail: bytes) -> bytes:
    body = b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta) + tail
    return encode_varint(len(body)) + body


def _tail(key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """The bytes of a record behind its deltas."""
    parts = []
    for data in (key, value):
        parts += [_NULL] if data is None else [encode_varint(len(data)), data]
    return b"".join((*parts, headers))


def _finished(
    parts: list[bytes], times: list[int], sequence: int, settings: BatchSettings
) -> bytes:
    compression = Compression.of(settings.compression)
    records = compress(compression, b"".join(parts))
    codec = int(compression.codec)
    header = header_before(
        records,
        codec | TRANSACTIONAL_BIT if settings.transactional else codec,
        len(parts),
        times[0],
        max(times),
        0,
        NO_EPOCH,
        settings.producer_id,
        settings.producer_epoch,
        sequence,
        checked=not settings.stamped_later,
    )
    return header + records


def _after(sequence: int, records: int) -> int:
    return add_to_sequence(sequence, records) if sequence >= 0 else sequence


def _byte_strings(column: ByteColumn) -> list[bytes | None]:
    return [
        None if length < 0 else ctypes.string_at(column.address + start, length) if length else b""
        for start, length in zip(column.starts.tolist(), column.lengths.tolist(), strict=True)
    ]


def _header_blobs(headers: HeaderColumn) -> list[bytes]:
    """Each row's headers, encoded."""
    names, contents = _byte_strings(headers.keys), _byte_strings(headers.values)
    blobs: list[bytes] = []
    for start, count in zip(headers.starts.tolist(), headers.counts.tolist(), strict=True):
        parts: list[Any] = [encode_varint(count)]
        for index in range(start, start + count):
            name, content = names[index], contents[index]
            assert name is not None  # `header_column` refuses null keys
            parts += [encode_varint(len(name)), name]
            parts += [_NULL] if content is None else [encode_varint(len(content)), content]
        blobs.append(b"".join(parts))
    return blobs
