"""`pylog dump` of files that pylog and Apache Kafka wrote, and of damaged ones."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pylog.cli.context import Settings
from pylog.cli.main import main
from pylog.model import ControllerEpoch, LeaderEpoch, Offset, ProducerId
from pylog.records.builder import encode_batch
from pylog_broker.config import TopicConfig
from pylog_broker.controller import metadata_batches
from pylog_broker.controller.effects import AppendRecords
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.coordinator.transactions.sink_messages import (
    BeginTask,
    DecideBatch,
    SinkKey,
    WrittenRange,
)
from pylog_broker.dump.command import dump
from pylog_broker.metadata.records import ClusterRecord, ControllerEpochRecord
from pylog_broker.storage.directories.partition_directories import CLOCK_CHECKPOINT
from pylog_broker.storage.directories.roster import ROSTER, Roster, write_roster
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.log import Log
from tests.fakes.coordinator_records import COORDINATOR_RECORDS, by_our_names, covers
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, batch_of
from tests.fakes.transaction_shard import TransactionShard
from tests.golden.kafka_dump import FOLDER
from tests.golden.kafka_dump import dump as kafkas_dump

KAFKA_DIRECTORIES = sorted(path for path in (FOLDER / "clean").iterdir() if path.is_dir())


def run(*arguments: str | Path, as_json: bool = False) -> Result:
    settings = Settings("nowhere:1", as_json, 1.0)
    return CliRunner().invoke(
        dump, [str(argument) for argument in arguments], obj=settings, standalone_mode=False
    )


def lines(*arguments: str | Path) -> list[dict[str, Any]]:
    result = run(*arguments, "--json")
    assert result.return_value == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition that was closed in order: three batches in two segments."""
    path = tmp_path / "t-0"
    config = TopicConfig(index_interval_bytes=0)
    log = Log.open(OsFiles(), str(path), TOPIC, TOPIC_ID, config, wall_ms=WALL_MS)
    batch = encode_batch(
        [b"one", None, b"\xff\xfe"],
        keys=[b"a", b"b", None],
        headers=[[("h", b"1"), ("n", None)], [], []],
        timestamps=[WALL_MS, WALL_MS + 1, WALL_MS + 2],
    )
    log.append_as_leader(batch, leader_epoch=LeaderEpoch(4), wall_ms=WALL_MS)
    with_producer = batch_of(b"two", producer=(9, 1, 0), timestamps=WALL_MS + 9)
    log.append_as_leader(with_producer, leader_epoch=LeaderEpoch(4), wall_ms=WALL_MS)
    log.roll(WALL_MS)
    log.append_as_leader(batch_of(b"3"), leader_epoch=LeaderEpoch(5), wall_ms=WALL_MS)
    log.close(clean=True)
    return path


def test_records_of_a_log(folder: Path) -> None:
    found = lines(folder / f"{0:020d}.log")
    assert found == [
        {
            "offset": 0,
            "key": "a",
            "value": "one",
            "timestamp": WALL_MS,
            "headers": [["h", "1"], ["n", None]],
        },
        {"offset": 1, "key": "b", "value": None, "timestamp": WALL_MS + 1, "headers": []},
        {
            "offset": 2,
            "key": None,
            "value": {"base64": "//4="},
            "timestamp": WALL_MS + 2,
            "headers": [],
        },
        {
            "offset": 3,
            "key": None,
            "value": "two",
            "timestamp": WALL_MS + 9,
            "headers": [],
            "producer_id": 9,
            "sequence": 0,
        },
    ]
    batches = lines(folder / f"{0:020d}.log", "--batches-only")
    assert [(b["base_offset"], b["last_offset"], b["leader_epoch"]) for b in batches] == [
        (0, 2, 4),
        (3, 3, 4),
    ]


