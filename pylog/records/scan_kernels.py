"""Compiled: the headers of all batches in a fetch, read at once into one table.

A batch of a few kilobytes costs Python more for its header than the kernels for its records.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from pylog.records.native.raw_memory import helper, kernel, load_byte

# Columns of the table: one row for each batch. Positions are addresses, of the batch's records.
START: Final = 0
STOP: Final = 1
CRC: Final = 2
CODEC: Final = 3
COUNT: Final = 4
LAST_OFFSET_DELTA: Final = 5
BASE_OFFSET: Final = 6
BASE_TIMESTAMP: Final = 7
TIMESTAMP_TYPE: Final = 8
MAX_TIMESTAMP: Final = 9
LEADER_EPOCH: Final = 10
FIELDS: Final = 11

# The results of `scan_batches` beside the number of rows: where it stopped, and why.
DONE: Final = 0
FULL: Final = 1
NOT_A_BATCH: Final = 2

# As in `batch`, whose table of the header says what lies where.
_HEADER_SIZE: Final = 61
_LENGTH_END: Final = 12
_MAGIC: Final = 2
_CODEC_MASK: Final = 0x07
_TIMESTAMP_TYPE_BIT: Final = 0x08
_CONTROL_BIT: Final = 0x20

_i64 = types.int64
_table = types.Array(types.int64, 2, "C")
_tuple_of: Any = types.UniTuple


@helper
def load_unsigned(address: int, size: int) -> int:
    """A big-endian number of `size` bytes; eight make it signed."""
    value = 0
    for index in range(size):
        value = value << 8 | load_byte(address + index)
    return value


@helper
def load_int(address: int) -> int:
    """A big-endian signed number of four bytes."""
    value = load_unsigned(address, 4)
    return value - (1 << 32) if value >= 1 << 31 else value


@kernel(_tuple_of(_i64, 3)(_i64, _i64, _i64, _i64, _i64, _table), nogil=True)
def scan_batches(
    address: int, position: int, end: int, from_offset: int, to_offset: int, found: Any
) -> tuple[int, int, int]:
    """(rows, position, why it stopped there).

    One row for each whole batch of `position` to `end` that may hold records from `from_offset` to
    below `to_offset`; control batches are left out. A cut last batch is the end, as is the first
    batch at `to_offset` or later. Stops FULL when the table is, NOT_A_BATCH before bytes that
    `batch.read_header` refuses.
    """
    rows = 0
    while end - position >= _HEADER_SIZE:
        at = address + position
        length = load_int(at + 8)
        if load_byte(at + 16) != _MAGIC or length < _HEADER_SIZE - _LENGTH_END:
            return rows, position, NOT_A_BATCH
        size = length + _LENGTH_END
        if size > end - position:
            break
        base_offset = load_unsigned(at, 8)
        if base_offset >= to_offset:
            break
        attributes = load_unsigned(at + 21, 2)
        last_offset_delta = load_int(at + 23)
        if base_offset + last_offset_delta >= from_offset and attributes & _CONTROL_BIT == 0:
            if rows == found.shape[0]:
                return rows, position, FULL
            found[rows, START] = at + _HEADER_SIZE
            found[rows, STOP] = at + size
            found[rows, CRC] = load_unsigned(at + 17, 4)
            found[rows, CODEC] = attributes & _CODEC_MASK
            found[rows, COUNT] = load_int(at + 57)
            found[rows, LAST_OFFSET_DELTA] = last_offset_delta
            found[rows, BASE_OFFSET] = base_offset
            found[rows, BASE_TIMESTAMP] = load_unsigned(at + 27, 8)
            found[rows, TIMESTAMP_TYPE] = 1 if attributes & _TIMESTAMP_TYPE_BIT != 0 else 0
            found[rows, MAX_TIMESTAMP] = load_unsigned(at + 35, 8)
            found[rows, LEADER_EPOCH] = load_int(at + 12)
            rows += 1
        position += size
    return rows, position, DONE
