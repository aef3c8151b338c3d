from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from pylog.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    PylogError,
    UnsupportedCompressionType,
)
from pylog.records import compiled_columns, opened
from pylog.records.batch import iter_headers, pack_header, seal, with_log_append_time
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.columnar import decode_to_arrow, record_schema
from pylog.records.compression import DECOMPRESSED_BYTES_MAX
from pylog.records.record_columns import RowColumns
from pylog.records.sections import open_section
from tests.fakes.guarded import GuardedMemory


def rows_of(table: pa.RecordBatch) -> list[dict[str, Any]]:
    place = table.schema.get_field_index("timestamp")
    return table.set_column(place, "timestamp", table["timestamp"].cast("int64")).to_pylist()


def twin(
    data: bytes, topic: str, partition: int, from_offset: int, to_offset: int
) -> list[dict[str, Any]]:
    """The same rows by the pure decoder, one by one."""
    rows = []
    for position, header in iter_headers(data):
        if header.is_control:
            continue
        section = open_section(data, position, header, max_bytes=DECOMPRESSED_BYTES_MAX)
        columns = RowColumns.decode(section, header, 0)
        for key, value, offset, timestamp, headers in zip(
            columns.keys(),
            columns.values(),
            columns.offsets(),
            columns.timestamps(),
            columns.headers(),
            strict=True,
        ):
            if from_offset <= offset < to_offset:
                rows.append(
                    {
                        "key": key,
                        "value": value,
                        "topic": topic,
                        "partition": partition,
                        "offset": offset,
                        "timestamp": timestamp * 1000,
                        "timestampType": int(header.timestamp_type),
                        "headers": [{"key": k, "value": v} for k, v in headers] or None,
                    }
                )
    return rows


def random_batches(rng: random.Random) -> tuple[bytes, int]:
    """Batches of any size and codec with all kinds of records, and the offset after the last."""
    parts, base = [], rng.randint(0, 5)
    for _ in range(rng.randint(0, 5)):
        count = rng.choice((1, 2, 5, 40))
        batch = encode_batch(
            [rng.choice((None, b"", rng.randbytes(rng.randint(1, 90)))) for _ in range(count)],
            keys=[rng.choice((None, b"", rng.randbytes(7))) for _ in range(count)],
            headers=[
                rng.choice((None, [("h", None)], [("grüße", b""), ("h", b"x" * 9)]))
                for _ in range(count)
            ],
            timestamps=[rng.randint(-5, 2**42) for _ in range(count)],
            compression=rng.choice(("none", "gzip", "snappy", "lz4", "zstd")),
            base_offset=base,
        )
        parts.append(with_log_append_time(batch, 12345) if rng.random() < 0.2 else batch)
        base += count + rng.choice((0, 0, 3))
    return b"".join(parts), base


@pytest.mark.parametrize("seed", range(60))
def test_equals_the_twin(seed: int) -> None:
    rng = random.Random(seed)
    data, end = random_batches(rng)
    for _ in range(4):
        first, last = rng.randint(0, end), rng.randint(0, end + 2)
        got = decode_to_arrow(
            data, "töpic", 3, from_offset=first, to_offset=last, include_headers=True
        )
        got.validate(full=True)
        assert rows_of(got) == twin(data, "töpic", 3, first, last)
    bare = decode_to_arrow(memoryview(bytearray(data)), "töpic", 3)
    expected = [{k: v for k, v in row.items() if k != "headers"} for row in
                twin(data, "töpic", 3, 0, 2**62)]  # fmt: skip
    assert rows_of(bare) == expected


def test_the_schema_is_sparks() -> None:
    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for data in (b"", encode_batch([b"v"])):
        assert decode_to_arrow(data, "t", 0).schema == pa.schema(fields) == record_schema(False)
        wide = decode_to_arrow(data, "t", 0, include_headers=True)
        assert wide.schema == pa.schema([*fields, ("headers", headers)]) == record_schema(True)
    assert all(field.nullable for field in record_schema(True))


def test_control_batches_and_cut_tails_are_left_out() -> None:
    marker = encode_control_batch(
        ControlType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=1,
    )
    data = encode_batch([b"v"]) + marker + encode_batch([b"w"], base_offset=2)
    assert decode_to_arrow(data, "t", 0)["offset"].to_pylist() == [0, 2]
    assert decode_to_arrow(data[:-1], "t", 0)["offset"].to_pylist() == [0]


