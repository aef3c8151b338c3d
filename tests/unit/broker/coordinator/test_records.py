"""The coordinators' records against those of Apache Kafka 4.2: the same bytes, the same values."""

from __future__ import annotations

import base64
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from pylog_broker import coordinator
from pylog_broker.coordinator.generated import group_metadata, offset_commit
from pylog_broker.kafka_primitives import MalformedMessage
from tests.fakes.coordinator_records import COORDINATOR_RECORDS, by_our_names, covers, snake

RECORDS = [json.loads(line) for line in COORDINATOR_RECORDS.read_text().splitlines()]


def module(record: str) -> Any:
    return importlib.import_module(f"pylog_broker.coordinator.generated.{snake(record)}")


def shown(value: Any) -> Any:
    """A field as Kafka's JSON has it."""
    if isinstance(value, bytes):
        if len(value) == 16:
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", None)
        return (
            [*map(shown, value)]
            if fields is None
            else {name: shown(getattr(value, name)) for name in fields}
        )
    return value


def test_every_record_that_kafka_writes_has_a_codec() -> None:
    folder = Path(coordinator.__file__).parent / "generated"
    ours = {path.stem for path in folder.glob("*.py")} - {"__init__"}

    pylogs_own = {"sink_decision", "sink_runs", "sink_task"}
    assert {snake(golden["record"]) for golden in RECORDS} | {
        "consumer_group_partition_metadata"
    } == ours - pylogs_own


@pytest.mark.parametrize(
    "golden", RECORDS, ids=[f"{r['record']}-{r['version']}-{n % 3}" for n, r in enumerate(RECORDS)]
)
def test_kafkas_bytes_are_read_and_written_alike(golden: dict[str, Any]) -> None:
    codec = module(golden["record"])
    key_bytes = bytes.fromhex(golden["key_bytes"])
    value_bytes = bytes.fromhex(golden["value_bytes"])

    key = codec.decode_key(memoryview(key_bytes))
    value = codec.decode_value(memoryview(value_bytes))

    assert golden["type"] == codec.TYPE
    assert covers(shown(key), by_our_names(golden["key"])), key
    assert covers(shown(value), by_our_names(golden["value"])), value
    assert codec.encode_key(key) == key_bytes
    assert codec.encode_value(value, golden["version"]) == value_bytes


@pytest.mark.parametrize("golden", RECORDS[::3], ids=lambda g: f"{g['record']}-{g['version']}")
def test_a_record_that_is_cut_short_is_refused_by_name(golden: dict[str, Any]) -> None:
    codec = module(golden["record"])
    for part in ("key", "value"):
        whole = bytes.fromhex(golden[f"{part}_bytes"])
        decode = getattr(codec, f"decode_{part}")
        for size in range(len(whole)):
            with pytest.raises(MalformedMessage):
                decode(memoryview(whole[:size]))
        with pytest.raises(MalformedMessage, match="too many"):
            decode(memoryview(whole + b"\0"))


def test_another_type_or_version_is_refused_by_name() -> None:
    key = group_metadata.encode_key(group_metadata.GroupMetadataKey("g"))
    with pytest.raises(MalformedMessage, match="OffsetCommitKey: type 2 is not known"):
        offset_commit.decode_key(memoryview(key))
    with pytest.raises(MalformedMessage, match="OffsetCommitValue: version 9 is not known"):
        offset_commit.decode_value(memoryview(b"\0\x09"))
