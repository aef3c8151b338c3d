"""Bytes of ranges over real brokers: transactions, compaction, and what is read of them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from pylog.client.ranges.range_reader import Batches, RangeReader, RangeToSplit
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.model import LATEST_TIMESTAMP, RangeSplit, TopicPartition
from pylog.records.batch import iter_headers
from pylog_connector.byte_ranges import ByteRanges
from pylog_connector.options import source_options
from tests.fakes.micro_batches import Checkpoint, Row, Run

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=2) as running:
        yield running


def topics(cluster: LocalCluster, *names: str, **configs: str) -> None:
    admin = AdminClient(bootstrap_servers=cluster.bootstrap_servers)
    admin.create_topics([NewTopic(name, 3, 1, config=configs) for name in names])
    admin.close()


def write(cluster: LocalCluster, topic: str, rng: random.Random) -> None:
    """Transactions of which some are aborted, and batches of many sizes."""
    address = cluster.bootstrap_servers
    with Producer(bootstrap_servers=address, transactional_id=f"of {topic}") as producer:
        producer.init_transactions()
        for number in range(30):
            producer.begin_transaction()
            for _ in range(rng.randrange(1, 40)):
                key = b"%d" % rng.randrange(30)
                producer.send(topic, b"v" * rng.randrange(400), key=key)
            producer.flush()
            if number % 3:
                producer.commit_transaction()
            else:
                producer.abort_transaction()


def test_the_bytes_of_a_range_are_those_that_a_reader_gets(cluster: LocalCluster) -> None:
    topics(cluster, "bytes", **{"segment.bytes": "14000", "index.interval.bytes": "500"})
    rng = random.Random(7)
    write(cluster, "bytes", rng)
    reader = RangeReader(CONSUMER_SETTINGS.parse({"bootstrap_servers": cluster.bootstrap_servers}))
    info = reader.topics(["bytes"])["bytes"]
    places = [TopicPartition("bytes", p) for p in range(3)]
    ends = {at: listed.offset for at, listed in reader.offsets(places, LATEST_TIMESTAMP).items()}

    def read(at: TopicPartition, start: int, end: int) -> int:
        size = 0
        for item in reader.read(at.topic, info.topic_id, at.partition, start, end):
            assert isinstance(item, Batches)
            size += sum(h.size for _, h in iter_headers(item.data) if h.base_offset < end)
        return size

    for at, end in ends.items():
        for _ in range(5):
            start = rng.randrange(end)
            piece = rng.choice([1, 1_000, 5_000])
            split = reader.split({at: RangeToSplit(start, end, piece, 25)})[at]
            assert split.bytes == read(at, start, end)
            begin = start
            for part in split.pieces:
                assert read(at, begin, part.end_offset) == part.bytes
                begin = part.end_offset
    nothing = reader.split({at: RangeToSplit(end, end + 9, 100, 5) for at, end in ends.items()})
    assert nothing == dict.fromkeys(places, RangeSplit(0))
    reader.close()


def test_a_query_over_transactions_stays_below_the_bytes_that_it_may_read(
    cluster: LocalCluster,
) -> None:
    topics(cluster, "limited")
    write(cluster, "limited", random.Random(3))
    options = {
        "pylog.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "limited",
        "startingOffsets": "earliest",
    }
    with Run(options, Checkpoint()) as run:
        everything = sorted(row[:3] for row in run.drain())
    most = 20_000
    limited = {**options, "maxBytesPerTrigger": str(most), "maxBytesPerPartition": "4k"}
    with Run(limited, Checkpoint(), available_now=True) as run:
        rows = run.drain()
        places = [run.reader.partitions(*span) for span in run.checkpoint.spans()]
    assert sorted(row[:3] for row in rows) == everything
    assert len(places) > 5
    ranges = ByteRanges(source_options(limited, streaming=True))
    for tasks in places:
        sizes = []
        for piece in (piece for task in tasks for piece in task.value):
            at = TopicPartition(piece.topic, piece.partition)
            found = ranges.bytes_of({at: (piece.start, piece.end)})
            assert found is not None
            sizes.append(found[at])
        assert sum(sizes) <= most


def test_a_limited_query_survives_the_death_of_a_leader() -> None:
    with LocalCluster(brokers=3) as cluster:
        address = cluster.bootstrap_servers
        admin = AdminClient(bootstrap_servers=address)
        admin.create_topics([NewTopic("kills", 3, 3)])
        with Producer(bootstrap_servers=address, batch_size=2_000) as producer:
            for number in range(3_000):
                producer.send("kills", b"%d" % number, partition=number % 3)
        [topic] = admin.describe_topics(["kills"]).values()
        leader = topic.partitions[0].leader
        assert leader is not None
        batches = 0

        def dies(_rows: list[Row]) -> None:
            nonlocal batches
            batches += 1
            if batches == 3:
                cluster.kill(leader)

        options = {
            "pylog.bootstrap.servers": address,
            "subscribe": "kills",
            "startingOffsets": "earliest",
            "maxBytesPerTrigger": "4k",
            "maxBytesPerPartition": "2k",
        }
        with Run(options, Checkpoint(), available_now=True, sink=dies) as run:
            rows = run.drain()
        assert batches > 6
        assert sorted(int(row[3]) for row in rows) == [*range(3_000)]
        for partition in range(3):
            offsets = [row[2] for row in rows if row[1] == partition]
            assert offsets == sorted(offsets)
        admin.close()
