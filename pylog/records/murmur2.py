"""Murmur2 as Kafka's Java producer hashes keys, in plain Python: equal keys reach the same
partition from any client.

`partitioner_kernels` does the same for whole Arrow columns.
"""

from __future__ import annotations

from typing import Final

NO_KEY: Final = -1
"""In place of a partition where the key is null: the producer chooses."""

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The signed 32-bit hash that Java's `Utils.murmur2` gives."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition of `key` among `partitions`: `toPositive(murmur2(key)) % partitions`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
