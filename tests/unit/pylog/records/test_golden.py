"""Bytes against other implementations: their batches read by us, and ours read by them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from kafka.record.default_records import ControlRecord
from kafka.record.memory_records import MemoryRecords

from pylog.records.batch import BatchHeader, read_header
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.columnar import decode_to_arrow
from pylog.records.compression import CODEC_NAMES
from pylog.records.reader import iter_records
from pylog.records.validate import check_batch, check_records
from tests.golden.client_cases import CASES, Case

GOLDEN = Path(__file__).parents[3] / "golden"
CLIENTS = ("kafka_python", "aiokafka", "confluent_kafka")
READERS = ("aiokafka 0.14.0", "confluent-kafka 2.16.1", "kafka-python 3.0.12")

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_batch = pytest.mark.parametrize(
    ("client", "case"),
    [(c, k) for c in CLIENTS for k in CASES if (GOLDEN / c / f"{k.name}.bin").exists()],
    ids=lambda each: each.name if isinstance(each, Case) else each,
)


def golden(client: str, case: Case) -> bytes:
    return (GOLDEN / client / f"{case.name}.bin").read_bytes()


def ours(case: Case, **more: Any) -> bytes:
    keys, values, timestamps, headers = map(list, zip(*case.rows, strict=True))
    producer_id, producer_epoch, base_sequence = case.producer
    return encode_batch(
        values,
        keys=keys,
        headers=headers,
        timestamps=timestamps,
        compression=CODEC_NAMES[case.codec],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=case.transactional,
        **more,
    )


def codec_of(client: str, case: Case) -> int:
    """The batch's codec. librdkafka and kafka-python leave records that a codec does not make
    smaller uncompressed."""
    if not case.name.endswith("-random"):
        return case.codec
    codec = read_header(golden(client, case)).compression
    assert codec in (0, case.codec)
    return codec


def test_every_client_made_every_case() -> None:
    for client in CLIENTS:
        missing = {c.name for c in CASES} - {p.stem for p in (GOLDEN / client).glob("*.bin")}
        assert missing == ({"null-headers"} if client == "kafka_python" else set())


@every_batch
def test_header_of_a_foreign_batch(client: str, case: Case) -> None:
    batch = golden(client, case)
    header = check_batch(batch, max_message_bytes=len(batch))
    timestamps = [row[2] for row in case.rows]
    producer = case.producer
    if client == "confluent_kafka" and producer[0] >= 0:
        producer = (header.producer_id, 0, 0)  # the mock broker gave the id
        assert header.producer_id >= 0
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        partition_leader_epoch=header.partition_leader_epoch,
        magic=2,
        crc=header.crc,
        attributes=codec_of(client, case) | (0x10 if case.transactional else 0),
        last_offset_delta=len(case.rows) - 1,
        base_timestamp=timestamps[0],
        max_timestamp=max(timestamps),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        record_count=len(case.rows),
    )
    summary = check_records(batch, header, max_decompressed_bytes=1 << 20)
    assert (summary.min_timestamp, summary.max_timestamp) == (min(timestamps), max(timestamps))


@every_batch
def test_records_of_a_foreign_batch(client: str, case: Case) -> None:
    records = list(iter_records(golden(client, case), "t", 0))
    got = [(r.key, r.value, r.timestamp_ms, tuple(r.headers)) for r in records]
    assert got == list(case.rows)
    assert [r.offset for r in records] == list(range(len(case.rows)))


@every_batch
def test_columns_of_a_foreign_batch(client: str, case: Case) -> None:
    keys, values, timestamps, headers = map(list, zip(*case.rows, strict=True))
    if max(timestamps) * 1000 >= 1 << 63:
        pytest.skip("Arrow's microseconds end before these timestamps")
    columns = decode_to_arrow(golden(client, case), "t", 0, include_headers=True)
    columns.validate(full=True)
    assert columns["key"].to_pylist() == keys
    assert columns["value"].to_pylist() == values
    assert columns["timestamp"].cast("int64").to_pylist() == [1000 * t for t in timestamps]
    assert columns["headers"].to_pylist() == [
        [{"key": key, "value": value} for key, value in pairs] or None for pairs in headers
    ]


@every_batch
def test_our_bytes_are_the_same(client: str, case: Case) -> None:
    batch = golden(client, case)
    header = read_header(batch)
    same = ours(
        Case(case.name, case.rows, 0, header[9:12], case.transactional),
        leader_epoch=header.partition_leader_epoch,
    )
    if header.compression == 0:
        assert same == batch
    else:  # compressors differ; the records are equal, and all of the header but length and CRC
        assert read_header(same)._replace(batch_length=0, crc=0) == header._replace(
            batch_length=0, crc=0, attributes=header.attributes & ~7
        )


@every_case
def test_kafka_python_reads_ours(case: Case) -> None:
    if case.null_headers or case.codec == 2:
        pytest.skip("kafka-python cannot, or not without another library")
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


@every_case
def test_what_others_have_read_is_what_we_write(case: Case) -> None:
    """`read_ours.py` had the other clients read the files in `pylog/`, and wrote down which."""
    batch = golden("pylog", case)
    digest = hashlib.sha256(batch).hexdigest()
    for reader in READERS:
        read = json.loads((GOLDEN / "pylog" / "read_by.json").read_text())[reader]
        if reader.startswith("kafka-python") and case.null_headers:
            assert case.name not in read
        else:
            assert read[case.name] == digest
    header = read_header(batch)
    if case.codec == 0:
        assert ours(case) == batch
    else:  # another build of a codec may compress otherwise; the form stays
        assert read_header(ours(case))._replace(batch_length=0, crc=0) == header._replace(
            batch_length=0, crc=0
        )
    rows = [(r.key, r.value, r.timestamp_ms, tuple(r.headers)) for r in iter_records(batch, "t", 0)]
    assert rows == list(case.rows)


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
