"""Producers and consumers over brokers that are killed, stopped and frozen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition, errors
from pylog.client.producer.delivery import DeliveryHandle

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config={"min.insync.replicas": "2"}) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def leader_of(admin: AdminClient, topic: str, partition: int = 0) -> int:
    leader = admin.describe_topics(topic)[topic].partitions[partition].leader
    assert leader is not None
    return leader


def read_all(cluster: LocalCluster, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """Every record of the topic, up to its end offsets."""
    got: dict[int, list[bytes]] = {p: [] for p in range(partitions)}
    with Consumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as c:
        ends = c.end_offsets([TopicPartition(topic, p) for p in range(partitions)])
        while sum(map(len, got.values())) < sum(ends.values()):
            records = c.poll(20)
            assert records, "no more records, but the ends are not reached"
            for record in records:
                assert record.offset == len(got[record.partition])
                got[record.partition].append(record.value)
    return got


def produce_through(
    cluster: LocalCluster, topic: str, count: int, fault: Callable[[], None], *, at: int
) -> list[DeliveryHandle]:
    """Send `count` numbered records to each of three partitions; `fault` happens in between."""
    handles = []
    with Producer(bootstrap_servers=cluster.bootstrap_servers, batch_size=2_000, linger_ms=2) as p:
        for i in range(count):
            handles += [p.send(topic, b"%06d" % i, partition=n) for n in range(3)]
            if i == at:
                thread = threading.Thread(target=fault)
                thread.start()
        p.flush(60)
        thread.join(60)
    return handles


@pytest.mark.parametrize("fault", ["kill", "stop", "pause"])
def test_nothing_is_lost_doubled_or_reordered_over_a_fault(
    cluster: LocalCluster, admin: AdminClient, fault: str
) -> None:
    topic = f"fault-{fault}"
    admin.create_topics(NewTopic(topic, 3, 3))
    victim = leader_of(admin, topic)

    def strike() -> None:
        getattr(cluster, fault)(victim)

    try:
        handles = produce_through(cluster, topic, 20_000, strike, at=5_000)
    finally:
        cluster.resume(victim) if fault == "pause" else cluster.start(victim)
    acknowledged = [h.result(0) for h in handles]
    assert len(acknowledged) == 60_000
    got = read_all(cluster, topic, 3)
    expected = [b"%06d" % i for i in range(20_000)]
    assert {p: values == expected for p, values in got.items()} == dict.fromkeys(range(3), True)


def test_a_consumer_reads_on_over_a_kill(cluster: LocalCluster, admin: AdminClient) -> None:
    topic = "reading"
    admin.create_topics(NewTopic(topic, 1, 3))
    tp = TopicPartition(topic, 0)
    with (
        Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as p,
        Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as c,
    ):
        c.assign([tp])
        for i in range(100):
            p.send(topic, b"%d" % i)
        p.flush(20)
        got = [r.value for r in c.poll(10)]
        while len(got) < 100:
            got += [r.value for r in c.poll(10)]
        victim = leader_of(admin, topic)
        cluster.kill(victim)
        try:
            for i in range(100, 200):
                p.send(topic, b"%d" % i)
            while len(got) < 200:
                records = c.poll(20)
                assert records
                got += [r.value for r in records]
        finally:
            cluster.start(victim)
        assert got == [b"%d" % i for i in range(200)]
        assert c.position(tp) == 200


def test_produce_and_fetch_go_on_without_the_controller(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    topic = "orphans"
    admin.create_topics(NewTopic(topic, 1, 3))
    cluster.kill_controller()
    try:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as p:
            assert p.send(topic, b"x").result(20).offset == 0
        assert read_all(cluster, topic, 1) == {0: [b"x"]}
        assert topic in admin.list_topics()
        with pytest.raises(errors.RequestTimedOut, match="create topics"):
            admin.create_topics(NewTopic("late"), timeout=1.0)
    finally:
        cluster.start_controller()
    admin.create_topics(NewTopic("later"), timeout=30)


def test_a_full_restart_is_survived(cluster: LocalCluster, admin: AdminClient) -> None:
    topic = "restarted"
    admin.create_topics(NewTopic(topic, 1, 3))
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as p:
        assert p.send(topic, b"a").result(20).offset == 0
        cluster.restart()
        assert p.send(topic, b"b").result(30).offset == 1
    assert read_all(cluster, topic, 1) == {0: [b"a", b"b"]}
