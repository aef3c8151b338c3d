"""The ground of a log's promises: nothing is synced for an acknowledgement, replication keeps
records that a disk loses, and a replica's directory may be moved by hand.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from pylog.local import LocalCluster
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config={"min.insync.replicas": "2"}) as running:
        yield running


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def values(servers: str, topic: str) -> list[tuple[int, bytes | None]]:
    partition = TopicPartition(topic, 0)
    found: list[tuple[int, bytes | None]] = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([partition])[partition]
        while consumer.position(partition) < end:
            found += [(record.offset, record.value) for record in consumer.poll(10)]
    return found


def test_s48_a_read_begins_with_the_batch_that_holds_the_offset(cluster: LocalCluster) -> None:
    with RawClient(cluster.bootstrap_servers) as raw:
        raw.create_topic("batches", replicas=3)
        server = raw.leader("batches")
        batches = [encode_batch([b"%d" % n] * 5) for n in range(4)]
        for batch in batches:
            assert raw.produce(server, "batches", batch).error.code == 0
        for offset in range(20):
            data = raw.fetch(server, "batches", offset=offset)
            assert data.error.code == 0
            got = [(r.offset, r.value) for r in iter_records(data.batches, "batches", 0)]
            first = offset - offset % 5
            assert got == [(n, b"%d" % (n // 5)) for n in range(first, 20)]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_s58_no_acknowledgement_waits_for_a_disk(
    cluster: LocalCluster, admin: AdminClient, tmp_path: Path
) -> None:
    admin.create_topics([NewTopic("unsynced", 1, 3)])
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        producer.send("unsynced", b"first").result(60)
        traces = [tmp_path / f"{broker}.trace" for broker in cluster.brokers]
        tracers = [
            traced(cluster._nodes[broker]._process.pid, trace)
            for broker, trace in zip(cluster.brokers, traces, strict=True)
        ]
        for number in range(100):
            producer.send("unsynced", b"%d" % number).result(60)
        for tracer in tracers:
            tracer.terminate()
            tracer.wait(30)
    calls = [line for trace in traces for line in trace.read_text().splitlines()]
    written = [line for line in calls if "writev" in line and "unsynced-0/" in line]
    assert len(written) >= 100
    synced = [line for line in calls if re.search(r"f(data)?sync\(", line)]
    assert not any("unsynced-0/" in line for line in synced), synced


def traced(pid: int, output: Path) -> subprocess.Popen[bytes]:
    """strace of a process's writes to files and syncs, once it is attached."""
    calls = "trace=fsync,fdatasync,sync_file_range,writev,pwritev,pwritev2,pwrite64"
    tracer = subprocess.Popen(
        ["strace", "-f", "-y", "-q", "-e", calls, "-o", output, "-p", f"{pid}"]
    )

    def attached() -> bool:
        if tracer.poll() is not None:
            pytest.skip("strace may not attach here")
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks)

    eventually(60, attached, "strace is attached")
    return tracer


def test_s59_a_broker_that_lost_everything_is_filled_again(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics([NewTopic("kept", 1, 3)])
    servers = cluster.bootstrap_servers
    sent = []
    with Producer(bootstrap_servers=servers, linger_ms=0, delivery_timeout_ms=120_000) as producer:
        for number in range(200):
            sent.append((producer.send("kept", b"%d" % number).result(120).offset, b"%d" % number))

        def replicas() -> tuple[int | None, set[int]]:
            (partition,) = admin.describe_topics("kept")["kept"].partitions
            return partition.leader, set(partition.isr)

        leader, _ = replicas()
        assert leader is not None
        cluster.kill(leader)
        shutil.rmtree(cluster.data_dir / f"broker-{leader}")
        sent.append((producer.send("kept", b"between").result(120).offset, b"between"))
        cluster.start(leader)
        eventually(60, lambda: replicas()[1] == {1, 2, 3}, "the emptied broker is in sync again")
        assert values(servers, "kept") == sent
        # what it serves when it leads is what the others had
        others = [broker for broker in cluster.brokers if broker != leader]
        admin.incremental_alter_configs({("topic", "kept"): {"min.insync.replicas": "1"}})
        for broker in others:
            cluster.stop(broker)
        eventually(60, lambda: replicas()[0] == leader, "the emptied broker leads")
        assert values(servers, "kept") == sent
        for broker in others:
            cluster.start(broker)


def test_a_replica_that_was_moved_by_hand_begins_where_it_did(tmp_path: Path) -> None:
    partition = TopicPartition("moved", 0)
    config = {"log.dirs": "d1,d2"}
    with (
        LocalCluster(1, tmp_path, config) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        admin.create_topics([NewTopic("moved", 1, 1)])
        for number in range(10):
            producer.send("moved", b"%d" % number)
        producer.flush()
        assert admin.delete_records({partition: 7}) == {partition: 7}
    (home,) = tmp_path.rglob("moved-0")
    disks = {home.parent.with_name("d1"), home.parent.with_name("d2")}
    (other,) = disks - {home.parent}
    home.rename(other / home.name)
    with LocalCluster(1, tmp_path, config) as cluster:
        found = values(cluster.bootstrap_servers, "moved")
        assert found == [(n, b"%d" % n) for n in range(7, 10)]
        assert (other / home.name).exists()
        assert not home.exists()
