"""Batches that overwrite topics, by raw calls: what readers see, and deaths."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from pylog import AdminClient, errors
from pylog.client.ranges.range_reader import RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.clock import SYSTEM_CLOCK
from pylog.local import LocalCluster
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from pylog.records.reader import iter_records
from pylog.rpc.v1 import sink_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.raw_sinks import RawSink
from tests.fakes.raw_transactions import RawProducer, RawTransactions
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

CONFIG = {
    "transaction.state.log.num.partitions": "6",
    "offsets.topic.num.partitions": "6",
    "min.insync.replicas": "2",
}
PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, config=CONFIG) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[RawTransactions]:
    with RawClient(cluster.bootstrap_servers) as client:
        yield RawTransactions(client)


@pytest.fixture
def topic(world: RawTransactions, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    world.raw.create_topic(name, partitions=PARTITIONS, replicas=3)
    return name


@pytest.fixture
def sink(world: RawTransactions, topic: str) -> RawSink:
    return RawSink(world, topic)


@pytest.fixture
def table(cluster: LocalCluster, world: RawTransactions, topic: str) -> Iterator[Table]:
    made = Table(cluster, world, topic)
    yield made
    made.reader.close()


class Table:
    """A topic as a batch read of committed records finds it."""

    def __init__(self, cluster: LocalCluster, world: RawTransactions, topic: str) -> None:
        settings = CONSUMER_SETTINGS.parse(
            {"bootstrap_servers": cluster.bootstrap_servers, "isolation_level": "read_committed"}
        )
        self.reader = RangeReader(settings)
        self.world = world
        self.topic = topic
        self.partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        self.topic_id = self.reader.topics([topic])[topic].topic_id

    def bounds(self) -> list[tuple[int, int]]:
        """The offsets at which each partition begins and ends."""
        first, last = self.reader.offsets_at(
            self.partitions, (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
        )
        return [(first[each].offset, last[each].offset) for each in self.partitions]

    def rows(self, partition: int) -> list[bytes | None] | None:
        """The rows of the partition between its bounds; None where it was overwritten meanwhile."""
        first = self.bounds()[partition][0]
        try:
            return self.world.committed(self.topic, partition, first)
        except errors.OffsetOutOfRange:
            return None

    def becomes(self, *rows: list[bytes]) -> None:
        """It has these rows soon, and nothing holds readers back."""
        eventually(60, lambda: [*map(self.rows, range(PARTITIONS))] == list(rows), f"{rows}")

    def overwritten(self, *starts: int) -> sink_pb2.OverwrittenTopic:
        return sink_pb2.OverwrittenTopic(topic=self.topic, topic_id=self.topic_id, starts=starts)


def old_rows(world: RawTransactions, topic: str) -> None:
    """Two in each partition, from offset 0 on; their marker has offset 2."""
    producer = RawProducer(world, f"old-{topic}")
    producer.init()
    for partition in range(PARTITIONS):
        producer.send(topic, b"old", b"old", partition=partition)
    producer.commit()
    for partition in range(PARTITIONS):
        eventually(
            30,
            lambda p=partition: world.committed(topic, p) == [b"old", b"old"],
            "the old rows are there",
        )


def test_a_topic_is_overwritten(
    cluster: LocalCluster,
    world: RawTransactions,
    topic: str,
    sink: RawSink,
    table: Table,
) -> None:
    old_rows(world, topic)
    other = RawProducer(world, f"other-{topic}")
    other.init()
    other.send(topic, b"before", partition=0)
    lost = sink.staged(0, topic, [b"lost"], task=0, attempt=1)
    one = sink.staged(0, topic, [b"a"], task=0, attempt=2)
    other.send(topic, b"after", partition=0)
    two = sink.staged(0, topic, [b"b"], task=1)
    decided = sink.decide(0, one, two, overwritten=[table.overwritten(5, 3, 3)])
    assert decided.is_new
    eventually(30, lambda: table.bounds()[1:] == [(3, 4), (3, 4)], "the others are empty")
    assert table.bounds()[0] == (5, 5), "another transaction is open"
    other.commit()
    table.becomes([b"a", b"after", b"b"], [], [])
    with pytest.raises(errors.OffsetOutOfRange):
        world.committed(topic, 0, 4)
    again = sink.decide(0, one, two, overwritten=[table.overwritten(5, 3, 3)])
    assert (again.decision, again.is_new) == (decided.decision, False)
    with pytest.raises(errors.InvalidTxnState):
        sink.prepare(lost)
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert admin.describe_topics(topic)[topic].topic_id == table.topic_id
        (listed,) = admin.list_sinks(topic, receipts=True)
        assert listed.last is not None
        assert listed.last.overwritten[0].starts == (5, 3, 3)


def test_batches_overwrite_one_after_the_other(
    world: RawTransactions, topic: str, sink: RawSink, table: Table
) -> None:
    """A reader meanwhile finds the rows of one batch, or of the next one, and never both; nor none.
    Bounds and rows are two questions, so that a partition may be overwritten in between.
    """
    old_rows(world, topic)
    seen: set[tuple[bytes | None, ...]] = set()
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            rows = table.rows(0)
            if rows is not None:
                seen.add(tuple(rows))

    looking = threading.Thread(target=look)
    looking.start()
    batches = 15
    try:
        for batch in range(batches):
            value = b"%d" % batch
            tasks = [
                sink.staged(batch, topic, [value, value], partition=0, task=task)
                for task in range(2)
            ]
            first = first_staged(world, topic, value, table)
            sink.decide(batch, *tasks, overwritten=[table.overwritten(first, 0, 0)])
            table_has(table, [value] * 4)
    finally:
        is_over.set()
        looking.join()
    whole = {(b"%d" % batch,) * 4 for batch in range(batches)} | {(b"old", b"old")}
    halves = {(b"%d" % batch,) * 2 for batch in range(batches)}
    assert seen <= whole | halves, "each task's rows count by a marker of their own"
    assert len(seen & whole) > 2


def first_staged(world: RawTransactions, topic: str, value: bytes, table: Table) -> int:
    """The first offset at which the value is stored in partition 0."""
    begin = table.bounds()[0][0]
    rows = world.fetch(topic, 0, committed=False, offset=begin)
    return next(
        record.offset for record in iter_records(rows.batches, topic, 0) if record.value == value
    )


def table_has(table: Table, rows: list[bytes]) -> None:
    eventually(60, lambda: table.rows(0) == rows, f"it has {rows}")


# ---- deaths --------------------------------------------------------------------------------------


def restart(cluster: LocalCluster, world: RawTransactions, broker: int, topic: str) -> None:
    cluster.start(broker)

    def in_sync(name: str, partitions: int) -> bool:
        return all(len(world.raw.partition(name, p).isr) == 3 for p in range(partitions))

    for name, partitions in ((topic, PARTITIONS), ("__transaction_state", 6)):
        eventually(30, lambda name=name, n=partitions: in_sync(name, n), f"{name} is in sync")


def test_the_leader_dies_between_the_decision_and_its_marker(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink, table: Table
) -> None:
    old_rows(world, topic)
    broker, _ = sink.coordinator()
    led = next(p for p in range(PARTITIONS) if world.leader_id(topic, p) != broker)
    rows: list[list[bytes]] = [[b"new"] if p == led else [] for p in range(PARTITIONS)]
    won = sink.staged(0, topic, [b"new"], partition=led)
    leader = world.leader_id(topic, led)
    cluster.pause(leader)
    try:
        sink.decide(0, won, overwritten=[table.overwritten(3, 3, 3)])
    finally:
        cluster.kill(leader)
    table.becomes(*rows)
    restart(cluster, world, leader, topic)
    table.becomes(*rows)
    assert [first for first, _ in table.bounds()] == [3, 3, 3]


def test_the_coordinator_dies_between_the_decision_and_the_markers(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink, table: Table
) -> None:
    old_rows(world, topic)
    sink.begin(0, task=9)
    broker, _ = sink.coordinator()
    led = next(p for p in range(PARTITIONS) if world.leader_id(topic, p) != broker)
    won = sink.staged(0, topic, [b"new"], partition=led)
    frozen = world.leader_id(topic, led)
    cluster.pause(frozen)
    try:
        sink.decide(0, won, overwritten=[table.overwritten(3, 3, 3)])
    finally:
        cluster.kill(broker)
        cluster.resume(frozen)
    rows: list[list[bytes]] = [[b"new"] if p == led else [] for p in range(PARTITIONS)]
    table.becomes(*rows)
    later = sink.staged(1, topic, [b"more"], partition=led)
    sink.decide(1, later)
    rows[led].append(b"more")
    table.becomes(*rows)
    restart(cluster, world, broker, topic)
    table.becomes(*rows)


def test_all_brokers_die_behind_the_decision(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink, table: Table
) -> None:
    old_rows(world, topic)
    won = sink.staged(0, topic, [b"new"], partition=1)
    brokers = [each.id for each in world.raw.metadata().brokers]
    sink.decide(0, won, overwritten=[table.overwritten(3, 3, 3)])
    for broker in brokers:
        cluster.kill(broker)
    for broker in brokers:
        cluster.start(broker)
    table.becomes([], [b"new"], [])
    assert [first for first, _ in table.bounds()] == [3, 3, 3]


def test_one_broker_is_killed_at_any_moment_behind_the_decision() -> None:
    """It may look empty for a moment after the start, and never has rows of two batches."""
    rng = random.Random(20)
    with LocalCluster() as small, RawClient(small.bootstrap_servers) as client:
        world = RawTransactions(client)
        client.create_topic("t", partitions=PARTITIONS)
        old_rows(world, "t")
        table, sink = Table(small, world, "t"), RawSink(world, "q")
        before = [b"old", b"old"]
        for batch in range(5):
            new = [b"%d" % batch] * 3
            won = sink.staged(batch, "t", new)
            first = first_staged(world, "t", new[0], table)
            sink.decide(batch, won, overwritten=[table.overwritten(first, 3, 3)])
            SYSTEM_CLOCK.sleep(rng.choice((0, 0.002, 0.005, 0.01, 0.03)))
            small.kill(1)
            small.start(1)
            seen = [table.rows(0)]
            while seen[-1] != new:
                assert seen[-1] in (before, [], None), seen
                assert len(seen) < 10_000
                seen.append(table.rows(0))
            before = new
        table.reader.close()
