"""A damaged log on a broker that is otherwise well: others lead; it comes back when repaired."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from pylog import errors
from pylog.local import LocalCluster
from pylog.records.builder import encode_batch
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

NO_TAIL = {"log.tail.cache.max.bytes": "0", "log.tail.cache.partition.max.bytes": "0"}
"""Nothing is served from memory: damage on the disk shows at the next read."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, config=NO_TAIL) as running:
        yield running


@pytest.fixture
def raw(cluster: LocalCluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as client:
        yield client


def produced(raw: RawClient, topic: str) -> bool:
    with contextlib.suppress(grpc.RpcError, ValueError):
        return raw.produce(raw.leader(topic), topic, encode_batch([b"v" * 100])).error.code == 0
    return False


def segment(cluster: LocalCluster, broker: int, topic: str) -> Path:
    return cluster.data_dir / f"broker-{broker}" / f"{topic}-0" / f"{0:020d}.log"


def damage(path: Path) -> bytes:
    """Overwrite the end of the first of several batches; gives what was there."""
    with path.open("r+b") as file:
        whole = file.read()
        file.seek(100)
        file.write(b"\xff" * 10)
    return whole


def read_and_fail(raw: RawClient, topic: str) -> None:
    code = raw.fetch(raw.leader(topic), topic).error.code
    assert code == errors.KafkaStorageError.code


def test_a_leader_whose_log_rots_is_replaced_while_its_broker_serves_on(
    cluster: LocalCluster, raw: RawClient
) -> None:
    raw.create_topic("three", replicas=3)
    assert produced(raw, "three")
    assert produced(raw, "three")
    leader = raw.partition("three").leader
    raw.create_topic("other", replicas=3)
    whole = damage(segment(cluster, leader, "three"))
    read_and_fail(raw, "three")
    eventually(30, lambda: raw.partition("three").leader not in (leader, -1), "another leads")
    assert produced(raw, "three")
    found = raw.partition("three")
    assert leader not in found.isr
    assert list(found.offline_replicas) == [leader]
    assert produced(raw, "other")
    log = (cluster.data_dir / "logs" / "controller.log").read_text()
    assert f"broker {leader} cannot use its logs of three-0 until it starts again" in log

    cluster.kill(leader)
    cluster.start(leader)
    # Every CRC of that log is checked at the start: it still may not follow, and all else does.
    eventually(30, lambda: leader in raw.partition("other").isr, "the others caught up")
    eventually(
        30, lambda: list(raw.partition("three").offline_replicas) == [leader], "it is offline"
    )
    cluster.kill(leader)
    path = segment(cluster, leader, "three")
    path.write_bytes(whole)
    cluster.start(leader)
    eventually(30, lambda: leader in raw.partition("three").isr, "it caught up")


def test_an_only_replica_serves_what_is_whole_and_all_when_it_is_repaired(
    cluster: LocalCluster, raw: RawClient
) -> None:
    raw.create_topic("one")
    assert produced(raw, "one")
    assert produced(raw, "one")
    leader = raw.partition("one").leader
    path = segment(cluster, leader, "one")
    whole = damage(path)
    lost = raw.fetch(raw.leader("one"), "one")
    assert (lost.error.code, lost.damaged_end_offset) == (errors.CorruptMessage.code, 1)
    assert str(path) in lost.error.message
    assert produced(raw, "one")
    assert raw.partition("one").leader == leader
    cluster.kill(leader)
    whole += path.read_bytes()[len(whole) :]
    path.write_bytes(whole)
    cluster.start(leader)
    eventually(30, lambda: raw.partition("one").leader == leader, "it leads again")
    assert len(raw.fetch(raw.leader("one"), "one").batches) == len(whole)
    assert produced(raw, "one")
