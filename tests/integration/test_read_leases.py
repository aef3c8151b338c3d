"""Read leases over real brokers: what they keep from retention, for how long, and how much."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from pylog.client.ranges.lease_holder import HeldRange, LeaseHolder
from pylog.client.ranges.range_reader import Batches, RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.clock import SYSTEM_CLOCK
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from pylog.records.batch import iter_headers
from pylog_connector.errors import DataLoss
from pylog_connector.options import source_options
from pylog_connector.source import BatchReader
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

RECORDS = 20
QUOTA = 30_000
LEASE_MS = 2_000
CONFIG = {
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "200",
    "read.lease.max.bytes": str(QUOTA),
    "read.lease.timeout.ms": str(LEASE_MS),
    "metrics.listen": "127.0.0.1:0",
}
NOTHING_STAYS = {"retention.bytes": "0", "segment.bytes": "2000", "file.delete.delay.ms": "0"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2, config=CONFIG) as running:
        yield running


@pytest.fixture
def reader(cluster: LocalCluster) -> Iterator[RangeReader]:
    reader = RangeReader(CONSUMER_SETTINGS.parse({"bootstrap_servers": cluster.bootstrap_servers}))
    yield reader
    reader.close()


class Topic:
    """A topic of one partition, which is held before it is given a retention that keeps nothing."""

    def __init__(
        self, cluster: LocalCluster, reader: RangeReader, name: str, *, records: int = RECORDS
    ) -> None:
        self.cluster = cluster
        self.reader = reader
        self.name = name
        self.at = TopicPartition(name, 0)
        self.records = records
        self.told: list[str] = []
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, 1, 2, config={"segment.bytes": "2000"})])
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            for number in range(records):
                producer.send(name, b"%d" % number * 500).result(10)
        self.topic_id = reader.topics([name])[name].topic_id

    @property
    def range(self) -> HeldRange:
        return HeldRange(self.name, self.topic_id, 0, 0, self.records)

    def hold(self, holder: str = "h") -> LeaseHolder:
        """Take a lease, and renew it."""
        held = self.reader.lease_holder(f"{self.name}-{holder}")
        leased = held.take([self.range], 5_000)
        assert (leased.timeout_ms, leased.refused, leased.failed) == (LEASE_MS, (), ())
        held.keep([self.range], LEASE_MS, self.told.append)
        return held

    def retain(self, **more: str) -> None:
        config = NOTHING_STAYS | more
        with AdminClient(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            admin.incremental_alter_configs({("topic", self.name): config})

    def start(self) -> int:
        return self.reader.offsets([self.at], EARLIEST_TIMESTAMP)[self.at].offset

    def is_gone(self) -> bool:
        return self.start() == self.records

    def read(self) -> list[int]:
        """The offsets of all that was written, read as a task reads them."""
        items = list(self.reader.read(self.name, self.topic_id, 0, 0, self.records))
        assert all(isinstance(item, Batches) for item in items)
        return [
            header.base_offset
            for item in items
            if isinstance(item, Batches)
            for _, header in iter_headers(item.data)
        ]


def retention_runs(cluster: LocalCluster, reader: RangeReader, name: str) -> None:
    """Wait until retention has looked at every log once more: a topic that nobody holds tells."""
    sentinel = Topic(cluster, reader, name, records=2)
    sentinel.retain()
    eventually(30, sentinel.is_gone, "retention takes what nobody holds")


def metric(cluster: LocalCluster, name: str) -> float:
    """Of all brokers together."""
    total = 0.0
    for who, url in cluster.metrics_urls.items():
        if who == "controller":
            continue
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name):
                    total += float(line.rpartition(" ")[2])
    return total


def test_what_is_held_is_read_whole_and_goes_when_it_is_let_go(
    cluster: LocalCluster, reader: RangeReader
) -> None:
    topic = Topic(cluster, reader, "held")
    holder = topic.hold()
    topic.retain()
    retention_runs(cluster, reader, "beside-held")
    assert topic.start() == 0
    assert topic.read() == [*range(RECORDS)]
    assert metric(cluster, "pylog_read_leases ") >= 2  # the follower's, too
    assert metric(cluster, "pylog_read_lease_kept_bytes ") > RECORDS * 500
    holder.let_go(5_000)
    eventually(30, topic.is_gone, "retention goes on")


def test_a_lease_ends_by_time_once_it_is_not_renewed(
    cluster: LocalCluster, reader: RangeReader
) -> None:
    topic = Topic(cluster, reader, "expiring")
    expired = 'pylog_read_leases_ended_total{reason="expired"}'
    before = metric(cluster, expired)
    holder = topic.hold()
    topic.retain()
    began_ms = SYSTEM_CLOCK.monotonic_ms()
    while SYSTEM_CLOCK.monotonic_ms() - began_ms < 2 * LEASE_MS:
        assert topic.start() == 0
    assert metric(cluster, expired) == before
    holder.close()
    eventually(30, topic.is_gone, "the lease expires")
    both = before + 2  # the leader's and the follower's
    eventually(30, lambda: metric(cluster, expired) == both, "both brokers count it")
    assert topic.told == []


def test_above_the_quota_the_oldest_lease_ends_by_name(
    cluster: LocalCluster, reader: RangeReader
) -> None:
    topic = Topic(cluster, reader, "costly", records=QUOTA // 500)
    holder = topic.hold()
    topic.retain()
    eventually(30, topic.is_gone, "nothing is kept")
    assert metric(cluster, 'pylog_read_leases_ended_total{reason="quota"}') >= 1
    eventually(30, lambda: bool(topic.told), "the holder is told")
    holder.close()
    said = "POLICY_VIOLATION: the read lease on costly-0 has ended: leases keep "
    assert topic.told[0].startswith(said)
    assert f"more than read.lease.max.bytes={QUOTA}" in topic.told[0]


def test_the_next_leader_keeps_what_is_held(cluster: LocalCluster, reader: RangeReader) -> None:
    topic = Topic(cluster, reader, "moving")
    holder = topic.hold()
    topic.retain()
    retention_runs(cluster, reader, "beside-moving")
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        leader = admin.describe_topics("moving")["moving"].partitions[0].leader
    cluster.kill(leader)
    assert topic.read() == [*range(RECORDS)]
    assert topic.start() == 0
    cluster.start(leader)
    holder.let_go(5_000)


def test_deleted_records_end_a_read_by_name(cluster: LocalCluster, reader: RangeReader) -> None:
    """Somebody asked for it: a read that was planned before is not told half of it."""
    topic = Topic(cluster, reader, "deleted")
    given = {
        "pylog.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "deleted",
        "startingOffsets": '{"deleted":{"0":0}}',
        "pylog.read.lease": "true",
    }
    batch = BatchReader(source_options(given, streaming=False), ("value",))
    (task,) = batch.partitions()
    latest = reader.offsets([topic.at], LATEST_TIMESTAMP)[topic.at].offset
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({("deleted", 0): latest - 2})
    with pytest.raises(
        DataLoss, match=r"deleted-0 was to be read from offset 0 to .* first offset"
    ):
        list(batch.read(task))
