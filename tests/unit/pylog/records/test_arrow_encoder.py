from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pylog.errors import InvalidRecord, UnsupportedCompressionType
from pylog.records import kernels_pure
from pylog.records.arrow_encoder import (
    ArrowEncoder,
    BatchSettings,
    encode_from_arrow,
    stamp_producer,
)
from pylog.records.batch import (
    HEADER_SIZE,
    crc_matches,
    iter_headers,
    read_header,
    with_producer,
)
from pylog.records.builder import encode_batch
from pylog.records.columnar import decode_to_arrow
from pylog.records.reader import iter_records

PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int | None]


def random_rows(rng: random.Random, count: int) -> list[Row]:
    return [
        (
            rng.choice((None, b"", rng.randbytes(rng.randint(1, 12)))),
            rng.choice((None, b"", rng.randbytes(rng.randint(1, 200)))),
            rng.choice((None, [], [("h", None)], [("grüße", b""), ("h", b"x" * 90)])),
            rng.choice((None, rng.randint(0, 2**41))),
        )
        for _ in range(count)
    ]


def columns(rows: list[Row]) -> dict[str, pa.Array]:
    keys, values, headers, timestamps = map(list, zip(*rows, strict=True))
    dicts = [
        None if pairs is None else [{"key": k, "value": v} for k, v in pairs] for pairs in headers
    ]
    return {
        "value": pa.array(values, pa.binary()),
        "key": pa.array(keys, pa.binary()),
        "headers": pa.array(dicts, pa.list_(PAIR)),
        "timestamp": pa.array(timestamps, pa.int64()),
    }


def encode(rows: list[Row], batch: list[Row], **more: Any) -> bytes:
    """The twin: one batch from Python values."""
    keys, values, headers, timestamps = map(list, zip(*batch, strict=True))
    stamps = [77 if t is None else t for t in timestamps]
    return encode_batch(values, keys=keys, headers=headers, timestamps=stamps, **more)


def twin_batches(rows: list[Row], batch_size: int) -> list[list[Row]]:
    """Rows split greedily by trying: one more row until the batch passes the size."""
    batches: list[list[Row]] = []
    for row in rows:
        if batches and len(encode(rows, [*batches[-1], row])) <= batch_size:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


@pytest.mark.parametrize("seed", range(12))
def test_equals_the_twin(seed: int) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng, rng.choice((1, 7, 60)))
    encoder = ArrowEncoder(**columns(rows), default_timestamp_ms=77)
    for batch_size in (0, 300, 1000, 100_000):
        settings = BatchSettings(batch_size=batch_size)
        expected = [encode(rows, batch) for batch in twin_batches(rows, batch_size)]
        assert encoder.encode(None, settings) == expected
        chosen = np.array([rng.randrange(len(rows)) for _ in range(9)])
        picked = [rows[index] for index in chosen]
        expected = [encode(picked, batch) for batch in twin_batches(picked, batch_size)]
        assert encoder.encode(chosen, settings) == expected


def test_the_splitting_twin() -> None:
    assert kernels_pure.split_records([], 10) == []
    assert kernels_pure.split_records([5, 5, 5, 50, 1], 10) == [2, 3, 4, 5]
    batches = encode_from_arrow(
        pa.array([b"x" * 7] * 30), batch_size=HEADER_SIZE + 100, default_timestamp_ms=5
    )
    stops = np.cumsum([read_header(batch).record_count for batch in batches]).tolist()
    assert stops == kernels_pure.split_records(
        [len(encode_batch([b"x" * 7])) - HEADER_SIZE] * 30, 100
    )


