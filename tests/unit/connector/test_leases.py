"""Read leases of a query's batches, and of batch reads, over a fake cluster."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pylog.records.builder import encode_batch
from pylog.rpc.v1 import log_pb2
from pylog_connector.clients import drop_reader, reader_for
from pylog_connector.leases import PAUSE_MS, StreamLeases, kept, lease_batch
from pylog_connector.options import SourceOptions, source_options
from pylog_connector.ranges import PlannedLease, ReadRange
from pylog_connector.source import BatchReader, LeasedPartition, StreamReader
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakeTopic
from tests.fakes.waiting import eventually

UNHELD = {"pylog.bootstrap.servers": "h:1", "subscribe": "a"}


class SetClock:
    """Stands where it is set."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: FakeCluster) -> FakeTopic:
    topic = cluster.create_topic("a", partitions=2)
    for partition in topic.partitions:
        partition.append(encode_batch([b"v"] * 10))
    return topic


def given(cluster: FakeCluster, **more: str) -> dict[str, str]:
    address = ",".join(cluster.bootstrap_servers)
    shared = {"pylog.bootstrap.servers": address, "subscribe": "a", "pylog.read.lease": "true"}
    return shared | more


@pytest.fixture
def options(cluster: FakeCluster) -> Iterator[SourceOptions]:
    options = source_options(given(cluster), streaming=True)
    yield options
    drop_reader(options)


def taken(cluster: FakeCluster) -> list[tuple[int, dict[int, tuple[int, int]]]]:
    """The requests since the last look: which broker got them, and which ranges of its partitions
    they name.
    """
    with cluster.changed:
        requests, cluster.lease_requests[:] = list(cluster.lease_requests), []
    return sorted(
        (
            broker,
            {
                partition: (start, end)
                for each in request.topics
                for partition, start, end in zip(
                    each.partitions, each.start_offsets, each.end_offsets, strict=True
                )
            },
        )
        for broker, request in requests
    )


def ranges(topic: FakeTopic, start: int, end: int) -> list[ReadRange]:
    return [ReadRange("a", topic.topic_id, n, start, end, known=(start, end)) for n in range(2)]


def test_a_stream_holds_its_batch_until_the_next_or_until_there_is_none(
    cluster: FakeCluster, topic: FakeTopic
) -> None:
    read = source_options(given(cluster, startingOffsets="earliest"), streaming=True)
    stream = StreamReader(read, ("value",))
    start = stream.initialOffset()
    first = stream.latestOffset(start, ReadAllAvailable())
    assert taken(cluster) == []
    stream.partitions(start, first)
    assert taken(cluster) == [(1, {0: (0, 10)}), (2, {1: (0, 10)})]
    topic.partitions[0].append(encode_batch([b"v"] * 5))
    second = stream.latestOffset(first, ReadAllAvailable())
    stream.partitions(first, second)
    assert taken(cluster) == [(1, {0: (10, 15)}), (2, {})]
    stream.commit(second)
    assert stream.latestOffset(second, ReadAllAvailable()) is second
    eventually(10, lambda: bool(cluster.lease_requests), "the lease is given back")
    assert taken(cluster) == [(1, {})]
    assert stream.latestOffset(second, ReadAllAvailable()) is second
    stream.stop()
    assert taken(cluster) == []


def test_a_run_to_the_end_gives_its_lease_back_before_it_says_so(
    cluster: FakeCluster, topic: FakeTopic
) -> None:
    read = source_options(given(cluster, startingOffsets="earliest"), streaming=True)
    stream = StreamReader(read, ("value",))
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    stream.partitions(start, end)
    taken(cluster)
    assert stream.latestOffset(end, ReadAllAvailable()) is end
    assert taken(cluster) == [(1, {}), (2, {})]
    stream.stop()


def test_without_the_option_nothing_is_held(cluster: FakeCluster, topic: FakeTopic) -> None:
    assert not source_options(UNHELD, streaming=True).read_lease, "it is for those who ask for it"
    more = {"startingOffsets": "earliest", "pylog.read.lease": "false"}
    stream = StreamReader(source_options(given(cluster, **more), streaming=True), ("value",))
    start = stream.initialOffset()
    stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
    stream.stop()
    batch = BatchReader(source_options(given(cluster, **more), streaming=False), ("value",))
    assert not any(isinstance(task, LeasedPartition) for task in batch.partitions())
    assert cluster.lease_requests == []


