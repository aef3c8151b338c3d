"""Compiled: records found, checked and copied out of a batch's memory.

Twin of `kernels_pure.decode_records`. Importing this module compiles or loads
its kernels. Counts, lengths and varints come from the wire: each is checked against the end of what
holds it before it is used.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from pylog.records.faults import (
    HEADERS,
    KEY,
    LENGTH,
    NONE,
    OFFSET,
    TRAILING,
    UNFILLED,
    VALUE,
    VARINT,
)
from pylog.records.native import LIST_ITEMS, OBJECT_SLOTS
from pylog.records.native.raw_memory import (
    helper,
    hold,
    kernel,
    load_byte,
    load_word,
    new_bytes,
    new_int,
    new_object,
    set_item,
    store_word,
    untrack,
)
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

# Rows of the array that `decode_records` fills; positions are addresses less `address`.
TIMESTAMP_DELTA: Final = 0
OFFSET_DELTA: Final = 1
KEY_START: Final = 2
KEY_LENGTH: Final = 3
VALUE_START: Final = 4
VALUE_LENGTH: Final = 5
HEADERS_START: Final = 6
HEADER_COUNT: Final = 7
END: Final = 8
FIELDS: Final = 9

_i64 = types.int64
_vector = types.Array(types.int64, 1, "C")
_matrix = types.Array(types.int64, 2, "C")
_tuple_of: Any = types.UniTuple
_pair = _tuple_of(types.int64, 2)
_INT64_MAX: Final = 2**63 - 1


@helper
def read_varint(address: int, end: int, most: int) -> tuple[int, int]:
    """(value, address after it), the address 0 for a fault. `most` bytes: 5 or 10.

    One byte and two are by far the most common and have a way of their own.
    """
    if address < end:
        zigzag = load_byte(address)
        if zigzag < 128:
            return (zigzag >> 1) ^ -(zigzag & 1), address + 1
        if address + 1 < end:
            byte = load_byte(address + 1)
            if byte < 128:
                zigzag = zigzag & 127 | byte << 7
                return (zigzag >> 1) ^ -(zigzag & 1), address + 2
    zigzag = 0
    shift = 0
    stop = min(end, address + most)
    while address < stop:
        byte = load_byte(address)
        zigzag |= (byte & 127) << shift
        address += 1
        if byte < 128:
            if (most == 5 and zigzag >> 32 != 0) or (shift == 63 and byte > 1):
                return 0, 0
            return ((zigzag >> 1) & _INT64_MAX) ^ -(zigzag & 1), address
        shift += 7
    return 0, 0


@helper
def skip_headers(address: int, count: int, end: int) -> int:
    """Address after `count` headers, 0 when they do not fit before `end`."""
    if count < 0 or count > (end - address) // 2:
        return 0
    for _ in range(count):
        length, address = read_varint(address, end, 5)
        if address == 0 or length < 0 or length > end - address:
            return 0
        length, address = read_varint(address + length, end, 5)
        if address == 0 or length < -1 or length > end - address:
            return 0
        if length > 0:
            address += length
    return address


@helper
def parse_record(address: int, section_end: int) -> tuple[int, ...]:
    """(fault, then the nine fields as addresses); the order is that of the rows above."""
    length, address = read_varint(address, section_end, 5)
    if address == 0:
        return VARINT, 0, 0, 0, 0, 0, 0, 0, 0, 0
    if length < 0 or length > section_end - address:
        return LENGTH, 0, 0, 0, 0, 0, 0, 0, 0, 0
    end = address + length
    if length == 0:
        return VARINT, 0, 0, 0, 0, 0, 0, 0, 0, 0
    timestamp_delta, address = read_varint(address + 1, end, 10)
    if address == 0:
        return VARINT, 0, 0, 0, 0, 0, 0, 0, 0, 0
    offset_delta, address = read_varint(address, end, 5)
    if address == 0:
        return VARINT, 0, 0, 0, 0, 0, 0, 0, 0, 0
    key_length, key_start = read_varint(address, end, 5)
    if key_start == 0:
        return VARINT, 0, 0, 0, 0, 0, 0, 0, 0, 0
    if key_length < -1 or key_length > end - key_start:
        return KEY, 0, 0, 0, 0, 0, 0, 0, 0, 0
    address = key_start + max(key_length, 0)
    value_length, value_start = read_varint(address, end, 5)
    if value_start == 0:
        return VARINT, 0, 0, 0, 0, 0, 0, 0, 0, 0
    if value_length < -1 or value_length > end - value_start:
        return VALUE, 0, 0, 0, 0, 0, 0, 0, 0, 0
    address = value_start + max(value_length, 0)
    header_count, headers_start = read_varint(address, end, 5)
    if headers_start == 0:
        return VARINT, 0, 0, 0, 0, 0, 0, 0, 0, 0
    if header_count != 0:
        after = skip_headers(headers_start, header_count, end)
        if after == 0:
            return HEADERS, 0, 0, 0, 0, 0, 0, 0, 0, 0
    else:
        after = headers_start
    if after != end:
        return UNFILLED, 0, 0, 0, 0, 0, 0, 0, 0, 0
    return (
        NONE,
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


@kernel(_pair(_i64, _i64, _i64, _i64, _i64, _matrix), nogil=True)
def decode_records(
    address: int, start: int, end: int, count: int, last_offset_delta: int, fields: Any
) -> tuple[int, int]:
    """(fault, index of the record); `fields[:, i]` tells where the parts of record i lie.

    `fields` has FIELDS rows and at least `count` columns. Offset deltas must rise and stay within
    `last_offset_delta`.
    """
    previous = -1
    position = address + start
    stop = address + end
    for index in range(count):
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
        if fault != NONE:
            return fault, index
        if offset_delta <= previous or offset_delta > last_offset_delta:
            return OFFSET, index
        previous = offset_delta
        fields[TIMESTAMP_DELTA, index] = timestamp_delta
        fields[OFFSET_DELTA, index] = offset_delta
        fields[KEY_START, index] = key_start - address
        fields[KEY_LENGTH, index] = key_length
        fields[VALUE_START, index] = value_start - address
        fields[VALUE_LENGTH, index] = value_length
        fields[HEADERS_START, index] = headers_start - address
        fields[HEADER_COUNT, index] = header_count
        fields[END, index] = position - address
    if position != stop:
        return TRAILING, count
    return NONE, count


@kernel(_tuple_of(_i64, 4)(_matrix, _i64, _matrix), nogil=True)
def decode_sections(sections: Any, from_offset: int, fields: Any) -> tuple[int, int, int, int]:
    """(records, fault, section, index of the record): all records of a table of `scan_kernels`
    from `from_offset` on.

    As `decode_records`, but `fields` gets offsets and timestamps in place of the deltas, and
    addresses in place of positions; it has a column for each record that the table counts.
    """
    column = 0
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
            if fault != NONE:
                return column, fault, section, index
            if offset_delta <= previous or offset_delta > sections[section, LAST_OFFSET_DELTA]:
                return column, OFFSET, section, index
            previous = offset_delta
            offset = sections[section, BASE_OFFSET] + offset_delta
            if offset < from_offset:
                continue
            timestamp = sections[section, BASE_TIMESTAMP] + timestamp_delta
            if sections[section, TIMESTAMP_TYPE] == 1:
                timestamp = sections[section, MAX_TIMESTAMP]
            fields[TIMESTAMP_DELTA, column] = timestamp
            fields[OFFSET_DELTA, column] = offset
            fields[KEY_START, column] = key_start
            fields[KEY_LENGTH, column] = key_length
            fields[VALUE_START, column] = value_start
            fields[VALUE_LENGTH, column] = value_length
            fields[HEADERS_START, column] = headers_start
            fields[HEADER_COUNT, column] = header_count
            fields[END, column] = position
            column += 1
        if position != stop:
            return column, TRAILING, section, sections[section, COUNT]
    return column, NONE, sections.shape[0], 0


@kernel(_i64(_i64, _i64, _vector, _vector))
def fill_list(target: int, address: int, starts: Any, lengths: Any) -> int:
    """Put a new bytes object for each (start, length) into the list object at `target`, which holds
    as many None; a length of -1 leaves the None. Returns how many places were handled: fewer
    means no memory.
    """
    for index in range(len(starts)):
        if lengths[index] >= 0:
            item = new_bytes(address + starts[index], lengths[index])
            if item == 0:
                return index
            set_item(target, index, item)
    return len(starts)


@kernel(_i64(_i64, _i64, _i64, _i64, _i64, _i64))
def fill_records(
    target: int, record_type: int, chunk: int, values: int, count: int, cyclic: int
) -> int:
    """Put a new `Record(chunk, index, values[index])` into each place of the list object at
    `target`, which holds as many None; `values` is a list object as long. Returns how many were
    made: fewer means no memory.

    Slots lie in the order of their names. Without `cyclic` no value can refer to its record, and
    the cycle collector is spared the records.
    """
    items = load_word(values + LIST_ITEMS)
    for index in range(count):
        record = new_object(record_type, 0)
        if record == 0:
            return index
        set_item(target, index, record)
        number = new_int(index)
        if number == 0:
            return index
        value = load_word(items + 8 * index)
        hold(chunk)
        hold(value)
        store_word(record + OBJECT_SLOTS, chunk)
        store_word(record + OBJECT_SLOTS + 8, number)
        store_word(record + OBJECT_SLOTS + 16, value)
        if cyclic == 0:
            untrack(record)
    return count
