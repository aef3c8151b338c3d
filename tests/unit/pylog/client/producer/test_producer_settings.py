from __future__ import annotations

from typing import Any

import pytest

from pylog import errors
from pylog.client.producer.interceptors import Interceptors, ProducerRecord
from pylog.client.producer.producer_settings import UserCode, parse_settings
from pylog.client.sending.partitioners import TopicPartitions

THREE = TopicPartitions(3, [0, 2])


def parsed(**config: Any) -> dict[str, Any]:
    return parse_settings("a:1", config)


def user(**config: Any) -> UserCode:
    return UserCode.of(parsed(**config))


class Keyed:
    """A partitioner, a serializer and an interceptor by import path, for the tests below."""

    def partition(self, topic: str, key: Any, value: Any, partitions: TopicPartitions) -> int:
        return partitions.available[-1]

    def serialize(self, topic: str, data: Any) -> bytes:
        return f"{topic}={data}".encode()

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record


class NeedsArguments:
    def __init__(self, what: int) -> None:
        self.what = what


def test_a_batch_may_grow_to_sixteen_times_its_size_unless_told_otherwise() -> None:
    assert parsed()["batch.max.size"] == 262_144
    assert parsed(batch_size=1_000)["batch.max.size"] == 16_000
    assert parsed(batch_size=1_000, batch_max_size=1_000)["batch.max.size"] == 1_000
    assert parsed(batch_size=1 << 20, max_request_size=1 << 21)["batch.max.size"] == 1 << 21
    with pytest.raises(errors.InvalidConfig, match=r"batch_max_size=999: .*batch_size=1000"):
        parsed(batch_size=1_000, batch_max_size=999)


def test_a_batch_is_never_larger_than_the_buffer_or_a_request() -> None:
    small = parsed(buffer_memory=9_000)
    assert (small["batch.size"], small["batch.max.size"]) == (9_000, 9_000)
    assert parsed(max_request_size=500)["batch.size"] == 500


def test_nothing_of_the_users_is_the_default() -> None:
    assert user().is_nothing
    assert not user(serializer=lambda _t, d: d).is_nothing


@pytest.mark.parametrize(
    "name",
    [
        "round_robin",
        "RoundRobinPartitioner",
        "org.apache.kafka.clients.producer.RoundRobinPartitioner",
    ],
)
def test_round_robin_by_name(name: str) -> None:
    place = user(partitioner_class=name).place
    assert place is not None
    assert [place("t", None, None, THREE) for _ in range(3)] == [0, 2, 0]


def test_partitioners_by_callable_object_class_and_path() -> None:
    path = f"{__name__}:Keyed"
    for given, wanted in (
        (lambda _t, _k, _v, count: count - 2, 1),
        (Keyed(), 2),
        (Keyed, 2),
    ):
        place = user(partitioner=given).place
        assert place is not None
        assert place("t", None, None, THREE) == wanted
    with pytest.raises(errors.InvalidConfig, match="cannot be imported"):
        user(partitioner=path + "X")
    assert user(partitioner="operator:add").place is not None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"partitioner": 5}, r"partitioner=5: it must be .round_robin., a callable"),
        ({"partitioner": "no_such_module:x"}, "no_such_module:x.: it cannot be imported"),
        ({"partitioner": "plain"}, "cannot be imported"),
        ({"partitioner": Keyed, "partitioner_class": Keyed}, "two names of one setting"),
        ({"partitioner": NeedsArguments}, "could not be made without arguments"),
        ({"key_serializer": 5}, r"key_serializer=5: it must be a callable"),
        ({"value_serializer": "os:nothing"}, "value_serializer='os:nothing'"),
        ({"interceptor_classes": [object()]}, "has no method on_send or on_acknowledgement"),
        ({"partitioner_ignore_keys": "perhaps"}, "partitioner_ignore_keys"),
        ({"partitioner_availability_timeout_ms": -1}, "partitioner_availability_timeout_ms=-1"),
        ({"partitioner_adaptive_partitioning_enabled": True}, "partitioning_enable"),
    ],
)
def test_a_wrong_setting_is_named_at_construction(config: dict[str, Any], words: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=words):
        user(**config)


def test_serializers_are_callables_or_objects_and_key_and_value_have_their_own() -> None:
    made = user(serializer=Keyed, key_serializer=lambda t, d: d)
    assert made.serialize_value is not None
    assert made.serialize_key is not None
    assert made.serialize_value("t", 5) == b"t=5"
    assert made.serialize_key("t", b"k") == b"k"


def test_interceptors_form_a_chain_and_a_broken_one_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Append:
        def __init__(self, what: str) -> None:
            self.what = what

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            import dataclasses

            return dataclasses.replace(record, value=record.value + self.what)

    class Broken:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise RuntimeError("broken on_send")

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            raise RuntimeError("broken on_acknowledgement")

        def close(self) -> None:
            raise RuntimeError("broken close")

    class Forgetful:
        def on_send(self, record: ProducerRecord) -> None:
            return None

    made = user(interceptor_classes=[Append("1"), Broken, Forgetful(), Append("2")]).interceptors
    assert isinstance(made, Interceptors)
    assert made.on_send(ProducerRecord("t", "x")).value == "x12"
    made.on_acknowledgement(None, errors.ClientClosed())
    made.close()
    for words in ("broken on_send", "broken on_acknowledgement", "broken close", "NoneType"):
        assert words in caplog.text
