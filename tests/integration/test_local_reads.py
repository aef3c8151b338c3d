"""Reads of brokers' files over real brokers: the same records as over the network, whatever happens
meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from pylog.client.ranges import local_files, range_fetcher
from pylog.client.ranges.range_reader import Batches, RangeReader, Skipped
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.model import LATEST_TIMESTAMP, TopicPartition
from pylog.records.reader import iter_records
from tests.fakes.waiting import eventually
from tests.integration.test_metrics import scrape, value
from tests.integration.test_range_splits import write

pytestmark = pytest.mark.integration

Row = tuple[int, bytes | None, bytes | None]
SMALL = {"segment.bytes": "14000", "index.interval.bytes": "500"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2, config={"metrics.listen": "127.0.0.1:0"}) as running:
        yield running


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are worth it, too."""
    monkeypatch.setattr(range_fetcher, "LOCAL_BYTES_MIN", 1)


def reader(cluster: LocalCluster, *, local: bool, **settings: object) -> RangeReader:
    given = {"bootstrap_servers": cluster.bootstrap_servers, **settings}
    return RangeReader(CONSUMER_SETTINGS.parse(given), local_reads=local)


def ends(reads: RangeReader, topic: str, partitions: int) -> dict[TopicPartition, int]:
    reads.topics([topic])
    places = [TopicPartition(topic, p) for p in range(partitions)]
    return {at: found.offset for at, found in reads.offsets(places, LATEST_TIMESTAMP).items()}


def rows(reads: RangeReader, at: TopicPartition, start: int, end: int) -> list[Row]:
    found: list[Row] = []
    for item in reads.read(at.topic, "", at.partition, start, end):
        assert isinstance(item, Batches)
        found += [
            (record.offset, record.key, record.value)
            for record in iter_records(item.data, at.topic, at.partition, from_offset=start)
            if record.offset < end
        ]
        start = max(start, found[-1][0] + 1) if found else start
    return found


def topic(cluster: LocalCluster, name: str, partitions: int, **configs: str) -> AdminClient:
    admin = AdminClient(bootstrap_servers=cluster.bootstrap_servers)
    admin.create_topics([NewTopic(name, partitions, 2, config=configs)])
    return admin


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_the_same_records_as_over_the_network(
    cluster: LocalCluster, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "BLOCK_BYTES", 5_000)
    name = f"same-{isolation}"
    topic(cluster, name, 3, **SMALL).close()
    write(cluster, name, random.Random(7))
    network = reader(cluster, local=False, isolation_level=isolation)
    local = reader(cluster, local=True, isolation_level=isolation)
    rng = random.Random(8)
    for at, end in ends(network, name, 3).items():
        assert end > 100
        ends(local, name, 3)
        for start, stop in [(0, end), (rng.randrange(end), end), (0, rng.randrange(1, end))]:
            wanted = rows(network, at, start, stop)
            assert rows(local, at, start, stop) == wanted
    assert local.local_reads is not None
    assert local.local_reads.fallbacks == {}
    assert local.local_reads.bytes_read > 50_000
    assert local._lines._idle == {}  # nothing was fetched
    network.close()
    local.close()


def test_a_leader_that_dies_in_the_middle(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "BLOCK_BYTES", 5_000)
    admin = topic(cluster, "dies", 1, **SMALL)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=2_000) as producer:
        for number in range(3_000):
            producer.send("dies", b"%d" % number * 20)
    local = reader(cluster, local=True)
    [(at, end)] = ends(local, "dies", 1).items()
    assert end == 3_000
    [described] = admin.describe_topics(["dies"]).values()
    leader = described.partitions[0].leader
    assert leader is not None
    found: list[int] = []
    items = local.read(at.topic, "", 0, 0, end)
    for number, item in enumerate(items):
        assert isinstance(item, Batches)
        found += [r.offset for r in iter_records(item.data, "dies", 0)]
        if number == 2:
            assert item.checked
            cluster.kill(leader)
    assert found == [*range(3_000)]
    assert local.local_reads is not None
    assert 0 < local.local_reads.bytes_read < 3_000 * 80
    local.close()
    admin.close()
    cluster.start(leader)


def test_records_that_are_deleted_in_the_middle(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader hears of it as it would over the network, and its files are closed."""
    monkeypatch.setattr(local_files, "BLOCK_BYTES", 5_000)
    admin = topic(cluster, "deleted", 1)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=2_000) as producer:
        for _ in range(3_000):
            producer.send("deleted", b"v" * 100)
    local = reader(cluster, local=True)
    [(at, end)] = ends(local, "deleted", 1).items()
    items = local.read(at.topic, "", 0, 0, end)
    first = next(items)
    assert isinstance(first, Batches)
    assert first.checked
    held = items._local
    assert held is not None
    admin.delete_records({at: 2_000})
    eventually(10, lambda: not held._files, "the broker has told the reader")
    rest = list(items)
    assert rest[0] == Skipped(held.position, 2_000)
    found = [
        record.offset
        for item in rest[1:]
        if isinstance(item, Batches)
        for record in iter_records(item.data, "deleted", 0, from_offset=2_000)
    ]
    assert found == [*range(2_000, 3_000)]
    local.close()
    admin.close()


def test_brokers_count(cluster: LocalCluster) -> None:
    admin = topic(cluster, "counted", 1)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(2_000):
            producer.send("counted", b"v" * 100)
    local = reader(cluster, local=True)
    [(at, end)] = ends(local, "counted", 1).items()
    assert len(rows(local, at, 0, end)) == end == 2_000
    assert local.local_reads is not None
    size = local.local_reads.bytes_read
    assert size > 200_000
    local.close()
    [described] = admin.describe_topics(["counted"]).values()
    leader = described.partitions[0].leader
    assert leader is not None
    url = cluster.metrics_urls[leader]
    eventually(10, lambda: value(scrape(url), "pylog_local_reads") == 0, "it was given back")
    found = scrape(url)
    assert value(found, "pylog_local_read_bytes_total", topic="counted") == size
    assert value(found, "pylog_local_read_descriptors") == 0
    assert value(found, "pylog_local_reads_opened_total") >= 1
    admin.close()


def test_brokers_that_give_no_files() -> None:
    with LocalCluster(1, config={"local.read.max.descriptors": "0"}) as cluster:
        admin = AdminClient(bootstrap_servers=cluster.bootstrap_servers)
        admin.create_topics([NewTopic("none", 1, 1)])
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for _ in range(2_000):
                producer.send("none", b"v")
        local = reader(cluster, local=True)
        [(at, end)] = ends(local, "none", 1).items()
        assert len(rows(local, at, 0, end)) == 2_000
        assert local.local_reads is not None
        assert local.local_reads.fallbacks == {"RESOURCE_NOT_FOUND": 1}
        local.close()
        admin.close()
