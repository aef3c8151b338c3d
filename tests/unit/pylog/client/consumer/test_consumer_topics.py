"""The topics that a consumer reads: topics that come and go, patterns, names that are none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pylog import errors
from pylog.client.consumer.async_consumer import AsyncConsumer
from pylog.client.consumer.consumer import Consumer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition
from tests.fakes.consumers import consumer, fill
from tests.fakes.fake_cluster import FakeCluster

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


def test_a_call_that_waits_hears_of_the_close() -> None:
    c = Consumer("t", bootstrap_servers="127.0.0.1:1")
    outcome: list[BaseException] = []

    def ask() -> None:
        try:
            c.partitions_for("t")
        except BaseException as error:  # noqa: BLE001  told by the test
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while c._cluster.metadata.version == 0 and not c._cluster.faults:
        pass  # the call waits for servers that are not there
    c.close()
    thread.join(5)
    assert [type(error) for error in outcome] == [errors.ClientClosed]


ASKS: dict[str, Callable[[Any], Any]] = {
    "partitions_for": lambda c: c.partitions_for("t", timeout=0.1),
    "position": lambda c: c.position(T0, timeout=0.1),
    "beginning_offsets": lambda c: c.beginning_offsets(timeout=0.1),
    "end_offsets": lambda c: c.end_offsets(T0, timeout=0.1),
    "offsets_for_times": lambda c: c.offsets_for_times({T0: 0}, timeout=0.1),
    "lag": lambda c: c.lag(timeout=0.1),
    "committed": lambda c: c.committed(T0, timeout=0.1),
    "commit": lambda c: c.commit({T0: 1}, timeout=0.1),
}
"""The calls that wait for the cluster."""
LATE = (errors.RequestTimedOut, errors.BootstrapFailed)


@pytest.mark.parametrize("call", ASKS)
def test_a_call_that_asks_the_cluster_takes_a_time_of_its_own(call: str) -> None:
    async def ask_there() -> None:
        async with AsyncConsumer(bootstrap_servers="127.0.0.1:1", group_id="g") as c:
            c.assign([T0])
            with pytest.raises(LATE):
                await ASKS[call](c)
            await c.close(0)

    begun_ms = SYSTEM_CLOCK.monotonic_ms()
    with Consumer(bootstrap_servers="127.0.0.1:1", group_id="g") as c:
        c.assign([T0])
        with pytest.raises(LATE):
            ASKS[call](c)
        c.close(0)
    asyncio.run(ask_there())
    assert SYSTEM_CLOCK.monotonic_ms() - begun_ms < 30_000  # by itself each takes a minute


def test_new_partitions_and_topics_by_pattern(cluster: FakeCluster) -> None:
    fill(cluster, 2)
    cluster.create_topic("other")
    with consumer(cluster, metadata_max_age_ms=50) as c:
        c.subscribe(pattern="t[0-9]*")
        assert len(c.poll(5)) == 2
        cluster.create_topic("t2")
        fill(cluster, 3, topic="t2")
        assert {r.topic for r in c.poll(5)} == {"t2"}
        assert c.subscription() == {"t", "t2"}


@pytest.mark.usefixtures("short_grace")
def test_a_pattern_lets_go_of_a_deleted_topic(cluster: FakeCluster) -> None:
    cluster.create_topic("gone")
    fill(cluster, 2, topic="gone")
    with consumer(cluster, metadata_max_age_ms=50, retry_backoff_ms=10) as c:
        c.subscribe(pattern="t|gone")
        assert len(c.poll(5)) == 2
        del cluster.topics["gone"]
        while c.subscription() != {"t"}:
            c.poll(0.05)
        assert c.assignment() == {T0, T1, T2}
        cluster.create_topic("gone")
        fill(cluster, 3, topic="gone")
        assert len(c.poll(5)) == 3


@pytest.mark.parametrize(("exclude", "topics"), [(True, {"t"}), (False, {"t", "__secret"})])
def test_internal_topics_and_patterns(
    cluster: FakeCluster, exclude: bool, topics: set[str]
) -> None:
    cluster.create_topic("__secret")
    with consumer(cluster, exclude_internal_topics=exclude) as c:
        c.subscribe(pattern=".*")
        for _ in range(100):
            c.poll(0.05)
            if c.subscription():
                break
        assert c.subscription() == topics


@pytest.mark.usefixtures("short_grace")
def test_a_topic_that_does_not_exist_is_named(cluster: FakeCluster) -> None:
    with (
        consumer(cluster, "nope", retry_backoff_ms=10) as c,
        pytest.raises(errors.UnknownTopicOrPartition, match="nope"),
    ):
        c.poll(10)


@pytest.mark.usefixtures("short_grace")
def test_asking_for_a_topic_that_does_not_exist_is_no_fault_of_what_is_read(
    cluster: FakeCluster,
) -> None:
    fill(cluster, 2)
    with consumer(cluster, "t", retry_backoff_ms=10) as c:
        for ask in (lambda: c.partitions_for("nope"), lambda: c.end_offsets(("none", 0))):
            with pytest.raises(errors.UnknownTopicOrPartition):
                ask()
        assert len(c.poll(5)) == 2
        assert list(c._cluster.topics) == ["t"]
        cluster.create_topic("nope")
        assert c.partitions_for("nope") == [0]


def test_servers_that_never_answer_are_named() -> None:
    with (
        Consumer("t", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=1_000) as c,
        pytest.raises(errors.BootstrapFailed, match=r"127.0.0.1:1: connection refused"),
    ):
        c.poll(10)


def test_what_is_refused(cluster: FakeCluster) -> None:
    with pytest.raises(errors.InvalidGroupId, match="a group's name is a text"):
        consumer(cluster, "t", group_id="")
    with pytest.raises(errors.InvalidConfig, match="enable_auto_commit=True needs a group_id"):
        consumer(cluster, "t", enable_auto_commit=True)
    with pytest.raises(errors.InvalidConfig, match="did you mean auto_offset_reset"):
        Consumer("t", bootstrap_servers="a:1", auto_ofset_reset="earliest")
    with pytest.raises(errors.InvalidConfig, match="one of latest, earliest, none"):
        Consumer("t", bootstrap_servers="a:1", auto_offset_reset="smallest")
    with consumer(cluster) as c:
        with pytest.raises(errors.InvalidRequest, match="Consumer is not subscribed to any topics"):
            c.poll(0)
        for of_group in (c.commit, c.commit_async, c.committed, c.group_metadata):
            with pytest.raises(errors.InvalidGroupId, match=r"needs a group: give Consumer"):
                of_group()
        with pytest.raises(errors.InvalidGroupId, match=r"subscribe\(listener=...\) needs a group"):
            c.subscribe("t", listener=object())
        with pytest.raises(errors.InvalidRequest, match="is not a partition"):
            c.assign(["t"])  # type: ignore[list-item]
        with pytest.raises(errors.InvalidRequest, match="is not a partition"):
            c.assign([("t", 2**31)])
        for refused in (c.subscribe, c.partitions_for, lambda name: c.end_offsets((name, 0))):
            with pytest.raises(errors.InvalidTopic):
                refused("\ud800")
        with pytest.raises(errors.InvalidRequest, match="either topics or pattern"):
            c.subscribe()
        with pytest.raises(errors.InvalidRegularExpression, match=r"missing \]"):
            c.subscribe(pattern="[")
    for call in (lambda: c.poll(0), c.assignment, lambda: c.seek(T0, 1)):
        with pytest.raises(errors.ClientClosed, match="closed"):
            call()
