"""Topics that the cluster denies, and clusters that are not there: clients say so at once."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pylog import AdminClient, Consumer, Producer, errors
from pylog.client.cluster.cluster_settings import ClusterSettings
from pylog.client.ranges.range_reader import RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition
from tests.fakes.fake_cluster import FakeCluster

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """Brokers are believed after ten minutes only; broker 1 is the gateway, clients ask broker 2
    first.
    """
    for module in ("admin.admin", "cluster.denials", "consumer.poll_waiting"):
        monkeypatch.setattr(f"pylog.client.{module}.UNKNOWN_TOPIC_GRACE_MS", 600_000)
    with FakeCluster(2) as running:
        running.is_gateway = True
        yield running


def ask_consumer(**where: Any) -> object:
    with Consumer("nope", **where) as consumer:
        return consumer.poll(30)


def ask_ends(**where: Any) -> object:
    with Consumer(**where) as consumer:
        return consumer.end_offsets(TopicPartition("nope", 0))


def ask_producer(**where: Any) -> object:
    with Producer(**where) as producer:
        return producer.send("nope", b"x")


def ask_admin(**where: Any) -> object:
    with AdminClient(**where) as admin:
        return admin.describe_topics(["nope"])


ways = pytest.mark.parametrize("ask", [ask_consumer, ask_ends, ask_producer, ask_admin])


@ways
def test_a_topic_that_the_controller_denies_does_not_exist(
    cluster: FakeCluster, ask: Callable[..., object]
) -> None:
    with pytest.raises(errors.UnknownTopicOrPartition, match="nope"):
        ask(bootstrap_servers=cluster.bootstrap_servers[1])


def test_a_topic_that_only_a_broker_denies_is_there(cluster: FakeCluster) -> None:
    cluster.create_topic("new", 2)
    cluster.late_topics.add("new")
    where = cluster.bootstrap_servers[1]
    with AdminClient(bootstrap_servers=where) as admin:
        assert len(admin.describe_topics(["new"])["new"].partitions) == 2
    with Producer(bootstrap_servers=where) as producer:
        assert producer.send("new", b"x", partition=0).result(30).offset == 0


def test_a_denial_does_not_outlive_the_topics_creation(cluster: FakeCluster) -> None:
    with Consumer("late", bootstrap_servers=cluster.bootstrap_servers[1]) as consumer:
        with pytest.raises(errors.UnknownTopicOrPartition, match="late"):
            consumer.poll(30)
        cluster.create_topic("late")
        consumer.seek_to_beginning()


def test_a_poll_that_raised_a_denial_is_no_reason_for_the_next_one(cluster: FakeCluster) -> None:
    where = {"bootstrap_servers": cluster.bootstrap_servers[1], "auto_offset_reset": "earliest"}
    with Consumer("late", **where) as consumer:
        for _ in range(2):  # while the topic is not there each poll says so
            with pytest.raises(errors.UnknownTopicOrPartition, match="late"):
                consumer.poll(30)
        cluster.create_topic("late")
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("late", b"x").result(30)
        assert [record.value for record in consumer.poll(30)] == [b"x"]


def test_without_the_controller_a_denial_must_last(cluster: FakeCluster) -> None:
    cluster.is_gateway = False
    topic = threading.Timer(0.3, cluster.create_topic, ["nope"])
    topic.start()
    with Producer(bootstrap_servers=cluster.bootstrap_servers[1]) as producer:
        assert producer.partitions_for("nope") == [0]
    topic.join()


def test_a_topic_that_was_used_may_be_made_anew(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    where = cluster.bootstrap_servers[1]
    with Producer(bootstrap_servers=where, metadata_max_age_ms=20, retry_backoff_ms=5) as producer:
        assert producer.partitions_for("t") == [0]
        cluster.hidden_topics.add("t")
        with cluster.changed:
            asked = cluster.metadata_requests
            cluster.changed.wait_for(lambda: cluster.metadata_requests > asked + 3, 30)
        assert not producer._loop.cluster.denied["t"].sure


@ways
def test_servers_that_all_refuse_are_given_up_in_time(ask: Callable[..., object]) -> None:
    """`bootstrap.timeout.ms` ends what `default.api.timeout.ms` would let wait for a minute."""
    with pytest.raises(errors.BootstrapFailed, match=r"within 1 s: 127.0.0.1:1: conn.* refused"):
        ask(bootstrap_servers=NOWHERE, bootstrap_timeout_ms=1_000)


@ways
def test_a_server_that_swallows_packets_is_given_up_in_time(ask: Callable[..., object]) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # connections are made, and nobody answers
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        before = SYSTEM_CLOCK.monotonic_ms()
        with pytest.raises(errors.BootstrapFailed, match=f"within 1 s: {where}"):
            ask(bootstrap_servers=where, bootstrap_timeout_ms=1_000)
        assert SYSTEM_CLOCK.monotonic_ms() - before < 3_000  # not the ten seconds of an answer


def test_a_call_that_comes_later_waits_the_whole_time_again() -> None:
    with AdminClient(bootstrap_servers=NOWHERE, bootstrap_timeout_ms=1_000) as admin:
        for _ in range(2):
            before = SYSTEM_CLOCK.monotonic_ms()
            with pytest.raises(errors.BootstrapFailed, match=r"within 1 s"):
                admin.list_topics()
            assert SYSTEM_CLOCK.monotonic_ms() - before >= 990


def test_a_wrong_address_is_told_within_ten_seconds_without_a_setting() -> None:
    """With two seconds left for what is around the call: a process, a query's plan."""
    settings = CONSUMER_SETTINGS.parse({"bootstrap_servers": NOWHERE})
    assert ClusterSettings.of(settings).bootstrap_timeout_ms == 8_000


