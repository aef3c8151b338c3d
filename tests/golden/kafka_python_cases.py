"""What the batches in `kafka_python/` hold. Plain data: the script that writes them and the test
that reads them must not share any code of pylog's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Headers = tuple[tuple[str, bytes], ...]
Row = tuple[bytes | None, bytes | None, int, Headers]  # key, value, timestamp, headers


@dataclass(frozen=True, slots=True)
class Case:
    """One batch: `codec` is Kafka's id."""

    name: str
    rows: tuple[Row, ...] = field(repr=False)
    codec: int = 0
    producer: tuple[int, int, int] = (-1, -1, -1)  # id, epoch, first sequence
    transactional: bool = False


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

CASES: tuple[Case, ...] = (
    Case("single", ((None, b"hello", _TIME, ()),)),
    Case("mixed", _MIXED),
    Case("many", _MANY),
    Case("large", _LARGE),
    Case("lengths", _LENGTHS),
    Case("idempotent", _MIXED, producer=(4711, 3, 2**31 - 4)),
    Case("transactional", _MIXED, producer=(2**40, 0, 0), transactional=True),
    Case("lz4", _MANY, codec=3),
    Case("lz4-large", _LARGE, codec=3),
    Case("zstd", _MANY, codec=4),
    Case("zstd-large", _LARGE, codec=4),
)
