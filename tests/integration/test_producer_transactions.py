"""Transactions on real brokers: reads, fencing, kills."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, errors
from pylog.cli.main import main
from pylog.clock import SYSTEM_CLOCK
from pylog.model import OffsetAndMetadata, TopicPartition
from tests.verify import transaction_lists, transactions

pytestmark = pytest.mark.integration

PARTITIONS = 3
CONFIG = {
    "min.insync.replicas": "2",
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.two.phase.commit.enable": "true",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config=CONFIG) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])
    return str(name)


def producer(cluster: LocalCluster, name: str, **config: Any) -> Producer:
    made = Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name, **config)
    made.init_transactions()
    return made


def read(
    cluster: LocalCluster, topic: str, *, count: int = 0, committed: bool = True
) -> list[bytes]:
    """The readable records, from the beginning to the ends of the partitions; in any order. At
    least so many: markers come a moment after their transaction was decided.
    """
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 15_000
    found: list[bytes] = []
    with Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed" if committed else "read_uncommitted",
    ) as consumer:
        while len(found) < count or not is_at_end(consumer):
            assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms, found
            found += [record.value for record in consumer.poll(0.2)]
    return sorted(found)


def is_at_end(consumer: Consumer) -> bool:
    partitions = list(consumer.assignment())
    if not partitions:
        return False
    ends = consumer.end_offsets(partitions)
    return all(consumer.position(tp) >= end for tp, end in ends.items())


def eventually(look: Callable[[], object], wanted: object) -> None:
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 15_000
    while (found := look()) != wanted:
        assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms, found
        SYSTEM_CLOCK.sleep(0.05)


def test_a_transaction_over_partitions_counts_as_a_whole(cluster: LocalCluster, topic: str) -> None:
    table = pa.table({"value": [b"t%d" % n for n in range(100)], "key": [b"k"] * 100})
    with producer(cluster, topic) as p:
        with p.transaction():
            for number in range(30):
                p.send(topic, b"c%d" % number, partition=number % PARTITIONS)
            p.send_arrow(topic, table)
        p.begin_transaction()
        for number in range(30):
            p.send(topic, b"a%d" % number, partition=number % PARTITIONS)
        p.flush()
        p.abort_transaction()
        with p.transaction():
            p.send(topic, b"last", partition=0)
    wanted = sorted([b"c%d" % n for n in range(30)] + [b"t%d" % n for n in range(100)] + [b"last"])
    assert read(cluster, topic, count=131) == wanted
    assert len(read(cluster, topic, count=161, committed=False)) == 161


def test_the_order_within_a_partition_is_that_of_the_calls(
    cluster: LocalCluster, topic: str
) -> None:
    numbers = iter(range(10_000))
    sent = []
    with producer(cluster, topic, linger_ms=1) as p:
        for count in (1, 500, 3, 50, 1_000, 1):
            part = [b"%05d" % next(numbers) for _ in range(count)]
            with p.transaction():
                for value in part:
                    p.send(topic, value, partition=1)
            sent += part
    got: list[bytes] = []
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([(topic, 1)])
        consumer.seek_to_beginning()
        while len(got) < len(sent):
            records = consumer.poll(5)
            assert records
            got += [record.value for record in records]
        assert got == sent
        end = consumer.end_offsets([(topic, 1)])[TopicPartition(topic, 1)]
        assert end == len(sent) + 6  # each transaction has a marker, which nobody gets


def test_an_open_transaction_holds_back_readers_of_committed_records(
    cluster: LocalCluster, topic: str
) -> None:
    plain = Producer(bootstrap_servers=cluster.bootstrap_servers)
    plain.send(topic, b"before", partition=0).result(10)
    p = producer(cluster, topic)
    p.begin_transaction()
    for number in range(3):
        p.send(topic, b"%d" % number, partition=0).result(10)
    plain.send(topic, b"behind", partition=0).result(10)
    assert read(cluster, topic, count=1) == [b"before"]
    assert len(read(cluster, topic, count=5, committed=False)) == 5
    p.commit_transaction()
    assert read(cluster, topic, count=5) == [b"0", b"1", b"2", b"before", b"behind"]
    p.close()
    plain.close()


@pytest.mark.parametrize("way", ["poll", "iteration", "poll_arrow"])
def test_no_way_of_reading_shows_an_aborted_record(
    cluster: LocalCluster, topic: str, way: str
) -> None:
    with producer(cluster, topic, linger_ms=0) as p:
        for number in range(40):
            p.begin_transaction()
            kind = b"aborted" if number % 3 else b"kept"
            for index in range(3):
                p.send(topic, b"%s %d.%d" % (kind, number, index), partition=index).result(10)
            if number % 3:
                p.abort_transaction()
            else:
                p.commit_transaction()
    wanted = sorted(b"kept %d.%d" % (n, i) for n in range(0, 40, 3) for i in range(3))
    with Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        got: list[bytes] = []
        if way == "iteration":
            for record in consumer:
                got.append(record.value)
                if len(got) == len(wanted):
                    break
        while len(got) < len(wanted):
            if way == "poll":
                records = consumer.poll(10)
                assert records
                got += [record.value for record in records]
            else:
                batch = consumer.poll_arrow(10)
                assert batch.num_rows
                got += batch.column("value").to_pylist()
        assert sorted(got) == wanted
        if way == "poll_arrow":
            assert consumer.poll_arrow(0.5).num_rows == 0
        else:
            assert not consumer.poll(0.5)


def test_a_newer_producer_fences_the_one_before(cluster: LocalCluster, topic: str) -> None:
    old = producer(cluster, topic)
    old.begin_transaction()
    old.send(topic, b"old", partition=0).result(10)
    with producer(cluster, topic) as new:
        with new.transaction():
            new.send(topic, b"new", partition=0)
        late = old.send(topic, b"late", partition=1)
        assert isinstance(late.exception(10), errors.ProducerFenced | errors.InvalidProducerEpoch)
        with pytest.raises(errors.PylogError) as commit:
            old.commit_transaction()
        if not commit.value.fatal:
            with pytest.raises(errors.ProducerFenced):
                old.abort_transaction()
        with pytest.raises(errors.ProducerFenced) as told:
            old.begin_transaction()
        assert told.value.fatal
        old.close()
        with new.transaction():
            new.send(topic, b"still", partition=0)
    assert read(cluster, topic, count=2) == [b"new", b"still"]


def test_an_idle_producer_that_is_fenced_cannot_send(cluster: LocalCluster, topic: str) -> None:
    old = producer(cluster, topic)
    with producer(cluster, topic) as new:
        with pytest.raises(errors.ProducerFenced), old.transaction():
            old.send(topic, b"old")
        with new.transaction():
            new.send(topic, b"new")
    old.close()
    assert read(cluster, topic, count=1) == [b"new"]


def test_a_transaction_that_is_open_for_too_long_is_aborted(
    cluster: LocalCluster, topic: str
) -> None:
    with producer(cluster, topic, transaction_timeout_ms=3_000) as p:
        p.begin_transaction()
        p.send(topic, b"slow", partition=0).result(10)
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as plain:
            plain.send(topic, b"plain", partition=0).result(10)
        assert read(cluster, topic, count=1) == [b"plain"]  # without a word of the producer
        with pytest.raises(errors.PylogError) as error:
            p.commit_transaction()
        assert error.value.abortable
        p.abort_transaction()
        with p.transaction():
            p.send(topic, b"quick", partition=0)
    assert read(cluster, topic, count=2) == [b"plain", b"quick"]


def test_offsets_are_committed_with_the_transaction_alone(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as plain:
        for number in range(30):
            plain.send(topic, b"%d" % number, partition=number % PARTITIONS)
    group = f"{topic}-group"
    with (
        Consumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        producer(cluster, topic) as p,
    ):
        got = 0
        while got < 30:
            got += len(consumer.poll(5))
        positions = {tp: consumer.position(tp) for tp in consumer.assignment()}
        p.begin_transaction()
        p.send_offsets_to_transaction(positions, consumer.group_metadata())
        p.abort_transaction()
        assert set(consumer.committed(list(positions)).values()) == {None}
        p.begin_transaction()
        noted = {tp: OffsetAndMetadata(offset, "noted") for tp, offset in positions.items()}
        p.send_offsets_to_transaction(noted, consumer.group_metadata())
        p.commit_transaction()

        def committed() -> dict[TopicPartition, OffsetAndMetadata | None]:
            return dict(admin.list_group_offsets(group, list(noted)))

        eventually(lambda: {tp: (c.offset, c.metadata) if c else None
                            for tp, c in committed().items()},
                   {tp: (10, "noted") for tp in noted})  # fmt: skip


def test_a_member_that_the_group_has_gone_on_without_commits_nothing(
    cluster: LocalCluster, topic: str
) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as plain:
        plain.send(topic, b"1", partition=0).result(10)
    group = {"group_id": f"{topic}-group", "enable_auto_commit": False}
    first = Consumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **group
    )
    while not first.poll(5):
        pass
    member = first.group_metadata()
    positions = {tp: first.position(tp) for tp in first.assignment()}
    first.close()  # it has left, and the position is as it was
    with producer(cluster, topic) as p:
        p.begin_transaction()
        with pytest.raises(errors.TransactionAbortable, match="gone on without this member"):
            p.send_offsets_to_transaction(positions, member)
        p.abort_transaction()
        with p.transaction():
            p.send(topic, b"2", partition=0)


def test_killed_coordinators_and_leaders_lose_no_decision(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    with producer(cluster, topic, delivery_timeout_ms=60_000, request_timeout_ms=5_000) as p:
        wanted = []
        for number in range(6):
            coordinator = admin.describe_transactions(topic)[topic].coordinator
            p.begin_transaction()
            for index in range(20):
                p.send(topic, b"%d.%d" % (number, index), partition=index % PARTITIONS)
            if number % 3 == 0:
                cluster.kill(coordinator)
            if number % 2:
                p.abort_transaction()
            else:
                p.commit_transaction()
                wanted += [b"%d.%d" % (number, index) for index in range(20)]
            if number % 3 == 0:
                cluster.start(coordinator)
    assert read(cluster, topic, count=len(wanted)) == sorted(wanted)


def test_a_prepared_transaction_waits_for_the_decision_of_somebody_else(
    cluster: LocalCluster, topic: str
) -> None:
    two_phase = {"transaction_two_phase_commit_enable": True}
    first = producer(cluster, topic, **two_phase)
    first.begin_transaction()
    first.send(topic, b"1", partition=0)
    state = str(first.prepare_transaction())
    first.close()
    assert read(cluster, topic) == []
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic, **two_phase
    ) as second:
        second.init_transactions(keep_prepared_txn=True)
        second.complete_transaction(state)
        assert read(cluster, topic, count=1) == [b"1"]
        second.begin_transaction()
        second.send(topic, b"2", partition=0)
        second.prepare_transaction()
        second.complete_transaction("1:1")
        with second.transaction():
            second.send(topic, b"3", partition=0)
    assert read(cluster, topic, count=2) == [b"1", b"3"]


def test_operators_see_transactions_and_end_them(
    cluster: LocalCluster, admin: AdminClient, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    p = producer(cluster, topic)
    p.begin_transaction()
    p.send(topic, b"open", partition=2).result(10)
    described = admin.describe_transactions(topic)[topic]
    assert (described.state, described.timeout_ms) == ("Ongoing", 60_000)
    assert described.partitions == (TopicPartition(topic, 2),)
    assert described.start_time_ms is not None
    assert [one.transactional_id for one in admin.list_transactions("Ongoing")] == [topic]
    assert admin.list_transactions(older_than_ms=3_600_000) == []
    (state,) = admin.describe_producers((topic, 2)).values()
    assert [(one.producer_id, one.start_offset) for one in state] == [(described.producer_id, 0)]
    assert admin.find_hanging_transactions(topic, older_than_ms=0) == []
    arguments = ["-b", cluster.bootstrap_servers, "--json", "transactions"]
    assert main([*arguments, "describe", topic]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["state"], shown["partitions"]) == ("Ongoing", [f"{topic}-2"])
    assert main([*arguments, "abort", topic]) == 0
    assert admin.list_transactions("Ongoing") == []
    with pytest.raises(errors.PylogError):
        p.commit_transaction()
    p.close()
    assert read(cluster, topic) == []
    with pytest.raises(errors.TransactionalIdNotFound):
        admin.describe_transactions("nobody")


def test_the_time_out_of_a_transaction_has_a_limit(cluster: LocalCluster, topic: str) -> None:
    with (
        Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id=topic,
            transaction_timeout_ms=24 * 3_600_000,
        ) as p,
        pytest.raises(errors.InvalidTransactionTimeout, match=r"transaction\.max\.timeout"),
    ):
        p.init_transactions()


def test_consume_transform_produce_is_exact_whatever_dies() -> None:
    assert transactions.run(kills=8, workers=2, seed=1) == []


def test_lists_that_transactions_append_to_show_no_anomaly() -> None:
    assert transaction_lists.run(transactions=400, kills=3, seed=1) == []
