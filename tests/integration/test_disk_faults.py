"""Full, read-only and damaged disks under real brokers: a named error, and nothing lost.

Q-P15: a full disk stops writes, loses nothing, ends no process, and writes go on within 10 s after
somebody made room.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pylog import (
    AdminClient,
    Consumer,
    LocalCluster,
    NewTopic,
    Producer,
    TopicPartition,
    errors,
)
from pylog.clock import SYSTEM_CLOCK
from pylog.model import PartitionDescription
from tests.fakes.small_disk import fill, needs_small_disks, read_only, small_disk
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

RECORD_BYTES = 10_000
ROUNDS = 20
BUSY = {
    "log.segment.bytes": "1048576",
    "replica.high.watermark.checkpoint.interval.ms": "100",
    "replica.lag.time.max.ms": "1500",
}
"""Segments roll and checkpoints are due all the time: all of it meets the full disk."""


def value(number: int) -> bytes:
    return b"%08d" % number + b"." * (RECORD_BYTES - 8)


class Writer:
    """Sends numbered records one after the other, and knows which were acknowledged."""

    def __init__(self, servers: str, topic: str, **settings: object) -> None:
        self.topic = topic
        self.acknowledged: list[int] = []
        self.next = 0
        self._producer = Producer(
            bootstrap_servers=servers,
            **{
                "linger_ms": 0, "delivery_timeout_ms": 5_000, "request_timeout_ms": 4_000,
                "retry_backoff_max_ms": 200, **settings,
            },
        )  # fmt: skip

    def send(self) -> None:
        """One record; raises what the client says."""
        number, self.next = self.next, self.next + 1
        self._producer.send(self.topic, value(number), partition=0).result(30)
        self.acknowledged.append(number)

    def until_full(self, most: int) -> errors.PylogError:
        """Send until it fails; the error."""
        for _ in range(most):
            try:
                self.send()
            except errors.PylogError as error:
                return error
        raise AssertionError(f"{most} records did not fill the disk")

    def goes_on_within(self, seconds: float) -> None:
        """Send until one is acknowledged."""
        end_ms = SYSTEM_CLOCK.monotonic_ms() + seconds * 1000
        while True:
            try:
                self.send()
            except errors.RetriableError:
                assert SYSTEM_CLOCK.monotonic_ms() < end_ms, f"no writes within {seconds} s"
            else:
                return

    def close(self) -> None:
        self._producer.close(0)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_all(servers: str, topic: str) -> list[int]:
    """The numbers of all records that consumers can see; each value must be whole."""
    tp = TopicPartition(topic, 0)
    numbers: list[int] = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        while len(numbers) < end:
            records = consumer.poll(20)
            assert records
            for record in records:
                numbers.append(int(record.value[:8]))
                assert record.value == value(numbers[-1])
    return numbers


def assert_nothing_lost(servers: str, writer: Writer) -> None:
    numbers = read_all(servers, writer.topic)
    assert numbers == sorted(set(numbers)), "doubled, or out of order"
    assert set(writer.acknowledged) <= set(numbers), "an acknowledged record is gone"


def assert_all_run(cluster: LocalCluster) -> None:
    for process in [cluster._head, *cluster._nodes.values()]:
        assert process is not None
        assert process.running, process.tail()
        assert "Traceback" not in process.log.read_text(), process.tail()


# ---- one broker's disk is full ------------------------------------------------------------------


def test_a_full_disk_stops_writes_and_they_resume(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "broker-1", 6 * 1024) as disk,
        LocalCluster(data_dir=tmp_path, config=BUSY) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("t"), NewTopic("other")])
        ballast = fill(disk, leave=3 << 20)
        with Writer(cluster.bootstrap_servers, "t") as writer:
            error = writer.until_full(600)
            assert len(writer.acknowledged) > 100
            assert isinstance(error, errors.RetriableError)
            assert "KAFKA_STORAGE_ERROR" in str(error)
            assert f"no room on the disk of {disk}" in str(error)
            assert "free some space" in str(error)
            SYSTEM_CLOCK.sleep(2)  # checkpoints, syncs and upkeep all meet the full disk
            assert_nothing_lost(cluster.bootstrap_servers, writer)
            # A topic that is made now works as soon as there is room.
            admin.create_topics(NewTopic("born-full"))
            ballast.unlink()
            writer.goes_on_within(10)
            with Writer(cluster.bootstrap_servers, "born-full") as newborn:
                newborn.goes_on_within(10)
                assert_nothing_lost(cluster.bootstrap_servers, newborn)
            assert_all_run(cluster)
            cluster.kill(1)
            cluster.start(1)
            assert_nothing_lost(cluster.bootstrap_servers, writer)
            writer.goes_on_within(10)


def test_a_file_that_may_not_grow_is_a_full_disk_too() -> None:
    """The same without root: the kernel refuses to let the broker's files grow."""
    with (
        LocalCluster(config={"replica.high.watermark.checkpoint.interval.ms": "100"}) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("t"))
        pid = cluster._nodes[1]._process.pid
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1_500_000, hard))
        with Writer(cluster.bootstrap_servers, "t") as writer:
            error = writer.until_full(600)
            assert "KAFKA_STORAGE_ERROR" in str(error)
            assert "no room" in str(error)
            assert len(writer.acknowledged) > 140
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (100, hard))  # nor any checkpoint
            SYSTEM_CLOCK.sleep(0.5)
            assert_nothing_lost(cluster.bootstrap_servers, writer)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
            writer.goes_on_within(10)
            assert_nothing_lost(cluster.bootstrap_servers, writer)
        assert_all_run(cluster)


