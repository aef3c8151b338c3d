"""Compiled: an open-addressing table of keys' hashes and the newest offset of each; the records of
a batch that are kept, written anew.

The hash is SipHash-2-4 with 128 bits under a random key of each pass: two keys of one hash would
lose a record, and nobody must be able to choose them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import types

from pylog.records.native.decode_kernels import (
    END,
    HEADER_COUNT,
    HEADERS_START,
    KEY_LENGTH,
    KEY_START,
    OFFSET_DELTA,
    VALUE_LENGTH,
    VALUE_START,
)
from pylog.records.native.encode_kernels import data_size, varint_size, write_data, write_varint
from pylog.records.native.raw_memory import copy_bytes, helper, kernel, load_byte, store_byte

_i64 = types.int64
_u64 = types.uint64
_hashes = types.Array(types.uint64, 1, "C")
_vector = types.Array(types.int64, 1, "C")
_matrix = types.Array(types.int64, 2, "C")
_tuple_of: Any = types.UniTuple
_pair = _tuple_of(types.int64, 2)
_mask = types.Array(types.uint8, 1, "C")

EMPTY: Final = -1

_V0 = np.uint64(0x736F6D6570736575)
_V1 = np.uint64(0x646F72616E646F6D)
_V2 = np.uint64(0x6C7967656E657261)
_V3 = np.uint64(0x7465646279746573)
_EE = np.uint64(0xEE)
_DD = np.uint64(0xDD)
_ONE = np.uint64(1)


@helper
def _rotate(value: Any, bits: Any) -> Any:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@helper
def _rounds(v0: Any, v1: Any, v2: Any, v3: Any, count: int) -> Any:
    for _ in range(count):
        v0 = v0 + v1
        v1 = _rotate(v1, 13) ^ v0
        v0 = _rotate(v0, 32)
        v2 = v2 + v3
        v3 = _rotate(v3, 16) ^ v2
        v0 = v0 + v3
        v3 = _rotate(v3, 21) ^ v0
        v2 = v2 + v1
        v1 = _rotate(v1, 17) ^ v2
        v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@helper
def _load_word(address: int, length: int) -> Any:
    word = np.uint64(0)
    for index in range(length):
        word |= np.uint64(load_byte(address + index)) << np.uint64(8 * index)
    return word


@helper
def siphash(address: int, length: int, key0: Any, key1: Any) -> Any:
    """128 bits in two."""
    v0, v1, v2, v3 = _V0 ^ key0, _V1 ^ key1 ^ _EE, _V2 ^ key0, _V3 ^ key1
    whole = length // 8
    for index in range(whole):
        word = _load_word(address + 8 * index, 8)
        v3 ^= word
        v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 2)
        v0 ^= word
    word = _load_word(address + 8 * whole, length - 8 * whole)
    word |= np.uint64(length & 255) << np.uint64(56)
    v3 ^= word
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 2)
    v0 ^= word
    v2 ^= _EE
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 4)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= _DD
    v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 4)
    return first, v0 ^ v1 ^ v2 ^ v3


@helper
def _slot(high: Any, low: Any, highs: Any, lows: Any, offsets: Any) -> Any:
    """The slot of the hash, or the free slot where it belongs."""
    mask = np.uint64(len(offsets) - 1)
    slot = low & mask
    while offsets[slot] != EMPTY and not (highs[slot] == high and lows[slot] == low):
        slot = (slot + _ONE) & mask
    return slot


_table = (_u64, _u64, _hashes, _hashes, _vector)


@kernel(_pair(_i64, _matrix, _i64, *_table, _i64), nogil=True)
def put_keys(
    address: int,
    fields: Any,
    base_offset: int,
    key0: Any,
    key1: Any,
    highs: Any,
    lows: Any,
    offsets: Any,
    room: int,
) -> tuple[int, int]:
    """Note the offset of each record with a key; (records handled, new keys).

    Stops before the record for which `room` has run out.
    """
    new = 0
    for index in range(fields.shape[1]):
        length = fields[KEY_LENGTH, index]
        if length < 0:
            continue
        high, low = siphash(address + fields[KEY_START, index], length, key0, key1)
        slot = _slot(high, low, highs, lows, offsets)
        if offsets[slot] == EMPTY:
            if new == room:
                return index, new
            highs[slot] = high
            lows[slot] = low
            new += 1
        offsets[slot] = base_offset + fields[OFFSET_DELTA, index]
    return fields.shape[1], new


@kernel(_pair(_i64, _matrix, _i64, *_table, _i64, _i64, _mask), nogil=True)
def select_records(
    address: int,
    fields: Any,
    base_offset: int,
    key0: Any,
    key1: Any,
    highs: Any,
    lows: Any,
    offsets: Any,
    end_offset: int,
    keeps_tombstones: int,
    kept: Any,
) -> tuple[int, int]:
    """Mark in `kept` the records that no newer one replaces; (records, tombstones) among them.

    Records from `end_offset` on are all kept; before it, those without a key go. A record without
    a value counts as a tombstone wherever it stands.
    """
    count = tombstones = 0
    for index in range(fields.shape[1]):
        offset = base_offset + fields[OFFSET_DELTA, index]
        keep = True
        if offset < end_offset:
            length = fields[KEY_LENGTH, index]
            if length < 0:
                keep = False
            else:
                high, low = siphash(address + fields[KEY_START, index], length, key0, key1)
                keep = offsets[_slot(high, low, highs, lows, offsets)] <= offset
            if fields[VALUE_LENGTH, index] < 0 and not keeps_tombstones:
                keep = False
        kept[index] = keep
        count += keep
        tombstones += keep and fields[VALUE_LENGTH, index] < 0
    return count, tombstones


@helper
def _body_size(fields: Any, index: int, timestamp_delta: int) -> Any:
    return (
        1
        + varint_size(timestamp_delta)
        + varint_size(fields[OFFSET_DELTA, index])
        + data_size(fields[KEY_LENGTH, index])
        + data_size(fields[VALUE_LENGTH, index])
        + varint_size(fields[HEADER_COUNT, index])
        + fields[END, index]
        - fields[HEADERS_START, index]
    )


@kernel(_i64(_matrix, _vector, _mask), nogil=True)
def measure_kept(fields: Any, timestamp_deltas: Any, kept: Any) -> int:
    """Bytes of the records that `kept` marks, with other timestamp deltas."""
    total = 0
    for index in range(fields.shape[1]):
        if kept[index]:
            body = _body_size(fields, index, timestamp_deltas[index])
            total += varint_size(body) + body
    return total


@kernel(types.void(_i64, _i64, _matrix, _vector, _mask), nogil=True)
def write_kept(target: int, address: int, fields: Any, timestamp_deltas: Any, kept: Any) -> None:
    """Write what `measure_kept` measured; `fields` count from `address`."""
    for index in range(fields.shape[1]):
        if not kept[index]:
            continue
        delta = timestamp_deltas[index]
        target = write_varint(target, _body_size(fields, index, delta))
        store_byte(target, 0)
        target = write_varint(target + 1, delta)
        target = write_varint(target, fields[OFFSET_DELTA, index])
        key, value = fields[KEY_START, index], fields[VALUE_START, index]
        target = write_data(target, address + key, fields[KEY_LENGTH, index])
        target = write_data(target, address + value, fields[VALUE_LENGTH, index])
        target = write_varint(target, fields[HEADER_COUNT, index])
        headers = fields[HEADERS_START, index]
        size = fields[END, index] - headers
        copy_bytes(target, address + headers, size)
        target += size
