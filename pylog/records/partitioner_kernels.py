"""Compiled: the partition of every key of an Arrow column, by Java's murmur2.

Twin of `murmur2.partition_for_key`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from pylog.records.arrow_columns import byte_column
from pylog.records.native.raw_memory import helper, kernel, load_byte

NO_KEY: Final = -1
"""In place of a partition where the key is null: the producer chooses."""

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF

_i64 = types.int64
_words = types.Array(types.int64, 1, "C", readonly=True)
_ints = types.Array(types.int32, 1, "C")


@helper
def _murmur2(address: int, length: int) -> int:
    """As 32 unsigned bits. Products stay below 2^63, so 64-bit arithmetic with a mask is exact."""
    h = (_SEED ^ length) & _MASK
    stop = address + (length & ~3)
    while address < stop:
        k = (
            load_byte(address)
            | load_byte(address + 1) << 8
            | load_byte(address + 2) << 16
            | load_byte(address + 3) << 24
        )
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        address += 4
    rest = length & 3
    if rest > 0:
        for place in range(rest):
            h ^= load_byte(address + place) << (8 * place)
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


@kernel(types.void(_i64, _words, _words, _i64, _ints), nogil=True)
def _fill_partitions(address: int, starts: Any, lengths: Any, partitions: int, result: Any) -> None:
    for row in range(len(starts)):
        if lengths[row] < 0:
            result[row] = NO_KEY
        else:
            hashed = _murmur2(address + starts[row], lengths[row])
            result[row] = (hashed & 0x7FFFFFFF) % partitions


def partitions_for_keys(keys: Any, partitions: int) -> NDArray[np.int32]:
    """The partition of each key (binary or string, Array or ChunkedArray), NO_KEY for a null one.

    The same that a Java producer chooses. TypeError for another type of column.
    """
    if partitions < 1:
        raise ValueError(f"{partitions} partitions; a topic has at least 1")
    column = byte_column(keys, "key")
    result = np.empty(len(column.lengths), np.int32)
    _fill_partitions(column.address, column.starts, column.lengths, partitions, result)
    return result


def rows_by_partition(partitions: NDArray[Any]) -> dict[int, NDArray[np.int64]]:
    """The row indices of each partition that occurs, ascending, by ascending partition."""
    order = np.argsort(partitions, kind="stable")
    ordered = partitions[order]
    stops = np.flatnonzero(np.diff(ordered)) + 1
    groups = np.split(order, stops)
    return {int(partitions[rows[0]]): rows for rows in groups if len(rows)}