def test_a_broker_starts_on_a_full_disk_and_serves_what_is_there(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "broker-1", 2 * 1024) as disk,
        LocalCluster(data_dir=tmp_path, config=BUSY) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("t"))
        with Writer(cluster.bootstrap_servers, "t") as writer:
            for _ in range(20):
                writer.send()
            ballast = fill(disk)
            cluster.kill(1)
            cluster.start(1)
            assert_nothing_lost(cluster.bootstrap_servers, writer)
            assert "free some space" in str(writer.until_full(600))
            ballast.unlink()
            writer.goes_on_within(10)
            assert_nothing_lost(cluster.bootstrap_servers, writer)


# ---- with replicas ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, AdminClient]]:
    """Three brokers, each with a disk of its own where that is possible."""
    root = tmp_path_factory.mktemp("three")
    config = {**BUSY, "min.insync.replicas": "2"}
    with ExitStack() as stack:
        if os.geteuid() == 0:
            for broker in (1, 2, 3):
                stack.enter_context(small_disk(root / f"broker-{broker}", 16 * 1024))
        cluster = stack.enter_context(LocalCluster(3, root, config))
        servers = cluster.bootstrap_servers
        yield cluster, stack.enter_context(AdminClient(bootstrap_servers=servers))


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_the_others_go_on_when_one_disk_is_full(
    three: tuple[LocalCluster, AdminClient], role: str
) -> None:
    needs_small_disks()
    cluster, admin = three
    topic = f"full-{role}"
    admin.create_topics(NewTopic(topic, 1, 3))
    before = described(admin, topic)
    leader = before.leader
    victim = leader if role == "leader" else next(b for b in before.replicas if b != leader)
    disk = cluster.data_dir / f"broker-{victim}"
    with Writer(cluster.bootstrap_servers, topic, delivery_timeout_ms=20_000) as writer:
        writer.send()
        ballast = fill(disk)
        try:
            for _ in range(20):
                writer.send()
            eventually(30, lambda: victim not in described(admin, topic).isr, "it left the ISR")
            assert described(admin, topic).leader != victim
            assert_nothing_lost(cluster.bootstrap_servers, writer)
        finally:
            ballast.unlink()
        eventually(30, lambda: len(described(admin, topic).isr) == 3, "it is in sync again")
        writer.send()
        assert_nothing_lost(cluster.bootstrap_servers, writer)
    assert_all_run(cluster)


def described(admin: AdminClient, topic: str) -> PartitionDescription:
    return admin.describe_topics(topic)[topic].partitions[0]


def test_all_disks_are_full(three: tuple[LocalCluster, AdminClient]) -> None:
    needs_small_disks()
    cluster, admin = three
    admin.create_topics(NewTopic("all-full", 1, 3))
    with Writer(cluster.bootstrap_servers, "all-full") as writer:
        writer.goes_on_within(10)
        ballasts = [fill(cluster.data_dir / f"broker-{id}") for id in cluster.brokers]
        try:
            error = writer.until_full(5)
            assert isinstance(error, errors.RetriableError)
            assert_nothing_lost(cluster.bootstrap_servers, writer)
            SYSTEM_CLOCK.sleep(2)
        finally:
            for ballast in ballasts:
                ballast.unlink()
        writer.goes_on_within(10)
        eventually(30, lambda: len(described(admin, "all-full").isr) == 3, "all are in sync")
        assert_nothing_lost(cluster.bootstrap_servers, writer)
    assert_all_run(cluster)


