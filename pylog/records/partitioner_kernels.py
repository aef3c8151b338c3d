"""Compiled: the partition of every key of an Arrow column, by Java's murmur2.

Twin of `murmur2.partition_for_key`; `arrow_partitions` calls it.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from pylog.records.murmur2 import NO_KEY
from pylog.records.native.raw_memory import helper, kernel, load_byte

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
def fill_partitions(address: int, starts: Any, lengths: Any, partitions: int, result: Any) -> None:
    """`result[row]` for each key; NO_KEY for a null one."""
    for row in range(len(starts)):
        if lengths[row] < 0:
            result[row] = NO_KEY
        else:
            hashed = _murmur2(address + starts[row], lengths[row])
            result[row] = (hashed & 0x7FFFFFFF) % partitions
