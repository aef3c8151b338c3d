from __future__ import annotations

from array import array

import numpy as np
import pytest

from pylog.errors import InvalidRecord, UnsupportedCompressionType
from pylog.records.batch import crc_matches, read_header
from pylog.records.builder import (
    ControlType,
    encode_batch,
    encode_control_batch,
    read_control,
)
from pylog.records.compiled import SMALL_BATCH_RECORDS
from pylog.records.headers import encode_headers, read_headers
from pylog.records.reader import iter_records

SIZES = (1, SMALL_BATCH_RECORDS, SMALL_BATCH_RECORDS + 1, 300)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_null_differs_from_empty(count: int, compression: str) -> None:
    values = [(None, b"", b"v")[i % 3] for i in range(count)]
    keys = [(b"", b"k", None, None)[i % 4] for i in range(count)]
    headers = [(None, [], [("h", None), ("h", b""), ("", b"x")])[i % 3] for i in range(count)]
    batch = encode_batch(values, keys=keys, headers=headers, compression=compression)
    assert crc_matches(batch, 0, read_header(batch))
    records = list(iter_records(batch, "t", 1))
    assert [r.value for r in records] == values
    assert [r.key for r in records] == keys
    assert [r.headers for r in records] == [pairs or [] for pairs in headers]
    assert {r.timestamp_ms for r in records} == {-1}


@pytest.mark.parametrize("count", SIZES)
def test_timestamps_of_any_kind(count: int) -> None:
    times = [1000 + (i * 7919) % 500 for i in range(count)]
    batches = {
        encode_batch([b"v"] * count, timestamps=kind)
        for kind in (times, tuple(times), array("q", times), np.array(times))
    }
    (batch,) = batches
    header = read_header(batch)
    assert (header.base_timestamp, header.max_timestamp) == (times[0], max(times))
    assert [r.timestamp_ms for r in iter_records(batch, "t", 0)] == times
    one = read_header(encode_batch([b"v"] * count, timestamps=77))
    assert (one.base_timestamp, one.max_timestamp) == (77, 77)


def test_header_fields() -> None:
    header = read_header(
        encode_batch(
            [b"v"],
            producer_id=1,
            producer_epoch=2,
            base_sequence=3,
            base_offset=4,
            leader_epoch=5,
            transactional=True,
        )
    )
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 2, 3)
    assert (header.base_offset, header.partition_leader_epoch) == (4, 5)
    assert header.is_transactional
    assert not header.is_control


@pytest.mark.parametrize("count", SIZES)
def test_other_bytes_and_sequences_are_taken(count: int) -> None:
    class Own(bytes):
        pass

    kinds = (bytes, bytearray, memoryview, Own)
    mixed = [kinds[i % 4](b"value") for i in range(count)]
    expected = encode_batch([b"value"] * count, keys=[b"value"] * count)
    assert encode_batch(mixed, keys=tuple(mixed)) == expected


@pytest.mark.parametrize("count", SIZES)
def test_other_values_are_refused(count: int) -> None:
    with pytest.raises(TypeError, match=f"record {count - 1}: a value must be bytes"):
        encode_batch([b"v"] * (count - 1) + ["text"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=f"record {count - 1}: a key .* not int"):
        encode_batch([b"v"] * count, keys=[None] * (count - 1) + [5])  # type: ignore[list-item]


def test_what_cannot_be_a_batch() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])
    with pytest.raises(ValueError, match="1 keys for 2 values"):
        encode_batch([b"", b""], keys=[b""])
    with pytest.raises(ValueError, match="3 timestamps for 2 values"):
        encode_batch([b"", b""], timestamps=[1, 2, 3])
    with pytest.raises(UnsupportedCompressionType, match="brotli"):
        encode_batch([b""], compression="brotli")


def test_headers() -> None:
    pairs = [("a", b"1"), ("a", None), ("", b""), ("ä" * 100, b"x" * 1000)]
    blob = encode_headers(pairs)
    assert read_headers(blob, 1, len(pairs), len(blob)) == pairs
    assert encode_headers(None) == encode_headers([]) == b"\0"
    with pytest.raises(TypeError, match="header key must be str, not NoneType"):
        encode_headers([(None, b"")])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="header 'a' must be bytes or None, not str"):
        encode_headers([("a", "text")])  # type: ignore[list-item]
    assert read_headers(b"\x04\xff\xfe\x01", 0, 1, 4) == [("\ufffd\ufffd", None)]
    for broken in (b"\x01", b"\x06ab", b"\x02a\x03", b"\x02a\x04b", b""):
        with pytest.raises(ValueError, match=r"header|varint"):
            read_headers(broken, 0, 1, len(broken))


@pytest.mark.parametrize("kind", ControlType)
def test_control_batches(kind: ControlType) -> None:
    batch = encode_control_batch(
        kind, producer_id=9, producer_epoch=1, coordinator_epoch=77, timestamp_ms=5, base_offset=3
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, -1)
    assert (header.record_count, header.last_offset, header.last_sequence) == (1, 3, -1)
    assert list(iter_records(batch, "t", 0)) == []
    (record,) = iter_records(batch, "t", 0, include_control=True)
    assert read_control(record.key, record.value) == (kind, 77)


def test_other_control_records_are_refused() -> None:
    for key, value in ((None, b"x" * 6), (b"\0" * 4, None), (b"\0" * 3, b"\0" * 6)):
        with pytest.raises(InvalidRecord, match="need 4 and 6 bytes"):
            read_control(key, value)
    with pytest.raises(InvalidRecord, match="unknown type 2"):
        read_control(b"\0\0\0\x02", b"\0" * 6)
    assert read_control(b"\0\x01\0\x01more", b"\0\0\0\0\0\x05more") == (ControlType.COMMIT, 5)
