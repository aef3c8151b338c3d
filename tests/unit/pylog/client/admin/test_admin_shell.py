"""The admin client against a real gRPC server in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.client.admin.broker_types import (
    BrokerListener,
    BrokerPart,
    BrokerStatus,
    HostedReplica,
)
from pylog.client.producer.producer import Producer
from pylog.model import NewTopic, OffsetAndTimestamp, TopicPartition
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        yield running


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[AdminClient]:
    with AdminClient(
        bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=5_000
    ) as client:
        yield client


def test_topics_come_and_go(admin: AdminClient) -> None:
    created = admin.create_topics([NewTopic("b", 3), NewTopic("a")])
    assert admin.list_topics() == ["a", "b"]
    found = admin.describe_topics("b")["b"]
    assert (found.name, found.topic_id, found.internal) == ("b", created["b"], False)
    assert [(p.partition, p.leader) for p in found.partitions] == [(0, 1), (1, 2), (2, 1)]
    assert admin.delete_topics(["b"]) == {"b": created["b"]}
    assert admin.list_topics() == ["a"]
    assert list(admin.describe_topics()) == ["a"]


@pytest.mark.usefixtures("short_grace")
def test_one_item_raises_its_error_and_several_hold_each_outcome(admin: AdminClient) -> None:
    admin.create_topics(NewTopic("a"))
    with pytest.raises(errors.TopicAlreadyExists, match="topic a exists"):
        admin.create_topics([NewTopic("a")])
    with pytest.raises(errors.PartialFailure) as partly:
        admin.create_topics([NewTopic("a"), NewTopic("b")])
    assert list(partly.value.results) == ["b"]
    assert isinstance(partly.value.errors["a"], errors.TopicAlreadyExists)
    with pytest.raises(errors.UnknownTopicOrPartition, match="nope"):
        admin.delete_topics("nope")
    with pytest.raises(errors.UnknownTopicOrPartition, match="nope"):
        admin.describe_topics(["nope"], timeout=5)


def test_a_call_that_ends_before_the_grace_says_what_was_heard(admin: AdminClient) -> None:
    for _ in range(3):  # the call's end and the look-up's come together
        with pytest.raises(errors.UnknownTopicOrPartition, match="nope"):
            admin.list_offsets({TopicPartition("nope", 0): "latest"}, timeout=1)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b", "ä", "x" * 250])
def test_illegal_names_never_leave_the_client(admin: AdminClient, name: str) -> None:
    with pytest.raises(errors.InvalidTopic):
        admin.create_topics([NewTopic(name)])


def test_topics_are_checked(admin: AdminClient) -> None:
    with pytest.raises(errors.InvalidConfig, match="configuration values are texts"):
        admin.create_topics([NewTopic("a", config={"retention.ms": 5})])  # type: ignore[dict-item]
    with pytest.raises(errors.InvalidRequest, match="replica_assignment says it all"):
        admin.create_topics([NewTopic("a", 2, replica_assignment={0: [1]})])


@pytest.mark.usefixtures("short_grace")
def test_records(cluster: FakeCluster, admin: AdminClient) -> None:
    admin.create_topics(NewTopic("a"))
    a0 = TopicPartition("a", 0)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as p:
        for i in range(5):
            p.send("a", b"x", timestamp_ms=100 + i)
    assert admin.list_offsets({a0: "latest"}) == {a0: OffsetAndTimestamp(5, -1, 0)}
    assert admin.list_offsets({a0: 103}) == {a0: OffsetAndTimestamp(3, 103, 0)}
    assert admin.list_offsets({a0: 999}) == {a0: None}
    assert admin.delete_records({a0: 2}) == {a0: 2}
    assert admin.delete_records({a0: -1}) == {a0: 5}
    assert admin.list_offsets({a0: "earliest"}) == {a0: OffsetAndTimestamp(5, -1, 0)}
    with pytest.raises(errors.OffsetOutOfRange):
        admin.delete_records({a0: 6})
    with pytest.raises(errors.InvalidRequest, match="'newest' is not one of earliest"):
        admin.list_offsets({a0: "newest"})
    with pytest.raises(errors.InvalidRequest, match="'committed' is not of read_uncommitted, read"):
        admin.list_offsets({a0: "latest"}, isolation_level="committed")  # type: ignore[arg-type]
    with pytest.raises(errors.UnknownTopicOrPartition, match="nope"):
        admin.list_offsets({("nope", 0): "latest"}, timeout=5)  # type: ignore[dict-item]


def test_the_cluster(cluster: FakeCluster, admin: AdminClient) -> None:
    found = admin.describe_cluster()
    assert (found.cluster_id, found.controller_epoch) == ("fake", 1)
    assert found.controller == cluster.bootstrap_servers[0]
    assert found.controller_since_ms is None
    assert [(b.id, f"{b.host}:{b.port}") for b in found.brokers] == list(
        enumerate(cluster.bootstrap_servers, 1)
    )


def test_brokers_that_are_away_are_told_where_they_are_asked_for() -> None:
    with FakeCluster(3) as cluster, AdminClient(bootstrap_servers=cluster.bootstrap_servers) as own:
        cluster.stop_broker(2)
        assert [b.id for b in own.describe_cluster().brokers] == [1, 3]
        found = own.describe_cluster(include_fenced_brokers=True).brokers
        assert [(b.id, b.fenced) for b in found] == [(1, False), (2, True), (3, False)]
        assert f"{found[1].host}:{found[1].port}" == cluster.bootstrap_servers[1]


def test_servers_that_do_not_answer_are_named_in_time() -> None:
    with (
        AdminClient(bootstrap_servers=["127.0.0.1:1", "127.0.0.1:2"]) as admin,
        pytest.raises(errors.BootstrapFailed) as failed,
    ):
        admin.list_topics(timeout=1.5)
    assert "within 1.5 s" in str(failed.value)
    assert "127.0.0.1:1: connection refused; 127.0.0.1:2: connection refused" in str(failed.value)


def test_what_is_not_offered_says_what_to_do(admin: AdminClient) -> None:
    with pytest.raises(errors.NotOffered, match=r"AdminClient.create_acls: authorization"):
        admin.create_acls()
    with pytest.raises(AttributeError, match="create_acl"):
        admin.create_acl()
    assert not hasattr(admin, "made_up")
    with pytest.raises(errors.InvalidConfig, match="did you mean request_timeout_ms"):
        AdminClient(bootstrap_servers="a:1", request_timeout=5)


def test_after_close_calls_say_closed(cluster: FakeCluster) -> None:
    admin = AdminClient(bootstrap_servers=cluster.bootstrap_servers)
    admin.close()
    with pytest.raises(errors.ClientClosed, match="closed"):
        admin.list_topics()


def test_many_topics_are_looked_up_together(cluster: FakeCluster, admin: AdminClient) -> None:
    """Not one after the other, each with the pause behind a request for metadata."""
    names = [f"t{number}" for number in range(50)]
    for name in names:
        cluster.create_topic(name)
    before = cluster.metadata_requests
    found = admin.list_offsets({TopicPartition(name, 0): "latest" for name in names})
    assert len(found) == 50
    assert cluster.metadata_requests - before <= 3


def test_brokers_tell_how_they_are(admin: AdminClient) -> None:
    found = admin.describe_brokers()
    assert sorted(found) == [1, 2]
    replica = HostedReplica("T", "leaderless", None, 0, (1, 2), 0, 0, 0, "", "")
    assert found[1] == BrokerStatus(
        1, 5, 1_000, "r", "1",
        (BrokerListener("CLIENTS", "h", 9, "grpc", "clients", True, None),),
        (BrokerPart("logs", "running", "1 log directories work"),),
        {TopicPartition("t", 0): replica},
    )  # fmt: skip
    assert (found[2].epoch, found[2].registered_ms) == (None, None)
    with pytest.raises(errors.PartialFailure) as partly:
        admin.describe_brokers([1, 9])
    assert partly.value.results == {1: found[1]}
    assert isinstance(partly.value.errors[9], errors.BrokerNotAvailable)
