"""Compiled: records written into a batch's memory, from Python lists or from columns.

Twins of `kernels_pure.encode_records`. Importing this module compiles or loads its kernels.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from pylog.records.native import BYTES_DATA, LIST_ITEMS, OBJECT_SIZE, OBJECT_TYPE
from pylog.records.native.raw_memory import (
    copy_bytes,
    helper,
    kernel,
    load_word,
    store_byte,
)

CHANGED: Final = -1
"""Returned by `write_lists` when a list changed after it was measured."""

_i64 = types.int64
_words = types.Array(types.int64, 1, "C")
_tuple_of: Any = types.UniTuple


@helper
def varint_size(value: int) -> int:
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 0:
        return 10
    size = 1
    while zigzag >= 128:
        zigzag >>= 7
        size += 1
    return size


@helper
def write_varint(address: int, value: int) -> int:
    """Address after it."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag & ~127:
        store_byte(address, zigzag & 127 | 128)
        zigzag = (zigzag >> 7) & 0x01FF_FFFF_FFFF_FFFF
        address += 1
    store_byte(address, zigzag)
    return address + 1


@helper
def data_size(length: int) -> int:
    """The bytes that a nullable byte string takes together with its length; -1: null."""
    return 1 if length < 0 else varint_size(length) + length


@helper
def write_data(address: int, source: int, length: int) -> int:
    address = write_varint(address, length)
    if length > 0:
        copy_bytes(address, source, length)
        address += length
    return address


# ---- lists ------------------------------------------------------------------------------------
#
# A list argument is the address of the list object, or 0 for "no such column". Lists are looked at
# under the GIL and read anew in each call: between two calls another thread may have changed them.


@helper
def _item(column: int, index: int) -> int:
    """Address of the object at `index`, 0 when the list is not that long (or absent)."""
    if column == 0 or load_word(column + OBJECT_SIZE) <= index:
        return 0
    return load_word(load_word(column + LIST_ITEMS) + 8 * index)


@helper
def _length(item: int, none: int, bytes_type: int) -> int:
    """Length of a bytes object, -1 for None or no object, -2 for an object of another type."""
    if item in (0, none):
        return -1
    if load_word(item + OBJECT_TYPE) != bytes_type:
        return -2
    return load_word(item + OBJECT_SIZE)


@helper
def _body_size(
    index: int, timestamp_delta: int, key_length: int, value_length: int, headers_length: int
) -> int:
    headers = headers_length if headers_length > 0 else 1
    return (
        1
        + varint_size(timestamp_delta)
        + varint_size(index)
        + data_size(key_length)
        + data_size(value_length)
        + headers
    )


@kernel(_tuple_of(_i64, 2)(_i64, _i64, _i64, _words, _i64, _i64, _i64, _i64))
def measure_lists(
    values: int,
    keys: int,
    blobs: int,
    timestamps: Any,
    base_timestamp: int,
    count: int,
    none: int,
    bytes_type: int,
) -> tuple[int, int]:
    """(bytes of the records section, largest timestamp); a negative size when a record holds
    something but bytes and None.

    `timestamps` holds one for each record, or none when all are `base_timestamp`.
    """
    total = 0
    largest = base_timestamp
    stamped = len(timestamps) > 0
    for index in range(count):
        value = _length(_item(values, index), none, bytes_type)
        key = _length(_item(keys, index), none, bytes_type)
        blob = _length(_item(blobs, index), none, bytes_type)
        if value < -1 or key < -1 or blob < -1:
            return -1, 0
        delta = 0
        if stamped:
            delta = timestamps[index] - base_timestamp
            largest = max(largest, timestamps[index])
        body = _body_size(index, delta, key, value, blob)
        total += varint_size(body) + body
    return total, largest


@kernel(_i64(_i64, _i64, _i64, _i64, _i64, _words, _i64, _i64, _i64, _i64))
def write_lists(
    address: int,
    capacity: int,
    values: int,
    keys: int,
    blobs: int,
    timestamps: Any,
    base_timestamp: int,
    count: int,
    none: int,
    bytes_type: int,
) -> int:
    """Write what `measure_lists` measured; bytes written, or CHANGED with nothing spilt."""
    end = address + capacity
    start = address
    stamped = len(timestamps) > 0
    for index in range(count):
        value_item = _item(values, index)
        key_item = _item(keys, index)
        blob_item = _item(blobs, index)
        value = _length(value_item, none, bytes_type)
        key = _length(key_item, none, bytes_type)
        blob = _length(blob_item, none, bytes_type)
        if value < -1 or key < -1 or blob < -1:
            return CHANGED
        delta = timestamps[index] - base_timestamp if stamped else 0
        body = _body_size(index, delta, key, value, blob)
        if varint_size(body) + body > end - address:
            return CHANGED
        address = write_varint(address, body)
        store_byte(address, 0)
        address = write_varint(address + 1, delta)
        address = write_varint(address, index)
        address = write_data(address, key_item + BYTES_DATA, key)
        address = write_data(address, value_item + BYTES_DATA, value)
        if blob > 0:
            copy_bytes(address, blob_item + BYTES_DATA, blob)
            address += blob
        else:
            store_byte(address, 0)
            address += 1
    return address - start


@kernel(types.void(_i64, _i64, _i64))
def put_bytes(target: int, source: int, size: int) -> None:
    """`copy_bytes` for callers in Python."""
    copy_bytes(target, source, size)