KINDS = [
    pa.binary(),
    pa.string(),
    pa.large_binary(),
    pa.large_string(),
    pa.binary_view(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_byte_column(kind: pa.DataType) -> None:
    texts = ["a", None, "", "grüße", "x" * 50]
    column = pa.array(texts, pa.string()).cast(kind)
    expected = encode_batch([t if t is None else t.encode() for t in texts][1:])
    chunked = pa.chunked_array([column.slice(1, 2), column.slice(3, 0), column.slice(3)])
    for data in (column.slice(1), chunked, pa.chunked_array([column.slice(1)])):
        assert encode_from_arrow(data, batch_size=1000) == [expected]
    assert encode_from_arrow(data, key=column.slice(1), batch_size=1000) == [
        encode_batch([t if t is None else t.encode() for t in texts][1:], keys=[
            t if t is None else t.encode() for t in texts][1:])
    ]  # fmt: skip


def test_fixed_size_and_all_null_columns() -> None:
    fixed = pa.array([b"ab", None, b"cd"], pa.binary(2))
    nulls = pa.nulls(3)
    assert encode_from_arrow(fixed, key=nulls, headers=nulls, timestamp=nulls, batch_size=999) == [
        encode_batch([b"ab", None, b"cd"])
    ]


def test_no_rows() -> None:
    for empty in (pa.array([], pa.binary()), pa.chunked_array([], pa.string()), pa.nulls(0)):
        assert encode_from_arrow(empty, key=empty, batch_size=100) == []
    assert encode_from_arrow(pa.array([b"x"]), rows=np.array([], np.int64), batch_size=100) == []


def test_timestamps_of_any_unit() -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 678_901, UTC)
    ms = 1_577_934_245_678
    for unit in ("ms", "us", "ns"):
        for zone in (None, "UTC", "Europe/Berlin"):
            aware = moment if zone else moment.replace(tzinfo=None)
            if unit == "ms":
                aware = aware.replace(microsecond=678_000)
            column = pa.array([aware, None], pa.timestamp(unit, tz=zone))
            (batch,) = encode_from_arrow(
                pa.array([b"", b""]), timestamp=column, default_timestamp_ms=9, batch_size=999
            )
            assert [r.timestamp_ms for r in iter_records(batch, "t", 0)] == [ms, 9]


def test_sequences_go_on_from_batch_to_batch() -> None:
    batches = encode_from_arrow(
        pa.array([b"x" * 50] * 10),
        batch_size=300,
        compression="lz4",
        producer_id=8,
        producer_epoch=1,
        base_sequence=2**31 - 3,
        transactional=True,
    )
    headers = [read_header(batch) for batch in batches]
    assert [h.record_count for h in headers] == [4, 4, 2]
    assert [h.base_sequence for h in headers] == [2**31 - 3, 1, 5]
    assert all(h.is_transactional and h.producer_id == 8 and h.compression == 3 for h in headers)
    assert all(crc_matches(b, 0, h) for b, h in zip(batches, headers, strict=True))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_round_trip_through_arrow(compression: str) -> None:
    rows = random_rows(random.Random(1), 500)
    source = columns(rows)
    batches = encode_from_arrow(**source, compression=compression, batch_size=4000)
    data = b"".join(batches)
    assert [position for position, _ in iter_headers(data)][1:] == np.cumsum(
        [len(batch) for batch in batches]
    ).tolist()[:-1]
    got = [decode_to_arrow(batch, "t", 0, include_headers=True) for batch in batches]
    table = pa.Table.from_batches(got)
    assert table["value"].to_pylist() == source["value"].to_pylist()
    assert table["key"].to_pylist() == source["key"].to_pylist()
    assert table["headers"].to_pylist() == [h or None for h in source["headers"].to_pylist()]


def test_sliced_headers_and_large_lists() -> None:
    headers = columns(random_rows(random.Random(2), 40))["headers"]
    values = pa.array([b"v"] * 40)
    expected = [h or [] for h in headers.to_pylist()]
    large = headers.cast(pa.large_list(PAIR))
    for column in (headers, large, pa.chunked_array([headers[:11], headers[11:]])):
        for first in (0, 7, 39):
            (batch,) = encode_from_arrow(
                values.slice(first), headers=column.slice(first), batch_size=1 << 20
            )
            got = [
                [{"key": k, "value": v} for k, v in r.headers] for r in iter_records(batch, "t", 0)
            ]
            assert got == expected[first:]


def test_swapped_header_fields() -> None:
    swapped = pa.struct([("value", pa.large_binary()), ("key", pa.string_view())])
    column = pa.array([[{"key": "k", "value": b"v"}]], pa.list_(swapped))
    assert encode_from_arrow(pa.array([b""]), headers=column, batch_size=100) == [
        encode_batch([b""], headers=[[("k", b"v")]])
    ]


def test_a_null_header_key_names_the_row() -> None:
    pairs = [[{"key": "a", "value": b""}], None, [{"key": "b", "value": None}, {"key": None}]]
    column = pa.array([*pairs, []], pa.list_(PAIR))
    with pytest.raises(InvalidRecord, match="row 2: a header or its key is null") as caught:
        encode_from_arrow(pa.array([b""] * 4), headers=column, batch_size=100)
    assert caught.value.record_index == 2
    encode_from_arrow(pa.array([b""] * 2), headers=column.slice(0, 2), batch_size=100)


def test_what_is_refused() -> None:
    value = pa.array([b"v"])
    with pytest.raises(TypeError, match="column 'value' must be binary or string, not int64"):
        encode_from_arrow(pa.array([1]), batch_size=100)
    with pytest.raises(TypeError, match="column 'key' must be binary or string, not double"):
        encode_from_arrow(value, key=pa.array([1.0]), batch_size=100)
    with pytest.raises(TypeError, match="column 'timestamp' must be"):
        encode_from_arrow(value, timestamp=pa.array(["x"]), batch_size=100)
    with pytest.raises(TypeError, match="column 'headers' must be list"):
        encode_from_arrow(value, headers=pa.array(["x"]), batch_size=100)
    with pytest.raises(TypeError, match="column 'headers' must hold struct"):
        encode_from_arrow(value, headers=pa.array([["x"]]), batch_size=100)
    with pytest.raises(ValueError, match="column 'key' has 2 rows, 'value' 1"):
        encode_from_arrow(value, key=pa.array([b"", b""]), batch_size=100)
    with pytest.raises(UnsupportedCompressionType, match="brotli"):
        encode_from_arrow(value, compression="brotli", batch_size=100)
    for rows in ([1], [-1]):
        with pytest.raises(IndexError, match="within 0 and 0"):
            encode_from_arrow(value, rows=np.array(rows), batch_size=100)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_batch_stamped_later_is_the_one_stamped_at_once(compression: str) -> None:
    column = pa.array([b"%d" % n * 20 for n in range(1_000)])
    encoder = ArrowEncoder(column, default_timestamp_ms=1)
    later, at_once = (
        encoder.encode(
            None, BatchSettings(batch_size=4_000, compression=compression, stamped_later=later)
        )
        for later in (True, False)
    )
    for batch, known in zip(later, at_once, strict=True):
        assert not crc_matches(batch, 0, read_header(batch))
        batch = stamp_producer(batch, 5, 6, 7)
        assert batch == with_producer(known, 5, 6, 7)
        assert crc_matches(batch, 0, read_header(batch))
