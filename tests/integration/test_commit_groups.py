"""Streams of the Spark source that commit to a group of a real cluster, without Spark: the engine
is `tests.fakes.micro_batches`, brokers and coordinators are processes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition
from pylog.cli.main import main
from pylog.clock import SYSTEM_CLOCK
from pylog_connector import errors
from tests.fakes.micro_batches import Checkpoint, Run
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"offsets.topic.num.partitions": "4", "offsets.retention.minutes": "1",
              "offsets.retention.check.interval.ms": "1000"}  # fmt: skip
    with LocalCluster(2, config=config) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(cluster: LocalCluster, admin: AdminClient, request: pytest.FixtureRequest) -> str:
    """Two partitions with five records each, of ten minutes ago on."""
    name: str = request.node.name.replace("_", "-")
    admin.create_topics([NewTopic(name, 2)])
    produce(cluster, name, 10)
    return name


def produce(cluster: LocalCluster, topic: str, count: int) -> None:
    begin_ms = SYSTEM_CLOCK.wall_ms() - 600_000
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            at_ms = begin_ms + 1000 * number
            producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=at_ms)


def options(cluster: LocalCluster, topic: str, **more: str) -> dict[str, str]:
    named = {name.replace("__", "."): value for name, value in more.items()}
    return {
        "pylog.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "pylog.commit.group": topic,
        **named,
    }


def committed(admin: AdminClient, group: str) -> dict[int, int]:
    listed = admin.list_group_offsets(group)
    return {tp.partition: at.offset for tp, at in listed.items() if at is not None}


def described(capfd: pytest.CaptureFixture[str], cluster: LocalCluster, group: str) -> list[Any]:
    capfd.readouterr()
    command = ["-b", cluster.bootstrap_servers, "--json", "groups", "describe", group]
    assert main(command) == 0
    sys.stdout.flush()
    [found] = json.loads(capfd.readouterr().out)
    partitions: list[Any] = found["partitions"]
    return partitions


def test_ordinary_tools_show_a_querys_lag(
    cluster: LocalCluster, admin: AdminClient, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    limited = options(cluster, topic, maxOffsetsPerTrigger="4")
    checkpoint = Checkpoint()
    with Run(limited, checkpoint) as run:
        run.trigger()
        shown = run.reader.reportLatestOffset()
        assert shown is not None
        assert shown["recordsBehindLatest"] == 6
        assert 590 < shown["secondsBehindLatest"] < 700
        run.trigger()
        eventually(30, lambda: committed(admin, topic) == {0: 2, 1: 2}, "the first batch")
        for each in described(capfd, cluster, topic):
            assert each["lag"] == 3
            assert 590 < each["lag_seconds"] < 700
    assert main(["-b", cluster.bootstrap_servers, "groups", "describe", topic]) == 0
    out = capfd.readouterr().out
    assert "lag s" in out
    assert "lag in all: 6 records, the oldest " in out
    with Run(limited, checkpoint, available_now=True) as run:
        run.drain()
    assert committed(admin, topic) == {0: 5, 1: 5}
    assert [each["lag_seconds"] for each in described(capfd, cluster, topic)] == [0.0, 0.0]


def test_a_query_and_a_group_of_consumers_take_over_from_each_other(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    bootstrap = cluster.bootstrap_servers
    given = {"bootstrap_servers": bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
    with Consumer(topic, **given) as consumer:
        eventually(30, lambda: len(consumer.poll(0.5)) > 0, "the first records")
        with (
            Run(options(cluster, topic), Checkpoint()) as run,
            pytest.raises(errors.CommitGroupInUse, match=r"the group has live members \(1: "),
        ):
            run.trigger()
        eventually(30, lambda: len(consumer.poll(0.2)) == 0, "the last records")
        consumer.commit()
    assert committed(admin, topic) == {0: 5, 1: 5}
    produce(cluster, topic, 4)
    with Run(options(cluster, topic, startingOffsets=f"committed:{topic}"), Checkpoint(),
             available_now=True) as run:  # fmt: skip
        assert [row[2] for row in sorted(run.drain())] == [5, 6, 5, 6]
    produce(cluster, topic, 2)
    with Consumer(topic, **given) as consumer:
        found: list[int] = []
        eventually(
            30, lambda: found.extend(r.offset for r in consumer.poll(0.5)) or len(found) == 2, "two"
        )
        assert found == [7, 7]


def test_an_idle_querys_offsets_do_not_expire(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    """Those of a group that nobody uses do, after the minute that the cluster keeps them."""
    admin.alter_group_offsets(f"{topic}-unused", {TopicPartition(topic, 0): 1})
    with Run(options(cluster, topic), Checkpoint()) as run:
        run.drain()
        eventually(
            120, lambda: committed(admin, f"{topic}-unused") == {}, "the unused offset's end"
        )
        assert committed(admin, topic) == {0: 5, 1: 5}


def test_a_query_outlives_its_coordinator(
    cluster: LocalCluster, admin: AdminClient, topic: str
) -> None:
    with Run(options(cluster, topic), Checkpoint()) as run:
        run.drain()
        eventually(30, lambda: committed(admin, topic) == {0: 5, 1: 5}, "the first commit")
        [group] = admin.describe_groups(topic).values()
        cluster.kill(group.coordinator.id)
        cluster.start(group.coordinator.id)
        produce(cluster, topic, 2)
        eventually(60, lambda: run.trigger() or bool(run.batches[1:]), "the next batch")
        run.drain()
        eventually(60, lambda: committed(admin, topic) == {0: 6, 1: 6}, "the next commit")
