"""Wrong arguments of public calls: each is told by name, none as Python's own error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pylog import (
    AdminClient,
    Consumer,
    LocalCluster,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    ShareConsumer,
    TopicPartition,
    errors,
)
from pylog.model import ConsumerGroupMetadata
from tests.fakes.fake_cluster import FakeCluster

NUMBERS = (1, -1, 1.5, math.nan, True)
TEXTS = ("", b"x", "x")
LISTS: tuple[Any, ...] = ([None], [1], ("t", "0"), ("t", -1), ("t", True), [("t", -1)])
MAPPINGS: tuple[Any, ...] = ({"t": None}, {("t", 0): "x"}, {("t", 0): -5}, {("t", 0): True})
OTHERS = (None, object(), len)
EVERYTHING = (*NUMBERS, *TEXTS, *LISTS, *MAPPINGS, *OTHERS)
NO_NUMBER = (True, 1.5, math.nan, *TEXTS, *LISTS, *MAPPINGS, object(), len)
NO_UTF8 = "\udcff"
"""What Python makes of a byte that is no text."""
Call = Callable[..., object]


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture(scope="module")
def producer(cluster: FakeCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        yield producer


@pytest.fixture(scope="module")
def consumer(cluster: FakeCluster) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([("t", 0)])
        yield consumer


@pytest.fixture(scope="module")
def admin(cluster: FakeCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


def refused(call: Call, *wrong: Any, word: str = "") -> None:
    for value in wrong:
        with pytest.raises(errors.PylogError) as told:
            call(value)
        assert word in str(told.value), (value, told.value)


@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_where_the_cluster_is(kind: Call) -> None:
    wrong = (*NUMBERS, b"x", [None], *OTHERS, [])
    refused(lambda given: kind(bootstrap_servers=given), *wrong, word="bootstrap_servers")


@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_settings(cluster: FakeCluster, kind: Call) -> None:
    where = {"bootstrap_servers": cluster.bootstrap_servers}
    refused(lambda given: kind(**where, request_timeout_ms=given), *NO_NUMBER, None, 0, -1,
            word="request_timeout_ms")  # fmt: skip
    refused(lambda given: kind(**where, client_id=given), *NUMBERS, b"x", None, word="client_id")
    with pytest.raises(errors.InvalidConfig, match=r"client_ids.*did you mean client_id\?"):
        kind(**where, client_ids="x")


@pytest.mark.parametrize("kind", [Consumer, ShareConsumer])
def test_a_group_that_utf8_cannot_write(cluster: FakeCluster, kind: Call) -> None:
    for group in (NO_UTF8, "g\ud800"):
        with pytest.raises(errors.InvalidGroupId, match=r"group_id=.*a text in UTF-8"):
            kind("t", bootstrap_servers=cluster.bootstrap_servers, group_id=group)


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (Producer, "client_id"),
        (Producer, "transactional_id"),
        (Consumer, "client_rack"),
        (Consumer, "group_remote_assignor"),
        (ShareConsumer, "client_rack"),
    ],
)
def test_settings_that_utf8_cannot_write(cluster: FakeCluster, kind: Call, setting: str) -> None:
    given = {"bootstrap_servers": cluster.bootstrap_servers, setting: NO_UTF8}
    if kind is ShareConsumer:
        given["group_id"] = "g"
    with pytest.raises(errors.InvalidConfig, match=rf"{setting}=.*a text in UTF-8"):
        kind(**given)


def test_acks_is_no_boolean(cluster: FakeCluster) -> None:
    where = {"bootstrap_servers": cluster.bootstrap_servers}
    refused(lambda given: Producer(**where, acks=given), True, 2, 1.5, b"all", [], word="acks=")  # type: ignore[arg-type]


def test_send(producer: Producer) -> None:
    for wrong in (*NUMBERS, "", b"x", *LISTS, *MAPPINGS, *OTHERS):
        with pytest.raises(errors.InvalidTopic):
            producer.send(wrong)
    send = producer.send
    refused(lambda given: send("t", partition=given), *NO_NUMBER, -1, 2, word="partition")
    refused(lambda given: send("t", timestamp_ms=given), *NO_NUMBER, -1, word="timestamp_ms=")
    refused(lambda given: send("t", headers=given), *NUMBERS, "x", b"x", [None], {1: b"x"}, len,
            word="header")  # fmt: skip
    refused(lambda given: send("t", on_delivery=given), 1, "x", [1], word="on_delivery=")
    refused(lambda given: send("t", value=given), *NUMBERS, [None], {}, len, word="value")
    refused(lambda given: producer.send_arrow("t", given), *EVERYTHING)
    refused(send("t", b"x").add_done_callback, 1, None, "x", word="callback=")
    for wrong in ([], {}, None, 1):
        assert producer._may_block(wrong)


def test_positions(consumer: Consumer) -> None:
    everything = [wrong for wrong in EVERYTHING if not isinstance(wrong, dict)]
    for call in (
        consumer.assign, consumer.seek_to_end, consumer.position, consumer.pause, consumer.resume,
        consumer.end_offsets, consumer.beginning_offsets, consumer.lag,
    ):  # fmt: skip
        refused(call, *everything, word="is not a partition; give")
    refused(lambda given: consumer.seek(("t", 0), given), *NO_NUMBER, None, -1, word="t-0: seek")
    refused(consumer.offsets_for_times, *EVERYTHING)
    refused(consumer.subscribe, *NUMBERS, b"x", [None], *OTHERS)
    refused(lambda given: consumer.subscribe(pattern=given), *NUMBERS, b"x", [1], object())
    refused(consumer.close, True, math.nan, "1", word="timeout=")


def test_numbers_of_numpy_are_numbers(producer: Producer, consumer: Consumer) -> None:
    numpy = pytest.importorskip("numpy")
    told = producer.send("t", b"x", partition=numpy.int32(1), timestamp_ms=numpy.int64(5))
    assert told.result(30).partition == 1
    consumer.seek((numpy.str_("t"), numpy.int64(0)), numpy.int64(3))
    assert consumer.position(("t", 0)) == 3


def test_administration(admin: AdminClient) -> None:
    names = (*NUMBERS, "", b"x", [None], [1], [""], object(), len)
    refused(admin.delete_topics, *names, None)
    refused(admin.describe_topics, *names)
    refused(admin.create_topics, *EVERYTHING, word="NewTopic")
    refused(admin.create_partitions, *EVERYTHING)
    refused(admin.describe_configs, *EVERYTHING)
    refused(admin.incremental_alter_configs, *EVERYTHING)
    refused(admin.list_offsets, *EVERYTHING)
    refused(admin.delete_records, *EVERYTHING)
    refused(admin.describe_log_dirs, *NUMBERS, "x", [None], [-1], [True], len, word="brokers")
    refused(admin.elect_leaders, *NUMBERS, *TEXTS, *LISTS, object(), len)
    refused(lambda given: admin.list_topics(timeout=given), True, math.nan, "1", [1])


def test_names_that_utf8_cannot_write(admin: AdminClient) -> None:
    bad, topic, tp = NO_UTF8, ("topic", "t"), TopicPartition("t", 0)
    for call in (
        admin.describe_groups, admin.delete_groups, admin.group_lag, admin.list_group_offsets,
        admin.list_share_group_offsets, admin.remove_group_members,
    ):  # fmt: skip
        with pytest.raises(errors.InvalidGroupId, match="a text in UTF-8"):
            call(bad)
    calls: tuple[Call, ...] = (
        admin.describe_transactions,
        admin.fence_producers,
        admin.abort_transaction,
        lambda given: admin.list_transactions(pattern=given),
        lambda given: admin.abort_sink(given, "s"),
        lambda given: admin.forget_sink("q", given),
        lambda given: admin.list_sinks(given),
        lambda given: admin.describe_configs([("group", given)]),
        lambda given: admin.describe_configs(("topic", given)),
        lambda given: admin.alter_group_offsets("g", {tp: OffsetAndMetadata(1, given)}),
        lambda given: admin.remove_group_members("g", reason=given),
        lambda given: admin.update_features({given: 1}),
        admin.delete_topics_by_id,
    )
    for call in calls:
        with pytest.raises(errors.InvalidRequest):
            call(bad)
    for call in (
        lambda given: admin.incremental_alter_configs({topic: {"retention.ms": given}}),
        lambda given: admin.incremental_alter_configs({topic: {given: "1"}}),
        lambda given: admin.describe_configs({topic: [given]}),
        lambda given: admin.create_topics(NewTopic("new", config={"retention.ms": given})),
    ):
        with pytest.raises(errors.InvalidConfig):
            call(bad)
    for call in (
        admin.find_hanging_transactions, admin.delete_topics, admin.describe_topics,
        lambda given: admin.create_partitions({given: 3}),
    ):  # fmt: skip
        with pytest.raises(errors.InvalidTopic):
            call(bad)


def test_what_goes_with_offsets(cluster: FakeCluster) -> None:
    where = {"bootstrap_servers": cluster.bootstrap_servers}
    with Consumer("t", **where, group_id="g") as consumer:
        commit = {TopicPartition("t", 0): OffsetAndMetadata(1, NO_UTF8)}
        with pytest.raises(errors.InvalidRequest, match=r"metadata=.*a text in UTF-8"):
            consumer.commit(commit)
        with pytest.raises(errors.InvalidRequest, match=r"reason=.*a text in UTF-8"):
            consumer.enforce_rebalance(NO_UTF8)
    with Producer(**where, transactional_id="x") as producer:
        refused(lambda given: producer.send_offsets_to_transaction({}, given), None,
                ConsumerGroupMetadata(NO_UTF8), word="group_metadata=")  # fmt: skip
        refused(lambda given: producer.send("t", headers=[(given, b"x")]), NO_UTF8)


def test_new_topics(admin: AdminClient) -> None:
    def create(**more: Any) -> object:
        return admin.create_topics(NewTopic(**{"name": "new", **more}))

    refused(lambda given: create(name=given), *NUMBERS, "", b"x", [1], *OTHERS)
    wrong = (*NO_NUMBER, None, -2, 2**31)
    refused(lambda given: create(num_partitions=given), *wrong, word="topic new:")
    refused(lambda given: create(replication_factor=given), *wrong, word="topic new:")
    placed = (*NUMBERS, *TEXTS, [1], {"x": [1]}, {0: 1}, {0: [None]}, {0: [True]}, {-1: [1]})
    refused(lambda given: create(replica_assignment=given), *placed, word="replica_assignment=")
    refused(lambda given: create(config=given), *NUMBERS, *TEXTS, [1], {"x": 1}, {1: "x"},
            word="topic new:")  # fmt: skip


def test_more_partitions_and_settings(admin: AdminClient) -> None:
    def grow(total: Any = 3, assignments: Any = None) -> object:
        return admin.create_partitions({"t": NewPartitions(total, assignments)})

    refused(grow, *NO_NUMBER, None, 0, -1, 2**31, word="topic t:")
    refused(lambda given: grow(3, given), *NUMBERS, "x", b"x", [1], [[None]], ["x"],
            word="topic t: assignments=")  # fmt: skip
    topic = ("topic", "t")
    changes = (*NUMBERS, "x", b"x", [None], [1], {1: "x"}, {"retention.ms": 1}, *OTHERS)
    refused(lambda given: admin.incremental_alter_configs({topic: given}), *changes, word="topic t")
    refused(lambda given: admin.describe_configs({topic: given}), *NUMBERS, b"x", [1], [None], len,
            word="topic t")  # fmt: skip
    refused(lambda given: admin.describe_configs(("topic", given)), None, "", True, 1.5, [1])


def test_a_local_cluster() -> None:
    refused(LocalCluster, *NO_NUMBER, None, 0, -1, 101, word="brokers=")  # type: ignore[arg-type]
    refused(lambda given: LocalCluster(data_dir=given), *NUMBERS, b"x", [1], len, word="data_dir=")
    refused(lambda given: LocalCluster(config=given), *NUMBERS, "x", b"x", [1], len, word="config=")
    refused(lambda given: LocalCluster(racks=given), *NUMBERS, "x", b"x", [1], [" "], word="racks")
    refused(lambda given: LocalCluster(listen=given), *NUMBERS, "x", b"x", [1], len, word="listen=")
