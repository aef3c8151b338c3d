"""Compiled: the records of many batches copied once, straight into Arrow's column memory.

No Arrow in here: buffers come as addresses and numpy arrays from `columnar`. Bounds are those of
`decode_kernels.parse_record`; the key and value bytes of a section are disjoint parts of it, so
column memory as large as all sections together always suffices.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from pylog.records.faults import NONE, OFFSET, TIMESTAMP, TRAILING
from pylog.records.native.decode_kernels import parse_record, read_varint
from pylog.records.native.raw_memory import copy_bytes, helper, kernel
from pylog.records.scan_kernels import (
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    START,
    STOP,
    TIMESTAMP_TYPE,
)

# The outcomes of `decode_columns`; its `sections` are a table of `scan_kernels`.
ROWS: Final = 0
KEY_BYTES: Final = 1
VALUE_BYTES: Final = 2
KEY_NULLS: Final = 3
VALUE_NULLS: Final = 4
FAULT: Final = 5
FAULTY_SECTION: Final = 6
FAULTY_RECORD: Final = 7
REPORTED: Final = 8

# Rows of the array of header positions.
HEADERS_START: Final = 0  # addresses
HEADERS_STOP: Final = 1
HEADER_COUNT: Final = 2

_TIMESTAMP_MAX: Final = (2**63 - 1) // 1000
"""In milliseconds: what still fits 64 bits as microseconds."""

_i64 = types.int64
_tuple_of: Any = types.UniTuple
_words = types.Array(types.int64, 1, "C")
_ints = types.Array(types.int32, 1, "C")
_octets = types.Array(types.uint8, 1, "C")
_table = types.Array(types.int64, 2, "C")


@helper
def _set_bit(bits: Any, row: int) -> None:
    bits[row >> 3] |= 1 << (row & 7)


@helper
def _fault(report: Any, fault: int, section: int, record: int) -> None:
    report[FAULT] = fault
    report[FAULTY_SECTION] = section
    report[FAULTY_RECORD] = record


@helper
def _timestamp(sections: Any, section: int, timestamp_delta: int) -> int:
    if sections[section, TIMESTAMP_TYPE] == 1:
        return int(sections[section, MAX_TIMESTAMP])
    return int(sections[section, BASE_TIMESTAMP] + timestamp_delta)


@helper
def _put(memory: int, end: int, bits: Any, row: int, source: int, length: int) -> int:
    """Append a byte string to a column's memory; where the memory in use ends then."""
    if length < 0:
        return end
    copy_bytes(memory + end, source, length)
    _set_bit(bits, row)
    return end + length


@helper
def _note_headers(positions: Any, row: int, start: int, stop: int, count: int) -> None:
    if positions.shape[1] > 0:
        positions[HEADERS_START, row] = start
        positions[HEADERS_STOP, row] = stop
        positions[HEADER_COUNT, row] = count


