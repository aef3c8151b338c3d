"""Several log directories per broker: one fails, is missing or is full, and the rest goes on."""

from __future__ import annotations

import errno
import json
import os
import random
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pylog import AdminClient, Consumer, NewTopic, Producer, TopicPartition, errors
from pylog.client.admin.admin_types import LogDirDescription
from pylog.clock import SYSTEM_CLOCK
from pylog.local import LocalCluster
from pylog.model import PartitionDescription
from tests.fakes.small_disk import fill, read_only, small_disk
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

HOOK = Path(__file__).parents[1] / "fakes" / "failing_disk"
CONFIG = {
    "log.dirs": "d1,d2",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "metrics.listen": "127.0.0.1:0",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}
ROUNDS = int(os.environ.get("PYLOG_ROUNDS", "5"))
SEED = int(os.environ.get("PYLOG_SEED", random.randrange(10_000)))
WRITES = ("append", "fsync", "fsync_dir", "write_atomic", "open", "mkdir", "rename", "truncate")


class Disks:
    """Lets the disk below one path fail in every broker process, until `heal`."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def fail(self, path: Path, code: int, operations: Sequence[str] = ()) -> None:
        fault = {"prefix": f"{path}", "errno": code, "operations": list(operations)}
        new = self._control.with_suffix(".new")
        new.write_text(json.dumps(fault))
        new.replace(self._control)

    def heal(self) -> None:
        self._control.unlink(missing_ok=True)


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disks:
    control = tmp_path / "failing-disk.json"
    monkeypatch.setenv("PYLOG_TEST_FAILING_DISK", str(control))
    monkeypatch.setenv("PYTHONPATH", str(HOOK))
    return Disks(control)


@pytest.fixture
def cluster(disks: Disks, tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(3, tmp_path / "data", CONFIG) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def partitions(admin: AdminClient, topic: str) -> list[PartitionDescription]:
    return list(admin.describe_topics(topic)[topic].partitions)


def directories(admin: AdminClient, broker: int) -> dict[str, LogDirDescription]:
    """By the last part of their paths. A broker that has just started is awaited: the server that
    the client asks may hear of it later.
    """
    found: dict[str, LogDirDescription] = {}

    def told() -> bool:
        try:
            described = admin.describe_log_dirs([broker])[broker]
        except errors.BrokerNotAvailable:
            return False
        found.update({Path(d.path).name: d for d in described})
        return True

    eventually(30, told, f"every server knows that broker {broker} is live")
    return found


def assert_all_run(cluster: LocalCluster) -> None:
    for process in [cluster._head, *cluster._nodes.values()]:
        assert process is not None
        assert process.running, process.tail()
        assert "Traceback" not in process.log.read_text(), process.tail()


class Load:
    """Acknowledged records over all partitions of a topic, from a thread, until `stop`."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self.acknowledged: list[set[int]] = [set() for _ in range(partitions)]
        self.refused: list[BaseException] = []
        self._producer = Producer(bootstrap_servers=servers, linger_ms=1, acks="all")
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.002):
            for partition, acknowledged in enumerate(self.acknowledged):

                def done(
                    _: object, error: BaseException | None, number: int = number,
                    acknowledged: set[int] = acknowledged,
                ) -> None:  # fmt: skip
                    if error is None:
                        acknowledged.add(number)
                    else:
                        self.refused.append(error)

                value = f"{number:08d}".encode() * 10
                self._producer.send(self._topic, value, partition=partition, on_delivery=done)
            number += 1

    def counts(self) -> list[int]:
        return [len(done) for done in self.acknowledged]

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._producer.flush(30)
        self._producer.close(5)


def assert_nothing_lost(servers: str, topic: str, acknowledged: list[set[int]]) -> None:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        for partition, wanted in enumerate(acknowledged):
            tp = TopicPartition(topic, partition)
            consumer.assign([tp])
            end = consumer.end_offsets([tp])[tp]
            found: list[int] = []
            while consumer.position(tp) < end:
                found += [int(record.value[:8]) for record in consumer.poll(10)]
            assert found == sorted(set(found)), "doubled, or out of order"
            assert wanted <= set(found), "an acknowledged record is gone"


