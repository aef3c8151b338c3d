"""The confluent-kafka adapter's clients over a cluster in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pylog import errors
from pylog.compat.confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    SerializingProducer,
    TopicPartition,
)
from pylog.compat.confluent_kafka.aio import (
    AIOConsumer,
    AsyncDeserializingConsumer,
    AsyncSerializingProducer,
)
from pylog.compat.confluent_kafka.consumer import _Listening
from pylog.compat.confluent_kafka.error import KeySerializationError, ValueDeserializationError
from pylog.compat.confluent_kafka.serialization import StringSerializer
from tests.fakes.consumers import fill
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.waiting import eventually

WAIT_S = 60.0
"""Machines of tests may be slow."""


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as started:
        started.create_topic("t")
        yield started


def config(cluster: FakeCluster, **given: Any) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in given.items()}
    return {"bootstrap.servers": ",".join(cluster.bootstrap_servers), **named}


def reading(cluster: FakeCluster, *partitions: TopicPartition, **given: Any) -> Consumer:
    """A consumer that is assigned these partitions."""
    settings = {"group_id": "g", "auto_offset_reset": "earliest", **given}
    on_commit = settings.pop("on_commit", None)
    error_cb = settings.pop("error_cb", None)
    consumer = Consumer(config(cluster, **settings), on_commit=on_commit, error_cb=error_cb)
    consumer.assign(list(partitions))
    return consumer


def offsets(consumer: Consumer, count: int) -> list[int | None]:
    return [message.offset() for message in consumer.consume(count, WAIT_S)]


def code_of(call: Any) -> tuple[str, bool, bool]:
    """Name, fatal and abortable of the error of a call."""
    with pytest.raises(KafkaException) as raised:
        call()
    error = raised.value.args[0]
    return error.name(), error.fatal(), error.txn_requires_abort()


# ---- producers ----------------------------------------------------------------------------------


def test_ends_of_transactions_call_delivery_reports(cluster: FakeCluster) -> None:
    told: list[Any] = []

    def report(error: Any, message: Any) -> None:
        told.append((error and error.name(), message.value()))

    with Producer(config(cluster, transactional_id="x")) as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce("t", "kept", on_delivery=report)
        producer.commit_transaction(WAIT_S)
        assert (told, len(producer)) == ([(None, b"kept")], 0)
        producer.begin_transaction()
        producer.produce("t", "dropped", partition=0, on_delivery=report)
        producer.abort_transaction(WAIT_S)
        assert len(told) == 2
        assert len(producer) == 0


def test_calls_of_transactions_in_a_wrong_order_are_errors_of_state(cluster: FakeCluster) -> None:
    state = ("_STATE", False, False)
    with Producer(config(cluster, transactional_id="x")) as producer:
        assert code_of(lambda: producer.produce("t", "v")) == state
        assert code_of(producer.begin_transaction) == state
        assert code_of(producer.commit_transaction) == state
        producer.init_transactions(WAIT_S)
        assert code_of(producer.init_transactions) == state
        assert code_of(lambda: producer.produce("t", "v")) == state
        assert code_of(producer.abort_transaction) == state
        producer.begin_transaction()
        assert code_of(producer.begin_transaction) == state
        producer.commit_transaction(WAIT_S)
    with Producer(config(cluster)) as plain:
        assert code_of(plain.init_transactions) == ("_NOT_CONFIGURED", False, False)


def test_a_producer_that_is_fenced_hears_librdkafkas_code(cluster: FakeCluster) -> None:
    older = Producer(config(cluster, transactional_id="x"))
    older.init_transactions(WAIT_S)
    older.begin_transaction()
    older.produce("t", "v")
    assert older.flush(WAIT_S) == 0
    with Producer(config(cluster, transactional_id="x")) as newer:
        newer.init_transactions(WAIT_S)
        name, fatal, abortable = code_of(lambda: older.commit_transaction(WAIT_S))
        if abortable:
            name, fatal, abortable = code_of(lambda: older.abort_transaction(WAIT_S))
        assert (name, fatal, abortable) == ("_FENCED", True, False)
        assert code_of(older.begin_transaction) == ("_FENCED", True, False)
    older.close()


def test_a_message_that_is_too_large_is_refused_at_once(cluster: FakeCluster) -> None:
    with Producer(config(cluster, message_max_bytes=2000)) as producer:
        refusal = code_of(lambda: producer.produce("t", b"x" * 1999, "key"))
        assert refusal == ("MSG_SIZE_TOO_LARGE", False, False)
        assert len(producer) == 0


def test_batches_are_lists_of_dictionaries_and_are_not_serialized(cluster: FakeCluster) -> None:
    told: list[Any] = []
    producer: SerializingProducer[Any, Any] = SerializingProducer(
        config(cluster, key_serializer=StringSerializer())
    )
    batch = [{"value": b"v", "key": b"k"}, {"value": b"w"}]
    taken = producer.produce_batch("t", batch, on_delivery=lambda _e, m: told.append(m.key()))
    assert (taken, producer.flush(WAIT_S), told) == (2, 0, [b"k", None])
    for wrong in (tuple(batch), ["v"]):
        with pytest.raises(TypeError, match="must be a"):
            producer.produce_batch("t", wrong)  # type: ignore[arg-type]
    producer.close()


# ---- consumers ----------------------------------------------------------------------------------


def test_a_new_assignment_begins_anew(cluster: FakeCluster) -> None:
    fill(cluster, 4)
    with reading(cluster, TopicPartition("t", 0, 2), enable_auto_commit=False) as consumer:
        assert offsets(consumer, 2) == [2, 3]
        consumer.assign([TopicPartition("t", 0)])
        assert offsets(consumer, 1) == [0]
        consumer.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)
        consumer.assign([TopicPartition("t", 0)])
        assert offsets(consumer, 1) == [3]


def test_pausing_what_is_not_assigned_does_nothing(cluster: FakeCluster) -> None:
    fill(cluster, 1)
    with reading(cluster, TopicPartition("t", 0)) as consumer:
        elsewhere = [TopicPartition("t", 7), TopicPartition("u", 0)]
        consumer.pause(elsewhere)
        consumer.resume(elsewhere)
        consumer.pause([])
        assert offsets(consumer, 1) == [0]


def test_a_poll_tells_on_commit_of_a_commit_that_was_waited_for(cluster: FakeCluster) -> None:
    told: list[Any] = []
    with reading(
        cluster, TopicPartition("t", 0), on_commit=lambda error, tps: told.append((error, tps))
    ) as consumer:
        at = [TopicPartition("t", 0, 5)]
        assert consumer.commit(offsets=at, asynchronous=False) == at
        assert told == []
        assert consumer.poll(0) is None
        assert told == [(None, at)]


def test_a_partition_without_an_offset_is_told_of_once_and_stops(cluster: FakeCluster) -> None:
    cluster.create_topic("u")
    fill(cluster, 1)
    fill(cluster, 3, topic="u")
    lost, fine = TopicPartition("u", 0, 50), TopicPartition("t", 0, OFFSET_BEGINNING)
    with reading(cluster, lost, auto_offset_reset="error") as consumer:
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() == KafkaError._AUTO_OFFSET_RESET
        assert (message.topic(), message.partition()) == ("u", 0)
        consumer.incremental_assign([fine])
        assert [m.topic() for m in consumer.consume(1, WAIT_S)] == ["t"]
        assert consumer.poll(0) is None
        consumer.seek(TopicPartition("u", 0, 2))
        assert offsets(consumer, 1) == [2]


def test_errors_that_stay_are_told_once_in_a_while(cluster: FakeCluster) -> None:
    told: list[Any] = []
    with reading(cluster, error_cb=told.append) as consumer:
        for _ in range(3):
            assert consumer._told_of(errors.BootstrapFailed("down"), 0) is None
        assert told == [KafkaError._ALL_BROKERS_DOWN]
        missing = errors.UnknownTopicOrPartition("it does not exist").about("u")
        found = [consumer._told_of(missing, 0) for _ in range(2)]
        assert [message and message.topic() for message in found] == ["u", None]


def test_threads_may_share_a_consumer_that_polls(cluster: FakeCluster) -> None:
    consumer = reading(cluster, TopicPartition("t", 0), enable_auto_commit=False)
    with ThreadPoolExecutor(1) as threads:
        polling = threads.submit(consumer.poll, WAIT_S)
        eventually(WAIT_S, lambda: consumer._turns._inside is not None, "the poll has begun")
        at = [TopicPartition("t", 0, 5)]
        assert consumer.commit(offsets=at, asynchronous=False) == at
        assert consumer.committed(at, WAIT_S)[0].offset == 5
        consumer.pause(at)
        consumer.resume(at)
        assert consumer.assignment() == at
        assert not polling.done()
        consumer.close()
        assert polling.result(WAIT_S) is None


def test_a_callback_may_assign_some_of_the_partitions_only(cluster: FakeCluster) -> None:
    cluster.create_topic("p", 2)
    for partition in (0, 1):
        fill(cluster, 3, partition, "p")
    given = [TopicPartition("p", 0, 0), TopicPartition("p", 1, 0)]
    with reading(cluster, *given) as consumer:
        listening = _Listening(
            consumer, lambda c, _tps: c.assign([TopicPartition("p", 1, 1)]), None, None
        )
        listening.on_partitions_assigned([tp.ours() for tp in given])
        found = consumer.consume(2, WAIT_S)
        assert [(m.partition(), m.offset()) for m in found] == [(1, 1), (1, 2)]
        assert consumer.poll(0) is None
        consumer.resume([TopicPartition("p", 0)])
        assert consumer.poll(0) is None
        consumer.seek(TopicPartition("p", 0, 2))
        assert offsets(consumer, 1) == [2]


def test_offsets_are_looked_up_by_time_and_by_name(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    with reading(cluster) as consumer:
        asked = [TopicPartition("t", 0, at) for at in (1_001, OFFSET_BEGINNING, OFFSET_END, 9_999)]
        found = [consumer.offsets_for_times([one], WAIT_S)[0].offset for one in asked]
        assert found == [1, 0, 3, OFFSET_END]


def test_wrong_arguments_are_type_errors(cluster: FakeCluster) -> None:
    tp: Any = TopicPartition("t", 0, 0)
    wrong: Any
    with reading(cluster, tp) as consumer:
        for call in (consumer.assign, consumer.committed, consumer.position, consumer.pause):
            for wrong in (tp, "t", [("t", 0)]):
                with pytest.raises(TypeError, match="TopicPartition"):
                    call(wrong)
        for wrong in (tp, [tp]):
            with pytest.raises(TypeError, match="expected Message"):
                consumer.commit(wrong)
        with pytest.raises(TypeError, match="expected TopicPartition"):
            consumer.seek([tp])  # type: ignore[arg-type]
        failed: Message[Any, Any] = Message(error=KafkaError(3))
        for store in (consumer.commit, consumer.store_offsets):
            assert code_of(lambda store=store: store(failed))[0] == "_INVALID_ARG"


# ---- asyncio ------------------------------------------------------------------------------------


class Building:
    """A builder that waits, and takes its own setting."""

    async def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Any, dict[str, Any]]:
        await asyncio.sleep(0)
        rest = dict(conf)
        word = rest.pop("mine")

        async def read(data: bytes, _ctx: Any) -> str:
            return f"{word}{int(data)}"

        return read, rest


def test_serializers_for_asyncio_are_awaited(cluster: FakeCluster) -> None:
    async def number(value: Any, ctx: Any) -> bytes:
        return b"%d" % value

    async def work() -> None:
        settings = config(cluster, key_serializer=StringSerializer(), value_serializer=number)
        async with await AsyncSerializingProducer(settings) as producer:
            sent = [await producer.produce("t", "k", value) for value in (1, 2)]
            await producer.flush(WAIT_S)
            assert [message.offset() for message in await asyncio.gather(*sent)] == [0, 1]
            with pytest.raises(KeySerializationError):
                await producer.produce("t", 5, 1)
        with pytest.raises(RuntimeError, match="closed"):
            await producer.produce("t", "k", 1)
        given = config(cluster, group_id="g", value_deserializer_builder=Building(), mine="n")
        async with await AsyncDeserializingConsumer(given) as consumer:
            await consumer.assign([TopicPartition("t", 0, 0)])
            message = await consumer.poll(WAIT_S)
            assert (message.key(), message.value()) == (b"k", "n1")
            assert [m.value() for m in await consumer.consume(1, WAIT_S)] == ["n2"]
        with pytest.raises(ValueError, match="use one of them"):
            await AsyncDeserializingConsumer({**given, "value.deserializer": number})

    asyncio.run(work())


def test_a_value_that_a_coroutine_refuses_is_raised_with_its_message(cluster: FakeCluster) -> None:
    async def refuse(_data: bytes, _ctx: Any) -> str:
        raise ValueError("bad")

    async def work() -> None:
        fill(cluster, 1)
        given = config(cluster, group_id="g", value_deserializer=refuse)
        async with await AsyncDeserializingConsumer(given) as consumer:
            await consumer.assign([TopicPartition("t", 0, 0)])
            with pytest.raises(ValueDeserializationError) as raised:
                await consumer.poll(WAIT_S)
            assert raised.value.kafka_message.value() == b"0"

    asyncio.run(work())


def test_tasks_may_share_a_consumer_that_polls(cluster: FakeCluster) -> None:
    async def work() -> None:
        async with AIOConsumer(config(cluster, group_id="g")) as consumer:
            at = [TopicPartition("t", 0, 0)]
            await consumer.assign(at)
            polling = asyncio.ensure_future(consumer.poll(WAIT_S))
            await consumer.pause(at)
            assert await consumer.assignment() == at
            await consumer.resume(at)
            producing = await AsyncSerializingProducer(config(cluster))
            await (await producing.produce("t", value=b"v"))
            await producing.close()
            message = await polling
            assert message.value() == b"v"

    asyncio.run(work())
