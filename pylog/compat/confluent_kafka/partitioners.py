"""librdkafka's partitioners, by the names of its setting. Records without a key stay together for
a batch, as pylog's producer places them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Final

from pylog.compat.confluent_kafka.error import KafkaError, local
from pylog.records.murmur2 import partition_for_key

Place = Callable[[bytes, int], int]


def murmur2(key: bytes, partition_count: int) -> int:
    """The partition of Kafka's Java client."""
    return partition_for_key(key, partition_count)


def consistent(key: bytes, partition_count: int) -> int:
    """The partition by the key's CRC-32."""
    return zlib.crc32(key) % partition_count


def fnv1a(key: bytes, partition_count: int) -> int:
    """The partition by the key's FNV-1a hash, as Sarama has it."""
    hashed = 0x811C9DC5
    for byte in key:
        hashed = (hashed ^ byte) * 0x01000193 & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return abs(signed) % partition_count


_BY_NAME: Final[Mapping[str, tuple[Place | None, bool]]] = {
    "random": (None, False),
    "consistent": (consistent, True),
    "consistent_random": (consistent, False),
    "murmur2": (murmur2, True),
    "murmur2_random": (murmur2, False),
    "fnv1a": (fnv1a, True),
    "fnv1a_random": (fnv1a, False),
}


def placing(name: object) -> Callable[[bytes | None, int], int | None]:
    """(key, number of partitions) -> partition; None where the producer is to choose."""
    if not isinstance(name, str) or name not in _BY_NAME:
        raise local(
            KafkaError._INVALID_ARG,
            f'Invalid value "{name}" for configuration property "partitioner"',
        )
    place, also_empty = _BY_NAME[name]

    def choose(key: bytes | None, partition_count: int) -> int | None:
        if place is None or not (key or also_empty):
            return None
        return place(key or b"", partition_count)

    return choose
