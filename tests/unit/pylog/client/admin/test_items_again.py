"""Items that fail in passing are asked again, and only these, as Kafka's AdminClient does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.model import NewTopic, TopicPartition
from tests.fakes.fake_cluster import FakeCluster

AWAY = errors.NotController.code
THROTTLED = errors.ThrottlingQuotaExceeded.code
A0 = TopicPartition("a", 0)
Call = Callable[[AdminClient], Any]
CALLS: dict[str, Call] = {
    "create_topics": lambda admin: admin.create_topics([NewTopic("n"), NewTopic("m")]),
    "delete_topics": lambda admin: admin.delete_topics(["a", "b"]),
    "create_partitions": lambda admin: admin.create_partitions({"a": 3, "b": 2}),
    "describe_configs": lambda admin: admin.describe_configs([("topic", "a"), ("broker", "")]),
    "incremental_alter_configs": lambda admin: admin.incremental_alter_configs(
        {("topic", "a"): {"segment.bytes": "1"}, ("topic", "b"): {"segment.bytes": "2"}}
    ),
    "list_offsets": lambda admin: admin.list_offsets({A0: "latest", ("b", 0): "latest"}),
    "delete_records": lambda admin: admin.delete_records({A0: 0, ("b", 0): 0}),
    "elect_leaders": lambda admin: admin.elect_leaders([A0, TopicPartition("b", 0)]),
    "alter_partition_reassignments": lambda admin: admin.alter_partition_reassignments(
        {A0: [1], TopicPartition("b", 0): [1]}
    ),
    "unregister_broker": lambda admin: admin.unregister_broker(7),
}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as running:
        running.create_topic("a")
        running.create_topic("b")
        yield running


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[AdminClient]:
    with AdminClient(
        bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=1, retry_backoff_max_ms=5
    ) as client:
        yield client


@pytest.mark.parametrize("name", CALLS)
def test_a_controller_that_is_away_for_a_moment_is_asked_again(
    cluster: FakeCluster, admin: AdminClient, name: str
) -> None:
    leader = name in ("list_offsets", "delete_records")
    fault = errors.NotLeaderOrFollower.code if leader else AWAY
    undisturbed = CALLS[name](admin) if name not in ("create_topics", "delete_topics") else None
    cluster.item_faults.extend([0, fault, fault, THROTTLED])
    told = CALLS[name](admin)
    if undisturbed is not None:
        assert told == undisturbed
    if name == "unregister_broker":  # the first answer was good
        assert list(cluster.item_faults) == [fault, fault, THROTTLED]
        cluster.item_faults.popleft()
        CALLS[name](admin)
    if name == "elect_leaders":
        assert list(cluster.item_faults) == [fault, fault, THROTTLED]
        assert CALLS[name](admin) == {A0: 1, TopicPartition("b", 0): 1}
    assert not cluster.item_faults


def test_each_item_has_its_outcome_in_the_order_of_the_call(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    cluster.item_faults.extend([AWAY, 0, 0, 0])
    created = admin.create_topics([NewTopic("n"), NewTopic("m")])
    assert list(created) == ["n", "m"]
    cluster.item_faults.extend([AWAY, errors.InvalidTopic.code, THROTTLED])
    with pytest.raises(errors.PartialFailure) as partly:
        admin.delete_topics(["n", "m"])
    assert partly.value.results == {"n": created["n"]}
    assert list(partly.value.errors) == ["m"]
    assert isinstance(partly.value.errors["m"], errors.InvalidTopic)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidReplicationFactor,
        errors.UnknownTopicOrPartition,  # an answer, although others may ask again
        errors.KafkaStorageError,  # a full disk is for people to mend
        errors.RequestTimedOut,  # it was made: a second one would find that it exists
    ],
)
def test_an_answer_is_not_asked_for_again(
    cluster: FakeCluster, admin: AdminClient, error: type[errors.PylogError]
) -> None:
    cluster.item_faults.append(error.code)
    with pytest.raises(error, match="topic n: refused by the test"):
        admin.create_topics(NewTopic("n"))
    assert "n" not in cluster.topics


def test_when_the_time_is_up_the_last_fault_is_told(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    cluster.item_faults.extend([0] + [AWAY] * 10_000)
    with pytest.raises(errors.PartialFailure) as partly:
        admin.create_topics([NewTopic("n"), NewTopic("m")], timeout=1.5)
    assert list(partly.value.results) == ["n"]
    fault = partly.value.errors["m"]
    assert isinstance(fault, errors.RequestTimedOut)
    assert str(fault) == (
        "create topics: m: not done within 1.5 s; last fault: NOT_CONTROLLER: "
        "topic m: refused by the test"
    )
    with pytest.raises(errors.RequestTimedOut, match="alter configurations: topic a: not done"):
        admin.incremental_alter_configs({("topic", "a"): {"segment.bytes": "1"}}, timeout=0.2)
    with pytest.raises(errors.RequestTimedOut, match="last fault: NOT_CONTROLLER: broker 7"):
        admin.unregister_broker(7, timeout=1)


def test_a_request_that_no_server_takes_is_told_at_once(admin: AdminClient) -> None:
    many = [NewTopic(f"t{n}") for n in range(10_001)]
    with pytest.raises(errors.InvalidRequest, match=r"^10001 topics; the limit is 10000$"):
        admin.create_topics(many)
