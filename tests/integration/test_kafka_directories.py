"""Partitions that a real Apache Kafka wrote, served by a pylog broker to pylog's own consumer."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, errors
from pylog import TopicPartition as Tp
from pylog.client.ranges.range_reader import Batches, RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.model import Offset
from pylog.records.reader import iter_records
from pylog_broker.storage.checkpoints.checkpoints import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    encode_offsets,
)
from pylog_broker.storage.recovery.survey import PARTITION_METADATA
from tests.golden.kafka_dump import FOLDER, dump

pytestmark = [pytest.mark.integration, pytest.mark.slow]

KAFKAS = FOLDER / "clean"
TOPICS = sorted(path.name.removesuffix("-0") for path in KAFKAS.iterdir() if path.is_dir())
STARTS = {"deleted": 160}
EPOCH = 2
"""The last leader epoch in Kafka's logs: the leader that takes them over must have a later one."""

Row = tuple[int, int, str | None, str | None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    configs = {"compacted": {"cleanup.policy": "compact"}}
    with LocalCluster(1, data_dir=folder) as first:
        admin = AdminClient(bootstrap_servers=first.bootstrap_servers)
        admin.create_topics([NewTopic(name, 1, 1, config=configs.get(name, {})) for name in TOPICS])
        while min(epochs(admin)) <= EPOCH:
            admin.close()
            first.restart()
            admin = AdminClient(bootstrap_servers=first.bootstrap_servers)
        admin.close()
    data = folder / "broker-1"
    for topic in TOPICS:
        target = data / f"{topic}-0"
        topic_id = (target / PARTITION_METADATA).read_bytes()
        shutil.rmtree(target)
        shutil.copytree(KAFKAS / f"{topic}-0", target)
        (target / PARTITION_METADATA).write_bytes(topic_id)
    shutil.copy(KAFKAS / CLEANER_CHECKPOINT, data)
    starts = {Tp(topic, 0): Offset(start) for topic, start in STARTS.items()}
    (data / LOG_START_CHECKPOINT).write_bytes(encode_offsets(starts))
    config = {"log.retention.ms": "-1", "log.cleaner.enable": "false"}
    with LocalCluster(1, data_dir=folder, config=config) as again:
        yield again


def epochs(admin: AdminClient) -> list[int]:
    found = admin.describe_topics(TOPICS)
    return [partition.leader_epoch for topic in found.values() for partition in topic.partitions]


def shown(value: bytes | None) -> str | None:
    """A value as the dumps that are checked in show it."""
    if value is None or len(value) <= 80:
        return None if value is None else value.decode()
    return f"<{len(value)} bytes, sha256 {hashlib.sha256(value).hexdigest()[:16]}>"


def dumped(topic: str, *, markers: bool = False) -> list[Row]:
    found = dump(f"clean/{topic}-0")
    return [
        (record.offset, record.timestamp, record.key, record.value)
        for name in sorted(found.logs)
        for batch in found.logs[name]
        for record in batch.records
        if record.offset >= STARTS.get(topic, 0) and (markers or not batch.flag("isControl"))
    ]


def committed(topic: str) -> list[Row]:
    """Those of `dumped` whose transactions were committed, by the markers in the dump."""
    found = dump(f"clean/{topic}-0")
    stays: set[int] = set()
    open_: dict[int, list[int]] = {}
    for batch in (batch for name in sorted(found.logs) for batch in found.logs[name]):
        offsets = [record.offset for record in batch.records]
        if batch.flag("isControl"):
            ended = open_.pop(batch.number("producerId"), [])
            stays.update(ended if str(batch.records[0].marker) == "COMMIT" else ())
        elif batch.flag("isTransactional"):
            open_.setdefault(batch.number("producerId"), []).extend(offsets)
        else:
            stays.update(offsets)
    return [row for row in dumped(topic) if row[0] in stays]


def consumed(cluster: LocalCluster, topic: str, **config: str) -> list[Row]:
    partition = Tp(topic, 0)
    rows: list[Row] = []
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **config) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            rows += [
                (r.offset, r.timestamp_ms, r.key.decode() if r.key is not None else None,
                 shown(r.value))
                for r in consumer.poll(1.0)
            ]  # fmt: skip
    return rows


@pytest.mark.parametrize("topic", TOPICS)
def test_every_record_is_served(cluster: LocalCluster, topic: str) -> None:
    expected = dumped(topic)
    assert expected
    assert consumed(cluster, topic) == expected


def test_a_read_committed_consumer_sees_no_aborted_and_no_open_transaction(
    cluster: LocalCluster,
) -> None:
    partition, level = Tp("transactional", 0), {"isolation_level": "read_committed"}
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **level) as consumer:
        assert consumer.end_offsets([partition]) == {partition: 156}
    expected = committed("transactional")
    assert 0 < len(expected) < len(dumped("transactional")) - 2
    assert consumed(cluster, "transactional", **level) == expected


def test_a_read_committed_range_leaves_out_aborted_transactions(cluster: LocalCluster) -> None:
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "isolation_level": "read_committed",
        "default_api_timeout_ms": 5_000,
    }
    reader = RangeReader(CONSUMER_SETTINGS.parse(settings))
    try:
        topic_id = reader.topics(["transactional"])["transactional"].topic_id
        offsets = [
            record.offset
            for item in reader.read("transactional", topic_id, 0, 0, 156)
            if isinstance(item, Batches)
            for record in iter_records(item.data, "transactional", 0)
        ]
        assert offsets == [row[0] for row in committed("transactional")]
        with pytest.raises(errors.RequestTimedOut, match="last stable offset on, which is 156"):
            list(reader.read("transactional", topic_id, 0, 150, 158))
    finally:
        reader.close()


@pytest.mark.parametrize("topic", TOPICS)
def test_times_are_found(cluster: LocalCluster, topic: str) -> None:
    """The markers of transactions have times, too, in Kafka as here."""
    rows = dumped(topic, markers=True)
    partition = Tp(topic, 0)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        for wanted in sorted({row[1] + step for row in rows[::41] for step in (0, 1)}):
            expected = next((row[:2] for row in rows if row[1] >= wanted), None)
            found = consumer.offsets_for_times({partition: wanted})[partition]
            assert (found and (found.offset, found.timestamp_ms)) == expected


def test_the_log_goes_on(cluster: LocalCluster) -> None:
    """The last test: it appends."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for topic in ("plain", "idempotent", "deleted", "append-time"):
            last = max(dump(f"clean/{topic}-0").logs.items())[1][-1]
            told = producer.send(topic, b"more", partition=0).result(10)
            assert told.offset == last.number("lastOffset") + 1
