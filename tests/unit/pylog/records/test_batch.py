from __future__ import annotations

import pytest

from pylog.errors import CorruptMessage, MessageTooLarge
from pylog.model import TimestampType
from pylog.records import batch as module
from pylog.records.batch import (
    BatchHeader,
    CompressionType,
    add_to_sequence,
    crc_matches,
    iter_headers,
    read_header,
    with_log_append_time,
    with_offset_and_epoch,
    with_producer,
)
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records

BATCH = encode_batch([b"a", b"b", b"c"], timestamps=[5, 9, 7], compression="lz4", base_offset=40)


def test_header_properties() -> None:
    header = read_header(BATCH)
    assert header.size == len(BATCH)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 42, 43)
    assert header.compression == CompressionType.LZ4
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert not header.is_transactional
    assert not header.is_control
    assert header.producer_id == -1
    assert header.last_sequence == -1


def test_sequences_wrap() -> None:
    assert add_to_sequence(2**31 - 1, 1) == 0
    assert add_to_sequence(2**31 - 2, 3) == 1
    batch = encode_batch([b""] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert read_header(batch).last_sequence == 0


def test_a_header_needs_61_bytes_magic_and_length() -> None:
    for cut in (0, 12, 60):
        with pytest.raises(CorruptMessage, match="needs 61 bytes"):
            read_header(BATCH[:cut])
    with pytest.raises(CorruptMessage, match="needs 61 bytes"):
        read_header(BATCH, -1)
    with pytest.raises(CorruptMessage, match="magic 1 at position 0"):
        read_header(BATCH[:16] + b"\x01" + BATCH[17:])
    for length in (0, 48, -1, -(2**31)):
        patched = BATCH[:8] + length.to_bytes(4, "big", signed=True) + BATCH[12:]
        with pytest.raises(CorruptMessage, match="batch length"):
            read_header(patched)


def test_zeroed_space_is_corrupt() -> None:
    with pytest.raises(CorruptMessage):
        list(iter_headers(BATCH + bytes(1000)))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_headers_end_before_a_cut_batch(kind: type) -> None:
    whole = BATCH + BATCH
    for cut in range(len(BATCH), len(whole)):
        positions = [position for position, _ in iter_headers(kind(whole[:cut]))]
        assert positions == [0]
    assert [position for position, _ in iter_headers(kind(whole))] == [0, len(BATCH)]


def test_every_flipped_bit_after_the_crc_is_seen() -> None:
    for position in range(module.CRC_OFFSET, len(BATCH)):
        for bit in range(8):
            broken = bytearray(BATCH)
            broken[position] ^= 1 << bit
            assert not crc_matches(broken, 0, read_header(broken))
    assert crc_matches(BATCH, 0, read_header(BATCH))
    assert not crc_matches(BATCH[:-1], 0, read_header(BATCH))


def test_offset_and_epoch_change_without_the_crc() -> None:
    first, rest = with_offset_and_epoch(BATCH, 2**40, 7)
    assert len(first) == 16
    header = read_header(first + rest)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 7)
    assert crc_matches(first + rest, 0, header)
    assert (first[8:12], rest) == (BATCH[8:12], BATCH[16:])


def test_a_batch_moves_to_another_producer() -> None:
    moved = with_producer(BATCH, 5, 6, 7)
    header = read_header(moved)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, 7)
    assert crc_matches(moved, 0, header)
    assert moved[61:] == BATCH[61:]


def test_log_append_time_is_every_records_time() -> None:
    stamped = with_log_append_time(BATCH, 99)
    header = read_header(stamped)
    assert crc_matches(stamped, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.compression == CompressionType.LZ4
    records = list(iter_records(stamped, "t", 0))
    assert [(r.timestamp_ms, r.timestamp_type) for r in records] == [
        (99, TimestampType.LOG_APPEND_TIME)
    ] * 3


def test_header_fields_round_trip() -> None:
    header = BatchHeader(-1, 49, -2, 2, 2**32 - 1, -1, -3, -4, -5, -6, -7, -8, -9)
    assert read_header(module.HEADER.pack(*header)) == header


def test_more_than_2_gib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_LENGTH_MAX", 100)
    for count in (1, 10):
        with pytest.raises(MessageTooLarge, match="ends at 100 bytes"):
            encode_batch([b"x" * 100] * count)
    with pytest.raises(MessageTooLarge, match="ends at 100 bytes"):
        module.seal(bytearray(BATCH[:61]), bytes(100))


def test_both_ways_to_a_header_agree() -> None:
    fields = read_header(BATCH)
    records = BATCH[61:]
    header = module.pack_header(
        attributes=fields.attributes,
        record_count=3,
        base_timestamp=5,
        max_timestamp=9,
        base_offset=40,
        leader_epoch=7,
        producer_id=8,
        producer_epoch=9,
        base_sequence=10,
    )
    whole = module.header_before(records, fields.attributes, 3, 5, 9, 40, 7, 8, 9, 10) + records
    assert module.seal(header, records) == whole
