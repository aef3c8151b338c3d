"""Round trips through a real cluster of one broker."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from pylog import (
    AdminClient,
    Consumer,
    LocalCluster,
    NewTopic,
    OffsetAndTimestamp,
    Producer,
    TopicPartition,
    errors,
)
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture(scope="module")
def producer(cluster: LocalCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1) as p:
        yield p


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    # Some tests write records with times long past, which retention would take.
    admin.create_topics(NewTopic(name, config={"retention.ms": "-1"}))
    return name


@pytest.fixture
def consumer(cluster: LocalCluster, topic: str) -> Iterator[Consumer]:
    with Consumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as c:
        yield c


def test_null_is_not_empty_and_everything_else_comes_back(
    producer: Producer, consumer: Consumer, topic: str
) -> None:
    sent = [
        (None, None, []),
        (b"", b"", [("", b"")]),
        (b"k", b"v", [("a", b"1"), ("a", b"2"), ("b", None)]),
        ("schlüssel".encode(), bytes(range(256)), [("ü", "ß".encode())]),
    ]
    handles = [
        producer.send(topic, value, key=key, headers=headers, timestamp_ms=n * 10**11)
        for n, (key, value, headers) in enumerate(sent)
    ]
    assert [h.result(10).offset for h in handles] == [0, 1, 2, 3]
    got = list(consumer.poll(10))
    while len(got) < len(sent):
        records = consumer.poll(10)
        assert records
        got += records
    assert [(r.key, r.value, r.headers) for r in got] == sent
    assert [r.timestamp_ms for r in got] == [n * 10**11 for n in range(4)]
    assert [r.offset for r in got] == [0, 1, 2, 3]


def test_a_record_as_large_as_allowed(
    cluster: LocalCluster, producer: Producer, topic: str
) -> None:
    value = bytes(1_048_000)
    assert producer.send(topic, value).result(20).offset == 0
    with Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        fetch_max_bytes=1_000,
        max_partition_fetch_bytes=1_000,
    ) as c:
        (record,) = c.poll(20)
    assert record.value == value


def test_the_broker_refuses_what_is_beyond_the_topics_limit(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics(NewTopic("small", config={"max.message.bytes": "5000"}))
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as p:
        with pytest.raises(errors.MessageTooLarge, match="5000"):
            p.send("small", bytes(10_000)).result(20)
        assert p.send("small", bytes(1_000)).result(20).offset == 0


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_many_records_by_value_and_by_column(
    cluster: LocalCluster, topic: str, consumer: Consumer, compression: str
) -> None:
    count = 20_000
    with Producer(bootstrap_servers=cluster.bootstrap_servers, compression_type=compression) as p:
        for i in range(count):
            p.send(topic, b"%08d" % i)
        p.flush(30)
        table = pa.table({"value": [b"%08d" % i for i in range(count, 2 * count)]})
        p.send_arrow(topic, table).result(30)
    got: list[bytes] = []
    for record in consumer:
        got.append(record.value)
        if len(got) == 2 * count:
            break
    assert got == [b"%08d" % i for i in range(2 * count)]
    consumer.seek_to_beginning()
    columns: list[bytes] = []
    while len(columns) < 2 * count:
        batch = consumer.poll_arrow(20)
        assert batch.num_rows
        columns += batch.column("value").to_pylist()
    assert columns == got


def test_times_and_ends(
    admin: AdminClient, producer: Producer, consumer: Consumer, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    for i in range(10):
        producer.send(topic, b"x", timestamp_ms=1_000 + 10 * i)
        producer.flush(10)
    assert consumer.offsets_for_times({tp: 1_041}) == {tp: OffsetAndTimestamp(5, 1_050, 0)}
    assert consumer.offsets_for_times({tp: 9_999}) == {tp: None}
    assert consumer.beginning_offsets() == {tp: 0}
    assert consumer.end_offsets() == {tp: 10}
    assert admin.delete_records({tp: 4}) == {tp: 4}
    consumer.seek(tp, 0)
    assert next(iter(consumer)).offset == 4
    listed = admin.list_offsets({tp: "max_timestamp"})[tp]
    assert listed is not None
    assert listed.offset == 9


def test_the_client_sees_a_topic_grow_old_and_new(
    cluster: LocalCluster, admin: AdminClient, producer: Producer, topic: str
) -> None:
    described = admin.describe_topics(topic)[topic]
    assert len(described.partitions) == 1
    producer.send(topic, b"old").result(20)
    admin.delete_topics(topic)
    eventually(30, lambda: topic not in admin.list_topics(), "each broker knows")
    admin.create_topics(NewTopic(topic))
    assert admin.describe_topics(topic)[topic].topic_id != described.topic_id
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as fresh:
        assert fresh.send(topic, b"new").result(20).offset == 0


def test_errors_name_what_they_mean(
    cluster: LocalCluster, admin: AdminClient, producer: Producer, topic: str
) -> None:
    with pytest.raises(errors.TopicAlreadyExists, match=topic):
        admin.create_topics(NewTopic(topic))
    with pytest.raises(errors.InvalidReplicationFactor, match="too-many"):
        admin.create_topics(NewTopic("too-many", 1, 3))
    with pytest.raises(errors.InvalidConfig, match="retention"):
        admin.create_topics(NewTopic("odd", config={"retention.msec": "5"}))
    with pytest.raises(errors.UnknownTopicOrPartition, match="nope"):
        producer.send("nope", b"x")
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="none") as c:
        c.assign([(topic, 0)])
        c.seek((topic, 0), 99)
        with pytest.raises(errors.OffsetOutOfRange, match=f"{topic}-0: offset 99"):
            c.poll(20)
