"""Let other clients read the batches in `pylog/`, and write down which in `pylog/read_by.json`.

    SCRATCH/bin/python -m tests.golden.read_ours

with the packages that `make_clients.py` names. Each file is read by kafka-python's and aiokafka's
own decoders, and by a confluent-kafka consumer from a mock broker that got the bytes as they are.
The script writes down the digest of a file whose every record came out as `client_cases.py` has it;
anything else stops it. After a change of what pylog writes: `make_ours.py`, then this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from confluent_kafka import Consumer, TopicPartition
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from tests.golden.client_cases import CASES, Case, Row
from tests.golden.mock_cluster import MockCluster

FOLDER = Path(__file__).parent / "pylog"


def decoded(records_type: Any, batch: bytes) -> list[Row]:
    """The rows by kafka-python or by aiokafka, its relative; the CRC is checked."""
    records = records_type(batch)
    found = records.next_batch()
    assert found.validate_crc()
    rows = [(r.key, r.value, r.timestamp, tuple(r.headers)) for r in found]
    assert not records.has_next()
    return rows


def consumed(cluster: MockCluster, case: Case, batch: bytes) -> list[Row]:
    """The rows by a librdkafka consumer, which checks CRCs."""
    topic = f"ours-{case.name}"
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.address,
            "group.id": "reader",
            "check.crcs": True,
            "log_level": 3,
        }
    )
    cluster.produce(topic, batch)
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: list[Row] = []
    while len(rows) < len(case.rows):
        message = consumer.poll(10)
        assert message is not None, f"{case.name}: {len(rows)} of {len(case.rows)} records"
        assert message.error() is None, message.error()
        headers = tuple((name, value) for name, value in message.headers() or ())
        rows.append((message.key(), message.value(), message.timestamp()[1], headers))
    consumer.close()
    return rows


def main() -> None:
    """Read every case by every client that can."""
    cluster = MockCluster()
    read_by: dict[str, dict[str, str]] = {}
    for case in CASES:
        batch = (FOLDER / f"{case.name}.bin").read_bytes()
        readers: dict[str, Callable[[], list[Row]]] = {
            "aiokafka": lambda batch=batch: decoded(AiokafkaRecords, batch),
            "confluent-kafka": lambda case=case, batch=batch: consumed(cluster, case, batch),
        }
        if not case.null_headers:
            readers["kafka-python"] = lambda batch=batch: decoded(KafkaPythonRecords, batch)
        for package, read in readers.items():
            rows = read()
            assert rows == list(case.rows), (package, case.name)
            name = f"{package} {version(package)}"
            read_by.setdefault(name, {})[case.name] = hashlib.sha256(batch).hexdigest()
    text = json.dumps(read_by, indent=1, sort_keys=True)
    (FOLDER / "read_by.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
