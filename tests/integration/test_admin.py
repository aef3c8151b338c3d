"""Administrators' work on a running cluster, and its effects."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pylog import (
    AdminClient,
    ConfigResource,
    LocalCluster,
    NewPartitions,
    NewTopic,
    Producer,
    errors,
)
from pylog import AlterConfigOp as Op
from pylog import TopicPartition as Tp
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

DEFAULTS = ("broker", "<default>")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {
        "num.partitions": "2",
        "log.initial.task.delay.ms": "0",
        "log.retention.check.interval.ms": "200",
    }
    with LocalCluster(3, config=config, racks=("a", "b", "c")) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def producer(cluster: LocalCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as client:
        yield client


def segments(cluster: LocalCluster, topic: str) -> list[int]:
    """The number of segments of each replica of partition 0."""
    folders = sorted(cluster.data_dir.glob(f"broker-*/{topic}-0"))
    assert folders
    return [len(list(folder.glob("*.log"))) for folder in folders]


def test_brokers_tell_how_they_are(admin: AdminClient) -> None:
    admin.create_topics(NewTopic("roles", 1, 3))
    leader = admin.describe_topics("roles")["roles"].partitions[0].leader
    found = admin.describe_brokers()
    assert sorted(found) == [1, 2, 3]
    roles = {broker: status.replicas[Tp("roles", 0)].role for broker, status in found.items()}
    assert roles == {broker: "leader" if broker == leader else "follower" for broker in found}
    registered = {broker.id: broker for broker in admin.describe_cluster().brokers}
    assert {id: broker.rack for id, broker in registered.items()} == {1: "a", 2: "b", 3: "c"}
    assert {id: status.rack for id, status in found.items()} == {1: "a", 2: "b", 3: "c"}
    for broker, status in found.items():
        assert status.registered_ms is not None
        assert abs(time.time_ns() // 1_000_000 - status.registered_ms) < 600_000
        assert status.epoch == registered[broker].epoch
        assert [each.name for each in status.listeners] == ["CLIENTS", "STREAMS", "REPLICATION"]
        assert all(each.is_open for each in status.listeners)
        assert status.listeners[0].port == registered[broker].port
        assert {part.name: part.state for part in status.parts} == dict.fromkeys(
            (
                "lifecycle", "metadata", "logs", "log cleaner", "replica manager",
                "request handlers", "group coordinator", "transaction coordinator",
                "share coordinator",
            ),
            "running",
        )  # fmt: skip


def test_topics_are_deleted_by_id(admin: AdminClient) -> None:
    old = admin.create_topics(NewTopic("anew", 1, 1))["anew"]
    assert admin.delete_topics_by_id(old) == {old: "anew"}
    new = admin.create_topics(NewTopic("anew", 1, 1))["anew"]
    with pytest.raises(errors.PartialFailure) as caught:
        admin.delete_topics_by_id([old, new])
    assert caught.value.results == {new: "anew"}
    assert [*map(type, caught.value.errors.values())] == [errors.UnknownTopicId]
    assert "anew" not in admin.list_topics()
    with pytest.raises(errors.InvalidRequest, match="no topic's id"):
        admin.delete_topics_by_id([7])  # type: ignore[list-item]


def test_the_largest_batch_follows_topic_broker_and_cluster(
    admin: AdminClient, producer: Producer
) -> None:
    admin.create_topics(NewTopic("sizes", 1, 3))

    def send() -> None:
        producer.send("sizes", b"x" * 5_000).result(10)

    send()
    admin.incremental_alter_configs({("topic", "sizes"): {"max.message.bytes": "2000"}})
    with pytest.raises(errors.MessageTooLarge):
        send()
    admin.incremental_alter_configs({("topic", "sizes"): {"max.message.bytes": None}})
    send()
    admin.incremental_alter_configs({DEFAULTS: {"message.max.bytes": "3000"}})
    with pytest.raises(errors.MessageTooLarge):
        send()
    leader = admin.describe_topics("sizes")["sizes"].partitions[0].leader
    admin.incremental_alter_configs({("broker", leader): {"message.max.bytes": "9000"}})
    send()
    found = admin.describe_configs(("broker", leader))[ConfigResource("broker", str(leader))]
    assert [(s.value, s.source) for s in found["message.max.bytes"].synonyms] == [
        ("9000", "DYNAMIC_BROKER_CONFIG"),
        ("3000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
        ("1048588", "DEFAULT_CONFIG"),
    ]
    assert (found["num.partitions"].value, found["num.partitions"].source) == (
        "2", "STATIC_BROKER_CONFIG",
    )  # fmt: skip
    assert found["num.partitions"].read_only
    assert not found["message.max.bytes"].read_only
    admin.incremental_alter_configs(
        {DEFAULTS: {"message.max.bytes": None}, ("broker", leader): {"message.max.bytes": None}}
    )
    assert admin.describe_configs(DEFAULTS) == {ConfigResource("broker"): {}}


def test_segments_roll_by_the_new_size_at_once(
    cluster: LocalCluster, admin: AdminClient, producer: Producer
) -> None:
    admin.create_topics(NewTopic("rolls", 1, 3))
    for _ in range(6):
        producer.send("rolls", b"x" * 1_000).result(10)
    assert segments(cluster, "rolls") == [1, 1, 1]
    admin.incremental_alter_configs({("topic", "rolls"): {"segment.bytes": "2500"}})
    for _ in range(4):
        producer.send("rolls", b"x" * 1_000).result(10)
    eventually(30, lambda: all(n >= 3 for n in segments(cluster, "rolls")), "the segments roll")


@pytest.mark.parametrize("change", [{"retention.bytes": "3000"}, {"retention.ms": "100"}])
def test_retention_follows_the_topic_at_once(
    admin: AdminClient, producer: Producer, change: dict[str, str]
) -> None:
    name = "kept-" + next(iter(change)).replace(".", "-")
    admin.create_topics(NewTopic(name, 1, 3, config={"segment.bytes": "1500"}))
    for _ in range(10):
        producer.send(name, b"x" * 1_000).result(10)
    first = Tp(name, 0)

    def start() -> int:
        found = admin.list_offsets({first: "earliest"})[first]
        assert found is not None
        return found.offset

    assert start() == 0
    admin.incremental_alter_configs({("topic", name): change})
    eventually(30, lambda: start() >= 7, "something is deleted")
    admin.incremental_alter_configs({("topic", name): dict.fromkeys(change)})
    found = admin.list_offsets({first: "latest"})[first]
    assert found is not None
    assert found.offset == 10


def test_min_isr_decides_about_acks_all_at_once(
    cluster: LocalCluster, admin: AdminClient, producer: Producer
) -> None:
    admin.create_topics(NewTopic("quorum", replica_assignment={0: [1, 2]}))
    producer.send("quorum", b"x").result(10)
    with pytest.raises(errors.InvalidConfig, match="above the replication factor 2"):
        admin.incremental_alter_configs({("topic", "quorum"): {"min.insync.replicas": "3"}})
    admin.incremental_alter_configs({("topic", "quorum"): {"min.insync.replicas": "2"}})
    cluster.kill(2)
    try:

        def alone() -> bool:
            return admin.describe_topics("quorum")["quorum"].partitions[0].isr == (1,)

        eventually(30, alone, "broker 2 leaves the ISR")
        servers = cluster.bootstrap_servers
        short = {"delivery_timeout_ms": 1_500, "request_timeout_ms": 1_000, "linger_ms": 0}
        with (
            Producer(bootstrap_servers=servers, **short) as hasty,
            pytest.raises(errors.PylogError),
        ):
            hasty.send("quorum", b"x").result(10)
        admin.incremental_alter_configs({("topic", "quorum"): {"min.insync.replicas": None}})
        producer.send("quorum", b"x").result(10)
    finally:
        cluster.start(2)


def test_settings_outlive_controller_and_brokers(cluster: LocalCluster, admin: AdminClient) -> None:
    admin.create_topics(NewTopic("kept", 1, 3, config={"retention.ms": "5000"}))
    topic = ConfigResource("topic", "kept")
    admin.incremental_alter_configs(
        {topic: [Op("cleanup.policy", "compact", "append"), Op("segment.bytes", "4096")]}
    )
    asked = {
        topic: ["cleanup.policy", "segment.bytes", "retention.ms"],
        ConfigResource("broker", "1"): ["log.segment.bytes"],
    }
    before = admin.describe_configs(asked)
    cluster.kill_controller()
    assert admin.describe_configs(asked) == before  # by a broker
    with pytest.raises(errors.UnknownTopicOrPartition, match="topic nope: it does not exist"):
        admin.describe_configs(("topic", "nope"))
    cluster.start_controller()
    entries = admin.describe_configs(asked)
    assert entries == before
    assert {name: entry.value for name, entry in entries[topic].items()} == {
        "cleanup.policy": "delete,compact", "segment.bytes": "4096", "retention.ms": "5000",
    }  # fmt: skip
    assert {entry.source for entry in entries[topic].values()} == {"DYNAMIC_TOPIC_CONFIG"}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({("topic", "nope"): {"retention.ms": "1"}}, errors.UnknownTopicOrPartition, "nope"),
        ({("topic", "kept"): {"retention.mss": "1"}}, errors.InvalidConfig, "retention.ms?"),
        ({("topic", "kept"): {"retention.ms": "-2"}}, errors.InvalidConfig, "at least -1"),
        ({("topic", "kept"): {"retention.ms": 5}}, errors.InvalidConfig, "are texts"),
        ({("topic", "kept"): [Op("a", "b", "put")]}, errors.InvalidConfig, "not one of set, del"),
        ({("broker", 9): {"log.retention.ms": "1"}}, errors.InvalidRequest, "no broker '9'"),
        ({("broker", 1): {"num.partitions": "1"}}, errors.InvalidConfig, "cannot be changed on"),
        ({("broker", 1): {"min.insync.replicas": "1"}}, errors.InvalidConfig, "cluster only"),
        ({("group", "g"): {"retention.ms": "1"}}, errors.InvalidConfig, "retention.ms"),
        ({("role", "r"): {}}, errors.InvalidRequest, "give topic, broker or group"),
        ({"kept": {}}, errors.InvalidRequest, "is no resource"),
    ],
)
def test_refused_changes(
    admin: AdminClient, changes: dict[object, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error) as refused:
        admin.incremental_alter_configs(changes)  # type: ignore[arg-type]
    assert words in str(refused.value)


def test_several_resources_have_an_outcome_each(admin: AdminClient) -> None:
    admin.create_topics(NewTopic("outcome", 1, 1))
    with pytest.raises(errors.PartialFailure) as partly:
        admin.incremental_alter_configs(
            {("topic", "outcome"): {"retention.ms": "7"}, ("topic", "nope"): {"retention.ms": "7"}}
        )
    assert dict(partly.value.results) == {("topic", "outcome"): None}
    assert list(partly.value.errors) == [("topic", "nope")]
    (entries,) = admin.describe_configs([("topic", "outcome")]).values()
    assert entries["retention.ms"].value == "7"


def test_partitions_are_added_and_take_records(admin: AdminClient, producer: Producer) -> None:
    admin.create_topics(NewTopic("grows", 1, 2))
    wanted = {"grows": NewPartitions(3, [[1, 2], [3, 1]])}
    assert admin.create_partitions(wanted, validate_only=True) == {"grows": 3}
    assert admin.create_partitions(wanted) == {"grows": 3}
    partitions = admin.describe_topics("grows")["grows"].partitions
    assert [p.replicas for p in partitions[1:]] == [(1, 2), (3, 1)]
    assert producer.send("grows", b"x", partition=2).result(10).offset == 0
    with pytest.raises(errors.InvalidPartitions, match="grows: it has 3 partitions, 2 were"):
        admin.create_partitions({"grows": 2})
    with pytest.raises(errors.PartialFailure) as partly:
        admin.create_partitions({"grows": 4, "nope": 4})
    assert dict(partly.value.results) == {"grows": 4}
    assert isinstance(partly.value.errors["nope"], errors.UnknownTopicOrPartition)


def test_leaders_go_back_to_the_preferred_broker(cluster: LocalCluster, admin: AdminClient) -> None:
    admin.create_topics(NewTopic("leads", replica_assignment={0: [3, 1], 1: [1, 3]}))
    one, other = Tp("leads", 0), Tp("leads", 1)
    cluster.stop(3)
    eventually(
        30,
        lambda: admin.describe_topics("leads")["leads"].partitions[0].leader == 1,
        "broker 1 leads",
    )
    with pytest.raises(errors.PreferredLeaderNotAvailable, match="leads-0: broker 3 is not live"):
        admin.elect_leaders([one])
    cluster.start(3)

    def in_sync() -> bool:
        topics = admin.describe_topics().values()
        return all(set(p.isr) == set(p.replicas) for topic in topics for p in topic.partitions)

    eventually(30, in_sync, "broker 3 comes back")
    assert admin.elect_leaders([one, other]) == {one: 3, other: 1}
    assert one not in admin.elect_leaders()
    with pytest.raises(errors.InvalidRequest, match="name the partitions"):
        admin.elect_leaders(unclean=True)
    assert admin.elect_leaders([one], unclean=True) == {one: 3}  # it has a leader: not needed
    with pytest.raises(errors.UnknownTopicOrPartition, match="leads-9"):
        admin.elect_leaders([Tp("leads", 9)])


def test_log_directories(cluster: LocalCluster, admin: AdminClient, producer: Producer) -> None:
    admin.create_topics(NewTopic("stored", replica_assignment={0: [2]}))
    producer.send("stored", b"x" * 3_000).result(10)
    found = admin.describe_log_dirs()
    assert sorted(found) == cluster.brokers
    ((directory,), tp) = (found[2], Tp("stored", 0))
    assert directory.path == str(cluster.data_dir / "broker-2")
    assert 0 < directory.usable_bytes <= directory.total_bytes
    replica = directory.replicas[tp]
    assert replica.size > 3_000
    assert (replica.log_start_offset, replica.log_end_offset, replica.offset_lag) == (0, 1, 0)
    assert tp not in found[1][0].replicas
    with pytest.raises(errors.PartialFailure, match="no broker 9 is live; live are: 1, 2, 3"):
        admin.describe_log_dirs([1, 9])


def test_a_running_broker_is_not_unregistered(cluster: LocalCluster, admin: AdminClient) -> None:
    with pytest.raises(errors.InvalidRequest, match="broker 3 is running; stop it before"):
        admin.unregister_broker(3)
    with pytest.raises(errors.BrokerIdNotRegistered, match="broker 9"):
        admin.unregister_broker(9)


def test_a_stopped_broker_is_forgotten() -> None:
    with LocalCluster(2) as cluster, AdminClient(bootstrap_servers=cluster.bootstrap_servers) as a:
        cluster.stop(2)

        def gone() -> bool:
            try:
                a.unregister_broker(2)
            except errors.InvalidRequest:
                return False
            return True

        eventually(30, gone, "its session ends")
        with pytest.raises(errors.InvalidRequest, match="there are: 1"):
            a.describe_configs(("broker", 2))