@pytest.mark.parametrize(
    ("code", "operations"), [(errno.EIO, ()), (errno.EROFS, WRITES)], ids=["EIO", "EROFS"]
)
def test_a_directory_that_fails_under_load(
    cluster: LocalCluster,
    admin: AdminClient,
    disks: Disks,
    code: int,
    operations: tuple[str, ...],
) -> None:
    admin.create_topics(NewTopic("t", 6, 2))
    before = directories(admin, 1)
    assert {name: len(d.replicas) for name, d in before.items()} == {"d1": 2, "d2": 2}
    struck = {tp.partition for tp in before["d2"].replicas}
    led = {p.partition for p in partitions(admin, "t") if p.leader == 1}
    load = Load(cluster.bootstrap_servers, "t", 6)
    eventually(30, lambda: min(load.counts()) > 50, "records on every partition")

    disks.fail(cluster.data_dir / "broker-1" / "d2", code, operations)
    eventually(
        30,
        lambda: not any(1 in p.isr for p in partitions(admin, "t") if p.partition in struck),
        "its replicas leave their ISRs",
    )
    now = partitions(admin, "t")
    assert {p.partition for p in now if p.leader == 1} == led - struck, "the other directory leads"
    assert {p.partition for p in now if 1 in p.offline_replicas} == struck
    counts = load.counts()
    eventually(
        30, lambda: all(b > a + 20 for a, b in zip(counts, load.counts(), strict=True)), "goes on"
    )
    after = directories(admin, 1)
    assert after["d1"].error is None
    assert "d2 is offline" in str(after["d2"].error)
    assert {tp.partition for tp in after["d2"].replicas} == struck
    with urllib.request.urlopen(f"{cluster.metrics_urls[1]}/metrics") as answer:
        page = answer.read().decode()
    assert "pylog_offline_log_directories 1" in page
    assert f"pylog_offline_replicas {len(struck)}" in page
    assert 'd1"}' in page
    # New replicas come to the directory that works.
    admin.create_topics(NewTopic("new", replica_assignment={0: [1, 2], 1: [1, 3]}))
    assert {tp.topic for tp in directories(admin, 1)["d1"].replicas} == {"t", "new"}
    assert all(1 in p.isr for p in partitions(admin, "new"))
    log = (cluster.data_dir / "logs" / "controller.log").read_text()
    assert "broker 1 has lost its log directory" in log
    assert_all_run(cluster)

    disks.heal()
    cluster.stop(1)
    cluster.start(1)
    eventually(30, lambda: all(len(p.isr) == 2 for p in partitions(admin, "t")), "all in sync")
    assert not any(d.error for d in directories(admin, 1).values())
    load.stop()
    assert load.refused == []
    assert_nothing_lost(cluster.bootstrap_servers, "t", load.acknowledged)
    assert_all_run(cluster)


