"""Compiled: one number for the keys and values of rows, whatever their order and however they are
shared out: sums of rows add up, modulo 2^64.

It tells content apart that was made in another way by accident. It is no protection against an
author who wants two contents to look the same.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np
from numba import types

from pylog.records.arrow_columns import NO_BYTES, byte_column, frozen
from pylog.records.native.raw_memory import helper, kernel, load_byte, load_word

MASK: Final = (1 << 64) - 1
_M: Final = np.int64(0x9E3779B97F4A7C15 - (1 << 64))
"""Odd, with bits all over (2^64 by the golden ratio); products wrap, as C's unsigned ones do."""

_i64 = types.int64
_words = types.Array(types.int64, 1, "C", readonly=True)


@helper
def _mixed(h: Any, word: Any) -> Any:
    h = (h ^ word) * _M
    return h ^ ((h >> 32) & 0xFFFFFFFF)


@helper
def _with_bytes(h: Any, address: Any, length: Any) -> Any:
    """`length` -1 is null, which is not empty."""
    h = _mixed(h, length)
    stop = address + (length & ~7)
    if length > 0:
        while address < stop:
            h = _mixed(h, load_word(address))
            address += 8
        word = types.int64(0)
        for place in range(length & 7):
            word |= load_byte(address + place) << (8 * place)
        h = _mixed(h, word)
    return h


@kernel(_i64(_i64, _i64, _words, _words, _i64, _words, _words), nogil=True)
def _sum(
    seed: Any,
    key_address: Any,
    key_starts: Any,
    key_lengths: Any,
    address: Any,
    starts: Any,
    lengths: Any,
) -> Any:
    total = types.int64(0)
    for row in range(len(starts)):
        h = _with_bytes(seed, key_address + key_starts[row], key_lengths[row])
        h = _with_bytes(h, address + starts[row], lengths[row])
        total += h
    return total


def rows_checksum(topic: str, rows: Any) -> int:
    """The checksum of the rows of one topic, from 0 on and below 2^64. The rows are a record batch
    with the column `value` and perhaps `key`, in any type of binary or string.
    """
    values = byte_column(rows.column("value"), "value")
    keys = NO_BYTES
    if "key" in rows.schema.names:
        keys = byte_column(rows.column("key"), "key")
    key_starts, key_lengths = keys.starts, keys.lengths
    if len(key_starts) != len(values.starts):
        key_starts = frozen(np.zeros(len(values.starts), np.int64))
        key_lengths = frozen(np.full(len(values.starts), -1, np.int64))
    seed = zlib.crc32(topic.encode())
    total = _sum(
        seed, keys.address, key_starts, key_lengths, values.address, values.starts, values.lengths
    )
    return int(total) & MASK
