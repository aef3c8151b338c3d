"""kafka-python's consumer over a cluster in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.compat.kafka_python import KafkaConsumer, TopicPartition, errors
from tests.fakes.consumers import fill
from tests.fakes.fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer(cluster: FakeCluster, *topics: str, **config: Any) -> KafkaConsumer:
    given: dict[str, Any] = {"auto_offset_reset": "earliest", **config}
    return KafkaConsumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **given)


def test_assigning_nothing_is_unsubscribing(cluster: FakeCluster) -> None:
    with consumer(cluster) as c:
        c.assign([T0])
        c.assign([])
        c.subscribe(["t"])
        assert c.subscription() == {"t"}


def test_a_partition_that_is_not_assigned_has_no_position(cluster: FakeCluster) -> None:
    c = consumer(cluster)
    c.assign([T0])
    assert (c.position(T0), c.highwater(T0)) == (0, 0)
    for call in (c.position, c.highwater):
        with pytest.raises(errors.IllegalStateError, match="not assigned"):
            call(T1)
    c.close()
    for call in (c.position, c.highwater):
        with pytest.raises(errors.IllegalStateError, match="closed"):
            call(T0)


def test_a_topic_that_cannot_be_has_no_partitions(cluster: FakeCluster) -> None:
    with consumer(cluster) as c:
        assert c.partitions_for_topic("t") == {0, 1}
        assert c.partitions_for_topic("no such") == set()


def test_a_poll_waits_for_a_topic_that_is_not_there(cluster: FakeCluster) -> None:
    with consumer(cluster, "none", allow_auto_create_topics=False) as c:
        for wait in (lambda: c.poll(timeout_ms=150), lambda: list(c)):
            c.config["consumer_timeout_ms"] = 150
            began_ms = SYSTEM_CLOCK.monotonic_ms()
            assert not wait()
            assert SYSTEM_CLOCK.monotonic_ms() - began_ms >= 150
    assert cluster.metadata_requests < 30


def until_it_reads(c: KafkaConsumer, read: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread that reads, when it waits for records, and what `read` gives in the end."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(read())
        except errors.IllegalStateError as error:
            outcome.append(type(error))

    thread = threading.Thread(target=work)
    thread.start()
    while not c._polls:  # the other thread is on its way
        pass
    return thread, outcome


@pytest.mark.parametrize("group_id", [None, "g"])
def test_another_thread_ends_an_iteration_by_closing(
    cluster: FakeCluster, group_id: str | None
) -> None:
    fill(cluster, 3)
    c = consumer(cluster, group_id=group_id)
    c.assign([T0])
    assert len(c.poll(timeout_ms=30_000)[T0]) == 3
    thread, outcome = until_it_reads(c, lambda: list(c))
    c.close()
    thread.join(30)
    assert outcome == [[]]
    if group_id is not None:
        with consumer(cluster, group_id=group_id) as again:
            assert again.committed(T0) == 3


@pytest.mark.parametrize("group_id", [None, "g"])
def test_another_thread_ends_a_poll_by_closing(cluster: FakeCluster, group_id: str | None) -> None:
    c = consumer(cluster, group_id=group_id)
    c.assign([T0])
    thread, outcome = until_it_reads(c, lambda: c.poll(timeout_ms=60_000))
    c.close()
    thread.join(30)
    assert outcome == [{}]
    with pytest.raises(errors.IllegalStateError, match="closed"):
        c.poll()


def test_brokers_are_asked_for_offsets_while_another_thread_reads(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    c = consumer(cluster)
    c.assign([T1])
    thread, _ = until_it_reads(c, lambda: c.poll(timeout_ms=60_000))
    assert c.beginning_offsets([T0]) == {T0: 0}
    assert c.end_offsets([T0, T1]) == {T0: 3, T1: 0}
    found = c.offsets_for_times({T0: 1_001, T1: 5})
    assert found[T0] is not None
    assert (found[T0].offset, found[T1]) == (1, None)
    c.close()
    thread.join(30)


def test_offsets_are_asked_for_within_the_given_time(cluster: FakeCluster) -> None:
    with consumer(cluster) as c:
        cluster.stop_broker(1)
        for ask in (
            lambda: c.beginning_offsets([T0], timeout_ms=50),
            lambda: c.end_offsets([T0], timeout_ms=50),
            lambda: c.offsets_for_times({T0: 1}, timeout_ms=50),
        ):
            with pytest.raises(errors.KafkaTimeoutError):
                ask()
        c.assign([T0])
        assert c.position(T0, timeout_ms=50) is None