def test_a_directory_that_is_missing_at_the_start_is_not_made_anew(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics([NewTopic("t", 6, 2), NewTopic("alone", 6, 1)])
    load = Load(cluster.bootstrap_servers, "t", 6)
    eventually(30, lambda: min(load.counts()) > 50, "records on every partition")
    load.stop()
    before = directories(admin, 1)
    struck = set(before["d2"].replicas)
    cluster.kill(1)
    disk, away = (cluster.data_dir / "broker-1" / name for name in ("d2", "away"))
    disk.rename(away)
    disk.mkdir()  # a mount point without its disk
    cluster.start(1)
    found = directories(admin, 1)
    assert "mount its disk and start this broker again" in str(found["d2"].error)
    assert set(found["d2"].replicas) == struck
    assert set(found["d1"].replicas) == set(before["d1"].replicas)
    assert list(disk.iterdir()) == []
    by_name = {t: partitions(admin, t) for t in ("t", "alone")}
    for topic, number in struck:
        assert 1 in by_name[topic][number].offline_replicas
        assert by_name[topic][number].leader == (None if topic == "alone" else
                                                 next(b for b in by_name[topic][number].replicas
                                                      if b != 1))  # fmt: skip
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        number = next(p.partition for p in by_name["alone"] if p.leader == 1)
        producer.send("alone", b"goes on", partition=number).result(10)

    cluster.kill(1)
    disk.rmdir()
    away.rename(disk)
    cluster.start(1)
    eventually(
        30,
        lambda: all(p.leader is not None and len(p.isr) == len(p.replicas)
                    for t in by_name for p in partitions(admin, t)),
        "all in sync",
    )  # fmt: skip
    assert set(directories(admin, 1)["d2"].replicas) == struck
    assert_nothing_lost(cluster.bootstrap_servers, "t", load.acknowledged)
    assert_all_run(cluster)


def test_a_directory_that_is_taken_out_of_the_setting_is_given_up(
    disks: Disks, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with LocalCluster(3, data, CONFIG) as cluster:
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("t", 6, 3))
        load = Load(cluster.bootstrap_servers, "t", 6)
        eventually(30, lambda: min(load.counts()) > 50, "records on every partition")
        load.stop()
    for broker in (2, 3):
        (data / f"broker-{broker}" / "d2").rename(data / f"broker-{broker}" / "d3")
    with (
        LocalCluster(3, data, {**CONFIG, "log.dirs": "d1,d3"}) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        # The disks of two brokers only have another path; the first one's is gone, and replaced.
        eventually(30, lambda: all(len(p.isr) == 3 for p in partitions(admin, "t")), "in sync")
        for broker in (1, 2, 3):
            found = directories(admin, broker)
            assert {name: len(d.replicas) for name, d in found.items()} == {"d1": 3, "d3": 3}
            assert not any(d.error for d in found.values())
        assert_nothing_lost(cluster.bootstrap_servers, "t", load.acknowledged)
        assert_all_run(cluster)


def test_when_every_directory_has_failed_the_broker_ends(
    cluster: LocalCluster, admin: AdminClient, disks: Disks
) -> None:
    admin.create_topics(NewTopic("t", 6, 3))
    disks.fail(cluster.data_dir / "broker-1", errno.EIO)
    eventually(30, lambda: not cluster._nodes[1].running, "it ends")
    assert "every log directory has failed" in cluster._nodes[1].log.read_text()
    eventually(30, lambda: all(p.leader in (2, 3) for p in partitions(admin, "t")), "others lead")
    disks.heal()
    cluster.start(1)
    eventually(30, lambda: all(len(p.isr) == 3 for p in partitions(admin, "t")), "in sync")


def test_one_full_disk_refuses_writes_and_the_other_takes_them(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "broker-1" / "d2", 4 * 1024) as disk,
        LocalCluster(1, tmp_path, CONFIG) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        Producer(
            bootstrap_servers=cluster.bootstrap_servers, linger_ms=0,
            delivery_timeout_ms=5_000, request_timeout_ms=4_000, retry_backoff_max_ms=200,
        ) as producer,
    ):  # fmt: skip
        admin.create_topics(NewTopic("t", 2, 1))
        (full,) = {tp.partition for tp in directories(admin, 1)["d2"].replicas}
        producer.send("t", b"v", partition=full).result(10)
        ballast = fill(disk)
        with pytest.raises(errors.RetriableError, match=f"no room on the disk of {disk}"):
            fill_up(producer, full)
        for _ in range(20):
            producer.send("t", bytes(10_000), partition=1 - full).result(10)
        assert not any(d.error for d in directories(admin, 1).values())
        ballast.unlink()
        eventually(30, lambda: sent(producer, full), "writes resume by themselves")
        assert_all_run(cluster)


def fill_up(producer: Producer, partition: int) -> None:
    for _ in range(100):
        producer.send("t", bytes(10_000), partition=partition).result(10)


def sent(producer: Producer, partition: int) -> bool:
    try:
        producer.send("t", b"again", partition=partition).result(10)
    except errors.RetriableError:
        return False
    return True


def test_a_disk_that_is_read_only_at_the_start_is_left_out(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "broker-1" / "d2", 1024) as disk,
        LocalCluster(1, tmp_path, CONFIG) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("t", 2, 1))
        cluster.stop(1)
        read_only(disk)
        cluster.start(1)
        assert "ead-only" in str(directories(admin, 1)["d2"].error)
        assert [p.leader for p in partitions(admin, "t")].count(1) == 1


