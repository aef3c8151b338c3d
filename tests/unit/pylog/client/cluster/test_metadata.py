from __future__ import annotations

import pytest

from pylog import errors
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    Leader,
    PartitionInfo,
    TopicInfo,
    addresses_to_ask,
    parse_addresses,
)

ONE, TWO = BrokerInfo(1, Address("a", 1)), BrokerInfo(2, Address("b", 2))


def snapshot(*topics: TopicInfo, brokers: tuple[BrokerInfo, ...] = (ONE, TWO)) -> ClusterSnapshot:
    return ClusterSnapshot("c", 1, brokers, Address("g", 9), topics)


def topic(*partitions: PartitionInfo, topic_id: str = "x") -> TopicInfo:
    return TopicInfo("t", topic_id, False, partitions)


def test_a_leader_must_be_alive() -> None:
    metadata = ClusterMetadata()
    metadata.update(snapshot(topic(PartitionInfo(1, 5), PartitionInfo(-1, 2), PartitionInfo(3, 1))))
    assert metadata.leader("t", 0) == Leader(1, 5)
    assert metadata.leader("t", 1) is None
    assert metadata.leader("t", 2) is None  # broker 3 is not among the live ones
    assert metadata.leader("t", 3) is None
    assert metadata.leader("u", 0) is None
    assert metadata.available("t") == [0]
    assert metadata.partition_count("t") == 3


def test_leader_epochs_never_go_back_for_one_topic_id() -> None:
    metadata = ClusterMetadata()
    metadata.update(snapshot(topic(PartitionInfo(1, 5))))
    metadata.update(snapshot(topic(PartitionInfo(2, 4))))  # a broker that lags
    assert metadata.leader("t", 0) == Leader(1, 5)
    metadata.update(snapshot(topic(PartitionInfo(2, 0), topic_id="y")))  # another topic
    assert metadata.leader("t", 0) == Leader(2, 0)


def test_a_denied_topic_is_not_forgotten() -> None:
    metadata = ClusterMetadata()
    metadata.update(snapshot(topic(PartitionInfo(1, 5))))
    denied = TopicInfo("t", error=errors.UnknownTopicOrPartition())
    assert metadata.update(snapshot(denied)) == [denied]
    assert metadata.leader("t", 0) == Leader(1, 5)


def test_an_answer_without_brokers_does_not_erase_them() -> None:
    metadata = ClusterMetadata()
    metadata.update(snapshot())
    metadata.update(snapshot(brokers=()))
    assert sorted(metadata.brokers) == [1, 2]


def test_a_named_leader_counts_when_it_is_newer_and_known() -> None:
    metadata = ClusterMetadata()
    metadata.update(snapshot(topic(PartitionInfo(1, 5))))
    assert not metadata.learn_leader("t", 0, 2, 5)
    assert not metadata.learn_leader("t", 0, 9, 6)
    assert not metadata.learn_leader("t", 1, 2, 6)
    assert metadata.learn_leader("t", 0, 2, 6)
    assert metadata.leader("t", 0) == Leader(2, 6)


def test_known_brokers_are_asked_first_the_idle_ones_before_the_busy() -> None:
    metadata = ClusterMetadata()
    metadata.update(snapshot())
    asked = addresses_to_ask(
        metadata, (Address("a", 1), Address("boot", 3)), {Address("a", 1): 4}, lambda _list: None
    )
    assert asked == [Address("b", 2), Address("a", 1), Address("boot", 3)]


def test_addresses() -> None:
    assert parse_addresses(["a:1", " b:2 ", "[::1]:3", "a:1"]) == (
        Address("a", 1),
        Address("b", 2),
        Address("::1", 3),
    )
    assert str(Address("::1", 3)) == "[::1]:3"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "is empty"),
        (["localhost"], "has no port"),
        (["localhost:"], "must be 1 to 65535"),
        (["localhost:0"], "must be 1 to 65535"),
        (["localhost:99999"], "must be 1 to 65535"),
        (["localhost:notaport"], "has port 'notaport'; it must be 1 to 65535"),
        (["localhost:" + "9" * 99], "has port '9{17}...'; it must be 1 to 65535"),
        (["http://localhost:9092"], "no scheme"),
        ([":9092"], "has no port"),
    ],
)
def test_a_wrong_address_is_named(given: list[str], words: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=words):
        parse_addresses(given)
