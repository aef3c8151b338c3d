"""`flush.messages` and `preallocate` on real brokers: acknowledged, synced, trimmed, read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition

pytestmark = pytest.mark.integration

SEGMENT_BYTES = 100_000
COUNT = 300
SETTINGS = {
    "flush.messages": "1",
    "preallocate": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "min.insync.replicas": "2",
}


def log_sizes(data: Path) -> list[list[int]]:
    """The sizes of the segment files of each replica of the topic, in order."""
    replicas = sorted(data.rglob("synced-0"))
    return [[file.stat().st_size for file in sorted(one.glob("*.log"))] for one in replicas]


def values(running: LocalCluster) -> list[bytes]:
    with Consumer(bootstrap_servers=running.bootstrap_servers) as consumer:
        consumer.assign([TopicPartition("synced", 0)])
        consumer.seek_to_beginning()
        found: list[bytes] = []
        while len(found) < COUNT:
            polled = consumer.poll(10)
            assert polled, f"only {len(found)} records came"
            found += [record.value or b"" for record in polled]
        return found


def test_synced_before_acknowledged_and_trimmed_by_a_clean_stop(tmp_path: Path) -> None:
    sent = [b"%05d" % number + b"x" * 995 for number in range(COUNT)]
    with LocalCluster(brokers=3, data_dir=tmp_path) as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("synced", 1, 3, config=SETTINGS)])
        with Producer(bootstrap_servers=running.bootstrap_servers, batch_size=4_000) as producer:
            for value in sent:
                producer.send("synced", value)
            producer.flush()
        assert values(running) == sent
        for sizes in log_sizes(tmp_path):
            assert sizes[-1] == SEGMENT_BYTES
            assert all(SEGMENT_BYTES - 6_000 < size < SEGMENT_BYTES for size in sizes[:-1])
            assert len(sizes) == 4
    for sizes in log_sizes(tmp_path):
        assert 0 < sizes[-1] < SEGMENT_BYTES
    with LocalCluster(brokers=3, data_dir=tmp_path) as running:
        assert values(running) == sent