@pytest.mark.parametrize(
    ("log_dirs", "said"),
    [
        ("d1,d1", "'d1' is twice the same directory"),
        ("{root}/x,{root}/x/y", "give directories that stand beside each other"),
        ("{root}/a-file,d1", "a-file is not a directory"),
        ("{root}/link,{root}/linked", "twice the same directory"),
        ("{root}/data,d1", "give directories that stand beside each other"),
    ],
)
def test_what_cannot_be_used_is_named_at_the_start(
    tmp_path: Path, log_dirs: str, said: str
) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "linked").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "linked")
    config = {"log.dirs": log_dirs.format(root=tmp_path)}
    with pytest.raises(errors.PylogError, match=r"log\.dirs|not a directory") as caught:
        LocalCluster(1, tmp_path / "data", config)
    assert said in str(caught.value)


def test_a_brokers_first_directory_can_be_kept(tmp_path: Path) -> None:
    with (
        LocalCluster(1, tmp_path / "data") as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("t", 2, 1))
    with pytest.raises(errors.PylogError, match=r"leaves out .*/broker-1, which holds"):
        LocalCluster(1, tmp_path / "data", {"log.dirs": "d1,d2"})
    config = {"log.dirs": f"{tmp_path / 'data'},{tmp_path / 'disk2'}"}
    with (
        LocalCluster(1, tmp_path / "data", config) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("new", 2, 1))
        assert [p.leader for p in partitions(admin, "t")] == [1, 1]
        paths = {d.path: sorted(map(str, d.replicas)) for d in admin.describe_log_dirs()[1]}
        assert paths == {
            f"{tmp_path}/data/broker-1": ["t-0", "t-1"],
            f"{tmp_path}/disk2/broker-1": ["new-0", "new-1"],
        }


def strike(cluster: LocalCluster, disks: Disks, rng: random.Random) -> str:
    """One fault of a random broker, and its end; what it was."""
    broker = rng.choice(cluster.brokers)
    disk = cluster.data_dir / f"broker-{broker}" / rng.choice(("d1", "d2"))
    kind = rng.choice(("EIO", "EROFS", "fsync", "missing", "kill"))
    if kind == "kill":
        cluster.kill(broker)
    elif kind == "missing":
        cluster.kill(broker)
        away = disk.rename(disk.with_name("away"))
        cluster.start(broker)
        SYSTEM_CLOCK.sleep(rng.random())
        cluster.kill(broker)
        away.rename(disk)
    else:
        operations = {"EIO": (), "EROFS": WRITES, "fsync": ("fsync",)}[kind]
        disks.fail(disk, errno.EROFS if kind == "EROFS" else errno.EIO, operations)
        SYSTEM_CLOCK.sleep(rng.random() * 2)
        disks.heal()
        if rng.random() < 0.5:
            cluster.stop(broker)
        else:
            cluster.kill(broker)
    cluster.start(broker)
    return f"{kind} of {disk}"


def test_directories_come_and_go_and_nothing_is_lost(
    cluster: LocalCluster, admin: AdminClient, disks: Disks
) -> None:
    rng = random.Random(SEED)
    admin.create_topics(NewTopic("t", 6, 3, config={"min.insync.replicas": "2"}))
    load = Load(cluster.bootstrap_servers, "t", 6)
    story = [f"PYLOG_SEED={SEED}"]
    try:
        for _ in range(ROUNDS):
            story.append(strike(cluster, disks, rng))
            eventually(
                40, lambda: all(len(p.isr) == 3 for p in partitions(admin, "t")), f"in sync {story}"
            )
            for broker in cluster.brokers:
                found = [p.name for p in (cluster.data_dir / f"broker-{broker}").glob("d?/t-?")]
                assert sorted(found) == [f"t-{number}" for number in range(6)], story
    finally:
        load.stop()
    assert load.refused == [], story
    assert_nothing_lost(cluster.bootstrap_servers, "t", load.acknowledged)