def test_records_of_coordinators(tmp_path: Path) -> None:
    """As Kafka 4.2 writes them, a tombstone, and one of a type that is not known here."""
    golden = [json.loads(line) for line in COORDINATOR_RECORDS.read_text().splitlines()]
    topics = {
        "__consumer_offsets-7": "ConsumerGroupTargetAssignmentMember",
        "__transaction_state-0": "TransactionLog",
        "__share_group_state-49": "ShareSnapshot",
    }
    for directory, kind in topics.items():
        written = [each for each in golden if each["record"] == kind]
        keys = [bytes.fromhex(each["key_bytes"]) for each in written]
        values = [bytes.fromhex(each["value_bytes"]) for each in written]
        folder = tmp_path / directory
        folder.mkdir()
        (folder / f"{0:020d}.log").write_bytes(
            encode_batch(
                [*values, None, b"later"],
                keys=[*keys, keys[0], b"\x7f\xffnew"],
                timestamps=[WALL_MS] * (len(keys) + 2),
            )
        )
        found = lines(folder / f"{0:020d}.log")
        assert {row["type"] for row in found[:-1]} == {kind}
        *whole, tombstone, unknown = found
        assert [row["key"] for row in whole] == [by_our_names(each["key"]) for each in written]
        assert all(
            covers(row["value"], by_our_names(each["value"]))
            for row, each in zip(whole, written, strict=True)
        )
        assert tombstone == {**whole[0], "offset": len(written), "value": None}
        assert (unknown["type"], unknown["value"]) == ("unknown", "later")


def test_records_of_sinks(tmp_path: Path) -> None:
    shard = TransactionShard()
    key = SinkKey("8f3b", "topic/orders")
    begins = BeginTask(key, "run-1", 3, 5, 9)
    shard.ask(lambda c, r: c.sinks.begin(WALL_MS, r, begins, ProducerId(7)))
    decides = DecideBatch(key, "run-1", 3, (), 11, -1, "d", (WrittenRange("t", 1, 4, 6),), 1000)
    shard.ask(lambda c, r: c.sinks.decide(WALL_MS, r, decides))
    folder = tmp_path / "__transaction_state-0"
    folder.mkdir()
    keys, values = zip(*shard.log, strict=True)
    batch = encode_batch(values, keys=keys, timestamps=[WALL_MS] * len(keys))
    (folder / f"{0:020d}.log").write_bytes(batch)
    rows = lines(folder / f"{0:020d}.log")
    sink = {"query_id": "8f3b", "sink_id": "topic/orders"}
    member = {"transactional_id": "__sink/8f3b/topic/orders/0"}
    of_sinks = {row["type"]: row for row in rows if row["type"] != "TransactionLog"}
    assert set(of_sinks) == {"SinkRuns", "SinkDecision", "SinkTask"}
    assert of_sinks["SinkRuns"]["key"] == sink
    runs = {"first_number": 0, "run_ids": ["run-1"], "ended_ms": -1}
    assert of_sinks["SinkRuns"]["value"] == runs
    decision = of_sinks["SinkDecision"]
    assert decision["key"] == sink
    assert (decision["value"]["batch_id"], decision["value"]["members"]) == (3, [])
    written = {"partition": 1, "first_offset": 4, "last_offset": 6}
    assert decision["value"]["receipt"] == [{"topic": "t", "partitions": [written]}]
    first = next(row for row in rows if row["type"] == "SinkTask")
    assert first["key"] == member
    numbers = [first["value"][name] for name in ("batch_id", "task", "attempt")]
    assert numbers == [3, 5, 9]


def test_a_coordinators_record_that_is_cut_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    file = folder / f"{0:020d}.log"
    file.write_bytes(encode_batch([b"x"], keys=[b"\0\1\0"], timestamps=[WALL_MS]))
    result = run(file)
    assert result.return_value == 1
    assert "the coordinator's record at offset 0: " in result.stderr


def test_an_output_that_takes_few_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(batch_of("\u043a\U0001f600".encode(), base_offset=0))
    for more in ([], ["--json"]):
        out = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="latin-1"))
        assert main([*more, "dump", str(file)]) == 0
        shown = out.getvalue().decode("ascii")
        if more:
            assert json.loads(shown)["value"] == "\u043a\U0001f600"
        else:
            assert r"value: \u043a\U0001f600" in shown


def test_indexes_snapshots_and_checkpoints(folder: Path) -> None:
    first = folder / f"{0:020d}.log"
    position = lines(first, "--batches-only")[1]["position"]
    assert lines(first.with_suffix(".index")) == [{"offset": 3, "position": position}]
    assert lines(first.with_suffix(".timeindex")) == [{"timestamp": WALL_MS + 9, "offset": 3}]
    (producer,) = lines(folder / f"{4:020d}.snapshot")
    assert (producer["producer_id"], producer["producer_epoch"]) == (9, 1)
    assert (producer["last_sequence"], producer["last_offset"]) == (0, 3)
    (kept,) = lines(folder / f"{4:020d}.producers")
    assert len(kept["batches"]) == 1
    assert lines(folder / "leader-epoch-checkpoint") == [
        {"epoch": 4, "start_offset": 0},
        {"epoch": 5, "start_offset": 4},
    ]


