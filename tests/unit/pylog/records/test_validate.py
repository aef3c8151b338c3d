from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from pylog.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    PylogError,
    UnsupportedCompressionType,
    UnsupportedVersion,
)
from pylog.records.batch import (
    BatchHeader,
    CompressionType,
    pack_header,
    read_header,
    seal,
    with_producer,
)
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.columnar import decode_to_arrow
from pylog.records.compression import compress
from pylog.records.reader import first_record_at_or_after, iter_records
from pylog.records.validate import check_batch, check_records

BATCH = encode_batch([b"a", b"bb", b"ccc"], keys=[b"k", None, b"k"], timestamps=[5, 2, 9])
RECORDS = BATCH[61:]


def with_records(records: bytes, codec: int = 0, **fields: Any) -> bytes:
    """A batch whose CRC is right and whose content may be anything."""
    settings = {"record_count": 3, "base_timestamp": 5, "max_timestamp": 9} | fields
    return seal(pack_header(attributes=codec, **settings), records)


def check(batch: bytes) -> BatchHeader:
    header = check_batch(batch, max_message_bytes=1 << 20)
    check_records(batch, header, max_decompressed_bytes=1 << 20)
    return header


def test_a_good_batch() -> None:
    assert check(BATCH) == read_header(BATCH)
    summary = check_records(BATCH, read_header(BATCH), max_decompressed_bytes=0)
    assert summary == (2, 9, 1)


def test_size_is_checked_first() -> None:
    with pytest.raises(MessageTooLarge, match=r"has 90 bytes; max.message.bytes is 89"):
        check_batch(BATCH, max_message_bytes=89)
    check_batch(BATCH, max_message_bytes=90)


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_magic(magic: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"magic\\) {magic}"):
        check_batch(BATCH[:16] + bytes([magic]) + BATCH[17:], max_message_bytes=1000)


def test_exactly_one_batch() -> None:
    with pytest.raises(InvalidRecord, match="90 bytes follow"):
        check(BATCH + BATCH)
    for cut in range(len(BATCH)):
        with pytest.raises(CorruptMessage):
            check(BATCH[:cut])


def test_every_flipped_bit_is_found() -> None:
    # Base offset and leader epoch lie outside the CRC: the leader overwrites them.
    for position in [*range(8, 12), *range(16, len(BATCH))]:
        for bit in range(8):
            broken = bytearray(BATCH)
            broken[position] ^= 1 << bit
            with pytest.raises((CorruptMessage, UnsupportedVersion)):
                check(bytes(broken))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionType, match=f"codec {codec}"):
        check_batch(with_records(RECORDS, codec), max_message_bytes=1000)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"record_count": 0}, "declares 0 records"),
        ({"record_count": -1}, "declares -1 records"),
        ({"record_count": 2, "last_offset_delta": 2}, "last offset delta is 2 with 2"),
        ({"record_count": 4, "last_offset_delta": 2}, "last offset delta is 2 with 4"),
        ({"base_offset": 7}, "base offset is 7"),
        ({"producer_id": 1}, "producer id 1 with epoch -1"),
        ({"producer_id": 1, "producer_epoch": 0}, "sequence -1"),
        ({"base_sequence": 4}, "needs a producer id"),
    ],
)
def test_headers_that_contradict_themselves(fields: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidRecord, match=message):
        check_batch(with_records(RECORDS, **fields), max_message_bytes=1000)


def test_transactional_needs_a_producer() -> None:
    with pytest.raises(InvalidRecord, match="needs a producer id"):
        check(encode_batch([b""], transactional=True))
    check(with_producer(encode_batch([b""], transactional=True), 1, 0, 0))


def test_control_batches_are_not_for_clients() -> None:
    marker = encode_control_batch(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
    )
    with pytest.raises(InvalidRecord, match="control"):
        check_batch(marker, max_message_bytes=1000)
    assert check_batch(marker, max_message_bytes=1000, allow_control=True).is_control


def record(*, delta: int = 0, body: bytes = b"\x01\x01\x00") -> bytes:
    """Attributes, timestamp delta 0, a one-byte offset delta, then key, value, header count."""
    inner = bytes((0, 0, delta * 2)) + body
    return bytes((len(inner) * 2,)) + inner