def test_a_kept_column_costs_what_it_holds() -> None:
    data = encode_batch([b"x" * 1000] * 100, keys=[b"k"] * 100)
    small = decode_to_arrow(data, "t", 0, from_offset=99)
    assert small["value"].to_pylist() == [b"x" * 1000]
    assert small["key"].buffers()[2].size == 1
    assert small["value"].buffers()[2].size == 1000


def test_no_null_bitmap_without_nulls() -> None:
    full = decode_to_arrow(encode_batch([b"v"] * 9, keys=[b"k"] * 9), "t", 0)
    assert (full["key"].null_count, full["key"].buffers()[0]) == (0, None)
    keyless = decode_to_arrow(encode_batch([b"v"] * 9), "t", 0)
    assert (keyless["key"].null_count, keyless["value"].null_count) == (9, 0)


def test_header_keys_that_are_not_utf8() -> None:
    batch = encode_batch([b"v"], headers=[[("ab", b"1")]])
    records = batch[61:].replace(b"ab", b"\xff\xfe")
    header = pack_header(attributes=0, record_count=1, base_timestamp=0, max_timestamp=0)
    got = decode_to_arrow(seal(header, records), "t", 0, include_headers=True)
    got.validate(full=True)
    assert got["headers"].to_pylist() == [[{"key": "\ufffd\ufffd", "value": b"1"}]]


def test_timestamps_beyond_microseconds() -> None:
    most = (2**63 - 1) // 1000
    data = encode_batch([b""] * 2, timestamps=[most, -most])
    got = decode_to_arrow(data, "t", 0)["timestamp"].cast("int64").to_pylist()
    assert got == [most * 1000, -most * 1000]
    for bad in (most + 1, 2**63 - 1, -most - 1, -(2**63)):
        data = encode_batch([b""] * 3, timestamps=[0, 0, bad], base_offset=50)
        with pytest.raises(InvalidTimestamp, match=r"batch at offset 50: record 2 .*microsec"):
            decode_to_arrow(data, "t", 4)
        assert decode_to_arrow(data, "t", 4, to_offset=52).num_rows == 2


def test_faults_name_the_place() -> None:
    good = encode_batch([b"v"] * 3)
    header = pack_header(
        attributes=0, record_count=2, base_timestamp=0, max_timestamp=0, base_offset=3
    )
    bad = seal(header, encode_batch([b"v"])[61:] * 2)
    with pytest.raises(InvalidRecord, match="t-4, batch at offset 3: record 1") as caught:
        decode_to_arrow(good + bad, "t", 4)
    assert caught.value.record_index == 1
    assert decode_to_arrow(good + bad, "t", 4, to_offset=3).num_rows == 3
    with pytest.raises(CorruptMessage, match="t-4, batch at offset 0: "):
        decode_to_arrow(good[:-1] + b"\x01", "t", 4)
    assert decode_to_arrow(good[:-2] + b"w\0", "t", 4, check_crcs=False).num_rows == 3
    unknown = seal(
        pack_header(attributes=6, record_count=1, base_timestamp=0, max_timestamp=0), b""
    )
    with pytest.raises(UnsupportedCompressionType, match="t-4, batch at offset 0: "):
        decode_to_arrow(unknown, "t", 4)


def test_columns_end_at_2_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_batch([b"v" * 50] * 3)
    monkeypatch.setattr(opened, "BYTES_MAX", 150)
    with pytest.raises(MessageTooLarge, match="150 bytes of records in one Arrow batch"):
        decode_to_arrow(data, "t", 0)
    monkeypatch.setattr(opened, "BYTES_MAX", 200)
    monkeypatch.setattr(compiled_columns, "BYTES_MAX", 200)
    assert decode_to_arrow(data, "t", 0).num_rows == 3
    with pytest.raises(MessageTooLarge, match="3 rows are too many"):
        decode_to_arrow(data, "t" * 70, 0)


def test_broken_records_never_read_outside() -> None:
    memory = GuardedMemory(1 << 16)
    rng = random.Random(5)
    good = encode_batch(
        [b"v" * 30, None, b""] * 3,
        keys=[None, b"key", b""] * 3,
        headers=[None, [("h", None), ("i", b"j")], []] * 3,
        timestamps=range(9),
    )
    refused = 0
    for _ in range(2000):
        broken = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(57, len(broken))] = rng.choice((rng.randrange(256), 0, 255, 254))
        try:
            got = decode_to_arrow(
                memory.hold(bytes(broken)), "t", 0, include_headers=True, check_crcs=False
            )
        except PylogError:
            refused += 1
        else:
            got.validate(full=True)
    assert 500 < refused < 2000