def test_a_directory_names_the_file_of_each_line(folder: Path) -> None:
    found = lines(folder)
    assert {Path(line["file"]).parent for line in found} == {folder}
    assert sum("key" in line for line in found) == 5
    text = run(folder).output
    assert f"{folder / f'{0:020d}.log'}:" in text
    assert "offset: 0  key: a  value: one" in text


@pytest.mark.parametrize("damage", ["cut", "flip", "noise"])
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot", ".producers"])
def test_damage_is_named_and_shows_in_the_status(folder: Path, suffix: str, damage: str) -> None:
    name = f"{4 if suffix in ('.snapshot', '.producers') else 0:020d}{suffix}"
    path = folder / name
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[-3:]
    elif damage == "flip":
        data[len(data) // 2] ^= 0x55
    else:
        data += b"\x01junk"
    path.write_bytes(data)
    for extra in ((), ("--json",)):
        result = run(path, *extra)
        assert result.return_value == 1
        assert name in result.stderr


def test_a_log_with_a_broken_first_batch_is_not_called_empty(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / f"{0:020d}.log"
    path.write_bytes(b"noise" * 20)
    assert main(["dump", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == f"{path}:\n"
    assert err.startswith(f"pylog: {path}: no batch at position 0: ")


def test_an_error_is_an_object_for_machines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / f"{0:020d}.log"
    path.write_bytes(b"noise" * 20)
    assert main(["dump", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().err)
    assert (told["error"], told["file"]) == ("BadFile", str(path))
    assert told["message"].startswith("no batch at position 0: ")


def test_the_text_of_processes_is_no_segment(folder: Path) -> None:
    logs = folder.parent / "logs"
    logs.mkdir()
    (logs / "broker-1.log").write_text("2026-01-01 INFO it starts\n")
    (logs / "broker-1.log.1").write_text("2026-01-01 INFO it starts\n")
    result = run(folder.parent)
    assert (result.return_value, result.stderr) == (0, "")
    assert "broker-1" not in result.stdout
    assert run(logs / "broker-1.log").return_value == 1


def test_the_zeros_of_a_preallocated_segment_are_no_damage(folder: Path) -> None:
    path = folder / f"{0:020d}.log"
    before = lines(path)
    with path.open("ab") as file:
        file.write(bytes(5000))
    assert lines(path) == before
    assert run(path).return_value == 0


def test_a_segment_as_a_whole(folder: Path) -> None:
    """F-S06: all that a segment is, as far as it stands on the disk."""
    first, second = lines(folder, "--segments")
    size = (folder / f"{0:020d}.log").stat().st_size
    last = lines(folder / f"{0:020d}.log", "--batches-only")[-1]
    assert first == {
        "file": str(folder / f"{0:020d}.log"),
        "base_offset": 0,
        "next_offset": 4,
        "batches": 2,
        "records": 4,
        "bytes": size,
        "first_timestamp": WALL_MS + 2,
        "max_timestamp": WALL_MS + 9,
        "max_timestamp_offset": 3,
        "index_entries": 1,
        "time_index_entries": 1,
        "aborted_transactions": 0,
        "bytes_since_index_entry": last["size"],
    }
    assert (second["base_offset"], second["next_offset"], second["index_entries"]) == (4, 5, 0)
    with (folder / f"{0:020d}.log").open("r+b") as file:
        file.truncate(size - 1)
    result = run(folder, "--segments")
    assert result.return_value == 1
    assert "next_offset: 3" in result.stdout
    assert "the batch at position" in result.output


def test_kafkas_segments_as_a_whole() -> None:
    found = lines(FOLDER / "clean" / "transactional-0", "--segments")
    assert [(row["base_offset"], row["next_offset"]) for row in found] == [
        (0, 11), (11, 141), (141, 158),
    ]  # fmt: skip
    assert [row["aborted_transactions"] for row in found] == [0, 11, 2]


def test_a_reader_that_has_seen_enough_is_no_damage(folder: Path) -> None:
    command = [sys.executable, "-m", "pylog.cli.main", "dump", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""


def test_a_file_that_goes_meanwhile_is_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / f"{9:020d}.log.deleted").symlink_to(folder / "gone")
    monkeypatch.setattr(Path, "is_file", lambda self: True)
    assert run(folder).return_value == 0


def test_what_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert run(tmp_path / "notes.txt").return_value == 1
    assert run(tmp_path).return_value == 0
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n7\n")
    assert run(tmp_path).return_value == 1


def test_the_metadata_log_and_its_snapshot(tmp_path: Path) -> None:
    directory = tmp_path / "controller"
    log = MetadataLog.open(OsFiles(), str(directory), wall_ms=WALL_MS)
    record = AppendRecords(Offset(0), (ClusterRecord("the-cluster"),))
    log.append(record, epoch=LeaderEpoch(1), wall_ms=WALL_MS)
    log.flush()
    log.close()
    (record,) = lines(directory / "__cluster_metadata-0" / f"{0:020d}.log")
    assert (record["offset"], record["type"]) == (0, "Cluster")
    assert record["record"]["cluster_id"] == "the-cluster"
    assert run(directory).return_value == 0


def test_the_parts_of_a_large_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_batches, "BATCH_RECORDS_MAX", 2)
    directory = tmp_path / "controller"
    log = MetadataLog.open(OsFiles(), str(directory), wall_ms=WALL_MS)
    epochs = tuple(ControllerEpochRecord(ControllerEpoch(number)) for number in range(5))
    log.append(AppendRecords(Offset(0), epochs), epoch=LeaderEpoch(1), wall_ms=WALL_MS)
    log.append(AppendRecords(Offset(5), epochs[:1]), epoch=LeaderEpoch(1), wall_ms=WALL_MS)
    log.flush()
    log.close()
    found = lines(directory / "__cluster_metadata-0" / f"{0:020d}.log")
    assert [row.get("part") for row in found] == ["1/3", "1/3", "2/3", "2/3", "3/3", None]


@pytest.mark.parametrize("directory", KAFKA_DIRECTORIES, ids=lambda path: path.name)
def test_it_says_of_kafkas_files_what_kafkas_own_tool_says(directory: Path) -> None:
    theirs = kafkas_dump(f"clean/{directory.name}")
    for name, batches in theirs.logs.items():
        expected = [
            (record.offset, record.timestamp, record.marker)
            for batch in batches
            for record in batch.records
        ]
        found = lines(directory / name)
        assert [(r["offset"], r["timestamp"], r.get("control")) for r in found] == expected
    for name, rows in theirs.rows.items():
        if name.endswith((".index", ".snapshot", ".txnindex")):
            mine = lines(directory / name)
            if name.endswith(".index") and rows == [{"offset": "0", "position": "0"}]:
                continue  # how the tool shows an empty one
            assert len(mine) == len(rows), name


def test_kafkas_whole_directory(tmp_path: Path) -> None:
    shutil.copytree(FOLDER / "clean", tmp_path / "clean")
    assert run(tmp_path / "clean", as_json=True).return_value == 0


def test_what_a_broker_knew_of_the_clocks(tmp_path: Path) -> None:
    path = tmp_path / CLOCK_CHECKPOINT
    path.write_text("0\nthe-boot\n5 1700000000000 86400000 3\n")
    (found,) = lines(path)
    assert list(found.values()) == [
        "the-boot",
        5,
        1_700_000_000_000,
        [{"by_ms": 86_400_000, "at_ms": 3}],
    ]
    path.write_text("0\n0\n")
    result = run(path)
    assert (result.return_value, "no checkpoint of the clocks" in result.output) == (1, True)


def test_the_list_of_log_directories(tmp_path: Path) -> None:
    write_roster(
        OsFiles(),
        str(tmp_path),
        Roster(3, {"/b/broker-1": "id-b", "/a/broker-1": "id-a"}, frozenset({"/b/broker-1"})),
    )
    assert lines(tmp_path / ROSTER) == [
        {"generation": 3, "path": "/a/broker-1", "directory_id": "id-a", "doubtful": False},
        {"generation": 3, "path": "/b/broker-1", "directory_id": "id-b", "doubtful": True},
    ]
    (tmp_path / ROSTER).write_text("{}")
    result = run(tmp_path / ROSTER)
    assert result.return_value == 1
    assert "no list of log directories" in result.output
