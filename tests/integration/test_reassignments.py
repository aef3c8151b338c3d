"""Partitions that move between real brokers: under load, over kills, cancelled, throttled."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition, errors
from pylog.cli.main import main
from pylog.clock import SYSTEM_CLOCK
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

CONFIG = {"min.insync.replicas": "1", "log.segment.delete.delay.ms": "500"}
ALL_BROKERS = ("broker", "")
RATE = "follower.replication.throttled.rate"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(4, config=CONFIG) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "failed unexpectedly" not in text, text[-5000:]


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


class Load:
    """A producer with acks=all that writes numbers until it is stopped."""

    def __init__(self, cluster: LocalCluster, topic: str, value_bytes: int = 100) -> None:
        self._producer = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=2)
        self._topic, self._padding = topic, b"." * value_bytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged = 0

    def __enter__(self) -> Load:
        self._thread.start()
        eventually(30, lambda: self.acknowledged > 50, "the load runs")
        return self

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            batch = [
                self._producer.send(self._topic, b"%d" % n + self._padding, partition=0)
                for n in range(number, number + 10)
            ]
            for handle in batch:
                handle.result(60)
            number += 10
            self.acknowledged = number

    def goes_on(self) -> bool:
        """Whether more is acknowledged within some seconds."""
        before = self.acknowledged
        eventually(30, lambda: self.acknowledged > before, "writes go on")
        return True

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        self._producer.close()


def numbers(cluster: LocalCluster, topic: str) -> list[int]:
    tp = TopicPartition(topic, 0)
    found: list[int] = []
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as c:
        c.assign([tp])
        c.seek_to_beginning()
        end = c.end_offsets([tp])[tp]
        while c.position(tp) < end:
            found += [int((r.value or b"").rstrip(b".")) for r in c.poll(10)]
    return found


def partition(admin: AdminClient, topic: str) -> tuple[tuple[int, ...], set[int], int | None]:
    """Its replicas, ISR and leader."""
    found = admin.describe_topics(topic)[topic].partitions[0]
    return tuple(found.replicas), set(found.isr), found.leader


def moved(admin: AdminClient, topic: str, *replicas: int) -> Callable[[], bool]:
    def look() -> bool:
        now, isr, _ = partition(admin, topic)
        return now == replicas and isr == set(replicas)

    return look


def directories(cluster: LocalCluster, topic: str) -> set[int]:
    """The brokers that have anything of the partition on their disks."""
    return {
        broker
        for broker in cluster.brokers
        if any((cluster.data_dir / f"broker-{broker}").glob(f"{topic}-0*"))
    }


def test_k48_a_partition_moves_under_load(cluster: LocalCluster, admin: AdminClient) -> None:
    admin.create_topics(NewTopic("moving", replica_assignment={0: [1, 2]}))
    tp = TopicPartition("moving", 0)
    with Load(cluster, "moving") as load:
        admin.alter_partition_reassignments({tp: [3, 4]})
        eventually(60, moved(admin, "moving", 3, 4), "the partition is on its new brokers")
        assert load.goes_on()
    assert partition(admin, "moving") == ((3, 4), {3, 4}, 3)
    assert admin.list_partition_reassignments() == {}
    assert numbers(cluster, "moving") == list(range(load.acknowledged))
    eventually(30, lambda: directories(cluster, "moving") == {3, 4}, "the old files are removed")
    # and back again, onto brokers that had it before
    admin.alter_partition_reassignments({tp: [2, 1]})
    eventually(60, moved(admin, "moving", 2, 1), "the partition is back")
    assert numbers(cluster, "moving") == list(range(load.acknowledged))
    eventually(30, lambda: directories(cluster, "moving") == {1, 2}, "the old files are removed")


def fill(cluster: LocalCluster, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        handles = [producer.send(topic, b"%d" % n + b"." * 1000, partition=0) for n in range(count)]
        producer.flush(60)
        assert [h.result(0).offset for h in handles] == list(range(count))


def throttle(admin: AdminClient, topic: str, rate: int | None) -> None:
    replicas = None if rate is None else "*"
    admin.incremental_alter_configs(
        {
            ("topic", topic): {"follower.replication.throttled.replicas": replicas},
            ALL_BROKERS: {RATE: None if rate is None else str(rate)},
        }
    )


def test_a_move_is_cancelled_and_leaves_nothing(cluster: LocalCluster, admin: AdminClient) -> None:
    admin.create_topics(NewTopic("cancelled", replica_assignment={0: [1, 2]}))
    fill(cluster, "cancelled", 3000)
    throttle(admin, "cancelled", 20_000)
    tp = TopicPartition("cancelled", 0)
    try:
        admin.alter_partition_reassignments({tp: [3, 4]})
        (move,) = admin.list_partition_reassignments().values()
        assert (move.adding_replicas, move.removing_replicas) == ((3, 4), (1, 2))
        eventually(
            30, lambda: directories(cluster, "cancelled") == {1, 2, 3, 4}, "the copies begin"
        )
        admin.alter_partition_reassignments({tp: None})
    finally:
        throttle(admin, "cancelled", None)
    assert partition(admin, "cancelled")[0] == (1, 2)
    eventually(30, lambda: directories(cluster, "cancelled") == {1, 2}, "the copies are removed")
    with pytest.raises(errors.NoReassignmentInProgress):
        admin.alter_partition_reassignments({tp: None})
    assert numbers(cluster, "cancelled") == list(range(3000))


def test_s63_a_throttle_holds_the_copy_back_and_not_the_tail(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics(NewTopic("throttled", replica_assignment={0: [1, 2]}))
    fill(cluster, "throttled", 5000)
    throttle(admin, "throttled", 100_000)
    tp = TopicPartition("throttled", 0)
    try:
        begin_ms = SYSTEM_CLOCK.monotonic_ms()
        admin.alter_partition_reassignments({tp: [1, 2, 3]})
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            while SYSTEM_CLOCK.monotonic_ms() < begin_ms + 5_000:
                assert producer.send("throttled", b"tail", partition=0).result(20).offset >= 5000
        # 5 MB at 100 KB a second, a second's worth and one answer come at once
        assert partition(admin, "throttled")[1] == {1, 2}
    finally:
        throttle(admin, "throttled", None)
    eventually(60, moved(admin, "throttled", 1, 2, 3), "the copy ends without the throttle")


def test_a_move_over_kills(cluster: LocalCluster, admin: AdminClient) -> None:
    """A new replica, the leader and the controller are killed while data are copied."""
    admin.create_topics(
        NewTopic("kills", replica_assignment={0: [1, 2]}, config={"min.insync.replicas": "1"})
    )
    tp = TopicPartition("kills", 0)
    with Load(cluster, "kills", value_bytes=5_000) as load:
        eventually(60, lambda: load.acknowledged >= 500, "there is something to copy")
        throttle(admin, "kills", 300_000)
        try:
            admin.alter_partition_reassignments({tp: [3, 4]})
            eventually(30, lambda: 3 in directories(cluster, "kills"), "the copy begins")
            cluster.kill(3)
            cluster.kill_controller()
            cluster.start_controller()
            cluster.start(3)
            leader = partition(admin, "kills")[2]
            assert leader in (1, 2)
            cluster.kill(leader)
            assert load.goes_on()
            cluster.start(leader)
            assert tp in admin.list_partition_reassignments()
        finally:
            throttle(admin, "kills", None)
        eventually(90, moved(admin, "kills", 3, 4), "the move ends")
        assert load.goes_on()
    assert numbers(cluster, "kills") == list(range(load.acknowledged))
    eventually(30, lambda: directories(cluster, "kills") == {3, 4}, "the old files are removed")


def test_a_broker_that_was_away_deletes_what_it_lost(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics(NewTopic("away", replica_assignment={0: [1, 4]}))
    fill(cluster, "away", 10)
    cluster.stop(4)
    admin.alter_partition_reassignments({TopicPartition("away", 0): [1, 2]})
    eventually(60, moved(admin, "away", 1, 2), "the move ends without the broker")
    cluster.start(4)
    eventually(30, lambda: directories(cluster, "away") == {1, 2}, "the stray is removed")


def test_internal_topics_get_more_replicas(cluster: LocalCluster, admin: AdminClient) -> None:
    with Consumer(
        "moving", bootstrap_servers=cluster.bootstrap_servers, group_id="g",
        auto_offset_reset="earliest",
    ) as consumer:  # fmt: skip
        consumer.poll(10)
        consumer.commit()
    topic = "__consumer_offsets"
    before = admin.describe_topics(topic)[topic].partitions
    target = {
        TopicPartition(topic, p.partition): [b for b in (1, 2, 3, 4) if b != p.partition % 4 + 1]
        for p in before
    }
    admin.alter_partition_reassignments(target)
    eventually(120, lambda: not admin.list_partition_reassignments(), "all have moved")
    now = {
        TopicPartition(topic, p.partition): list(p.replicas)
        for p in admin.describe_topics(topic)[topic].partitions
    }
    assert now == target
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
        assert consumer.committed([TopicPartition("moving", 0)])


def test_o05_plan_execute_status(
    cluster: LocalCluster,
    admin: AdminClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    admin.create_topics(NewTopic("tool", replica_assignment={n: [1, 2] for n in range(4)}))

    def run(*arguments: str) -> str:
        capfd.readouterr()
        assert main(arguments) == 0
        return capfd.readouterr().out

    plan = tmp_path / "plan.json"
    plan.write_text(run("reassign", "plan", "tool", "--brokers", "3,4"))
    back = tmp_path / "back.json"
    back.write_text(run("reassign", "execute", str(plan), "--throttle", "1000000"))

    def done() -> bool:
        rows = json.loads(run("reassign", "status", str(plan), "--json"))
        return all(row["state"] == "done" for row in rows)

    eventually(60, done, "all partitions are done")
    run("reassign", "status", str(plan))
    for resource in (("topic", "tool"), ALL_BROKERS):
        (entries,) = admin.describe_configs([resource]).values()
        left = [e.name for e in entries.values() if "throttled" in e.name and not e.is_default]
        assert left == []
    found = admin.describe_topics("tool")["tool"].partitions
    assert {frozenset(p.replicas) for p in found} == {frozenset({3, 4})}
    assert sorted(p.replicas[0] for p in found) == [3, 3, 4, 4]
    run("reassign", "execute", str(back))
    eventually(60, lambda: "no partition moves" in run("reassign", "list"), "they are back")
    found = admin.describe_topics("tool")["tool"].partitions
    assert {tuple(p.replicas) for p in found} == {(1, 2)}
    assert "no partition of the plan moves" in run("reassign", "cancel", str(plan))


def test_what_cannot_be_done_is_told(cluster: LocalCluster, admin: AdminClient) -> None:
    admin.create_topics(NewTopic("refused", replica_assignment={0: [1, 2]}))
    tp = TopicPartition("refused", 0)
    for target in ([], [1, 1], [99]):
        with pytest.raises(errors.InvalidReplicaAssignment, match="refused-0: "):
            admin.alter_partition_reassignments({tp: target})
    with pytest.raises(errors.InvalidReplicationFactor):
        admin.alter_partition_reassignments({tp: [1]}, allow_replication_factor_change=False)
    with pytest.raises(errors.UnknownTopicOrPartition):
        admin.alter_partition_reassignments({TopicPartition("refused", 9): [1]})
    assert partition(admin, "refused")[0] == (1, 2)
