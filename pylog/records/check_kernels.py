"""Compiled: the checks that a leader makes of the records of a batch, and of its header with
them.

Twins of `kernels_pure.check_records` and, for most batches, of all that `validate` checks one thing
after the other. Importing this module compiles or loads its kernels.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from pylog.model import NO_SEQUENCE
from pylog.records.batch import HEADER_SIZE, LENGTH_END, MAGIC
from pylog.records.faults import NONE, OFFSET, RECORD_SIZE_MIN, TRAILING
from pylog.records.native.decode_kernels import parse_record
from pylog.records.native.raw_memory import helper, kernel, load_byte
from pylog.records.scan_kernels import load_int, load_unsigned

_i64 = types.int64
_tuple_of: Any = types.UniTuple
_INT64_MAX: Final = 2**63 - 1


@helper
def _look_at(
    position: int, stop: int, count: int, base_timestamp: int
) -> tuple[int, int, int, int, int]:
    """(fault, index, smallest timestamp, largest timestamp, first record without key or -1)."""
    smallest, largest, without_key = _INT64_MAX, -_INT64_MAX - 1, -1
    for index in range(count):
        (
            fault,
            timestamp_delta,
            offset_delta,
            _key_start,
            key_length,
            _value_start,
            _value_length,
            _headers_start,
            _header_count,
            position,
        ) = parse_record(position, stop)
        if fault == NONE and offset_delta != index:
            fault = OFFSET
        if fault != NONE:
            return fault, index, 0, 0, 0
        if key_length < 0 and without_key < 0:
            without_key = index
        timestamp = base_timestamp + timestamp_delta
        smallest = min(smallest, timestamp)
        largest = max(largest, timestamp)
    if position != stop:
        return TRAILING, count, 0, 0, 0
    return NONE, count, smallest, largest, without_key


@kernel(_tuple_of(types.int64, 5)(_i64, _i64, _i64, _i64, _i64), nogil=True)
def check_records(
    address: int, start: int, end: int, count: int, base_timestamp: int
) -> tuple[int, int, int, int, int]:
    """(fault, index, smallest timestamp, largest timestamp, first record without key or -1)."""
    return _look_at(address + start, address + end, count, base_timestamp)


@kernel(_i64(_i64, _i64, _i64, _i64, _i64, _i64), nogil=True)
def is_plain(
    address: int, size: int, wall_ms: int, before_ms: int, after_ms: int, needs_keys: int
) -> int:
    """1 when only the CRC of a batch of `size` bytes, not fewer than a header, is left to check.

    Its sizes, counts and deltas agree, no attribute is set, a producer's epoch and sequence are
    there if its id is, and the timestamps are those declared, none negative, none more than
    `before_ms` before or `after_ms` after the clock. 0 says nothing: others may be right too.
    """
    count = load_int(address + 57)
    if (
        load_unsigned(address, 8) != 0
        or load_int(address + 8) != size - LENGTH_END
        or load_byte(address + 16) != MAGIC
        or load_unsigned(address + 21, 2) != 0
        or load_int(address + 23) != count - 1
        or not 0 < count <= (size - HEADER_SIZE) // RECORD_SIZE_MIN
    ):
        return 0
    sequence = load_int(address + 53)
    if load_unsigned(address + 43, 8) >= 0:
        if sequence < 0 or load_unsigned(address + 51, 2) >= 1 << 15:
            return 0
    elif sequence != NO_SEQUENCE:
        return 0
    base_timestamp = load_unsigned(address + 27, 8)
    fault, _, smallest, largest, without_key = _look_at(
        address + HEADER_SIZE, address + size, count, base_timestamp
    )
    # The difference of two that are not negative fits.
    return int(
        fault == NONE
        and base_timestamp >= 0
        and smallest >= 0
        and largest == load_unsigned(address + 35, 8)
        and wall_ms - min(smallest, base_timestamp) <= before_ms
        and max(largest, base_timestamp) - wall_ms <= after_ms
        and (needs_keys == 0 or without_key < 0)
    )
