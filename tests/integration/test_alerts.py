"""Each rule of `monitoring/alerts.yml` fires when its trouble is there, in real processes.

The figures are what the processes export while something is broken; `for:`, how long Prometheus
lets it last, is not waited for. Three rules wait for minutes themselves: their limit is taken down
to zero (`impatient`). `test_metrics` shows that each keeps silent for the troubles of the others.
"""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer, errors
from pylog.clock import SYSTEM_CLOCK
from tests.fakes.alert_rules import Rules, Samples
from tests.fakes.raw_client import RawClient
from tests.fakes.raw_sinks import RawSink
from tests.fakes.raw_transactions import RawProducer, RawTransactions
from tests.fakes.scrapes import ALERTS, firing, seen_by_prometheus
from tests.fakes.small_disk import fill, small_disk
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

CONFIG = {
    "metrics.listen": "127.0.0.1:0",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "1000",
}
FIRED: set[str] = set()
"""The alerts that the tests of this file have seen."""


class Watch:
    """Compares a cluster with what it was."""

    def __init__(self, cluster: LocalCluster | OneProcess) -> None:
        self.cluster = cluster
        self.before = seen_by_prometheus(cluster)

    def sees(self, *alerts: str) -> None:
        """Wait until they fire."""
        assert set(alerts) <= set(ALERTS)

        def fire() -> bool:
            return set(alerts) <= firing(self.before, seen_by_prometheus(self.cluster))

        eventually(60, fire, f"{alerts} fire")
        FIRED.update(alerts)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config=CONFIG) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def in_sync(admin: AdminClient, topic: str, *brokers: int) -> None:
    def are() -> bool:
        partitions = admin.describe_topics(topic)[topic].partitions
        return all(set(partition.isr) == set(brokers) for partition in partitions)

    eventually(60, are, f"{brokers} alone are in sync for {topic}")


def test_a_broker_that_dies(cluster: LocalCluster, admin: AdminClient) -> None:
    spread = {number: [1 + number % 2, 2 - number % 2, 3] for number in range(60)}
    admin.create_topics(
        [
            NewTopic("alone", replica_assignment={0: [3]}),
            NewTopic(
                "strict", replica_assignment={0: [1, 2, 3]}, config={"min.insync.replicas": "3"}
            ),
            NewTopic("spread", replica_assignment=spread),
        ]
    )
    for topic in ("strict", "spread"):
        in_sync(admin, topic, 1, 2, 3)

    def is_calm() -> bool:
        # the disk of the machine that runs this may be as full as it likes
        now = seen_by_prometheus(cluster)
        return firing(now, now) <= {"PylogDiskFilling"}

    eventually(30, is_calm, "no alert fires")
    watch = Watch(cluster)
    cluster.kill(3)
    watch.sees(
        "PylogDown", "PylogBrokerMissing", "PylogOfflinePartitions", "PylogUnderMinIsr",
        "PylogUnderReplicated", "PylogIsrFlapping",
    )  # fmt: skip
    cluster.start(3)
    in_sync(admin, "spread", 1, 2, 3)


def test_an_election_that_may_lose_records(cluster: LocalCluster, admin: AdminClient) -> None:
    risky = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    admin.create_topics(NewTopic("risky", replica_assignment={0: [2, 3]}, config=risky))
    in_sync(admin, "risky", 2, 3)
    watch = Watch(cluster)
    cluster.kill(3)
    in_sync(admin, "risky", 2)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("risky", b"on broker 2 alone").result(20)
    cluster.kill(2)
    cluster.start(3)
    watch.sees("PylogUncleanElection")
    cluster.start(2)
    in_sync(admin, "risky", 2, 3)


