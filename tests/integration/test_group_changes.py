"""Changes of a group that works: topics that grow, subscriptions, listeners, members that go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewPartitions, NewTopic, Producer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition

pytestmark = [pytest.mark.integration, pytest.mark.slow]

both = pytest.mark.parametrize("protocol", ["consumer", "classic"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, config={"offsets.topic.num.partitions": "4"}) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def member(cluster: LocalCluster, group: str, protocol: str, **config: Any) -> Consumer:
    given = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 500, **config}
    return Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=group,
        group_protocol=protocol,
        **given,
    )


def poll_until(what: Callable[[], bool], *consumers: Consumer) -> list[Any]:
    """The records that the consumers read until that is so."""
    read: list[Any] = []
    deadline = SYSTEM_CLOCK.monotonic_ms() + 30_000
    while not what():
        assert SYSTEM_CLOCK.monotonic_ms() < deadline, [each.assignment() for each in consumers]
        for consumer in consumers:
            read += consumer.poll(0.05)
    return read


def places(topic: str, count: int) -> set[TopicPartition]:
    return {TopicPartition(topic, number) for number in range(count)}


@both
def test_partitions_that_are_new_are_read_and_have_positions(
    cluster: LocalCluster, admin: AdminClient, protocol: str
) -> None:
    topic = f"grows-{protocol}"
    admin.create_topics(NewTopic(topic, 1, 1))
    with member(cluster, topic, protocol) as consumer:
        consumer.subscribe([topic])
        poll_until(lambda: consumer.assignment() == places(topic, 1), consumer)
        admin.create_partitions({topic: NewPartitions(3)})
        poll_until(lambda: consumer.assignment() == places(topic, 3), consumer)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(3):
                producer.send(topic, b"x", partition=number)
        read: list[Any] = []

        def all_read() -> bool:
            read.extend(consumer.poll(0.05))
            return len(read) == 3

        poll_until(all_read)
        consumer.commit()
        assert {tp for tp in admin.group_lag(topic)[topic]} == places(topic, 3)


@both
def test_a_second_subscription_counts_in_place_of_the_first(
    cluster: LocalCluster, admin: AdminClient, protocol: str
) -> None:
    first, second = f"one-{protocol}", f"two-{protocol}"
    admin.create_topics([NewTopic(first, 2, 1), NewTopic(second, 1, 1)])
    with member(cluster, f"g-{protocol}", protocol) as consumer:
        consumer.subscribe([first])
        poll_until(lambda: consumer.assignment() == places(first, 2), consumer)
        consumer.subscribe([first, second])
        both_topics = places(first, 2) | places(second, 1)
        poll_until(lambda: consumer.assignment() == both_topics, consumer)
        consumer.subscribe([second])
        poll_until(lambda: consumer.assignment() == places(second, 1), consumer)


@both
def test_a_place_that_a_listener_seeks_is_read_next(
    cluster: LocalCluster, admin: AdminClient, protocol: str
) -> None:
    topic = f"seeks-{protocol}"
    admin.create_topics(NewTopic(topic, 1, 1))
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)

    class Seeks:
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            pass

        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, 7)

    with member(cluster, topic, protocol) as consumer:
        consumer.subscribe([topic], listener=Seeks())
        read: list[Any] = []

        def some_read() -> bool:
            read.extend(consumer.poll(0.05))
            return len(read) >= 3

        poll_until(some_read)
        assert [record.offset for record in read] == [7, 8, 9]


@both
def test_one_too_many_is_idle_and_takes_over_from_one_that_goes(
    cluster: LocalCluster, admin: AdminClient, protocol: str
) -> None:
    topic = f"few-{protocol}"
    admin.create_topics(NewTopic(topic, 2, 1))
    members = [member(cluster, topic, protocol) for _ in range(3)]
    try:
        for each in members:
            each.subscribe([topic])

        def shared(*those: Consumer) -> bool:
            owned = [tp for each in those for tp in each.assignment()]
            return sorted(owned) == sorted(places(topic, 2))

        poll_until(lambda: shared(*members) and _sizes(members) == [0, 1, 1], *members)
        busy = next(each for each in members if each.assignment())
        idle = [each for each in members if each is not busy]
        busy.unsubscribe()
        poll_until(lambda: shared(*idle) and _sizes(idle) == [1, 1], *idle)
    finally:
        before_ms = SYSTEM_CLOCK.monotonic_ms()
        for each in members:
            each.close()
        assert SYSTEM_CLOCK.monotonic_ms() - before_ms < 15_000, "one waits for its time-out"


def _sizes(members: Sequence[Consumer]) -> list[int]:
    return sorted(len(each.assignment()) for each in members)


def test_a_static_leader_shares_out_what_grew_while_it_was_away(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    topic = "grows-meanwhile"
    admin.create_topics(NewTopic(topic, 2, 1))

    def static(name: str) -> Consumer:
        consumer = member(
            cluster, topic, "classic", group_instance_id=name, session_timeout_ms=60_000
        )
        consumer.subscribe([topic])
        return consumer

    def have(count: int, *consumers: Consumer) -> bool:
        given = [tp for each in consumers for tp in each.assignment()]
        return sorted(given) == sorted(places(topic, count))

    leader = static("a")
    poll_until(lambda: have(2, leader), leader)
    with static("b") as other:
        both_members = (leader, other)
        poll_until(lambda: have(2, *both_members) and bool(other.assignment()), *both_members)
        leader.close()  # it is expected back, and its partition waits for it
        admin.create_partitions({topic: NewPartitions(3)})
        with static("a") as again:
            poll_until(lambda: have(3, again, other), again, other)
