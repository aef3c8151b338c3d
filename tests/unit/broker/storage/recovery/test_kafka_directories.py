"""Files that a real Apache Kafka wrote, against what its own dump tool says of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pylog.model import LeaderEpoch, Offset, TimestampType, TopicPartition
from pylog.records.batch import BatchHeader, CompressionType, crc_matches, iter_headers
from pylog.records.builder import ControlType, read_control
from pylog.records.columnar import decode_to_arrow
from pylog.records.reader import first_record_at_or_after, iter_records
from pylog.records.record import Record
from pylog_broker.storage.checkpoints.checkpoints import read_epochs, read_offsets
from pylog_broker.storage.directories.partition_directories import read_topic_id
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.indexes.offset_index import OffsetIndex
from pylog_broker.storage.indexes.time_index import TimeIndex
from pylog_broker.storage.indexes.txn_index import AbortedTransaction, decode_entries
from pylog_broker.storage.producers.producer_snapshot import SnapshotRow, decode_snapshot
from tests.golden.kafka_dump import FOLDER, DumpedBatch, DumpedRecord, dump

DIRECTORIES = [
    *sorted(f"clean/{path.name}" for path in (FOLDER / "clean").iterdir() if path.is_dir()),
    "recovered/unclean-0",
]
every_directory = pytest.mark.parametrize("directory", DIRECTORIES)


def content(directory: str, suffix: str) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((FOLDER / directory).glob(f"*{suffix}"))}


def base(name: str) -> int:
    return int(name.partition(".")[0])


def headers_of(log: bytes) -> list[tuple[int, BatchHeader]]:
    found = list(iter_headers(log))
    assert sum(header.size for _, header in found) == len(log)
    return found


@every_directory
def test_batches(directory: str) -> None:
    logs = content(directory, ".log")
    assert set(logs) == set(dump(directory).logs)
    for name, log in logs.items():
        batches = headers_of(log)
        dumped = dump(directory).logs[name]
        for (position, header), expected in zip(batches, dumped, strict=True):
            assert crc_matches(log, position, header)
            _check_header(position, header, expected)


def _check_header(position: int, header: BatchHeader, expected: DumpedBatch) -> None:
    number = expected.number
    assert expected.flag("isvalid")
    assert position == number("position")
    assert (header.base_offset, header.last_offset) == (number("baseOffset"), number("lastOffset"))
    assert (header.record_count, header.size) == (number("count"), number("size"))
    assert (header.producer_id, header.producer_epoch) == (
        number("producerId"), number("producerEpoch"),
    )  # fmt: skip
    assert (header.base_sequence, header.last_sequence) == (
        number("baseSequence"), number("lastSequence"),
    )  # fmt: skip
    assert header.partition_leader_epoch == number("partitionLeaderEpoch")
    assert header.is_transactional == expected.flag("isTransactional")
    assert header.is_control == expected.flag("isControl")
    assert (header.magic, header.crc) == (number("magic"), number("crc"))
    codec = CompressionType(header.compression).name.lower()
    assert codec == expected.fields["compresscodec"]
    stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == number("LogAppendTime" if stamped else "CreateTime")


@every_directory
def test_records(directory: str) -> None:
    for name, log in content(directory, ".log").items():
        records = list(iter_records(log, "t", 0, include_control=True))
        dumped = [(batch, r) for batch in dump(directory).logs[name] for r in batch.records]
        for record, (batch, expected) in zip(records, dumped, strict=True):
            _check_record(record, expected, control=batch.flag("isControl"))


def _check_record(record: Record, expected: DumpedRecord, *, control: bool) -> None:
    assert (record.offset, record.timestamp_ms) == (expected.offset, expected.timestamp)
    assert (len(record.key) if record.key is not None else -1) == expected.key_size
    assert (len(record.value) if record.value is not None else -1) == expected.value_size
    assert tuple(key for key, _ in record.headers) == expected.header_keys
    if control:
        kind, _coordinator_epoch = read_control(record.key, record.value)
        assert kind is ControlType[str(expected.marker)]
    else:
        assert record.key == (None if expected.key is None else expected.key.encode())
        assert _shown(record.value) == expected.value


def _shown(value: bytes | None) -> str | None:
    """A value as the dumps that are checked in show it."""
    if value is None or len(value) <= 80:
        return None if value is None else value.decode()
    return f"<{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()[:16]}>"


@every_directory
def test_columns(directory: str) -> None:
    for name, log in content(directory, ".log").items():
        columns = decode_to_arrow(log, "t", 0, include_headers=True)
        columns.validate(full=True)
        dumped = [
            record
            for batch in dump(directory).logs[name]
            for record in batch.records
            if not batch.flag("isControl")
        ]
        assert columns["offset"].to_pylist() == [record.offset for record in dumped]
        assert [_shown(value) for value in columns["value"].to_pylist()] == [
            record.value for record in dumped
        ]
        stamps = columns["timestamp"].cast("int64").to_pylist()
        assert stamps == [1000 * record.timestamp for record in dumped]


@every_directory
def test_indexes(directory: str) -> None:
    logs = content(directory, ".log")
    for name, data in content(directory, ".index").items():
        log = logs[name.replace(".index", ".log")]
        index = OffsetIndex.decode(base(name), data, len(log))
        rows = dump(directory).rows[name]
        assert len(index) == len(rows)
        assert index.encode() == data
        positions = {position: header for position, header in headers_of(log)}
        for row in rows:
            offset, position = int(row["offset"]), int(row["position"])
            assert index.lookup(Offset(offset)) == position
            assert positions[position].last_offset == offset
    for name, data in content(directory, ".timeindex").items():
        log = logs[name.replace(".timeindex", ".log")]
        end = headers_of(log)[-1][1].next_offset
        times = TimeIndex.decode(base(name), data, end)
        rows = dump(directory).rows[name]
        assert len(times) == len(rows)
        assert times.encode() == data
        by_end = {header.last_offset: header for _, header in headers_of(log)}
        for row in rows:
            # Kafka's entry names the last record of the batch that brought the timestamp.
            timestamp, offset = int(row["timestamp"]), int(row["offset"])
            assert by_end[offset].max_timestamp == timestamp
            if by_end[offset].record_count:
                first = first_record_at_or_after(log, timestamp)
                assert first is not None
                assert by_end[offset].base_offset <= first[0] <= offset


@every_directory
def test_aborted_transactions(directory: str) -> None:
    for name, data in content(directory, ".txnindex").items():
        assert decode_entries(data, base(name)) == [
            AbortedTransaction(
                int(row["producerId"]),
                int(row["firstOffset"]),
                int(row["lastOffset"]),
                int(row["lastStableOffset"]),
            )
            for row in dump(directory).rows[name]
        ]


@every_directory
def test_producer_snapshots(directory: str) -> None:
    for name, data in content(directory, ".snapshot").items():
        assert decode_snapshot(data) == [_row(row) for row in dump(directory).rows[name]]


def _row(row: dict[str, str]) -> SnapshotRow:
    start = row["currentTxnFirstOffset"]
    return SnapshotRow(
        producer_id=int(row["producerId"]),
        producer_epoch=int(row["producerEpoch"]),
        last_sequence=int(row.get("lastSequence", -1)),
        last_offset=int(row.get("lastOffset", -1)),
        offset_delta=int(row.get("offsetDelta", 0)),
        timestamp=int(row["lastTimestamp"]),
        coordinator_epoch=int(row["coordinatorEpoch"]),
        transaction_start=-1 if start.endswith("empty") else int(start[len("OptionalLong[") : -1]),
    )


def test_every_kind_of_batch_is_there() -> None:
    batches = [b for d in DIRECTORIES for log in dump(d).logs.values() for b in log]
    assert {b.fields["compresscodec"] for b in batches} == {
        "none", "gzip", "snappy", "lz4", "zstd",
    }  # fmt: skip
    markers = {r.marker for b in batches for r in b.records}
    assert markers == {None, "COMMIT", "ABORT"}
    assert any(b.fields["count"] == "0" for b in batches)  # a producer's last, emptied by cleaning
    assert any("OptionalLong[" in b.fields["deleteHorizonMs"] for b in batches)
    assert any("LogAppendTime" in b.fields for b in batches)
    snapshots = [row for d in DIRECTORIES for rows in dump(d).rows.values() for row in rows]
    assert any("OptionalLong[" in row.get("currentTxnFirstOffset", "") for row in snapshots)


@pytest.mark.parametrize("folder", ["clean", "unclean", "recovered"])
def test_checkpoints_of_a_broker_directory(folder: str) -> None:
    files, path = OsFiles(), str(FOLDER / folder)
    ends = {
        TopicPartition(name.rpartition("-")[0], 0): dumped_end(f"{folder}/{name}")
        for name in partitions(FOLDER / folder)
        if folder != "unclean"
    }
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        offsets = read_offsets(files, f"{path}/{name}")
        assert {tp: offsets[tp] for tp in ends} == ends
    assert read_offsets(files, f"{path}/log-start-offset-checkpoint") == {
        TopicPartition("deleted", 0): 160
    }
    cleaned = read_offsets(files, f"{path}/cleaner-offset-checkpoint")
    assert list(cleaned) == [TopicPartition("compacted", 0)]


def partitions(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_dir()]


def dumped_end(directory: str) -> int:
    last = max(dump(directory).logs.items())[1][-1]
    return last.number("lastOffset") + 1


@every_directory
def test_epochs_and_topic_ids(directory: str) -> None:
    files, path = OsFiles(), f"{FOLDER / directory}"
    entries = read_epochs(files, f"{path}/leader-epoch-checkpoint")
    epochs = {entry.epoch: entry.start_offset for entry in entries}
    assert list(epochs) == sorted(epochs)
    for log in dump(directory).logs.values():
        for batch in log:
            epoch = LeaderEpoch(batch.number("partitionLeaderEpoch"))
            # Deleting records moves the first epoch's start into a batch.
            assert epochs[epoch] <= max(batch.number("baseOffset"), entries[0].start_offset)
    text = (FOLDER / directory / "partition.metadata").read_text()
    assert str(read_topic_id(files, path)) in text


def test_a_cut_batch_ends_the_log() -> None:
    """Our recovery keeps the same bytes as Kafka's own."""
    for name, log in content("unclean/unclean-0", ".log").items():
        kept = content("recovered/unclean-0", ".log")[name]
        assert log.startswith(kept)
        whole = [p + h.size for p, h in iter_headers(log) if crc_matches(log, p, h)]
        assert whole[-1] == len(kept)
