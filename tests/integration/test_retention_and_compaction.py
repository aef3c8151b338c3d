"""Brokers' treatment of old records: retention, compaction, on real files, seen by a consumer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer
from pylog import TopicPartition as Tp
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

CONFIG = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2, config=CONFIG) as running:
        yield running


def create(cluster: LocalCluster, name: str, config: dict[str, str]) -> Tp:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1, 2, config=config)])
    return Tp(name, 0)


def read_all(cluster: LocalCluster, partition: Tp) -> list[tuple[int, bytes | None, bytes | None]]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        found = []
        while consumer.position(partition) < end:
            found += [(r.offset, r.key, r.value) for r in consumer.poll(1.0)]
        return found


def test_old_segments_go_on_every_replica(cluster: LocalCluster) -> None:
    config = {"retention.ms": "1000", "segment.bytes": "2000", "file.delete.delay.ms": "100"}
    partition = create(cluster, "short", config)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        for number in range(40):
            producer.send("short", b"%d" % number * 100).result(10)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:

        def starts() -> int:
            return consumer.beginning_offsets([partition])[partition]

        eventually(30, lambda: starts() == 40, "the log start moves")
        assert consumer.end_offsets([partition])[partition] == 40

    def files() -> int:
        sizes = 0
        for path in cluster.data_dir.glob("broker-*/short-0/*.log*"):
            with contextlib.suppress(FileNotFoundError):  # it goes meanwhile
                sizes += path.stat().st_size
        return sizes

    eventually(30, lambda: files() == 0, "old files go")
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert producer.send("short", b"new").result(10).offset == 40


def test_a_compacted_topic_keeps_the_last_value_of_each_key(cluster: LocalCluster) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "1024",
        "min.cleanable.dirty.ratio": "0.01",
        "file.delete.delay.ms": "100",
    }
    partition = create(cluster, "table", config)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        for round_ in range(30):
            for key in range(10):
                producer.send("table", b"%d" % round_, key=b"k%d" % key)
            producer.flush()
    eventually(30, lambda: len(read_all(cluster, partition)) < 150, "something is compacted")
    before = read_all(cluster, partition)
    assert [offset for offset, _, _ in before] == sorted(offset for offset, _, _ in before)
    assert {k: v for _, k, v in before} == {b"k%d" % key: b"29" for key in range(10)}
    cluster.kill(1)
    cluster.start(1)
    cluster.restart()
    after = read_all(cluster, partition)
    assert {k: v for _, k, v in after} == {b"k%d" % key: b"29" for key in range(10)}