def test_a_broker_that_does_not_hear_of_the_metadata() -> None:
    patient = {"broker.session.timeout.ms": "60000"}  # the controller tells of brokers that live
    with (
        LocalCluster(2, config=CONFIG | patient) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        # the paused process answers no scrape, so its own page is not asked for
        watch = Watch(OneProcess(cluster, "controller"))
        cluster.pause(2)
        there = {number: [1] for number in range(1100)}
        # the answer waits for brokers that live, and one of them has stopped
        with contextlib.suppress(errors.RequestTimedOut, errors.TopicAlreadyExists):
            admin.create_topics(NewTopic("many", replica_assignment=there), timeout=5)
        watch.sees("PylogMetadataLag")
        cluster.resume(2)


class OneProcess:
    """One of a cluster's processes."""

    def __init__(self, cluster: LocalCluster, who: str | int) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self.metrics_urls = {who: cluster.metrics_urls[who]}


def test_a_driver_that_is_gone_and_one_too_many(cluster: LocalCluster) -> None:
    watch = Watch(cluster)
    with LocalCluster(1, config=CONFIG) as second:
        both = watch.before | seen_by_prometheus(second)
        assert "PylogTwoControllers" in firing(both, both)
        FIRED.add("PylogTwoControllers")
    cluster.kill_controller()
    watch.sees("PylogNoController")
    cluster.start_controller()


def test_a_disk_that_is_not_mounted(tmp_path: Path) -> None:
    with (
        LocalCluster(2, tmp_path, CONFIG | {"log.dirs": "d1,d2"}) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("t", 6, 2))
        in_sync(admin, "t", 1, 2)
        watch = Watch(cluster)
        cluster.kill(1)
        disk = tmp_path / "broker-1/d2"
        disk.rename(tmp_path / "away")
        disk.mkdir()
        cluster.start(1)
        watch.sees("PylogOfflineLogDirectory", "PylogOfflineReplica")


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path, 8 * 1024) as disk,
        LocalCluster(1, disk, CONFIG | {"log.segment.bytes": "1048576"}) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            linger_ms=0, delivery_timeout_ms=3_000, request_timeout_ms=2_000,
        ) as producer,
    ):  # fmt: skip
        admin.create_topics(NewTopic("t"))
        watch = Watch(cluster)
        fill(disk)
        # the last pages of both logs may have room for a little
        with pytest.raises(errors.PylogError):
            send_many(producer)
        with pytest.raises(errors.KafkaStorageError, match="no room"):
            create_many(admin)
        watch.sees("PylogDiskFilling", "PylogDiskErrors", "PylogNoRoom")


def send_many(producer: Producer) -> None:
    for _ in range(100):
        producer.send("t", bytes(10_000)).result(20)


def create_many(admin: AdminClient) -> None:
    for number in range(100):
        admin.create_topics(NewTopic(f"late-{number}"), timeout=2)


MEMBER = """
import sys, threading
from pylog import Consumer
consumer = Consumer("t", bootstrap_servers=sys.argv[1], group_id="g", group_protocol="classic",
                    session_timeout_ms=1000, heartbeat_interval_ms=200)
while not consumer.assignment():
    consumer.poll(0.1)
print("member", flush=True)
threading.Event().wait()
"""


def test_a_process_that_is_slow_short_of_descriptors_and_crowded() -> None:
    settings = {
        "max.connections.per.ip": "100",
        "group.min.session.timeout.ms": "500",
        "broker.session.timeout.ms": "20000",
    }
    with (
        LocalCluster(1, config=CONFIG | settings) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        contextlib.ExitStack() as held,
    ):
        admin.create_topics(NewTopic("t"))
        watch = Watch(cluster)
        command = [sys.executable, "-c", MEMBER, cluster.bootstrap_servers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as member:
            assert member.stdout is not None
            assert member.stdout.readline() == "member\n"
            member.send_signal(signal.SIGKILL)
        watch.sees("PylogGroupMemberLost")

        cluster.pause(1)
        SYSTEM_CLOCK.sleep(1.5)  # the trouble itself: for so long its loop stands still
        cluster.resume(1)
        watch.sees("PylogLoopSlow")

        pid = cluster._nodes[1]._process.pid
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used * 11 // 10, limits[1]))
        watch.sees("PylogFewDescriptors")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

        streams = ("127.0.0.1", cluster._ports[1][2])
        for _ in range(500):
            held.enter_context(socket.create_connection(streams, timeout=30))
        watch.sees("PylogConnectionsRefused")


def impatient(alert: str, before: Samples, now: Samples) -> bool:
    """Whether a rule that gives it minutes would fire, did it give none."""
    rule, changed = re.subn(r" > \d+$", " > 0", ALERTS[alert])
    assert changed
    return Rules(before, now, 300).fires(rule)


def test_transactions_and_batches_that_nobody_ends(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics(NewTopic("markers", replica_assignment={0: [3]}))
    watch = Watch(cluster)
    with RawClient(cluster.bootstrap_servers) as raw:
        world = RawTransactions(raw)
        name = next(
            name for name in map("t-{}".format, range(1000)) if world.coordinator(name)[0] != 3
        )
        writer = RawProducer(world, name)
        writer.init()
        writer.send("markers", b"x")
        sink = RawSink(world, "8f3b")
        sink.staged(1, "spread", [b"y"])
        for alert in ("PylogTransactionLeftOpen", "PylogSinkUndecided"):
            assert not impatient(alert, watch.before, watch.before)
            eventually(
                30,
                lambda: impatient(alert, watch.before, seen_by_prometheus(cluster)),  # noqa: B023
                alert,
            )
            FIRED.add(alert)
        cluster.kill(3)
        writer.end(committed=True)
        watch.sees("PylogTransactionNotTold")
        cluster.start(3)


def test_each_alert_has_fired(request: pytest.FixtureRequest) -> None:
    """It looks only when the whole file ran."""
    ran = {item.name for item in request.session.items if item.path == request.path}
    if {name for name in globals() if name.startswith("test_")} <= ran:
        of_disks = {"PylogDiskFilling", "PylogDiskErrors", "PylogNoRoom"}  # which takes root
        assert set(ALERTS) - FIRED <= of_disks
