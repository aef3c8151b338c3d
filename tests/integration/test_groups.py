"""Consumer groups of a running cluster, in both protocols."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, errors
from pylog.aio import AsyncConsumer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import OffsetAndMetadata, TopicPartition
from pylog.records.record import Record
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

PARTITIONS = 4
PROTOCOLS = ("consumer", "classic")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"offsets.topic.num.partitions": "6"}
    with LocalCluster(3, config=config) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text
            assert "a defect" not in text


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(cluster: LocalCluster, admin: AdminClient, request: pytest.FixtureRequest) -> str:
    """A topic with 100 records in each partition."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(100 * PARTITIONS):
            producer.send(name, b"%d" % number, partition=number % PARTITIONS)
    return name


class Told:
    """A listener that notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[int]]] = []

    def _note(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        self.heard.append((what, sorted(each.partition for each in partitions)))

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._note("lost", partitions)


def member(cluster: LocalCluster, group: str, protocol: str, **config: Any) -> Consumer:
    given = {"auto_offset_reset": "earliest", "group_protocol": protocol, **config}
    return Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group, **given)


def poll_until(what: Callable[[], bool], *consumers: Consumer) -> list[Any]:
    """The records that the consumers read until that is so."""
    read: list[Any] = []
    deadline = SYSTEM_CLOCK.monotonic_ms() + 30_000
    while not what():
        assert SYSTEM_CLOCK.monotonic_ms() < deadline, [each.assignment() for each in consumers]
        for consumer in consumers:
            read += consumer.poll(0.02)
    return read


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_and_take_over(
    cluster: LocalCluster, admin: AdminClient, topic: str, protocol: str
) -> None:
    told = Told()
    first = member(cluster, topic, protocol, enable_auto_commit=False)
    second = member(cluster, topic, protocol, enable_auto_commit=False)
    try:
        first.subscribe(topic, listener=told)
        read: list[Any] = []
        while len(read) < 100 * PARTITIONS:
            read += first.poll(5)
        assert told.heard == [("assigned", [0, 1, 2, 3])]
        assert sorted(record.value for record in read) == sorted(
            b"%d" % n for n in range(100 * PARTITIONS)
        )
        first.commit()
        second.subscribe(topic)
        poll_until(lambda: len(second.assignment()) == 2 == len(first.assignment()), first, second)
        assert not first.assignment() & second.assignment()
        described = admin.describe_groups(topic)[topic]
        assert (described.type, len(described.members)) == (protocol, 2)
        second.close()
        again = poll_until(lambda: len(first.assignment()) == PARTITIONS, first)
        assert again == [], "what is committed is not read again"
        assert {
            tp.partition: found and found.offset
            for tp, found in admin.list_group_offsets(topic).items()
        } == dict.fromkeys(range(PARTITIONS), 100)
    finally:
        first.close()
        second.close()
    [listed] = [each for each in admin.list_groups() if each.group_id == topic]
    assert (listed.type, listed.state) == (protocol, "Empty")


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_while_its_members_read(
    cluster: LocalCluster, admin: AdminClient, topic: str, strategy: str
) -> None:
    def kind() -> str:
        [listed] = [each for each in admin.list_groups() if each.group_id == topic]
        return listed.type

    settings = {"enable_auto_commit": False, "heartbeat_interval_ms": 300}
    first = member(cluster, topic, "classic", partition_assignment_strategy=[strategy], **settings)
    second = member(cluster, topic, "consumer", enable_auto_commit=False)
    try:
        first.subscribe(topic)
        read = poll_until(lambda: len(first.assignment()) == PARTITIONS, first)
        while len(read) < 100 * PARTITIONS:
            read += first.poll(5)
        first.commit()
        assert kind() == "classic"
        second.subscribe(topic)
        again = poll_until(
            lambda: len(second.assignment()) == 2 == len(first.assignment()), first, second
        )
        assert kind() == "consumer"
        assert not first.assignment() & second.assignment()
        first.commit()
        second.commit()
        second.close()
        again += poll_until(lambda: len(first.assignment()) == PARTITIONS, first)
        assert kind() == "classic"
        assert again == [], "what is committed is not read again"
        first.commit()
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("is_text", [True, False])
def test_a_pattern_finds_topics_that_are_there_and_that_come(
    cluster: LocalCluster, admin: AdminClient, topic: str, is_text: bool
) -> None:
    wanted = f"x-{topic}-[0-9]"
    names = [f"x-{topic}-{number}" for number in range(3)]
    admin.create_topics([NewTopic(name, 2) for name in (*names[:2], f"x-{topic}-no")])
    with member(cluster, topic, "consumer", metadata_max_age_ms=300_000) as consumer:
        consumer.subscribe(pattern=wanted if is_text else re.compile(wanted))
        poll_until(lambda: len(consumer.assignment()) == 4, consumer)
        [described] = admin.describe_groups(topic)[topic].members
        assert described.topic_pattern == (f"^(?!__)(?:{wanted})" if is_text else None)
        if is_text:  # the coordinator hears of it at once
            admin.create_topics([NewTopic(names[2], 2)])
            poll_until(lambda: len(consumer.assignment()) == 6, consumer)
        assert {tp.topic for tp in consumer.assignment()} == set(names[: 3 if is_text else 2])
    admin.delete_topics([*names[: 3 if is_text else 2], f"x-{topic}-no"])


def test_an_operator_removes_a_member_of_the_consumer_protocol(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    with member(cluster, topic, "consumer", group_instance_id="here") as consumer:
        consumer.subscribe(topic)
        poll_until(lambda: len(consumer.assignment()) == PARTITIONS, consumer)
    assert len(admin.describe_groups(topic)[topic].members) == 1  # it is expected back
    admin.remove_group_members(topic)
    assert admin.describe_groups(topic)[topic].members == ()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_read_is_committed_at_the_end_and_goes_on_there(
    cluster: LocalCluster, topic: str, protocol: str
) -> None:
    with member(cluster, topic, protocol) as consumer:
        consumer.subscribe(topic)
        taken = [next(iter(consumer)).value for _ in range(1)]
        for record in consumer:
            taken.append(record.value)
            if len(taken) == 150:
                break
    rest: list[bytes | None] = []
    with member(cluster, topic, protocol) as consumer:
        consumer.subscribe(topic)
        while len(taken) + len(rest) < 100 * PARTITIONS:
            rest += [record.value for record in consumer.poll(5)]
    assert sorted(taken + rest) == sorted(b"%d" % n for n in range(100 * PARTITIONS))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_an_error_ended_is_read_again(
    cluster: LocalCluster, topic: str, protocol: str
) -> None:
    class Failed(Exception):
        pass

    def fail_at_the_30th() -> None:
        with member(cluster, topic, protocol) as consumer:
            consumer.subscribe(topic)
            for seen, record in enumerate(consumer, 1):
                if seen == 30:
                    raise Failed(record.partition, record.offset)

    with pytest.raises(Failed) as failed:
        fail_at_the_30th()
    with member(cluster, topic, protocol) as consumer:
        consumer.subscribe(topic)
        read: list[tuple[int, int]] = []
        while len(read) < 100 * PARTITIONS - 29:
            read += [(record.partition, record.offset) for record in consumer.poll(5)]
    assert failed.value.args in read
    assert len(read) == len(set(read)) == 100 * PARTITIONS - 29


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("told", ["on_partitions_assigned", "on_partitions_revoked"])
def test_a_listener_that_closes_its_consumer_is_refused_at_once(
    cluster: LocalCluster, topic: str, protocol: str, told: str
) -> None:
    """The group waits for the listener to return."""
    consumer = member(cluster, topic, protocol)
    listener = SimpleNamespace(**{told: lambda _partitions: consumer.close()})
    consumer.subscribe(topic, listener=listener)
    begin_ms = SYSTEM_CLOCK.monotonic_ms()

    def use() -> None:
        while not consumer.poll(5):
            pass
        consumer.close()

    with pytest.raises(errors.InvalidRequest, match=r"close\(\) inside a callback"):
        use()
    consumer.close()
    assert SYSTEM_CLOCK.monotonic_ms() - begin_ms < 10_000
    with pytest.raises(errors.ClientClosed):
        consumer.poll(0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_callback_of_a_commit_closes_its_consumer(
    cluster: LocalCluster, topic: str, protocol: str
) -> None:
    consumer = member(cluster, topic, protocol)
    consumer.subscribe(topic)
    assert consumer.poll(10)
    consumer.commit_async(callback=lambda _offsets, _error: consumer.close())

    def poll_on() -> None:
        while True:
            consumer.poll(0.1)

    with pytest.raises(errors.ClientClosed):
        poll_on()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_commits_of_all_kinds(cluster: LocalCluster, topic: str, protocol: str) -> None:
    t0 = TopicPartition(topic, 0)
    answers: list[tuple[Any, Any]] = []
    with member(cluster, topic, protocol, enable_auto_commit=False) as consumer:
        consumer.subscribe(topic)
        poll_until(lambda: len(consumer.assignment()) == PARTITIONS, consumer)
        consumer.commit({t0: 7})
        assert consumer.committed(t0) == OffsetAndMetadata(7)
        consumer.commit({t0: OffsetAndMetadata(9, "why", 0)})
        assert consumer.committed(t0) == OffsetAndMetadata(9, "why", 0)
        consumer.commit_async({t0: 11}, lambda *answer: answers.append(answer))
        poll_until(lambda: bool(answers), consumer)
        assert answers == [({t0: OffsetAndMetadata(11)}, None)]
        with pytest.raises(errors.OffsetMetadataTooLarge):
            consumer.commit({t0: OffsetAndMetadata(1, "x" * 5_000)})
        with pytest.raises(errors.UnknownTopicOrPartition):
            consumer.commit({TopicPartition("nowhere", 0): 1})
        metadata = consumer.group_metadata()
        assert (metadata.group_id, metadata.generation) == (topic, 1)


def test_a_consumer_that_assigns_itself_commits_too(cluster: LocalCluster, topic: str) -> None:
    t0 = TopicPartition(topic, 0)
    for begins in (0, 50):
        with member(cluster, topic, "consumer", max_poll_records=50) as consumer:
            consumer.assign([t0])
            records: list[Record] = []
            while not records:
                records = list(consumer.poll(5))
            assert records[0].offset == begins
            assert len(records) == 50


def test_whoever_is_late_to_poll_is_out_and_joins_again(cluster: LocalCluster, topic: str) -> None:
    told = Told()
    with member(cluster, topic, "consumer", max_poll_interval_ms=300) as consumer:
        consumer.subscribe(topic, listener=told)
        poll_until(lambda: len(consumer.assignment()) == PARTITIONS, consumer)
        epoch = consumer.group_metadata().generation
        eventually(30, lambda: consumer.group_metadata().generation != epoch, "the member is out")
        poll_until(lambda: told.heard.count(("assigned", [0, 1, 2, 3])) == 2, consumer)
    assert ("lost", [0, 1, 2, 3]) in told.heard


def test_groups_from_asyncio(cluster: LocalCluster, topic: str) -> None:
    async def main() -> None:
        async with AsyncConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
        ) as consumer:
            read = 0
            async for _ in consumer:
                read += 1
                if read == 100 * PARTITIONS:
                    break
            await consumer.commit()
            committed = await consumer.committed()
            assert {found.offset for found in committed.values()} == {100}

    asyncio.run(main())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_live_through_the_death_of_their_coordinator(
    cluster: LocalCluster, admin: AdminClient, topic: str, protocol: str
) -> None:
    told = Told()
    with member(cluster, topic, protocol, enable_auto_commit=False) as consumer:
        consumer.subscribe(topic, listener=told)
        poll_until(lambda: len(consumer.assignment()) == PARTITIONS, consumer)
        consumer.commit(dict.fromkeys(consumer.assignment(), 42))
        before = admin.describe_groups(topic)[topic].coordinator.id
        cluster.kill(before)
        consumer.commit(dict.fromkeys(consumer.assignment(), 43), timeout=20)
        assert {found.offset for found in consumer.committed().values()} == {43}
        assert told.heard == [("assigned", [0, 1, 2, 3])], "nobody is rebalanced for it"
        cluster.start(before)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_is_closed_leaves_or_remains(
    cluster: LocalCluster, admin: AdminClient, topic: str, protocol: str
) -> None:
    left: dict[tuple[str | None, bool | None], bool] = {}
    for instance_id in (None, "i"):
        for leave_group in (None, True, False):
            group = f"{topic}-{instance_id}-{leave_group}"
            told = Told()
            consumer = member(cluster, group, protocol, group_instance_id=instance_id)
            consumer.subscribe(topic, listener=told)
            poll_until(lambda told=told: bool(told.heard), consumer)  # type: ignore[misc]
            consumer.close(leave_group=leave_group)
            left[instance_id, leave_group] = not admin.describe_groups([group])[group].members
    assert left == {
        (None, None): True,
        (None, True): True,
        (None, False): False,
        ("i", None): False,
        ("i", True): True,
        ("i", False): False,
    }