@pytest.mark.parametrize(
    ("records", "index", "message"),
    [
        (record() + record(delta=1) + record(delta=1), 2, "its offset"),
        (record() + record(delta=2) + record(delta=1), 1, "its offset"),
        (record(delta=1) + record(delta=2) + record(delta=3), 0, "its offset"),
        (record() + record(delta=1) + b"\x7f" + bytes(20), 2, "does not fit the batch"),
        (record() + record(delta=1), 2, "varint"),
        (record() + record(delta=1) + record(delta=2) + b"\0", 3, "bytes follow the last"),
        (record(body=b"\x03\x01\x00") + bytes(14), 0, "key's length"),
        (record(body=b"\x10\x01\x00") + bytes(14), 0, "key's length"),
        (record(body=b"\x01\x10\x00") + bytes(14), 0, "value's length"),
        (record(body=b"\x01\x01\x02") + bytes(14), 0, "headers"),
        (record(body=b"\x01\x01\x01") + bytes(14), 0, "headers"),
        (record(body=b"\x01\x01\x02\x01\x00") + bytes(14), 0, "header key is null"),
        (record(body=b"\x01\x01\x00\x00") + bytes(14), 0, "do not fill"),
        (b"\x80" * 30, 0, "varint"),
    ],
)
@pytest.mark.parametrize("codec", range(5))
def test_the_record_at_fault_is_named(records: bytes, index: int, message: str, codec: int) -> None:
    records = records.ljust(21, b"\0") if len(records) < 21 and index < 2 else records
    batch = with_records(bytes(compress(CompressionType(codec), records)), codec, record_count=3)
    header = check_batch(batch, max_message_bytes=1000)
    if len(records) < 21:
        with pytest.raises(InvalidRecord, match="declares 3 records, but its 14 bytes"):
            check_records(batch, header, max_decompressed_bytes=1000)
        return
    with pytest.raises(InvalidRecord, match=f"record {index} .*{message}") as caught:
        check_records(batch, header, max_decompressed_bytes=1000)
    assert caught.value.record_index == index


@pytest.mark.parametrize("count", [2**31 - 1, 10**6])
def test_a_huge_declared_count_allocates_nothing(count: int) -> None:
    batch = with_records(RECORDS, record_count=count)
    header = check_batch(batch, max_message_bytes=1000)
    with pytest.raises(InvalidRecord, match=f"declares {count} records, but its 29 bytes"):
        check_records(batch, header, max_decompressed_bytes=1000)
    with pytest.raises(InvalidRecord, match="t-3, batch at offset 0: the batch declares"):
        list(iter_records(batch, "t", 3))
    with pytest.raises(InvalidRecord, match="t-3, batch at offset 0: the batch declares"):
        decode_to_arrow(batch, "t", 3)


def test_a_million_headers_are_cheap_to_refuse() -> None:
    body = b"\x01\x01" + b"\xfe\xff\xff\xff\x0f"  # 2^31 - 1 headers
    batch = with_records(record(body=body), record_count=1)
    with pytest.raises(InvalidRecord, match="headers"):
        check(batch)


def test_a_bomb_stops_at_the_limit() -> None:
    bomb = with_records(bytes(compress(CompressionType.LZ4, bytes(1 << 24))), 3)
    header = check_batch(bomb, max_message_bytes=1 << 20)
    with pytest.raises(InvalidRecord, match="limit of 1048576"):
        check_records(bomb, header, max_decompressed_bytes=1 << 20)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_mutants_with_a_right_crc_never_crash(compression: str) -> None:
    rng = random.Random(compression)
    good = encode_batch(
        [b"v" * 30, None, b"", b"w" * 5] * 3,
        keys=[None, b"key"] * 6,
        headers=[None, [("h", None), ("i", b"j")]] * 6,
        timestamps=range(12),
        compression=compression,
    )
    accepted = 0
    for _ in range(1200):
        broken = bytearray(good)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(21, len(broken))] = rng.choice((rng.randrange(256), 0, 255))
        header = bytearray(broken[:61])
        struct.pack_into(">i", header, 8, 49)
        batch = seal(header, bytes(broken[61:]))
        try:
            check(batch)
            accepted += 1
        except PylogError:
            pass
        for read in (
            lambda batch=batch: list(iter_records(batch, "t", 0)),
            lambda batch=batch: decode_to_arrow(batch, "t", 0, include_headers=True).validate(
                full=True
            ),
            lambda batch=batch: first_record_at_or_after(batch, 5),
        ):
            try:
                read()
            except PylogError:
                continue
    assert accepted < 1200
