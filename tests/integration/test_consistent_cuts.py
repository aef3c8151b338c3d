"""Ends that split no transaction, at real brokers: over partitions and topics, while markers come
late and while brokers are away.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError
from pylog.model import TopicPartition
from pylog_connector.options import source_options
from pylog_connector.source import BatchReader, StreamReader
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

PLACES = [TopicPartition("orders", n) for n in range(3)] + [TopicPartition("totals", 0)]
P, Q = PLACES[0], PLACES[3]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"min.insync.replicas": "2", "transaction.state.log.num.partitions": "4"}
    with LocalCluster(brokers=3, config=config) as running:
        yield running


@pytest.fixture
def topics(cluster: LocalCluster) -> Iterator[None]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("orders", 3, 3), NewTopic("totals", 1, 3)])
        yield
        admin.delete_topics(["orders", "totals"])


class Writer(threading.Thread):
    """Writes transactions of one value each, to some of the partitions, until it is told to end.
    Some are aborted.
    """

    def __init__(self, cluster: LocalCluster, number: int) -> None:
        super().__init__(daemon=True)
        self._servers = cluster.bootstrap_servers
        self._rng = random.Random(number)
        self._name = f"writer-{number}"
        self.over = threading.Event()
        self.committed: Counter[bytes] = Counter()
        """So many records of each value that was committed."""
        self.unsure: set[bytes] = set()

    def run(self) -> None:
        count = 0
        with Producer(bootstrap_servers=self._servers, transactional_id=self._name) as producer:
            producer.init_transactions()
            while not self.over.is_set():
                count += 1
                self._write(producer, b"%s %d" % (self._name.encode(), count))
                self.over.wait(self._rng.random() * 0.06)

    def _write(self, producer: Producer, value: bytes) -> None:
        places = self._rng.sample(PLACES, self._rng.randint(1, 4)) * self._rng.randint(1, 2)
        producer.begin_transaction()
        try:
            for at in places:
                producer.send(at.topic, value, partition=at.partition)
            if self._rng.random() < 0.2:
                producer.abort_transaction()
                return
            self.unsure.add(value)
            producer.commit_transaction()
        except PylogError as error:
            if not error.abortable:
                raise
            producer.abort_transaction()
        else:
            self.unsure.discard(value)
            self.committed[value] = len(places)


def given(cluster: LocalCluster, **options: str) -> dict[str, str]:
    return {
        "pylog.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": "orders,totals",
        "startingOffsets": "earliest",
        "pylog.consistent.cut": "true",
        **options,
    }


class Query:
    """A streaming query's source, asked as Spark asks it. `batches`: the values of each."""

    def __init__(self, cluster: LocalCluster, **options: str) -> None:
        self._reader = StreamReader(
            source_options(given(cluster, **options), streaming=True), ("value",)
        )
        self._at = self._reader.initialOffset()
        self.batches: list[Counter[bytes]] = []

    def run(self) -> bool:
        """One batch; whether there was something."""
        end = self._reader.latestOffset(self._at, self._reader.getDefaultReadLimit())
        if end == self._at:
            return False
        self.batches.append(values_of(self._reader, self._reader.partitions(self._at, end)))
        self._at = end
        return True

    def stop(self) -> None:
        self._reader.stop()


def values_of(reader: Any, tasks: list[Any]) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for task in tasks:
        for batch in reader.read(task):
            found.update(batch.column("value").to_pylist())
    return found


def check(query: Query, writers: list[Writer]) -> None:
    """Each committed transaction is in one batch, whole; of the others none is split."""
    places = defaultdict(list)
    for number, batch in enumerate(query.batches):
        for value, count in batch.items():
            places[value].append((number, count))
    split = {value: at for value, at in places.items() if len(at) > 1}
    assert not split
    counts = {value: at[0][1] for value, at in places.items()}
    committed = {value: n for each in writers for value, n in each.committed.items()}
    unsure = {value for each in writers for value in each.unsure}
    assert {value: n for value, n in counts.items() if value not in unsure} == committed


def restart(cluster: LocalCluster, broker: int) -> None:
    SYSTEM_CLOCK.sleep(1)
    cluster.stop(broker)
    cluster.start(broker)
    SYSTEM_CLOCK.sleep(1)


@pytest.mark.parametrize("limit", ["", "7"])
def test_batches_have_transactions_whole_while_brokers_come_and_go(
    cluster: LocalCluster, topics: None, limit: str
) -> None:
    options = {"maxOffsetsPerTrigger": limit} if limit else {}
    writers = [Writer(cluster, number) for number in range(2)]
    query = Query(cluster, **options)
    for writer in writers:
        writer.start()
    faults = threading.Thread(
        target=restart, args=(cluster, cluster.brokers[len(limit)]), daemon=True
    )
    faults.start()
    while faults.is_alive():
        query.run()
    for writer in writers:
        writer.over.set()
    for writer in writers:
        writer.join(30)
        assert not writer.is_alive()
    total = sum(sum(writer.committed.values()) for writer in writers)
    eventually(
        30,
        lambda: not query.run() and sum(map(Counter.total, query.batches)) >= total,
        "all that was committed is read",
    )
    check(query, writers)
    assert len([batch for batch in query.batches if batch]) > 5
    query.stop()


def held_up(cluster: LocalCluster) -> tuple[Producer, Producer]:
    """One transaction of P and Q is committed, behind an open one in Q: its part in P can be read,
    and the one in Q cannot. Both producers.
    """
    servers = cluster.bootstrap_servers
    holder = Producer(bootstrap_servers=servers, transactional_id="holder")
    writer = Producer(bootstrap_servers=servers, transactional_id="writer")
    for producer in (holder, writer):
        producer.init_transactions()
        producer.begin_transaction()
    holder.send(Q.topic, b"open", partition=Q.partition)
    holder.flush()
    for at in (P, Q):
        writer.send(at.topic, b"both", partition=at.partition)
    writer.commit_transaction()
    return holder, writer


def read_batch(cluster: LocalCluster, **options: str) -> Counter[bytes]:
    reader = BatchReader(source_options(given(cluster, **options), streaming=False), ("value",))
    return values_of(reader, reader.partitions())


def test_a_batch_read_has_a_transaction_whole_or_not_at_all(
    cluster: LocalCluster, topics: None
) -> None:
    holder, writer = held_up(cluster)
    split = {"pylog.consistent.cut": "false"}
    eventually(10, lambda: read_batch(cluster, **split) == {b"both": 1}, "half of it is read")
    assert read_batch(cluster) == {}
    holder.commit_transaction()
    eventually(10, lambda: read_batch(cluster) == {b"both": 2, b"open": 1}, "all of it is read")
    for producer in (holder, writer):
        producer.close()


def test_a_stream_that_starts_at_latest_has_a_transaction_whole(
    cluster: LocalCluster, topics: None
) -> None:
    holder, writer = held_up(cluster)
    split = {"pylog.consistent.cut": "false"}
    eventually(10, lambda: read_batch(cluster, **split) == {b"both": 1}, "half of it is read")
    query = Query(cluster, startingOffsets="latest")
    holder.abort_transaction()
    eventually(
        10, lambda: query.run() and sum(query.batches, Counter()) != {}, "a batch with something"
    )
    assert sum(query.batches, Counter()) == {b"both": 2}
    query.stop()
    for producer in (holder, writer):
        producer.close()