def test_controller_and_broker_share_a_disk_that_is_full(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path, 8 * 1024) as disk,
        LocalCluster(data_dir=disk, config=BUSY) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("t"))
        with Writer(cluster.bootstrap_servers, "t") as writer:
            writer.send()
            ballast = fill(disk)
            begin_ms = SYSTEM_CLOCK.monotonic_ms()
            with pytest.raises(errors.KafkaStorageError, match="no room on the disk of"):
                create_many(admin)
            assert SYSTEM_CLOCK.monotonic_ms() - begin_ms < 10_000
            assert_all_run(cluster)
            assert_nothing_lost(cluster.bootstrap_servers, writer)
            ballast.unlink()
            writer.goes_on_within(10)
            eventually(30, lambda: created(admin, "at-last"), "changes go on")
            cluster.kill_controller()
            cluster.start_controller()
            assert "at-last" in admin.list_topics()
            assert_nothing_lost(cluster.bootstrap_servers, writer)
        assert_all_run(cluster)


def created(admin: AdminClient, topic: str) -> bool:
    try:
        admin.create_topics(NewTopic(topic), timeout=10)
    except errors.KafkaStorageError:
        return False
    return True


def create_many(admin: AdminClient) -> None:
    """One after the other: the last page of the metadata log may have room for some."""
    for number in range(100):
        admin.create_topics(NewTopic(f"late-{number}"), timeout=2)


# ---- a disk that cannot be written --------------------------------------------------------------


def test_a_read_only_folder_is_named_at_the_start(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", 1024) as disk:
        (disk / "logs").mkdir()
        read_only(disk)
        with pytest.raises((errors.PylogError, OSError)) as caught:
            LocalCluster(data_dir=disk)
        assert str(disk) in str(caught.value)
        assert "ead-only" in str(caught.value)


def test_a_folder_that_is_a_file_is_named_at_the_start(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.write_text("no folder")
    with pytest.raises((errors.PylogError, OSError)) as caught:
        LocalCluster(data_dir=place)
    assert str(place) in str(caught.value)


def test_a_brokers_read_only_folder_is_named_at_the_start(tmp_path: Path) -> None:
    with small_disk(tmp_path / "broker-1", 1024) as disk:
        read_only(disk)
        with pytest.raises(errors.PylogError, match="read-only") as caught:
            LocalCluster(data_dir=tmp_path)
        assert str(disk) in str(caught.value)


# ---- damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_corrupt_segment_takes_one_replica_offline(
    three: tuple[LocalCluster, AdminClient], role: str
) -> None:
    cluster, admin = three
    topic, whole = f"rotten-{role}", f"whole-{role}"
    admin.create_topics([NewTopic(topic, 1, 3), NewTopic(whole, 1, 3)])
    before = described(admin, topic)
    victim = before.leader
    if role == "follower":
        victim = next(b for b in before.replicas if b != before.leader)
    with (
        Writer(cluster.bootstrap_servers, topic, delivery_timeout_ms=20_000) as writer,
        Writer(cluster.bootstrap_servers, whole, delivery_timeout_ms=20_000) as other,
    ):
        for _ in range(250):
            writer.send()
        other.send()
        cluster.stop(victim)
        segments = sorted((cluster.data_dir / f"broker-{victim}" / f"{topic}-0").glob("*.log"))
        assert len(segments) > 2
        damaged = bytearray(segments[0].read_bytes())
        damaged[len(damaged) // 2] ^= 0xFF
        segments[0].write_bytes(damaged)
        cluster.start(victim)
        # The other replicas serve and take writes; the other topic of that broker does not care.
        eventually(30, lambda: described(admin, topic).leader not in (None, victim), "a leader")
        for _ in range(5):
            writer.send()
        other.send()
        eventually(30, lambda: victim in described(admin, whole).isr, "whole logs are in sync")
        assert victim not in described(admin, topic).isr
        assert segments[0].read_bytes() == damaged, "damage is evidence, and stays"
        assert "damaged" in (cluster.data_dir / "logs" / f"broker-{victim}.log").read_text()
        assert_nothing_lost(cluster.bootstrap_servers, writer)
        assert_nothing_lost(cluster.bootstrap_servers, other)


# ---- kill -9 ------------------------------------------------------------------------------------


def test_what_was_acknowledged_survives_twenty_kills() -> None:
    with (
        LocalCluster() as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        Writer(cluster.bootstrap_servers, "t", delivery_timeout_ms=30_000) as writer,
    ):
        admin.create_topics(NewTopic("t"))
        for number in range(ROUNDS):
            for _ in range(5 + number):
                writer.send()
            cluster.kill(1)
            cluster.start(1)
            assert_nothing_lost(cluster.bootstrap_servers, writer)
        assert len(writer.acknowledged) == writer.next
