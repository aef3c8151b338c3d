"""Objects of the user's that are told the cluster's id."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import Consumer, Producer, TopicPartition, errors
from pylog.client.cluster_listeners import ClusterListeners
from tests.fakes.fake_cluster import FakeCluster

Told = list[tuple[str, Any]]


class Code:
    """An interceptor, serializer and deserializer that writes down what it is told."""

    def __init__(self) -> None:
        self.told: Told = []

    def on_update(self, cluster_id: str) -> None:
        self.told.append(("cluster", cluster_id))

    def on_send(self, record: Any) -> Any:
        self.told.append(("send", record.value))
        return record

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        self.told.append(("acknowledgement", type(error)))

    def on_consume(self, records: Any) -> Any:
        self.told.append(("consume", len(records)))
        return records

    def serialize(self, _topic: str, data: Any) -> Any:
        self.told.append(("serialize", data))
        return data

    def deserialize(self, _topic: str, data: bytes) -> bytes:
        self.told.append(("deserialize", data))
        return data


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.create_topic("t")
        yield running


def test_a_producers_code_knows_the_cluster_before_the_first_record(fake: FakeCluster) -> None:
    code = Code()
    with Producer(
        bootstrap_servers=fake.bootstrap_servers,
        interceptor_classes=[code],
        value_serializer=code,
        linger_ms=0,
    ) as sending:
        assert code.told == []
        for value in (b"1", b"2"):
            sending.send("t", value).result(10)
    assert code.told == [
        ("cluster", "fake"),
        ("send", b"1"), ("serialize", b"1"), ("acknowledgement", type(None)),
        ("send", b"2"), ("serialize", b"2"), ("acknowledgement", type(None)),
    ]  # fmt: skip


def test_without_a_server_a_record_is_refused_and_its_interceptors_hear_so() -> None:
    code = Code()
    with (
        Producer(
            bootstrap_servers="127.0.0.1:1", interceptor_classes=[code], max_block_ms=200
        ) as sending,
        pytest.raises(errors.BootstrapFailed),
    ):
        sending.send("t", b"1")
    assert code.told == [("send", b"1"), ("acknowledgement", errors.BootstrapFailed)]


def test_a_consumers_code_knows_the_cluster_before_the_first_record(fake: FakeCluster) -> None:
    code = Code()
    with Producer(bootstrap_servers=fake.bootstrap_servers, linger_ms=0) as sending:
        sending.send("t", b"1").result(10)
    with Consumer(
        bootstrap_servers=fake.bootstrap_servers,
        interceptor_classes=[code],
        value_deserializer=code,
        auto_offset_reset="earliest",
    ) as reading:
        reading.assign([TopicPartition("t", 0)])
        assert len(reading.poll(10)) == 1
    assert code.told == [("cluster", "fake"), ("deserialize", b"1"), ("consume", 1)]


def test_each_object_is_told_once_whatever_it_is_used_for() -> None:
    code = Code()
    listeners = ClusterListeners.among(code, code.serialize, len, None)
    assert listeners is not None
    listeners.tell("a")
    listeners.tell("a")
    assert (code.told, listeners.told) == ([("cluster", "a")], "a")
    assert ClusterListeners.among(None, len, object()) is None


def test_a_listener_that_raises_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Bad:
        def on_update(self, cluster_id: str) -> None:
            raise ValueError(cluster_id)

    code = Code()
    listeners = ClusterListeners.among(Bad(), code)
    assert listeners is not None
    listeners.tell("a")
    assert code.told == [("cluster", "a")]
    assert "on_update of a listener raised" in caplog.text


def test_a_second_thread_waits_until_all_are_told() -> None:
    began, may_end = threading.Event(), threading.Event()

    class Slow:
        def on_update(self, _cluster_id: str) -> None:
            began.set()
            assert may_end.wait(10)

    listeners = ClusterListeners.among(Slow())
    assert listeners is not None
    first = threading.Thread(target=listeners.tell, args=("a",))
    first.start()
    assert began.wait(10)
    seen: list[str] = []

    def second() -> None:
        listeners.tell("a")
        seen.append(listeners.told)

    other = threading.Thread(target=second)
    other.start()
    may_end.set()
    first.join(10)
    other.join(10)
    assert seen == ["a"]