def test_a_batch_read_hands_its_lease_to_its_tasks(cluster: FakeCluster, topic: FakeTopic) -> None:
    topic.partitions[1].log_start = 4
    options = source_options(given(cluster), streaming=False)
    batch = BatchReader(options, ("value",))
    tasks = pickle.loads(pickle.dumps(batch.partitions()))
    assert taken(cluster) == [(1, {0: (0, 10)}), (2, {1: (4, 10)})]
    assert [type(task) for task in tasks] == [LeasedPartition] * 2
    assert tasks[0].lease == tasks[1].lease
    assert tasks[0].lease.timeout_ms == 300_000
    assert sum(rows.num_rows for task in tasks for rows in batch.read(task)) == 16
    assert taken(cluster) == [], "nothing is renewed before a third of the time"
    drop_reader(options)


def test_a_task_that_reads_long_renews_for_all(
    cluster: FakeCluster, topic: FakeTopic, options: SourceOptions
) -> None:
    lease, wanted = PlannedLease("h", 60, 1_000), ranges(topic, 0, 10)[:1]
    with kept(lease, wanted, reader_for(options), options, SetClock(1_000)):
        eventually(10, lambda: len(cluster.lease_requests) >= 4, "two rounds of renewals")
    requests = list(cluster.lease_requests)
    assert {request.holder for _, request in requests} == {"h"}
    assert all(request.renew for _, request in requests)
    asked = taken(cluster)
    assert (1, {0: (0, 10)}) in asked
    assert (2, {}) in asked


@pytest.mark.parametrize("now_ms", [0, 1_000 + 300_000])
def test_a_lease_of_doubtful_age_is_renewed_at_once(
    cluster: FakeCluster, topic: FakeTopic, options: SourceOptions, now_ms: int
) -> None:
    """It was taken by a clock that is ahead, or so long ago that it is over."""
    lease = PlannedLease("h", 300_000, 1_000)
    with kept(lease, ranges(topic, 0, 10), reader_for(options), options, SetClock(now_ms)):
        eventually(10, lambda: len(cluster.lease_requests) == 2, "both brokers hear")


def test_a_refusal_is_warned_of_once_and_nothing_is_asked_for_a_while(
    cluster: FakeCluster,
    topic: FakeTopic,
    options: SourceOptions,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "pylog.connector")
    cluster.lease_timeout_ms = 0
    clock = SetClock(5)
    leases = StreamLeases(options, clock)
    for start in range(3):
        leases.take(ranges(topic, start, 10))
    assert [broker for broker, _ in taken(cluster)] == [1, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "no read lease: retention or compaction may take records of a batch while it runs: "
        "POLICY_VIOLATION: a-0: no leases are given (and so for 1 more). "
        "pylog.read.lease=false does without"
    ]
    clock.now_ms += PAUSE_MS
    leases.take(ranges(topic, 3, 10))
    assert [broker for broker, _ in taken(cluster)] == [1, 2]
    assert len(caplog.records) == 1


def test_brokers_that_cannot_be_asked_stop_no_read(
    cluster: FakeCluster,
    topic: FakeTopic,
    options: SourceOptions,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader_for(options).topics(["a"])
    for broker in (1, 2):
        cluster.stop_broker(broker, silently=True)
    leases = StreamLeases(options, SetClock())
    leases.take(ranges(topic, 0, 10))
    leases.let_go()
    assert lease_batch(ranges(topic, 0, 10), options) is None
    warned = [r.getMessage() for r in caplog.records if r.name == "pylog.connector"]
    assert len(warned) == 2
    assert all(text.startswith("no read lease") for text in warned)


def test_a_batch_without_records_asks_nobody(
    cluster: FakeCluster, topic: FakeTopic, options: SourceOptions
) -> None:
    nothing = [ReadRange("a", topic.topic_id, 0, 10, 10, known=(10, 10))]
    leases = StreamLeases(options, SetClock())
    leases.take(nothing)
    assert lease_batch(nothing, options) is None
    assert cluster.lease_requests == []
    leases.take(ranges(topic, 0, 10))
    taken(cluster)
    leases.take(nothing)
    eventually(10, lambda: len(cluster.lease_requests) == 2, "what was held is given back")
    assert all(request == _nothing(request) for _, request in cluster.lease_requests)


def _nothing(request: log_pb2.LeaseReadsRequest) -> log_pb2.LeaseReadsRequest:
    return log_pb2.LeaseReadsRequest(holder=request.holder)
