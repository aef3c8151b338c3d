"""The record kernels in plain Python: easy to read, slow, and the measure of the compiled ones.

Each function here has a twin in `encode_kernels`, `decode_kernels` or `check_kernels` with the same
meaning, which property tests compare. Used in earnest for batches of a few records, where the call
of a compiled kernel costs more than it saves.

A record (Kafka's `DefaultRecord`; every number but attributes is a zig-zag varint):

    length | attributes: 1 byte | timestamp delta: 64 bits | offset delta
    | key length, -1 for null | key | value length, -1 for null | value
    | header count | per header: key length | key | value length, -1 for null | value
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pylog.records import faults
from pylog.records.batch import Buffer
from pylog.records.headers import NO_HEADERS
from pylog.records.varint import encode_varint, read_varint, read_varlong

_NULL_LENGTH = encode_varint(-1)
_INT64_SIGN = 1 << 63
_UINT64_MASK = (1 << 64) - 1


def wrap_int64(value: int) -> int:
    """`value` as a signed 64-bit integer would hold it: a wire delta may overflow on purpose."""
    return ((value + _INT64_SIGN) & _UINT64_MASK) - _INT64_SIGN


class RecordFields(NamedTuple):
    """The positions of one record's parts, counted from the start of the parsed buffer."""

    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_length: int  # -1: null
    value_start: int
    value_length: int  # -1: null
    headers_start: int  # after their count
    header_count: int
    end: int


class RecordsSummary(NamedTuple):
    """The outcome of a deep check. `first_without_key` is a record index, or -1."""

    min_timestamp: int
    max_timestamp: int
    first_without_key: int


class RecordFault(Exception):
    """A record that breaks the format: a code of `faults` and the record's index."""

    def __init__(self, fault: int, index: int) -> None:
        super().__init__(fault, index)
        self.fault = fault
        self.index = index


def encode_records(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    header_blobs: Sequence[bytes | None] | None,
    timestamps: Sequence[int],
    base_timestamp: int,
) -> bytes:
    """The records section of a batch, uncompressed.

    `header_blobs` come from `encode_headers`; None, for one record or all, means no headers.
    """
    parts: list[bytes] = []
    for index, value in enumerate(values):
        body = [
            b"\x00",
            encode_varint(wrap_int64(timestamps[index] - base_timestamp)),
            encode_varint(index),
        ]
        for data in (keys[index] if keys is not None else None, value):
            body += (_NULL_LENGTH,) if data is None else (encode_varint(len(data)), data)
        blob = header_blobs[index] if header_blobs is not None else None
        body.append(NO_HEADERS if blob is None else blob)
        record = b"".join(body)
        parts += (encode_varint(len(record)), record)
    return b"".join(parts)


def decode_records(
    buffer: Buffer, start: int, end: int, count: int, last_offset_delta: int
) -> list[RecordFields]:
    """The positions of the parts of the `count` records in `buffer[start:end]`.

    Offset deltas must rise and stay within `last_offset_delta`; compaction leaves gaps. Raises
    RecordFault.
    """
    rows: list[RecordFields] = []
    previous = -1
    position = start
    for index in range(count):
        fields = _parse_record(buffer, position, end, index)
        if not previous < fields.offset_delta <= last_offset_delta:
            raise RecordFault(faults.OFFSET, index)
        previous = fields.offset_delta
        position = fields.end
        rows.append(fields)
    if position != end:
        raise RecordFault(faults.TRAILING, count)
    return rows


def check_records(
    buffer: Buffer, start: int, end: int, count: int, base_timestamp: int
) -> RecordsSummary:
    """Proof that `buffer[start:end]` is exactly `count` records with offset deltas 0 to count - 1.

    Raises RecordFault.
    """
    smallest, largest, without_key = _INT64_SIGN - 1, -_INT64_SIGN, -1
    position = start
    for index in range(count):
        fields = _parse_record(buffer, position, end, index)
        if fields.offset_delta != index:
            raise RecordFault(faults.OFFSET, index)
        if fields.key_length < 0 and without_key < 0:
            without_key = index
        timestamp = wrap_int64(base_timestamp + fields.timestamp_delta)
        smallest, largest = min(smallest, timestamp), max(largest, timestamp)
        position = fields.end
    if position != end:
        raise RecordFault(faults.TRAILING, count)
    return RecordsSummary(smallest, largest, without_key)


def _parse_record(buffer: Buffer, position: int, end: int, index: int) -> RecordFields:
    try:
        length, position = read_varint(buffer, position, end)
        if not 0 <= length <= end - position:
            raise RecordFault(faults.LENGTH, index)
        end = position + length
        if position == end:
            raise RecordFault(faults.VARINT, index)
        timestamp_delta, position = read_varlong(buffer, position + 1, end)
        offset_delta, position = read_varint(buffer, position, end)
        key_length, key_start = read_varint(buffer, position, end)
        if not -1 <= key_length <= end - key_start:
            raise RecordFault(faults.KEY, index)
        position = key_start + max(key_length, 0)
        value_length, value_start = read_varint(buffer, position, end)
        if not -1 <= value_length <= end - value_start:
            raise RecordFault(faults.VALUE, index)
        position = value_start + max(value_length, 0)
        header_count, headers_start = read_varint(buffer, position, end)
    except ValueError as error:
        raise RecordFault(faults.VARINT, index) from error
    if _skip_headers(buffer, headers_start, header_count, end, index) != end:
        raise RecordFault(faults.UNFILLED, index)
    return RecordFields(
        timestamp_delta,
        offset_delta,
        key_start,
        key_length,
        value_start,
        value_length,
        headers_start,
        header_count,
        end,
    )


def _skip_headers(buffer: Buffer, position: int, count: int, end: int, index: int) -> int:
    # A header takes two bytes at least, so a huge count is refused before the loop begins.
    if not 0 <= count <= (end - position) // 2:
        raise RecordFault(faults.HEADERS, index)
    try:
        for _ in range(count):
            length, position = read_varint(buffer, position, end)
            if not 0 <= length <= end - position:
                raise RecordFault(faults.HEADERS, index)
            length, position = read_varint(buffer, position + length, end)
            if not -1 <= length <= end - position:
                raise RecordFault(faults.HEADERS, index)
            position += max(length, 0)
    except ValueError as error:
        raise RecordFault(faults.HEADERS, index) from error
    return position


def split_records(sizes: Sequence[int], limit: int) -> list[int]:
    """The ends of batches (exclusive) that each hold at most `limit` bytes of records of these
    `sizes`, or a single larger one.
    """
    stops: list[int] = []
    total = 0
    for index, size in enumerate(sizes):
        if total and total + size > limit:
            stops.append(index)
            total = 0
        total += size
    return [*stops, len(sizes)] if sizes else stops
