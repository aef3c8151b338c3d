"""Three broker processes: replication, kills, restarts, and the end of their owner."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from pylog.local import LocalCluster
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

TOPIC = "t"


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, config={"min.insync.replicas": "2"}) as running:
        yield running


@pytest.fixture
def raw(cluster: LocalCluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as client:
        client.create_topic(TOPIC, replicas=3)
        yield client


def try_produce(raw: RawClient, value: bytes, server: int = 0) -> bool:
    """One attempt by fresh metadata of `server`; whether it was acknowledged."""
    with contextlib.suppress(grpc.RpcError, ValueError):
        leader = raw.leader(TOPIC, server=server)
        return raw.produce(leader, TOPIC, encode_batch([value])).error.code == 0
    return False


def contents(raw: RawClient, server: int = 0) -> list[bytes | None]:
    data = raw.fetch(raw.leader(TOPIC, server=server), TOPIC)
    return [record.value for record in iter_records(data.batches, TOPIC, 0)]


def isr(raw: RawClient, server: int = 0) -> set[int]:
    return set(raw.partition(TOPIC, server=server).isr)


def test_a_killed_leader_is_replaced_and_comes_back(cluster: LocalCluster, raw: RawClient) -> None:
    assert try_produce(raw, b"before")
    leader = raw.partition(TOPIC).leader
    cluster.kill(leader)
    gap_ms = eventually(30, lambda: try_produce(raw, b"after"), "an acknowledgement after the kill")
    assert gap_ms < 5_000, "nobody waits for the session of the dead broker"
    assert raw.partition(TOPIC).leader != leader
    cluster.start(leader)
    eventually(30, lambda: isr(raw) == {1, 2, 3}, "the killed broker is in sync again")
    assert contents(raw)[0] == b"before"
    assert set(contents(raw)) == {b"before", b"after"}


def test_a_stopped_broker_moves_its_leaders_first(cluster: LocalCluster, raw: RawClient) -> None:
    assert try_produce(raw, b"before")
    leader = raw.partition(TOPIC).leader
    cluster.stop(leader)
    assert raw.partition(TOPIC).leader not in (leader, -1)
    assert try_produce(raw, b"after")
    log = (cluster.data_dir / "logs" / f"broker-{leader}.log").read_text()
    assert "without moving leaders" not in log
    assert (cluster.data_dir / f"broker-{leader}" / ".kafka_cleanshutdown").exists()
    cluster.start(leader)
    eventually(30, lambda: isr(raw) == {1, 2, 3}, "the stopped broker is in sync again")


def test_produce_and_fetch_go_on_while_the_controller_is_dead(
    cluster: LocalCluster, raw: RawClient
) -> None:
    assert try_produce(raw, b"before")
    cluster.kill_controller()
    for number in range(20):
        assert try_produce(raw, b"%d" % number, server=1)
    assert len(contents(raw, server=1)) == 21
    cluster.start_controller()
    eventually(30, lambda: try_produce(raw, b"after"), "the gateway answers again")
    leader = raw.partition(TOPIC).leader
    cluster.kill(leader)
    # A broker that has not called again yet is waited for as long as a lease lasts.
    eventually(30, lambda: try_produce(raw, b"last"), "the new controller elects")
    assert len(contents(raw)) >= 23


def test_a_leader_that_stands_still_is_replaced_when_its_lease_ends(
    cluster: LocalCluster, raw: RawClient
) -> None:
    assert try_produce(raw, b"before")
    leader = raw.partition(TOPIC).leader
    cluster.pause(leader)
    eventually(30, lambda: raw.partition(TOPIC).leader not in (leader, -1), "a new leader")
    assert try_produce(raw, b"during")
    cluster.resume(leader)
    eventually(30, lambda: isr(raw) == {1, 2, 3}, "the paused broker is in sync again")
    assert contents(raw) == [b"before", b"during"]


def test_all_killed_at_once_and_started_again_serve_the_same(tmp_path: Path) -> None:
    config = {"min.insync.replicas": "2"}
    with LocalCluster(3, tmp_path, config) as cluster, RawClient(cluster.bootstrap_servers) as raw:
        raw.create_topic(TOPIC, replicas=3)
        for number in range(10):
            assert try_produce(raw, b"%d" % number)
        for broker in cluster.brokers:
            cluster.kill(broker)
        cluster.kill_controller()
    with LocalCluster(3, tmp_path, config) as cluster, RawClient(cluster.bootstrap_servers) as raw:
        eventually(30, lambda: try_produce(raw, b"10"), "an acknowledgement after the restart")
        assert contents(raw) == [b"%d" % number for number in range(11)]
        eventually(30, lambda: isr(raw) == {1, 2, 3}, "all are in sync again")
        cluster.restart()
        eventually(30, lambda: try_produce(raw, b"11"), "an acknowledgement after the restart")
        assert len(contents(raw)) == 12


OWNER = """
import sys
from pylog.local import LocalCluster
cluster = LocalCluster(brokers=2, data_dir=sys.argv[1])
pids = [p._process.pid for p in [cluster._head, *cluster._nodes.values()]]
print(*pids, flush=True)
sys.stdin.read()
"""


def test_the_processes_end_with_their_owner(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 3
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdin.close()
    owner.stdout.close()

    def all_gone() -> bool:
        return not any(_runs(pid) for pid in pids)

    eventually(30, all_gone, "the end of the processes")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
