"""The confluent-kafka adapter's clients over a cluster in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pylog.compat.confluent_kafka import (
    KafkaError,
    KafkaException,
    Producer,
    SerializingProducer,
)
from pylog.compat.confluent_kafka.serialization import StringSerializer
from tests.fakes.fake_cluster import FakeCluster

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


def test_a_topic_is_made_at_the_first_message(cluster: FakeCluster) -> None:
    told: list[Any] = []
    with Producer(config(cluster)) as producer:
        producer.produce("new", "v", on_delivery=lambda error, m: told.append((error, m.offset())))
    assert told == [(None, 0)]
    never = Producer(config(cluster, allow_auto_create_topics=False))
    never.produce("other", "v", on_delivery=lambda error, _m: told.append(error))
    assert never.flush(WAIT_S) == 0
    assert told[-1] == KafkaError._UNKNOWN_TOPIC
    never.close()
