"""The records of the batches in `kafka_python/`, `aiokafka/`, `confluent_kafka/` and `pylog/`.

Plain data: the scripts that write and read them beside the tests share no code of pylog's.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

Headers = tuple[tuple[str, bytes | None], ...]
Row = tuple[bytes | None, bytes | None, int, Headers]  # key, value, timestamp, headers


@dataclass(frozen=True, slots=True)
class Case:
    """One batch: `codec` is Kafka's id."""

    name: str
    rows: tuple[Row, ...] = field(repr=False)
    codec: int = 0
    producer: tuple[int, int, int] = (-1, -1, -1)  # id, epoch, first sequence
    transactional: bool = False

    @property
    def null_headers(self) -> bool:
        """Whether a header has no value, which kafka-python refuses to write and to read."""
        return any(value is None for row in self.rows for _, value in row[3])


_TIME = 1_700_000_000_000

_MIXED: tuple[Row, ...] = (
    (None, b"no key", _TIME, ()),
    (b"", b"empty key", _TIME + 1, ()),
    (b"tombstone", None, _TIME + 2, ()),
    (b"k", b"", _TIME - 60_000, ()),
    (None, None, _TIME + 86_400_000, ()),
    (b"h", b"v", _TIME, (("one", b"1"), ("one", b"again"), ("empty", b""), ("grüße", b"\xff\x00"))),
)
_MANY: tuple[Row, ...] = tuple(
    (f"key-{i % 17}".encode(), (f"value {i} " * (i % 13)).encode(), _TIME + i, ())
    for i in range(500)
)
_LARGE: tuple[Row, ...] = ((b"k" * 9000, b"v" * 70_000, _TIME, (("h" * 300, b"x" * 9000),)),)
_LENGTHS: tuple[Row, ...] = tuple(
    (b"k" * size, b"v" * size, _TIME, ()) for size in (0, 1, 63, 64, 127, 128, 8191, 8192, 16_384)
)
_DISORDER: tuple[Row, ...] = tuple(
    (b"k%d" % i, b"v%d" % i, _TIME + (i * 7919 % 211 - 100) * 3_600_000, ()) for i in range(60)
)
_FAR: tuple[Row, ...] = tuple(  # deltas of one to nine bytes as varints
    (None, b"far", 1 + (1 << shift), ()) for shift in (0, 6, 7, 13, 20, 27, 34, 41, 48, 55, 60)
)
_NULL_HEADERS: tuple[Row, ...] = (
    (b"k", b"v", _TIME, (("null", None), ("empty", b""), ("null", None))),
    (None, None, _TIME + 1, (("", b"a nameless header"),)),
)
_RANDOM: tuple[Row, ...] = tuple(  # nothing that any codec could make smaller
    (None, hashlib.sha512(b"%d" % i).digest(), _TIME, ()) for i in range(20)
)

CASES: tuple[Case, ...] = (
    Case("single", ((None, b"hello", _TIME, ()),)),
    Case("mixed", _MIXED),
    Case("many", _MANY),
    Case("large", _LARGE),
    Case("lengths", _LENGTHS),
    Case("idempotent", _MIXED, producer=(4711, 3, 2**31 - 4)),
    Case("transactional", _MIXED, producer=(2**40, 0, 0), transactional=True),
    Case("disorder", _DISORDER),
    Case("far", _FAR),
    Case("null-headers", _NULL_HEADERS),
    Case("gzip", _MANY, codec=1),
    Case("gzip-large", _LARGE, codec=1),
    Case("gzip-random", _RANDOM, codec=1),
    Case("snappy", _MANY, codec=2),
    Case("snappy-large", _LARGE, codec=2),
    Case("snappy-random", _RANDOM, codec=2),
    Case("lz4", _MANY, codec=3),
    Case("lz4-large", _LARGE, codec=3),
    Case("lz4-random", _RANDOM, codec=3),
    Case("zstd", _MANY, codec=4),
    Case("zstd-large", _LARGE, codec=4),
    Case("zstd-random", _RANDOM, codec=4),
    Case("zstd-idempotent", _DISORDER, codec=4, producer=(77, 1, 2**31 - 30)),
)
