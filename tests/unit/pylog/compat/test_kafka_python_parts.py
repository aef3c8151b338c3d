"""Parts of the kafka-python adapter that need no cluster."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from pylog import errors as ours
from pylog.compat.kafka_python import KafkaConsumer, KafkaProducer, errors, settings
from pylog.compat.kafka_python.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from pylog.compat.kafka_python.consumer.group import beginning
from pylog.compat.kafka_python.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from pylog.compat.kafka_python.future import Future
from pylog.compat.kafka_python.partitioner import (
    DefaultPartitioner,
    Partitioner,
    StickyPartitioner,
    chooser,
)
from pylog.compat.kafka_python.producer.future import FailedSend, FutureRecordMetadata
from pylog.compat.kafka_python.serializer import DefaultSerializer, JsonSerializer, converter
from pylog.compat.kafka_python.structs import OffsetAndMetadata, position_of
from pylog.compat.kafka_python.translation import constructing, translated
from pylog.model import OffsetAndMetadata as OurPosition
from pylog.records.murmur2 import partition_for_key

# ---- futures ------------------------------------------------------------------------------------


def test_callbacks_get_arguments_before_the_value() -> None:
    future, told = Future(), []
    future.add_callback(lambda *args, **named: told.append((args, named)), "a", b=1)
    future.add_errback(lambda error: told.append(error))
    assert not future.is_done
    future.success(7)
    future.add_both(told.append)
    assert told == [(("a", 7), {"b": 1}), 7]
    assert (future.is_done, future.value, future.succeeded()) == (True, 7, True)


def test_a_failure_goes_to_errbacks_and_along_a_chain() -> None:
    first, second, told = Future(), Future(), []
    first.chain(second)
    second.add_errback(told.append)
    first.failure(errors.KafkaTimeoutError("late"))
    assert second.failed()
    assert second.retriable()
    assert told == [errors.KafkaTimeoutError("late")]


def test_a_callback_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    future = Future().success(1)
    future.add_callback(lambda _value: 1 / 0)
    assert "a callback of a future raised" in caplog.text
    with pytest.raises(TypeError, match="is no exception"):
        Future().failure("text")


def test_a_record_that_was_never_sent_has_its_error() -> None:
    error, told = errors.InvalidTopicError("no"), []
    future = FutureRecordMetadata(FailedSend(error), (1, 2, -1))
    future.add_callback(told.append).add_errback(told.append)
    assert told == [error]
    assert (future.is_done, future.failed(), future.value) == (True, True, None)
    with pytest.raises(errors.InvalidTopicError):
        future.get()


# ---- serializers and partitioners ---------------------------------------------------------------


class OfTwo:
    def serialize(self, topic: str, value: Any) -> bytes:
        return f"{topic}:{value}".encode()


def test_a_serializer_is_a_function_an_object_of_two_or_of_three_arguments() -> None:
    for given, wanted in (
        (lambda v: json.dumps(v).encode(), b'"x"'),
        (OfTwo(), b"t:x"),
        (JsonSerializer(), b'"x"'),
        (DefaultSerializer(), b"x"),
    ):
        convert = converter("value_serializer", given, "serialize")
        assert convert is not None
        assert convert("t", [], "x") == wanted
    assert converter("value_serializer", None, "serialize") is None
    with pytest.raises(TypeError, match="value_serializer=5"):
        converter("value_serializer", 5, "serialize")


class Last(Partitioner):
    def partition(
        self,
        topic: str,
        key: Any,
        serialized_key: bytes | None,
        value: Any,
        serialized_value: bytes | None,
        cluster: Any,
    ) -> int | None:
        return max(cluster.partitions_for_topic(topic))


class OfCluster:
    def partition(self, topic: str, key: bytes | None, cluster: Any) -> int:
        return min(cluster.available_partitions_for_topic(topic))


def test_a_partitioner_is_an_object_or_a_function() -> None:
    for given, wanted in (
        (Last(), 2),
        (OfCluster(), 0),
        (lambda _key, everything, _available: everything[1], 1),
    ):
        choose = chooser(given)
        assert choose is not None
        assert choose("t", "k", b"k", "v", b"v", [0, 1, 2]) == wanted
    for default in (None, DefaultPartitioner(), StickyPartitioner()):
        assert chooser(default) is None


def test_the_default_partitioner_is_kafkas() -> None:
    class Mine(DefaultPartitioner):
        """A subclass counts."""

    choose = chooser(Mine())
    assert choose is not None
    assert choose("t", "k", b"key", None, None, [0, 1, 2]) == partition_for_key(b"key", 3)
    assert choose("t", None, None, None, None, [0, 1, 2]) is None


# ---- settings -----------------------------------------------------------------------------------


def test_defaults_are_kafka_pythons() -> None:
    producer = settings.producer_settings({})
    assert (producer["linger_ms"], producer["reconnect_backoff_max_ms"]) == (0, 30_000)
    assert producer["bootstrap_servers"] == ["localhost:9092"]
    consumer = settings.consumer_settings({"group_id": "g"})
    assert consumer["partition_assignment_strategy"] == ["range", "roundrobin"]
    assert (consumer["group_protocol"], consumer["auto_offset_reset"]) == ("classic", "latest")


def test_addresses_get_kafkas_port() -> None:
    assert settings.with_ports("a, b:1") == ["a:9092", "b:1"]
    assert settings.with_ports(["PLAINTEXT://c:2", "[::1]", "[::1]:3"]) == [
        "c:2",
        "[::1]:9092",
        "[::1]:3",
    ]


def test_settings_are_put_in_pylogs_words() -> None:
    producer = settings.producer_settings(
        {"retries": math.inf, "compression_type": None, "transaction_timeout_ms": 5, "acks": 1}
    )
    assert producer["retries"] == 2**31 - 1
    assert "compression_type" not in producer
    assert "transaction_timeout_ms" not in producer
    consumer = settings.consumer_settings(
        {
            "group_id": "g",
            "isolation_level": settings_isolation(),
            "auto_offset_reset": "smallest",
            "partition_assignment_strategy": [RoundRobinPartitionAssignor],
        }
    )
    assert consumer["isolation_level"] == "read_committed"
    assert consumer["auto_offset_reset"] == "earliest"
    assert consumer["partition_assignment_strategy"] == ["roundrobin"]
    alone = settings.consumer_settings({"enable_auto_commit": True, "session_timeout_ms": 5})
    assert {"enable_auto_commit", "session_timeout_ms", "group_protocol"} & set(alone) == set()


def test_an_isolation_level_is_a_member_a_word_or_a_number() -> None:
    for given in (settings_isolation(), 1, "read_committed", "READ_COMMITTED"):
        assert settings.isolation_of(given) == "read_committed"
    assert settings.isolation_of(0) == "read_uncommitted"


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [("t", ["t", "tt"]), ("(?i)T|x", ["t", "tt", "Xy"]), ("^t$", ["t"]), ("(?:t)+t", ["tt"])],
)
def test_a_pattern_matches_the_beginning_of_a_name(pattern: str, matched: list[str]) -> None:
    whole = beginning(re.compile(pattern))
    assert [name for name in ("t", "tt", "Xy", "at") if whole.fullmatch(name)] == matched


def settings_isolation() -> Any:
    from pylog.compat.kafka_python import IsolationLevel

    return IsolationLevel.READ_COMMITTED


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
def test_security_is_refused_with_the_reason(client: Any) -> None:
    with pytest.raises(errors.KafkaConfigurationError, match="no TLS and no authentication yet"):
        client(security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
    with pytest.raises(errors.KafkaConfigurationError, match="go by no proxy"):
        client(proxy_url="socks5://h:1")


def test_unknown_settings_are_as_in_the_library() -> None:
    with pytest.raises(ValueError, match=r"Unrecognized configs: \['linger'\]"):
        KafkaProducer(linger=5)
    for client in (KafkaConsumer, KafkaAdminClient):
        with pytest.raises(errors.KafkaConfigurationError, match="Unrecognized configs"):
            client(linger=5)


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(errors.KafkaConfigurationError, match="requires group_id"):
        KafkaConsumer(group_instance_id="i")
    with pytest.raises(ValueError, match="Not supported codec: brotli"):
        KafkaProducer(compression_type="brotli")


def test_what_cannot_be_taken_says_what_to_write() -> None:
    with pytest.raises(errors.KafkaConfigurationError, match="give commit_async"):
        KafkaConsumer(default_offset_commit_callback=print)
    with pytest.raises(errors.KafkaConfigurationError, match=r"none of pylog's assignors"):
        settings.consumer_settings({"group_id": "g", "partition_assignment_strategy": [dict]})


# ---- values and errors --------------------------------------------------------------------------


def test_positions_come_in_three_forms() -> None:
    assert position_of(5) == OurPosition(5)
    assert position_of(OffsetAndMetadata(5, None, -1)) == OurPosition(5, "", None)
    assert position_of((5, "text")) == OurPosition(5, "text", None)
    assert position_of(OffsetAndMetadata(5, "", 2)) == OurPosition(5, "", 2)
    with pytest.raises(TypeError, match="is no position"):
        position_of("5")


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ours.BootstrapFailed("x"), errors.NoBrokersAvailable),
        (ours.DeliveryTimedOut("x"), errors.KafkaTimeoutError),
        (ours.BufferExhausted("x"), errors.KafkaTimeoutError),
        (ours.ClientClosed("x"), errors.IllegalStateError),
        (ours.CommitFailed("x"), errors.CommitFailedError),
        (ours.TopicAlreadyExists("x"), errors.TopicAlreadyExistsError),
        (ours.MessageTooLarge("x"), errors.MessageSizeTooLargeError),
        (ours.ProducerFenced("x"), errors.ProducerFencedError),
        (ours.NotOffered("x"), errors.UnsupportedVersionError),
        (ours.LogTruncated("x"), errors.LogTruncationError),
    ],
)
def test_errors_are_kafka_pythons_with_the_same_words(error: Any, wanted: Any) -> None:
    found = translated(error)
    assert type(found) is wanted
    assert "x" in str(found)
    assert found.__cause__ is error


def test_wrong_settings_are_configuration_errors() -> None:
    with pytest.raises(errors.KafkaConfigurationError, match="acks"), constructing():
        raise ours.InvalidConfig("acks=7: it must be ...")


def test_resources_are_named_by_type_or_text() -> None:
    assert ConfigResource("topic", "t").resource_type is ConfigResourceType.TOPIC
    assert ConfigResource(ConfigResourceType.BROKER, "1").name == "1"
    with pytest.raises(ValueError, match="Unrecognized ConfigResourceType"):
        ConfigResource("tpoic", "t")
