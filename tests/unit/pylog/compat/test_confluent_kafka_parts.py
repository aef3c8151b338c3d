"""Parts of the confluent-kafka adapter that need no cluster."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from pylog import errors as ours
from pylog import model
from pylog.compat.confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    DeserializingConsumer,
    IllegalStateException,
    KafkaError,
    KafkaException,
    Message,
    NewPartitions,
    NewTopic,
    Producer,
    SerializingProducer,
    ShareConsumer,
    TopicPartition,
    Uuid,
    settings,
)
from pylog.compat.confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from pylog.compat.confluent_kafka.consumer import _pattern
from pylog.compat.confluent_kafka.deserializing_consumer import deserialized
from pylog.compat.confluent_kafka.error import (
    ConsumeError,
    KeySerializationError,
    SerializationError,
    ValueDeserializationError,
    error_of,
    exception_of,
)
from pylog.compat.confluent_kafka.events import Deadline, Events
from pylog.compat.confluent_kafka.model import about, message_of, uuid_of
from pylog.compat.confluent_kafka.partitioners import fnv1a, placing
from pylog.compat.confluent_kafka.serialization import (
    DoubleDeserializer,
    DoubleSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    StringDeserializer,
    StringSerializer,
)
from pylog.compat.confluent_kafka.statistics import Statistics
from pylog.records.murmur2 import partition_for_key
from pylog.records.record import Record

# ---- errors -------------------------------------------------------------------------------------


def test_an_error_is_its_code() -> None:
    error = KafkaError(3)
    assert (error == 3, error == KafkaError(3), error != 4, error < 4) == (True,) * 4
    assert (error.code(), error.name(), hash(error), bool(error)) == (
        3,
        "UNKNOWN_TOPIC_OR_PART",
        3,
        True,
    )
    assert str(KafkaError(KafkaError._TIMED_OUT, "x")) == (
        'KafkaError{code=_TIMED_OUT,val=-185,str="x"}'
    )
    assert not KafkaError(KafkaError.NO_ERROR)
    assert KafkaError(KafkaError._ALL_BROKERS_DOWN).str() == "Local: All brokers down"
    assert str(KafkaException(error)) == str(error)
    fatal = KafkaError(KafkaError._FATAL, "x", fatal=True)
    assert str(fatal) == 'KafkaError{FATAL,code=_FATAL,val=-150,str="x"}'


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ours.RequestTimedOut("x"), KafkaError._TIMED_OUT),
        (ours.DeliveryTimedOut("x"), KafkaError._MSG_TIMED_OUT),
        (ours.BootstrapFailed("x"), KafkaError._TRANSPORT),
        (ours.TopicAlreadyExists("x"), KafkaError.TOPIC_ALREADY_EXISTS),
        (ours.NotOffered("x"), KafkaError._UNSUPPORTED_FEATURE),
        (ours.CommitFailed("x"), KafkaError.ILLEGAL_GENERATION),
    ],
)
def test_pylogs_errors_have_librdkafkas_codes(error: ours.PylogError, code: int) -> None:
    assert error_of(error) == code
    assert error_of(error).str() == "x"


def test_flags_of_transactions_are_told() -> None:
    fenced, abortable = error_of(ours.ProducerFenced("x")), error_of(ours.TransactionAbortable("x"))
    assert (fenced.fatal(), fenced.txn_requires_abort()) == (True, False)
    assert (abortable.fatal(), abortable.txn_requires_abort()) == (False, True)
    raised = exception_of(ours.ConcurrentTransactions("x"))
    assert raised.args[0].retriable()


# ---- values -------------------------------------------------------------------------------------


def test_partitions_are_equal_by_place() -> None:
    one = TopicPartition("t", 1, OFFSET_BEGINNING)
    assert one == TopicPartition("t", 1, 9)
    assert len({one, TopicPartition("t", 1, 9)}) == 1
    assert TopicPartition("t", 1) < TopicPartition("t", 2)
    assert repr(one) == "TopicPartition{topic=t,partition=1,offset=-2,leader_epoch=None,error=None}"
    with pytest.raises(TypeError):
        TopicPartition(1)  # type: ignore[arg-type]


def test_new_topics_read_as_in_the_library() -> None:
    assert repr(NewTopic("t", 3, 1)) == "NewTopic(topic=t,num_partitions=3)"
    assert repr(NewPartitions("t", 3)) == "NewPartitions(topic=t,new_total_count=3)"
    assert repr(ConfigResource("topic", "t")) == "ConfigResource(ResourceType.TOPIC,t)"
    assert ConfigResource(ResourceType.TOPIC, "t") == ConfigResource("TOPIC", "t")
    assert repr(ConfigEntry("a", "b")) == 'ConfigEntry(a="b")'
    assert sorted(ResourceType)[-1] is ResourceType.TRANSACTIONAL_ID


def test_a_record_becomes_a_message() -> None:
    record = Record.of("t", 2, 7, 1000, model.TimestampType.LOG_APPEND_TIME, b"k", b"value")
    message = message_of(record)
    assert (message.topic(), message.partition(), message.offset()) == ("t", 2, 7)
    assert (message.key(), message.value(), message.headers()) == (b"k", b"value", None)
    assert (message.timestamp(), message.error(), len(message)) == ((2, 1000), None, 5)


def test_a_message_is_true_by_the_bytes_of_its_value() -> None:
    assert [bool(Message(value=value)) for value in (None, b"", b"v")] == [False, False, True]
    error = KafkaError(KafkaError._PARTITION_EOF, "the end")
    message = about(error, "t", 1, 5)
    assert (bool(message), message.value(), message.error()) == (True, b"the end", error)
    assert (message.topic(), message.offset(), message.timestamp()) == ("t", 5, (0, -1))
    message.set_topic("u")
    assert message.topic() == "u"


def test_a_uuid_is_a_topics_id() -> None:
    text = "Ale8ySHfTD6rPh7ZVuADkA"
    assert str(uuid_of(text)) == text
    assert uuid_of(text) == Uuid(*[uuid_of(text)._high, uuid_of(text)._low])


# ---- settings -----------------------------------------------------------------------------------


def test_settings_come_as_a_dictionary_by_keyword_or_both() -> None:
    def stats(_text: str) -> None: ...

    given = settings.merged(({"a.b": 1, "c.d": 2},), {"c_d": 3, "stats_cb": stats})
    assert given == {"a.b": 1, "c.d": 3, "stats_cb": stats}
    topics = settings.merged(({"default.topic.config": {"acks": 1}, "linger.ms": 2},), {})
    assert topics == {"acks": 1, "linger.ms": 2}
    with pytest.raises(TypeError, match="configuration dict"):
        settings.merged(("localhost",), {})


def test_aliases_and_units_are_pylogs() -> None:
    parsed = settings.parse(
        {
            "metadata.broker.list": "a,b:1",
            "queue.buffering.max.ms": "7",
            "request.required.acks": -1,
            "message.timeout.ms": 0,
            "compression.codec": "lz4",
            "debug": "all",
        },
        settings.PRODUCER,
    )
    values = settings.producer_settings(parsed)
    assert values["bootstrap_servers"] == ["a:9092", "b:1"]
    assert (values["linger_ms"], values["acks"], values["compression_type"]) == ("7", "-1", "lz4")
    assert values["delivery_timeout_ms"] == 2**31 - 1


def test_a_consumer_is_of_the_classic_protocol_and_reads_committed_records() -> None:
    parsed = settings.parse({"group.id": "g", "auto.offset.reset": "smallest"}, settings.CONSUMER)
    values = settings.consumer_settings(parsed)
    assert values["partition_assignment_strategy"] == ["range", "roundrobin"]
    assert (values["group_protocol"], values["isolation_level"]) == ("classic", "read_committed")
    assert values["auto_offset_reset"] == "earliest"
    new = settings.parse(
        {"group.id": "g", "group.protocol": "consumer", "session.timeout.ms": 6000},
        settings.CONSUMER,
    )
    assert {"session_timeout_ms", "partition_assignment_strategy"}.isdisjoint(
        settings.consumer_settings(new)
    )


def test_values_are_read_as_librdkafka_reads_its_texts() -> None:
    parsed = settings.parse(
        {
            "client.id": 7,
            "transactional.id": "",
            "enable.idempotence": "1",
            "linger.ms": "0.5",
            "retry.backoff.ms": 100.0,
            "reconnect.backoff.ms": 0,
            "topic.metadata.refresh.interval.ms": -1,
        },
        settings.PRODUCER,
    )
    assert parsed.passed == {
        "client.id": "7",
        "enable.idempotence": True,
        "linger.ms": 0,
        "retry.backoff.ms": 100,
        "reconnect.backoff.ms": 1,
        "metadata.max.age.ms": 2**31 - 1,
    }
    assert settings.merged((), {"log_level": 3}) == {"log_level": 3}


@pytest.mark.parametrize(
    ("given", "commits"), [("1", True), ("t", True), ("True", True), (0, False), ("f", False)]
)
def test_switches_may_be_numbers_and_letters(given: Any, commits: bool) -> None:
    consumer = Consumer(
        {"group.id": 5, "enable.auto.commit": given, "group.remote.assignor": "range"}
    )
    assert consumer._commits is commits
    consumer.close()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"foo.bar": 1}, 'No such configuration property: "foo.bar"'),
        ({"security.protocol": "SASL_SSL", "sasl.username": "u"}, "no TLS and no authentication"),
        ({"plugin.library.paths": "x"}, "plugins of librdkafka"),
        ({"linger.ms": "abc"}, "linger_ms='abc'"),
        ({"linger.ms": "0.x"}, "linger_ms='0.x'"),
        ({"enable.idempotence": "maybe"}, 'Invalid value "maybe"'),
        ({1: 2}, 'No such configuration property: "1"'),
        ({"partitioner": "x"}, 'Invalid value "x"'),
    ],
)
def test_wrong_settings_are_kafka_exceptions(config: dict[Any, Any], message: str) -> None:
    with pytest.raises(KafkaException) as raised:
        Producer({"bootstrap.servers": "127.0.0.1:9", **config})
    assert message in raised.value.args[0].str()


def test_a_consumer_needs_a_group() -> None:
    for kind in (Consumer, ShareConsumer):
        with pytest.raises(ValueError, match=r"group\.id must be set"):
            kind({"bootstrap.servers": "127.0.0.1:9"})
    with pytest.raises(KafkaException, match=r"auto\.offset\.reset"):
        Consumer({"group.id": "g", "auto.offset.reset": "x"})
    with pytest.raises(TypeError, match="error_cb"):
        Consumer({"group.id": "g", "error_cb": 5})


# ---- events, statistics, partitioners -----------------------------------------------------------


def test_events_are_served_in_order_and_counted() -> None:
    events, told = Events(), []
    events.put(lambda: told.append(1), counts=True)
    events.put(lambda: told.append(2))
    assert events.messages() == 1
    assert events.wait(lambda: False, 0)
    assert (events.serve(), events.serve(), told) == (2, 0, [1, 2])
    assert not events.wait(lambda: False, 0)


def test_a_call_that_raises_leaves_the_others() -> None:
    events, told = Events(), []
    events.put(lambda: 1 / 0)
    events.put(lambda: told.append(2))
    with pytest.raises(ZeroDivisionError):
        events.serve()
    assert (events.serve(), told) == (1, [2])


def test_a_deadline_below_zero_never_comes() -> None:
    assert Deadline(-1).left_s() == float("inf")
    assert not Deadline(None).has_passed()
    assert Deadline(0).has_passed()


def test_statistics_are_json_with_lags() -> None:
    statistics = Statistics("me", "consumer", 0)
    told = json.loads(statistics.text({"a-topic-3.records-lag": 5.0, "x": float("nan")}, 2, 0))
    assert told["topics"]["a-topic"]["partitions"]["3"]["consumer_lag"] == 5
    assert (told["type"], told["msg_cnt"], told["client_id"]) == ("consumer", 2, "me")
    assert not statistics.is_due()


def test_partitioners_are_librdkafkas() -> None:
    assert placing("consistent_random")(b"key", 7) == zlib.crc32(b"key") % 7
    assert placing("consistent_random")(None, 7) is None
    assert placing("consistent")(None, 7) == 0
    assert placing("murmur2_random")(b"key", 7) == partition_for_key(b"key", 7)
    assert placing("random")(b"key", 7) is None
    # Figures of the library itself.
    assert [fnv1a(key, 10) for key in (b"", b"a", b"key", b"kafka")] == [5, 6, 8, 5]
    assert [placing("consistent")(key, 7) for key in (b"key", b"abc")] == [5, 5]
    assert [placing("murmur2")(key, 7) for key in (b"key", b"abc")] == [4, 4]


# ---- subscriptions and serializers --------------------------------------------------------------


def test_a_pattern_matches_where_a_name_begins() -> None:
    pattern = _pattern(["^ab", "c.d"])
    wanted = {"ab": True, "abc": True, "xab": False, "c.d": True, "cxd": False, "c.de": False}
    assert {name: bool(pattern.fullmatch(name)) for name in wanted} == wanted
    with pytest.raises(KafkaException):
        _pattern(["^("])


def test_serializers_give_big_endian_numbers_and_texts() -> None:
    assert IntegerSerializer()(258) == b"\0\0\1\2"
    assert IntegerDeserializer()(b"\0\0\1\2") == 258
    assert DoubleDeserializer()(DoubleSerializer()(0.5)) == 0.5
    assert StringDeserializer()(StringSerializer()("ä")) == "ä"
    for code in (IntegerSerializer(), StringSerializer(), StringDeserializer()):
        assert code(None) is None  # type: ignore[operator]
    with pytest.raises(SerializationError):
        IntegerSerializer()("x")
    for no_text in (5, b"x"):
        with pytest.raises(AttributeError, match="encode"):
            StringSerializer()(no_text)
    with pytest.raises(SerializationError):
        StringDeserializer()(b"\xff")


def test_a_value_that_cannot_be_deserialized_is_raised_with_its_message() -> None:
    message: Message[Any, Any] = Message("t", 0, 5, b"k", b"\xff")
    with pytest.raises(ValueDeserializationError) as raised:
        deserialized(message, None, StringDeserializer())
    assert raised.value.kafka_message is message
    assert raised.value.code == KafkaError._VALUE_DESERIALIZATION
    with pytest.raises(ConsumeError):
        deserialized(Message(error=KafkaError(KafkaError._PARTITION_EOF)), None, None)


def test_a_key_that_cannot_be_serialized_is_raised_before_it_is_sent() -> None:
    config = {"bootstrap.servers": "127.0.0.1:9", "key.serializer": IntegerSerializer()}
    producer: SerializingProducer[Any, Any] = SerializingProducer(config)
    with pytest.raises(KeySerializationError):
        producer.produce("t", key="text", value=b"v")
    producer.close()


class Building:
    def build(self, conf: dict[str, Any], is_key: bool) -> tuple[Any, dict[str, Any]]:
        assert not is_key
        rest = {name: value for name, value in conf.items() if name != "mine"}
        return StringDeserializer(conf["mine"]), rest


def test_a_builder_takes_its_own_settings() -> None:
    config = {
        "bootstrap.servers": "127.0.0.1:9",
        "group.id": "g",
        "value.deserializer.builder": Building(),
        "mine": "latin_1",
    }
    consumer: DeserializingConsumer[Any, Any] = DeserializingConsumer(config)
    assert consumer._value_deserializer.codec == "latin_1"
    consumer.close()
    with pytest.raises(ValueError, match="use one of them"):
        DeserializingConsumer({**config, "value.deserializer": StringDeserializer()})


# ---- clients that are closed, or whose brokers are away ----------------------------------------


def test_a_producer_keeps_messages_and_reports_those_that_time_out() -> None:
    told: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": "127.0.0.1:9",
            "message.timeout.ms": 1,
            "queue.buffering.max.messages": 2,
            "error_cb": told.append,
        }
    )
    reports: list[Any] = []
    for _ in range(2):
        producer.produce("t", "v", on_delivery=lambda error, message: reports.append(error))
    with pytest.raises(BufferError, match="Queue full"):
        producer.produce("t", "v")
    assert len(producer) == 2
    assert producer.flush(30) == 0
    assert reports == [KafkaError._MSG_TIMED_OUT] * 2
    assert KafkaError._ALL_BROKERS_DOWN in told
    producer.close()
    with pytest.raises(RuntimeError, match="closed"):
        producer.produce("t", "v")


def test_wrong_arguments_are_type_errors() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:9"})
    for wrong in ({"topic": 5}, {"topic": "t", "value": 5}, {"topic": "t", "headers": [1]}):
        with pytest.raises(TypeError):
            producer.produce(**wrong)  # type: ignore[arg-type]
    producer.close()


def test_a_closed_consumer_says_so() -> None:
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:9", "group.id": "g"})
    with pytest.raises(TypeError, match="list of topic"):
        consumer.subscribe("t")
    consumer.close()
    consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)


def test_wrong_arguments_of_a_share_consumer() -> None:
    consumer = ShareConsumer({"bootstrap.servers": "127.0.0.1:9", "group.id": "g"})
    wrong: Any
    for wrong in ("t", None):
        with pytest.raises(TypeError, match="list of topic"):
            consumer.subscribe(wrong)
    with pytest.raises(TypeError, match="expected Message"):
        consumer.acknowledge(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="callable or None"):
        consumer.set_acknowledgement_commit_callback(5)  # type: ignore[arg-type]
    consumer.close()
    for call in (
        lambda: consumer.poll(0),
        lambda: consumer.set_acknowledgement_commit_callback(print),
    ):
        with pytest.raises(IllegalStateException, match="closed"):
            call()


def test_names_for_the_admin_client_are_lists() -> None:
    with AdminClient({"bootstrap.servers": "127.0.0.1:9"}) as admin:
        for call in (
            admin.delete_topics,
            admin.describe_consumer_groups,
            admin.delete_consumer_groups,
        ):
            with pytest.raises(TypeError, match="must be a list, not str"):
                call("abc")
        with pytest.raises(ValueError, match="must not be empty"):
            admin.delete_consumer_groups([])


def test_security_of_the_admin_client_says_that_there_is_none() -> None:
    admin = AdminClient({"bootstrap.servers": "127.0.0.1:9"})
    for call in (lambda: admin.create_acls([]), lambda: admin.describe_user_scram_credentials()):
        with pytest.raises(KafkaException, match="no authorization and no users yet"):
            call()
    with admin:
        assert admin.poll(0) == 0