@kernel(
    types.void(
        _table, _i64, _i64, _words, _words, _ints,
        _ints, _octets, _i64, _ints, _octets, _i64, _table, _words,
    ),
    nogil=True,
)  # fmt: skip
def decode_columns(
    sections: Any,
    from_offset: int,
    to_offset: int,
    offsets: Any,
    timestamps: Any,
    timestamp_types: Any,
    key_offsets: Any,
    key_bits: Any,
    key_memory: int,
    value_offsets: Any,
    value_bits: Any,
    value_memory: int,
    header_positions: Any,
    report: Any,
) -> None:
    """Fill the columns with the records from `from_offset` to below `to_offset`.

    Bitmaps and `report` come zeroed. There is a bit and a place for each record of the sections,
    one more in the two offset columns. `header_positions` may have none: headers not wanted.
    """
    row = key_end = value_end = 0
    for section in range(sections.shape[0]):
        position, stop = sections[section, START], sections[section, STOP]
        previous = -1
        for index in range(sections[section, COUNT]):
            (
                fault,
                timestamp_delta,
                offset_delta,
                key_start,
                key_length,
                value_start,
                value_length,
                headers_start,
                header_count,
                position,
            ) = parse_record(position, stop)
            if fault == NONE and not (
                previous < offset_delta <= sections[section, LAST_OFFSET_DELTA]
            ):
                fault = OFFSET
            if fault != NONE:
                _fault(report, fault, section, index)
                return
            previous = offset_delta
            offset = sections[section, BASE_OFFSET] + offset_delta
            if not from_offset <= offset < to_offset:
                continue
            timestamp = _timestamp(sections, section, timestamp_delta)
            if not -_TIMESTAMP_MAX <= timestamp <= _TIMESTAMP_MAX:
                _fault(report, TIMESTAMP, section, index)
                return
            offsets[row] = offset
            timestamps[row] = timestamp * 1000
            timestamp_types[row] = sections[section, TIMESTAMP_TYPE]
            key_offsets[row] = key_end
            value_offsets[row] = value_end
            key_end = _put(key_memory, key_end, key_bits, row, key_start, key_length)
            value_end = _put(value_memory, value_end, value_bits, row, value_start, value_length)
            report[KEY_NULLS] += key_length < 0
            report[VALUE_NULLS] += value_length < 0
            _note_headers(header_positions, row, headers_start, position, header_count)
            row += 1
        if position != stop:
            _fault(report, TRAILING, section, sections[section, COUNT])
            return
    key_offsets[row] = report[KEY_BYTES] = key_end
    value_offsets[row] = report[VALUE_BYTES] = value_end
    report[ROWS] = row


@helper
def _header(address: int, stop: int) -> tuple[int, int, int, int, int]:
    """(key start, key length, value start, value length, next): checked before, so never faulty."""
    key_length, key_start = read_varint(address, stop, 5)
    value_length, value_start = read_varint(key_start + key_length, stop, 5)
    return key_start, key_length, value_start, value_length, value_start + max(value_length, 0)


@kernel(_tuple_of(types.int64, 3)(_table, _i64), nogil=True)
def measure_headers(positions: Any, rows: int) -> tuple[int, int, int]:
    """(headers, bytes of their keys, bytes of their values) of the first `rows` records."""
    headers = 0
    key_bytes = 0
    value_bytes = 0
    for row in range(rows):
        address = positions[HEADERS_START, row]
        for _ in range(positions[HEADER_COUNT, row]):
            _, key_length, _, value_length, address = _header(address, positions[HEADERS_STOP, row])
            headers += 1
            key_bytes += key_length
            value_bytes += max(value_length, 0)
    return headers, key_bytes, value_bytes


@kernel(
    types.void(_table, _i64, _ints, _octets, _ints, _octets, _ints, _octets, _octets), nogil=True
)
def fill_headers(
    positions: Any,
    rows: int,
    list_offsets: Any,
    list_bits: Any,
    key_offsets: Any,
    key_data: Any,
    value_offsets: Any,
    value_bits: Any,
    value_data: Any,
) -> None:
    """Fill a list-of-structs column measured by `measure_headers`. No headers: a null list."""
    header = 0
    key_end = 0
    value_end = 0
    key_memory = key_data.ctypes.data
    value_memory = value_data.ctypes.data
    for row in range(rows):
        list_offsets[row] = header
        address = positions[HEADERS_START, row]
        if positions[HEADER_COUNT, row] > 0:
            _set_bit(list_bits, row)
        for _ in range(positions[HEADER_COUNT, row]):
            key_start, key_length, value_start, value_length, address = _header(
                address, positions[HEADERS_STOP, row]
            )
            key_offsets[header] = key_end
            copy_bytes(key_memory + key_end, key_start, key_length)
            key_end += key_length
            value_offsets[header] = value_end
            if value_length >= 0:
                copy_bytes(value_memory + value_end, value_start, value_length)
                value_end += value_length
                _set_bit(value_bits, header)
            header += 1
    list_offsets[rows] = header
    key_offsets[header] = key_end
    value_offsets[header] = value_end
