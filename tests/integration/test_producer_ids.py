"""A flood of producer ids against real brokers, and a producer that wants to write meanwhile."""

from __future__ import annotations

import itertools
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pylog import AdminClient, Consumer, LocalCluster, Producer, errors
from pylog.records.builder import encode_batch
from pylog.rpc.v1 import log_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

PLACES = 2_000
"""More than what a roll writes by itself."""
ID_LIMIT = 50
FLOOD = b"flood"
FOLLOWING = 60


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    config = {
        "max.producer.ids.per.partition": str(PLACES),
        "max.producer.ids.per.client.id": str(ID_LIMIT),
        "producer.id.quota.window.seconds": "300",
        "metrics.listen": "127.0.0.1:0",
    }
    with LocalCluster(2, config=config) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            assert "Traceback" not in log.read_text()


@pytest.fixture
def raw(cluster: LocalCluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as client:
        yield client


class Strangers:
    """Producers with ids of their own making, one batch each."""

    def __init__(self, raw: RawClient, topic: str) -> None:
        self._raw = raw
        self._topic = topic
        self._ids = itertools.count(10**9)

    def flood(self, messages: int) -> list[int]:
        """The codes of the answers."""
        stub = self._raw.log(self._raw.leader(self._topic))
        codes = []
        for _ in range(messages):
            first, *following = [
                log_pb2.ProduceRequest(
                    acks=-1,
                    timeout_ms=5_000,
                    batches=[log_pb2.PartitionBatch(topic=self._topic, batch=self._batch())],
                )
                for _ in range(FOLLOWING)
            ]
            first.following.extend(following)
            answer = stub.Produce(first, timeout=30)
            codes += [one.acks[0].error.code for one in (answer, *answer.following)]
        return codes

    def _batch(self) -> bytes:
        return encode_batch([FLOOD], producer_id=next(self._ids), producer_epoch=0, base_sequence=0)


def sums(cluster: LocalCluster, name: str) -> float:
    """The sum of a metric over the brokers."""
    found = 0.0
    for who, url in cluster.metrics_urls.items():
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as page:
            families = text_string_to_metric_families(page.read().decode())
        if who != "controller":
            samples = (sample for family in families for sample in family.samples)
            found += sum(sample.value for sample in samples if sample.name == name)
    return found


def test_a_flood_of_ids_holds_nobody_up_who_is_known_and_stores_nothing_twice(
    cluster: LocalCluster, raw: RawClient
) -> None:
    raw.create_topic("t", replicas=2, segment_bytes="60000")
    servers = cluster.bootstrap_servers
    strangers = Strangers(raw, "t")
    with (
        Producer(bootstrap_servers=servers, linger_ms=0) as known,
        Producer(bootstrap_servers=servers, linger_ms=0) as late,
    ):
        known.send("t", b"known 0").result(30)
        codes = strangers.flood(PLACES // FOLLOWING + 10)
        assert codes.count(0) == PLACES - 1
        assert codes.count(errors.ThrottlingQuotaExceeded.code) == len(codes) - PLACES + 1
        waiting = [late.send("t", b"late %d" % number) for number in range(20)]
        for number in range(1, 20):
            known.send("t", b"known %d" % number).result(30)
            assert set(strangers.flood(1)) == {errors.ThrottlingQuotaExceeded.code}
        assert not any(future.done() for future in waiting)
        assert sums(cluster, "pylog_producer_ids") == 2 * PLACES
        assert sums(cluster, "pylog_producer_ids_partition_max") == 2 * PLACES
        assert sums(cluster, "pylog_producer_ids_refused_total") >= len(codes) - PLACES
        leader = raw.partition("t").leader
        cluster.kill(leader)  # the next one knows and refuses the same
        known.send("t", b"known 20").result(60)
        assert set(strangers.flood(1)) == {errors.ThrottlingQuotaExceeded.code}
        assert not any(future.done() for future in waiting)
        with AdminClient(bootstrap_servers=servers) as admin:
            limit = {"max.producer.ids.per.partition": str(PLACES + 1)}
            admin.incremental_alter_configs({("broker", ""): limit})
        for future in waiting:
            future.result(60)
        cluster.start(leader)
    assert read(servers, "known") == [b"known %d" % number for number in range(21)]
    assert read(servers, "late") == [b"late %d" % number for number in range(20)]
    snapshots = list(cluster.data_dir.glob("broker-*/t-0/*.snapshot"))
    assert max(path.stat().st_size for path in snapshots) > 46 * PLACES / 2


def read(servers: str, whose: str) -> list[bytes]:
    """The values in the topic, in order, that begin so."""
    values: list[bytes] = []
    with Consumer("t", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        (end,) = consumer.end_offsets([("t", 0)]).values()
        while consumer.position(("t", 0)) < end:
            values += [record.value or b"" for record in consumer.poll(10)]
    return [value for value in values if value.startswith(whose.encode())]


def test_a_client_that_took_its_share_of_ids_waits_and_goes_on(
    cluster: LocalCluster, raw: RawClient
) -> None:
    raw.create_topic("t")
    request = log_pb2.InitProducerIdRequest(producer_id=-1, producer_epoch=-1, client_id="greedy")
    brokers = [broker.endpoint for broker in raw.metadata().brokers]
    for server in [f"{endpoint.host}:{endpoint.port}" for endpoint in brokers]:
        answers = [raw.log(server).InitProducerId(request, timeout=10) for _ in range(ID_LIMIT + 1)]
        assert [answer.error.code for answer in answers[:-1]] == [0] * ID_LIMIT
        assert answers[-1].error.code == errors.ThrottlingQuotaExceeded.code
        assert "max.producer.ids.per.client.id=50" in answers[-1].error.message
        assert 0 < answers[-1].throttle_time_ms <= 30_000
    servers = cluster.bootstrap_servers
    with Producer(bootstrap_servers=servers, client_id="modest", linger_ms=0) as producer:
        producer.send("t", b"v").result(30)
    with Producer(bootstrap_servers=servers, client_id="greedy", linger_ms=0) as producer:
        future = producer.send("t", b"v")
        eventually(30, lambda: asked(cluster) > len(brokers), "the producer asks for an id")
        assert future.result(60).offset == 1


def asked(cluster: LocalCluster) -> float:
    """The number of times that an id was refused."""
    return sums(cluster, "pylog_producer_ids_refused_total")


def test_a_producer_that_would_try_for_days_is_told_of_the_limit(
    cluster: LocalCluster, raw: RawClient
) -> None:
    raw.create_topic("t")
    servers, days = cluster.bootstrap_servers, (1 << 31) - 1
    with (
        Producer(bootstrap_servers=servers, delivery_timeout_ms=days) as producer,
        pytest.raises(errors.InvalidConfig, match=r"producer\.id\.expiration\.ms=86400000"),
    ):
        producer.send("t", b"v").result(30)