def test_a_transactional_producer_is_told_as_soon() -> None:
    given = {"bootstrap_servers": NOWHERE, "bootstrap_timeout_ms": 1_000}
    with Producer(transactional_id="a", **given) as producer:
        for _ in range(2):
            with pytest.raises(errors.BootstrapFailed, match=r"within 1 s: 127.0.0.1:1: conn"):
                producer.init_transactions()


def test_a_range_reader_gives_up_in_time() -> None:
    given = {"bootstrap_servers": NOWHERE, "bootstrap_timeout_ms": 100}
    reader = RangeReader(CONSUMER_SETTINGS.parse(given))
    for _ in range(2):  # each call waits anew
        with pytest.raises(errors.BootstrapFailed, match=r"within 0.1 s"):
            reader.topics(["t"])
    reader.close()


def test_a_server_that_comes_in_time_is_found(cluster: FakeCluster) -> None:
    cluster.create_topic("t")
    where = cluster.bootstrap_servers[1]
    cluster.stop_broker(2)
    back = threading.Timer(0.3, cluster.start_broker, [2])
    back.start()
    with Producer(bootstrap_servers=where, bootstrap_timeout_ms=60_000) as producer:
        assert producer.partitions_for("t") == [0]
    back.join()


def test_reconnect_backoff_holds_back_attempts_to_connect() -> None:
    connections = 0

    def hang_up() -> None:
        nonlocal connections
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:  # one that only asks why the port refuses says nothing
                connections += connection.recv(3) == b"PRI"

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=hang_up)
        serving.start()
        rest = {"reconnect_backoff_ms": 600_000, "reconnect_backoff_max_ms": 600_000}
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        with (
            AdminClient(
                bootstrap_servers=where, default_api_timeout_ms=1_000, retry_backoff_ms=20, **rest
            ) as admin,
            pytest.raises(errors.BootstrapFailed),
        ):
            admin.list_topics()
        listener.shutdown(socket.SHUT_RDWR)
        serving.join(30)
    assert connections == 1


def test_a_broker_that_is_started_is_found_though_others_hear_of_it_late(
    cluster: FakeCluster,
) -> None:
    cluster.stop_broker(2)
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers[0]) as admin:
        assert list(admin.describe_log_dirs()) == [1]
        comes = threading.Timer(0.3, cluster.start_broker, [2])
        comes.start()
        assert list(admin.describe_log_dirs([1, 2])) == [1, 2]
        comes.join()


@pytest.mark.usefixtures("short_grace")
def test_directories_of_a_broker_that_comes_back_are_asked_for_again(cluster: FakeCluster) -> None:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers[0]) as admin:
        assert [d.path for d in admin.describe_log_dirs([2])[2]] == ["/data/broker-2"]
        cluster.stop_broker(2, silently=True)  # the cluster takes it for live
        back = threading.Timer(0.3, cluster.start_broker, [2])
        back.start()
        assert [d.path for d in admin.describe_log_dirs([2])[2]] == ["/data/broker-2"]
        back.join()
        with pytest.raises(errors.BrokerNotAvailable, match="no broker 9 is live; live are: 1, 2"):
            admin.describe_log_dirs([9])
