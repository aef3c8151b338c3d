"""Programs in the manner of kafka-python's and confluent-kafka's examples run with their import
line changed, and so does each line of the page about them.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pylog
from pylog.compat import confluent_kafka as ck
from pylog.compat import kafka_python as kp
from pylog.compat.confluent_kafka import admin as ck_admin
from pylog.compat.confluent_kafka import aio, serialization
from pylog.compat.kafka_python import admin as kp_admin
from pylog.local import LocalCluster

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-kafka-clients.md").read_text()
PATIENCE_MS = 60_000
"""Machines of tests may be slow."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with LocalCluster(1) as cluster:
        yield cluster.bootstrap_servers


# ---- the page -----------------------------------------------------------------------------------


def lines_of(heading: str) -> list[tuple[str, str]]:
    """The two columns of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+)` \| `(.+)` \|$", section, re.MULTILINE)
    assert len(rows) > 10
    return rows


def run(lines: list[str], names: dict[str, Any]) -> dict[str, Any]:
    for line in lines:
        exec(line, names)
    return names


@pytest.mark.parametrize(
    ("heading", "library"),
    [
        ("kafka-python, line by line", {**vars(kp), **vars(kp_admin)}),
        ("confluent-kafka, line by line", {**vars(ck), **vars(ck_admin)}),
    ],
)
def test_both_columns_of_the_page_run(servers: str, heading: str, library: Any) -> None:
    rows = lines_of(heading)
    own = {name: getattr(pylog, name) for name in pylog.__all__}
    for column, names in ((0, library), (1, own)):
        done = run([row[column] for row in rows], {**names, "SERVERS": servers, "json": json})
        assert done["message"] is not None
        assert len(done.get("records") or done["messages"]) == 1


# ---- kafka-python -------------------------------------------------------------------------------


def test_a_producer_and_a_consumer_in_threads(servers: str) -> None:
    """As example.py: neither knows of the other, and the topic is made by the one that comes
    first.
    """
    stop, seen = threading.Event(), threading.Event()

    def produce() -> None:
        producer = kp.KafkaProducer(bootstrap_servers=servers)
        while not stop.wait(0.05):
            producer.send("threads", b"test")
            producer.send("threads", b"\xc2Hola, mundo!")
        producer.close()

    def consume() -> None:
        consumer = kp.KafkaConsumer(
            bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=1000
        )
        consumer.subscribe(["threads"])
        while not stop.is_set():
            for message in consumer:
                assert message.topic == "threads"
                if message.offset >= 3:
                    seen.set()
                if stop.is_set():
                    break
        consumer.close()

    threads = [threading.Thread(target=work) for work in (produce, consume)]
    for thread in threads:
        thread.start()
    assert seen.wait(PATIENCE_MS / 1000)
    stop.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_what_kafka_pythons_readme_shows(servers: str) -> None:
    producer = kp.KafkaProducer(
        bootstrap_servers=servers,
        value_serializer=kp.JsonSerializer(),
        key_serializer=kp.DefaultSerializer(),
        compression_type="gzip",
    )
    told: list[Any] = []
    for number in range(10):
        future = producer.send("readme", {"n": number}, key="k", headers=[("h", b"v")])
        future.add_callback(lambda name, metadata: told.append((name, metadata.offset)), "sent")
    assert producer.send("readme", {"n": 10}, partition=0).get(timeout=60).offset == 10
    producer.flush()
    assert told == [("sent", number) for number in range(10)]
    assert producer.metrics()["producer-metrics"]["record-send-total"] >= 11
    with pytest.raises(ValueError, match="key or value"):
        producer.send("readme")
    with pytest.raises(ValueError, match="Unrecognized partition"):
        producer.send("readme", {}, partition=7)
    producer.close()
    with pytest.raises(kp.errors.IllegalStateError):
        producer.send("readme", {})
    consumer = kp.KafkaConsumer(
        bootstrap_servers=servers,
        value_deserializer=kp.JsonSerializer(),
        auto_offset_reset="earliest",
        isolation_level=kp.IsolationLevel.READ_COMMITTED,
    )
    tp = kp.TopicPartition("readme", 0)
    consumer.assign([tp])
    first = next(consumer)
    assert (first.value, first.headers, first.key) == ({"n": 0}, [("h", b"v")], b"k")
    assert first.serialized_value_size == len(b'{"n": 0}')
    assert [r.value["n"] for r in consumer.poll(PATIENCE_MS, max_records=3)[tp]] == [1, 2, 3]
    assert consumer.position(tp) == 4
    assert consumer.metrics()["consumer-metrics"]
    with pytest.raises(kp.errors.IllegalStateError):
        consumer.subscribe(["readme"])
    with pytest.raises(kp.errors.IllegalStateError, match="Requires group_id"):
        consumer.commit()
    consumer.close()


def test_transactions_of_kafka_python(servers: str) -> None:
    producer = kp.KafkaProducer(bootstrap_servers=servers, transactional_id="fizzbuzz")
    producer.init_transactions()
    admin, tp = kp.KafkaAdminClient(bootstrap_servers=servers), kp.TopicPartition("kp-txn", 0)
    for value, ends in (
        (b"yes", producer.commit_transaction),
        (b"no", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.send("kp-txn", value).get(60)
        ends_by_level = [
            admin.list_partition_offsets({tp: kp.OffsetSpec.LATEST}, level)[tp].offset
            for level in (kp.IsolationLevel.READ_COMMITTED, kp.IsolationLevel.READ_UNCOMMITTED)
        ]
        assert ends_by_level[0] == ends_by_level[1] - 1
        if value == b"yes":
            offsets = {tp: kp.OffsetAndMetadata(1, "note")}
            producer.send_offsets_to_transaction(offsets, "kp-txn-group")
        ends()
    producer.close()
    consumer = kp.KafkaConsumer(
        "kp-txn",
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=3000,
    )
    assert [message.value for message in consumer] == [b"yes"]
    consumer.close()
    found = admin.list_group_offsets("kp-txn-group")["kp-txn-group"]
    assert found == {tp: (1, "note", -1)}
    admin.close()


class Listening(kp.ConsumerRebalanceListener):
    """Commits what is revoked, as listeners mostly do."""

    def __init__(self, consumer: kp.KafkaConsumer) -> None:
        self.told: list[Any] = []
        self._consumer = consumer

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._consumer.commit({tp: kp.OffsetAndMetadata(0, "revoked") for tp in revoked})
        self.told.append(("revoked", revoked))

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.told.append(("assigned", assigned))


def test_groups_of_kafka_python(servers: str) -> None:
    admin = kp.KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([kp_admin.NewTopic("kp-groups", 2, 1)])
    consumer = kp.KafkaConsumer(bootstrap_servers=servers, group_id="kp", enable_auto_commit=False)
    listener = Listening(consumer)
    consumer.subscribe(pattern="^kp-gr", listener=listener)
    both = {kp.TopicPartition("kp-groups", 0), kp.TopicPartition("kp-groups", 1)}
    for _ in range(60):
        assert consumer.poll(timeout_ms=1000) == {}
        if consumer.assignment():
            break
    assert consumer.assignment() == both
    assert listener.told[-1] == ("assigned", both)
    done: list[Any] = []
    positions = {tp: kp.OffsetAndMetadata(0, "x") for tp in both}
    future = consumer.commit_async(positions, lambda offsets, outcome: done.append(outcome))
    for _ in range(60):
        consumer.poll(timeout_ms=500)
        if done:
            break
    assert (done, future.succeeded()) == ([True], True)
    assert consumer.committed(next(iter(both)), metadata=True) == (0, "x", -1)
    assert admin.describe_groups(["kp"])["kp"]["group_state"] == "Stable"
    assert ("kp", "consumer") in admin.list_consumer_groups()
    consumer.close(autocommit=False)
    assert listener.told[-1] == ("revoked", both)
    committed = admin.list_group_offsets("kp")["kp"]
    assert committed == dict.fromkeys(both, (0, "revoked", -1))
    reset = admin.reset_group_offsets("kp", dict.fromkeys(both, kp.OffsetSpec.LATEST))
    assert {row["error"] for row in reset.values()} == {kp.errors.NoError}
    assert admin.delete_groups(["kp", "nobody"]) == {"kp": "OK", "nobody": "GroupIdNotFoundError"}
    admin.close()


def test_the_admin_client_of_kafka_python(servers: str) -> None:
    with kp.KafkaAdminClient(bootstrap_servers=servers) as admin:
        made = admin.create_topics({"kp-a": {"num_partitions": 1}, "kp-b": {}})
        assert [row["error_code"] for row in made["topics"]] == [0, 0]
        with pytest.raises(kp.errors.TopicAlreadyExistsError):
            admin.create_topics(["kp-a"])
        again = admin.create_topics(["kp-a", "kp-c"], raise_errors=False)
        assert [row["error_code"] for row in again["topics"]] == [36, 0]
        admin.create_partitions({"kp-a": kp_admin.NewPartitions(3)})
        assert len(admin.describe_topics(["kp-a"])[0]["partitions"]) == 3
        resource = kp_admin.ConfigResource("topic", "kp-a", {"retention.ms": 5})
        assert admin.alter_configs([resource]) == {"topic": {"kp-a": "OK"}}
        found = admin.describe_configs([kp_admin.ConfigResource("TOPIC", "kp-a")])
        assert found["topic"]["kp-a"]["retention.ms"]["value"] == "5"
        admin.reset_configs([kp_admin.ConfigResource("TOPIC", "kp-a", ["retention.ms"])])
        assert admin.describe_configs([kp_admin.ConfigResource("TOPIC", "kp-a")]) == {
            "topic": {"kp-a": {}}
        }
        tp = kp.TopicPartition("kp-a", 0)
        for level in kp.IsolationLevel:
            latest = admin.list_partition_offsets({tp: kp.OffsetSpec.LATEST}, level)
            assert latest[tp].offset == 0
        assert admin.delete_records({tp: -1})[tp]["low_watermark"] == 0
        assert admin.alter_partition_reassignments({tp: [1]}) == {tp: None}
        assert admin.alter_partition_reassignments({tp: None}) == {
            tp: kp.errors.NoReassignmentInProgressError
        }
        assert admin.list_partition_reassignments() == {}
        assert admin.describe_log_dirs()[0]["log_dirs"][0]["topics"]
        assert admin.describe_cluster()["brokers"][0]["broker_id"] == 1
        missing = admin.describe_topics(["kp-none"])[0]
        assert missing["error_code"] == 3
        with pytest.raises(kp.errors.UnsupportedVersionError, match="no authorization"):
            admin.create_acls([])  # type: ignore[attr-defined]
        gone = admin.delete_topics(["kp-b", "kp-c"])
        assert {row["name"] for row in gone["topics"]} == {"kp-b", "kp-c"}


def test_a_value_that_kafka_pythons_deserializer_refuses(servers: str) -> None:
    with kp.KafkaProducer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"bad", b"3"):
            producer.send("poison", value)
    consumer = kp.KafkaConsumer(
        "poison", bootstrap_servers=servers, auto_offset_reset="earliest", value_deserializer=int
    )
    tp = kp.TopicPartition("poison", 0)
    assert [r.value for r in consumer.poll(PATIENCE_MS)[tp]] == [1]
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            consumer.poll(PATIENCE_MS)
    with pytest.raises(ValueError, match="invalid literal"):
        next(consumer)
    consumer.seek(tp, 2)
    assert next(consumer).value == 3
    consumer.close()


def test_consumers_that_read_nothing_yet_find_nothing(servers: str) -> None:
    python = kp.KafkaConsumer(bootstrap_servers=servers, consumer_timeout_ms=50)
    assert (python.poll(timeout_ms=50), list(python), python.subscription()) == ({}, [], None)
    python.close()
    confluent = ck.Consumer({"bootstrap.servers": servers, "group.id": "nothing"})
    assert (confluent.poll(0.05), confluent.assignment()) == (None, [])
    confluent.close()


# ---- confluent-kafka ----------------------------------------------------------------------------


def produced(servers: str, topic: str, count: int) -> None:
    with ck.Producer({"bootstrap.servers": servers}) as producer:
        for number in range(count):
            producer.produce(topic, f"v{number}", key=f"k{number}")


def read(consumer: Any, count: int) -> list[Any]:
    found = consumer.consume(count, PATIENCE_MS / 1000)
    assert [message.error() for message in found] == [None] * count
    return found


def test_deliveries_are_told_by_poll_and_flush(servers: str) -> None:
    reports: list[Any] = []
    statistics: list[Any] = []
    producer = ck.Producer(
        {
            "bootstrap.servers": servers,
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: statistics.append(json.loads(text)),
        }
    )
    for number in range(5):
        producer.produce(
            "ck-lines",
            f"line {number}",
            headers={"h": b"v"},
            callback=lambda error, message: reports.append((error, message.offset())),
        )
        producer.poll(0)
    assert producer.flush(PATIENCE_MS / 1000) == 0
    assert reports == [(None, number) for number in range(5)]
    producer.produce("ck-lines", "x", partition=9, callback=lambda e, _m: reports.append(e.code()))
    assert producer.flush(PATIENCE_MS / 1000) == 0
    assert reports[-1] == ck.KafkaError._UNKNOWN_PARTITION
    for _ in range(30):
        producer.poll(0.2)
        if statistics:
            break
    assert statistics[0]["type"] == "producer"
    assert producer.list_topics("ck-lines", timeout=30).topics["ck-lines"].error is None
    producer.close()


def test_offsets_that_a_program_stores_are_committed(servers: str) -> None:
    produced(servers, "ck-store", 4)
    config = {
        "bootstrap.servers": servers,
        "group.id": "ck-store",
        "auto.offset.reset": "earliest",
        "enable.auto.offset.store": False,
        "session.timeout.ms": 10_000,
    }
    assigned: list[Any] = []
    consumer = ck.Consumer(config, logger=None)
    consumer.subscribe(["ck-store"], on_assign=lambda _c, partitions: assigned.extend(partitions))
    messages = read(consumer, 3)
    assert assigned == [ck.TopicPartition("ck-store", 0)]
    for message in messages[:2]:
        consumer.store_offsets(message)
    assert consumer.position(assigned)[0].offset == 3
    consumer.close()
    again = ck.Consumer(config)
    again.subscribe(["ck-store"])
    assert read(again, 1)[0].value() == b"v2"
    committed = again.committed([ck.TopicPartition("ck-store", 0)], timeout=30)
    assert committed[0].offset == 2
    assert again.get_watermark_offsets(committed[0], timeout=30) == (0, 4)
    assert again.commit(asynchronous=False, offsets=[ck.TopicPartition("ck-store", 0, 3)])
    with pytest.raises(ck.KafkaException) as raised:
        again.commit(asynchronous=False)
    assert raised.value.args[0] == ck.KafkaError._NO_OFFSET
    again.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        again.poll(0)


def test_offsets_are_set_when_partitions_are_assigned(servers: str) -> None:
    produced(servers, "ck-assign", 3)

    def from_the_start(consumer: Any, partitions: Any) -> None:
        for partition in partitions:
            partition.offset = ck.OFFSET_BEGINNING
        consumer.assign(partitions)

    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": "ck-assign"})
    consumer.subscribe(["^ck-ass"], on_assign=from_the_start)
    assert [message.value() for message in read(consumer, 3)] == [b"v0", b"v1", b"v2"]
    consumer.seek(ck.TopicPartition("ck-assign", 0, 1))
    assert read(consumer, 1)[0].offset() == 1
    consumer.close()
    alone = ck.Consumer({"bootstrap.servers": servers, "group.id": "ck-alone"})
    alone.assign([ck.TopicPartition("ck-assign", 0, 2)])
    assert read(alone, 1)[0].value() == b"v2"
    alone.close()


def test_consuming_transforming_and_producing_in_transactions(servers: str) -> None:
    """As eos_transactions.py: to the end of the partition, with offsets in the transaction."""
    produced(servers, "ck-in", 5)
    consumer = ck.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "ck-eos",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([ck.TopicPartition("ck-in", 0)])
    producer = ck.Producer({"bootstrap.servers": servers, "transactional.id": "ck-eos"})
    producer.init_transactions()
    producer.begin_transaction()
    while True:
        producer.poll(0)
        message = consumer.poll(PATIENCE_MS / 1000)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == ck.KafkaError._PARTITION_EOF
            assert message.offset() == 5
            break
        producer.produce("ck-out", (message.value() or b"").upper())
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce("ck-out", b"never")
    producer.abort_transaction()
    assert consumer.committed([ck.TopicPartition("ck-in", 0)])[0].offset == 5
    consumer.assign([ck.TopicPartition("ck-out", 0, ck.OFFSET_BEGINNING)])
    assert [m.value() for m in read(consumer, 5)] == [f"V{n}".encode() for n in range(5)]
    consumer.close()
    producer.close()


def test_serializing_producers_and_deserializing_consumers(servers: str) -> None:
    producer: Any = ck.SerializingProducer(
        {
            "bootstrap.servers": servers,
            "key.serializer": serialization.StringSerializer("utf_8"),
            "value.serializer": lambda value, ctx: f"{ctx.topic}:{value}".encode(),
        }
    )
    producer.produce("ck-serial", key="k", value=5)
    assert producer.flush(PATIENCE_MS / 1000) == 0
    producer.close()
    consumer: Any = ck.DeserializingConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": "ck-serial",
            "auto.offset.reset": "earliest",
            "key.deserializer": serialization.StringDeserializer(),
            "value.deserializer": lambda value, ctx: value.decode().split(":"),
        }
    )
    consumer.subscribe(["ck-serial"])
    message = consumer.poll(PATIENCE_MS / 1000)
    assert (message.key(), message.value()) == ("k", ["ck-serial", "5"])
    consumer.close()


def test_a_topic_that_is_not_there_is_told_once(servers: str) -> None:
    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": "ck-missing"})
    consumer.subscribe(["ck-missing"])
    message = consumer.poll(PATIENCE_MS / 1000)
    assert message is not None
    assert message.error() == ck.KafkaError.UNKNOWN_TOPIC_OR_PART
    assert consumer.poll(0.5) is None
    consumer.close()


def results(futures: Any) -> list[Any]:
    return [future.result(PATIENCE_MS / 1000) for future in futures.values()]


def test_the_admin_client_of_confluent_kafka(servers: str) -> None:
    """The calls of adminapi.py."""
    topic = ck_admin.ConfigResource("topic", "ck-a")
    with ck_admin.AdminClient({"bootstrap.servers": servers}) as admin:
        new = [ck_admin.NewTopic("ck-a", 1, 1, config={"retention.ms": "9"}), ck.NewTopic("ck-b")]
        assert results(admin.create_topics(new)) == [None, None]
        failed = admin.create_topics([ck.NewTopic("ck-a")])["ck-a"].exception(60)
        assert isinstance(failed, ck.KafkaException)
        assert failed.args[0] == ck.KafkaError.TOPIC_ALREADY_EXISTS
        assert results(admin.create_partitions([ck.NewPartitions("ck-a", 2)])) == [None]
        assert set(admin.list_topics(timeout=30).topics["ck-a"].partitions) == {0, 1}
        entry = ck_admin.ConfigEntry(
            "max.message.bytes", "70000", incremental_operation=ck_admin.AlterConfigOpType.SET
        )
        changed = ck_admin.ConfigResource("topic", "ck-a", incremental_configs=[entry])
        assert results(admin.incremental_alter_configs([changed])) == [None]
        found = results(admin.describe_configs([topic]))[0]
        assert (found["retention.ms"].value, found["max.message.bytes"].value) == ("9", "70000")
        whole = ck_admin.ConfigResource("topic", "ck-a", set_config={"retention.ms": "8"})
        assert results(admin.alter_configs([whole])) == [None]
        found = results(admin.describe_configs([topic]))[0]
        assert (found["retention.ms"].value, found["max.message.bytes"].is_default) == ("8", True)
        described = results(admin.describe_topics(ck.TopicCollection(["ck-a"])))[0]
        assert [p.leader.id for p in described.partitions] == [1, 1]
        assert described.authorized_operations is None
        assert [node.id for node in admin.describe_cluster().result(60).nodes] == [1]
        described = results(
            admin.describe_topics(ck.TopicCollection(["ck-a"]), include_authorized_operations=True)
        )[0]
        assert ck_admin.AclOperation.WRITE in described.authorized_operations
        cluster = admin.describe_cluster(include_authorized_operations=True).result(60)
        assert ck_admin.AclOperation.CLUSTER_ACTION in cluster.authorized_operations
        tp = ck.TopicPartition("ck-a", 0)
        for level in ck.IsolationLevel:
            latest = admin.list_offsets(
                {tp: ck_admin.OffsetSpec.latest()}, isolation_level=level, request_timeout=30
            )
            assert results(latest)[0].offset == 0
        assert (
            results(admin.delete_records([ck.TopicPartition("ck-a", 0, 0)]))[0].low_watermark == 0
        )
        assert admin.elect_leaders(ck.ElectionType.PREFERRED, [tp]).result(60) == {tp: None}
        group = ck.ConsumerGroupTopicPartitions("ck-admin", [ck.TopicPartition("ck-a", 0, 0)])
        assert results(admin.alter_consumer_group_offsets([group]))[0].group_id == "ck-admin"
        asked = ck.ConsumerGroupTopicPartitions("ck-admin")
        offsets = results(admin.list_consumer_group_offsets([asked]))[0].topic_partitions
        assert [(each.topic, each.offset) for each in offsets] == [("ck-a", 0)]
        listed = admin.list_consumer_groups().result(60).valid
        assert "ck-admin" in {each.group_id for each in listed or ()}
        found = results(
            admin.describe_consumer_groups(["ck-admin"], include_authorized_operations=True)
        )[0]
        assert found.state is ck.ConsumerGroupState.EMPTY
        assert ck_admin.AclOperation.READ in found.authorized_operations
        assert results(admin.delete_consumer_groups(["ck-admin"])) == [None]
        assert results(admin.delete_topics(["ck-a", "ck-b"], operation_timeout=30)) == [None, None]


def test_share_consumers_acknowledge(servers: str) -> None:
    produced(servers, "ck-share", 1)
    told: list[Any] = []
    config = {
        "bootstrap.servers": servers,
        "group.id": "ck-share",
        "share.acknowledgement.mode": "explicit",
    }
    with ck.ShareConsumer(config) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append(offsets))
        consumer.subscribe(["ck-share"])
        found: list[Any] = []
        for _ in range(60):
            # The group begins at the end of the log: something has to come while it is there.
            produced(servers, "ck-share", 1)
            messages = consumer.poll(1.0)
            for message in messages:
                consumer.acknowledge(message, ck.AcknowledgeType.ACCEPT)
                found.append(message.value())
            if messages.count():
                done = consumer.commit_sync(30)
                assert set(done.values()) == {None}
                break
        assert found
        with pytest.raises(ck.IllegalStateException):
            consumer.acknowledge_offset("ck-share", 0, 999)


def test_clients_for_asyncio(servers: str) -> None:
    async def work() -> list[Any]:
        seen: list[Any] = []

        async def on_assign(consumer: Any, partitions: Any) -> None:
            await consumer.incremental_assign(partitions)
            await consumer.pause(partitions)
            await consumer.resume(partitions)
            seen.append(partitions)

        producer = aio.AIOProducer({"bootstrap.servers": servers})
        sent = [await producer.produce("ck-aio", value=f"v{n}") for n in range(3)]
        await producer.flush()
        delivered = await asyncio.gather(*sent)
        assert [message.offset() for message in delivered] == [0, 1, 2]
        await producer.close()
        consumer = aio.AIOConsumer(
            {
                "bootstrap.servers": servers,
                "group.id": "ck-aio",
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "cooperative-sticky",
            }
        )
        await consumer.subscribe(["ck-aio"], on_assign=on_assign)
        message = await consumer.poll(PATIENCE_MS / 1000)
        assert message.value() == b"v0"
        assert await consumer.assignment() == [ck.TopicPartition("ck-aio", 0)]
        await consumer.close()
        return seen

    assert asyncio.run(work()) == [[ck.TopicPartition("ck-aio", 0)]]
