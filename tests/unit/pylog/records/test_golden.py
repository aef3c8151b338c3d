"""Bytes against another implementation: kafka-python's batches, and ours read by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka.record.default_records import ControlRecord
from kafka.record.memory_records import MemoryRecords

from pylog.records.batch import BatchHeader, read_header
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.columnar import decode_to_arrow
from pylog.records.reader import iter_records
from pylog.records.validate import check_batch, check_records
from tests.golden.kafka_python_cases import CASES, Case

FOLDER = Path(__file__).parents[3] / "golden" / "kafka_python"
CODECS = {0: "none", 3: "lz4", 4: "zstd"}

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def golden(case: Case) -> bytes:
    return (FOLDER / f"{case.name}.bin").read_bytes()


def ours(case: Case, **more: Any) -> bytes:
    keys, values, timestamps, headers = map(list, zip(*case.rows, strict=True))
    producer_id, producer_epoch, base_sequence = case.producer
    return encode_batch(
        values,
        keys=keys,
        headers=headers,
        timestamps=timestamps,
        compression=CODECS[case.codec],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=case.transactional,
        **more,
    )


@every_case
def test_header_of_a_foreign_batch(case: Case) -> None:
    batch = golden(case)
    header = check_batch(batch, max_message_bytes=len(batch))
    timestamps = [row[2] for row in case.rows]
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        partition_leader_epoch=header.partition_leader_epoch,
        magic=2,
        crc=header.crc,
        attributes=case.codec | (0x10 if case.transactional else 0),
        last_offset_delta=len(case.rows) - 1,
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
        producer_id=case.producer[0],
        producer_epoch=case.producer[1],
        base_sequence=case.producer[2],
        record_count=len(case.rows),
    )
    summary = check_records(batch, header, max_decompressed_bytes=1 << 20)
    assert (summary.min_timestamp, summary.max_timestamp) == (min(timestamps), max(timestamps))


@every_case
def test_records_of_a_foreign_batch(case: Case) -> None:
    records = list(iter_records(golden(case), "t", 0))
    got = [(r.key, r.value, r.timestamp_ms, tuple(r.headers)) for r in records]
    assert got == list(case.rows)
    assert [r.offset for r in records] == list(range(len(case.rows)))


@every_case
def test_columns_of_a_foreign_batch(case: Case) -> None:
    columns = decode_to_arrow(golden(case), "t", 0, include_headers=True)
    columns.validate(full=True)
    keys, values, timestamps, headers = map(list, zip(*case.rows, strict=True))
    assert columns["key"].to_pylist() == keys
    assert columns["value"].to_pylist() == values
    assert columns["timestamp"].cast("int64").to_pylist() == [1000 * t for t in timestamps]
    assert columns["headers"].to_pylist() == [
        [{"key": key, "value": value} for key, value in pairs] or None for pairs in headers
    ]


@pytest.mark.parametrize("case", [c for c in CASES if c.codec == 0], ids=lambda case: case.name)
def test_our_bytes_are_the_same(case: Case) -> None:
    epoch = read_header(golden(case)).partition_leader_epoch
    assert ours(case, leader_epoch=epoch) == golden(case)


@every_case
def test_kafka_python_reads_ours(case: Case) -> None:
    batches = MemoryRecords(ours(case, base_offset=100) + ours(case, base_offset=1000))
    for base_offset in (100, 1000):
        batch = batches.next_batch()
        assert batch.validate_crc()
        assert batch.base_offset == base_offset
        assert batch.compression_type == case.codec
        assert batch.is_transactional == case.transactional
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == case.producer
        assert batch.last_sequence == read_header(ours(case)).last_sequence
        rows = [(r.key, r.value, r.timestamp, tuple(r.headers)) for r in batch]
        assert rows == list(case.rows)
    assert not batches.has_next()


@pytest.mark.parametrize("kind", ControlType)
def test_kafka_python_reads_our_control_batches(kind: ControlType) -> None:
    batch = MemoryRecords(
        encode_control_batch(
            kind,
            producer_id=9,
            producer_epoch=2,
            coordinator_epoch=7,
            timestamp_ms=55,
            base_offset=12,
        )
    ).next_batch()
    assert batch.validate_crc()
    assert batch.is_control_batch
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 2, -1)
    (record,) = list(batch)
    assert isinstance(record, ControlRecord)
    assert (record.commit, record.abort) == (kind is ControlType.COMMIT, kind is ControlType.ABORT)
    assert record.value == b"\x00\x00\x00\x00\x00\x07"
    assert (record.offset, record.timestamp) == (12, 55)
