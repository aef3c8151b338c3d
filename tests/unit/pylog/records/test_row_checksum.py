from __future__ import annotations

import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.records.row_checksum import MASK, rows_checksum

Row = tuple[bytes | None, bytes | None]


def batch(rows: list[Row], kind: pa.DataType | None = None) -> pa.RecordBatch:
    keys, values = [row[0] for row in rows], [row[1] for row in rows]
    return pa.record_batch(
        {"key": pa.array(keys, kind or pa.binary()), "value": pa.array(values, pa.binary())}
    )


def plainly(topic: str, rows: list[Row]) -> int:
    """The dumb twin."""

    def mixed(h: int, word: int) -> int:
        h = ((h ^ (word & MASK)) * 0x9E3779B97F4A7C15) & MASK
        return h ^ (h >> 32)

    total = 0
    for row in rows:
        h = zlib.crc32(topic.encode())
        for part in row:
            h = mixed(h, -1 if part is None else len(part))
            if part:
                whole = len(part) & ~7
                for place in range(0, whole, 8):
                    word = part[place : place + 8]
                    h = mixed(h, int.from_bytes(word, "little"))
                h = mixed(h, int.from_bytes(part[whole:], "little"))
        total = (total + h) & MASK
    return total


parts = st.none() | st.binary(max_size=40)
tables = st.lists(st.tuples(parts, parts), max_size=20)


@given(tables)
def test_it_is_what_plain_arithmetic_says(rows: list[Row]) -> None:
    assert rows_checksum("t", batch(rows)) == plainly("t", rows)


@given(tables, st.randoms(use_true_random=False), st.integers(0, 20))
def test_order_and_shares_do_not_matter(rows: list[Row], rng: object, cut: int) -> None:
    mixed = list(rows)
    rng.shuffle(mixed)  # type: ignore[attr-defined]
    parts = rows_checksum("t", batch(mixed[:cut])) + rows_checksum("t", batch(mixed[cut:]))
    assert parts & MASK == rows_checksum("t", batch(rows))
    assert rows_checksum("t", batch([(b"?", b""), *rows]).slice(1)) == rows_checksum(
        "t", batch(rows)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(None, b"")], [(None, None)]),
        ([(b"", b"v")], [(None, b"v")]),
        ([(b"a", b"b")], [(b"b", b"a")]),
        ([(b"ab", b"c")], [(b"a", b"bc")]),
        ([(None, b"1"), (None, b"2")], [(None, b"0"), (None, b"3")]),
        ([(None, b"\0" * 8)], [(None, b"\0" * 9)]),
        ([(None, b"v")], [(None, b"v"), (None, b"v")]),
    ],
)
def test_other_content_has_another_one(one: list[Row], other: list[Row]) -> None:
    assert rows_checksum("t", batch(one)) != rows_checksum("t", batch(other))


def test_topics_and_missing_keys_and_types_of_columns() -> None:
    rows: list[Row] = [(b"k", b"v")]
    assert rows_checksum("t", batch(rows)) != rows_checksum("u", batch(rows))
    assert rows_checksum("t", batch(rows, pa.large_binary())) == rows_checksum("t", batch(rows))
    alone = pa.record_batch({"value": pa.array([b"v", None], pa.binary())})
    assert rows_checksum("t", alone) == plainly("t", [(None, b"v"), (None, None)])
    assert rows_checksum("t", alone.slice(0, 0)) == 0
    nothing = pa.record_batch({"value": pa.nulls(2, pa.binary())})
    assert rows_checksum("t", nothing) == plainly("t", [(None, None)] * 2)
