"""A consumer that is closed has committed as its user says."""

from __future__ import annotations

import asyncio

import pytest

from pylog import AdminClient, Consumer
from pylog.aio import AsyncConsumer
from pylog.compat.kafka_python import KafkaConsumer
from pylog.compat.kafka_python import TopicPartition as KafkaPartition
from pylog.model import TopicPartition
from tests.fakes.consumers import fill
from tests.fakes.fake_cluster import FakeCluster

T0 = TopicPartition("t", 0)
NEVER_MS = 3_600_000


def committed(cluster: FakeCluster) -> int | None:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        found = admin.list_group_offsets("g").get(T0)
        return None if found is None else found.offset


def closed(cluster: FakeCluster, commit: bool) -> None:
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=NEVER_MS,
    ) as c:
        c.assign([T0])
        assert len(c.poll(30)) == 3
        c.close(commit=commit)


async def closed_by_a_task(cluster: FakeCluster, commit: bool) -> None:
    async with AsyncConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=NEVER_MS,
    ) as c:
        c.assign([T0])
        assert len(await c.poll(30)) == 3
        await c.close(commit=commit)


@pytest.mark.parametrize(("commit", "kept"), [(True, 3), (False, None)])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_consumer_may_be_closed_without_a_commit(
    cluster: FakeCluster, commit: bool, kept: int | None, is_async: bool
) -> None:
    fill(cluster, 3)
    if is_async:
        asyncio.run(closed_by_a_task(cluster, commit))
    else:
        closed(cluster, commit)
    assert committed(cluster) == kept


@pytest.mark.parametrize(("autocommit", "kept"), [(True, 2), (False, None)])
def test_kafka_pythons_close_without_a_commit_keeps_nothing(
    cluster: FakeCluster, autocommit: bool, kept: int | None
) -> None:
    fill(cluster, 3)
    c = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=NEVER_MS,
        max_poll_records=1,
    )
    c.assign([KafkaPartition("t", 0)])
    assert [len(c.poll(timeout_ms=30_000)) for _ in range(2)] == [1, 1]
    c.close(autocommit=autocommit)
    assert committed(cluster) == kept
