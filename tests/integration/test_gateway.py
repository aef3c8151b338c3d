"""`client.routing=gateway`: everything through the driver's one address."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition, errors
from pylog.rpc.v1 import records_service_pb2, records_service_pb2_grpc
from tests.fakes import one_way_out

pytestmark = pytest.mark.integration

SCRIPT = Path(__file__).parent / "scripts" / "through_the_gateway.py"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config={"min.insync.replicas": "2"}) as running:
        yield running


@pytest.fixture
def how(cluster: LocalCluster) -> dict[str, Any]:
    gateway = cluster.bootstrap_servers.split(",")[0]
    return {"bootstrap_servers": gateway, "client_routing": "gateway"}


def peers() -> set[int]:
    """The ports that this process is connected to."""
    inodes = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            inodes.update(re.findall(r"socket:\[(\d+)\]", str(entry.readlink())))
        except FileNotFoundError:
            continue
    tables = [Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")]  # gRPC's sockets are v6
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return {int(row[2].rpartition(":")[2], 16) for row in rows if row[9] in inodes} - {0}


def broker_ports(cluster: LocalCluster) -> set[int]:
    addresses = cluster.bootstrap_servers.split(",")[1:]
    return {int(address.rpartition(":")[2]) for address in addresses}


def leader_of(admin: AdminClient, topic: str) -> int:
    leader = admin.describe_topics(topic)[topic].partitions[0].leader
    assert leader is not None
    return leader


def test_a_client_that_reaches_only_the_gateway_does_everything(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    if not one_way_out.available():
        pytest.skip("making a network of one's own needs root, unshare and ip")
    port = int(cluster.bootstrap_servers.split(",")[0].rpartition(":")[2])
    said = one_way_out.run(port, tmp_path, str(SCRIPT), f"127.0.0.1:{port}")
    assert json.loads(said) == {
        "brokers": 3,
        "blocked": 3,
        "ends": [1000, 1000, 1000],
        "in order": True,
        "start": 10,
    }


class FarAway(LocalCluster):
    """A cluster that is known by names which nobody here can reach."""

    def _common_arguments(self) -> list[str]:
        # An address for documentation: nobody has it.
        return [*super()._common_arguments(), "--advertised-host", "192.0.2.1"]


def test_advertised_names_need_not_be_reachable() -> None:
    with FarAway(2) as cluster:
        how: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers.split(",")[0],
            "client_routing": "gateway",
        }
        with AdminClient(**how) as admin, Producer(**how) as producer:
            assert {b.host for b in admin.describe_cluster().brokers} == {"192.0.2.1"}
            admin.create_topics(NewTopic("far", 2, 2))
            for partition in range(2):
                assert producer.send("far", b"x", partition=partition).result(20).offset == 0
        with Consumer("far", auto_offset_reset="earliest", **how) as consumer:
            read = 0
            while read < 2:
                read += len(consumer.poll(10))


def test_no_connection_leads_to_a_broker(cluster: LocalCluster, how: dict[str, Any]) -> None:
    before = peers() & broker_ports(cluster)
    every = {**how, "bootstrap_servers": cluster.bootstrap_servers}  # brokers' addresses too
    with AdminClient(**how) as admin, Producer(**every) as producer:
        admin.create_topics(NewTopic("alone", 3, 3))
        for partition in range(3):
            assert producer.send("alone", b"x", partition=partition).result(20).offset == 0
        used = peers()
    # Bootstrap addresses may be asked who they are; the data stays on the gateway.
    assert int(how["bootstrap_servers"].rpartition(":")[2]) in used
    with Producer(**how) as producer:
        producer.send("alone", b"y", partition=0).result(20)
        assert peers() & broker_ports(cluster) <= before


def test_errors_keep_their_codes(cluster: LocalCluster, how: dict[str, Any]) -> None:
    with AdminClient(**how) as admin:
        admin.create_topics(NewTopic("coded", 1, 3, config={"max.message.bytes": "1000"}))
        with pytest.raises(errors.TopicAlreadyExists):
            admin.create_topics(NewTopic("coded"))
        with pytest.raises(errors.UnknownTopicOrPartition):
            admin.describe_topics("nowhere")
    with Producer(**how) as producer, pytest.raises(errors.MessageTooLarge):
        producer.send("coded", bytes(5000)).result(20)
    with Consumer(auto_offset_reset="none", **how) as consumer:
        consumer.assign([TopicPartition("coded", 0)])
        consumer.seek(TopicPartition("coded", 0), 77)
        with pytest.raises(errors.OffsetOutOfRange):
            consumer.poll(10)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_order_is_kept_while_leaders_move(
    cluster: LocalCluster, how: dict[str, Any], fault: str
) -> None:
    topic = f"moving-{fault}"
    with AdminClient(**how) as admin:
        admin.create_topics(NewTopic(topic, 1, 3))
        victim = leader_of(admin, topic)
    count = 20_000
    with Producer(**how, batch_size=2_000, linger_ms=2) as producer:
        handles = []
        for number in range(count):
            handles.append(producer.send(topic, b"%06d" % number))
            if number == count // 4:
                thread = threading.Thread(target=getattr(cluster, fault), args=(victim,))
                thread.start()
        producer.flush(60)
        thread.join(60)
    cluster.start(victim)
    assert [handle.result(0).offset for handle in handles] == list(range(count))
    got: list[bytes] = []
    with Consumer(topic, auto_offset_reset="earliest", **how) as consumer:
        while len(got) < count:
            records = consumer.poll(20)
            assert records
            got += [record.value for record in records]
    assert got == [b"%06d" % number for number in range(count)]


def test_an_unreachable_leader_is_named_and_tried_again(
    cluster: LocalCluster, how: dict[str, Any]
) -> None:
    with AdminClient(**how) as admin:
        admin.create_topics(NewTopic("single", 1, replica_assignment=None, replication_factor=1))
        victim = leader_of(admin, "single")
        with Producer(**how, linger_ms=0) as producer:
            assert producer.send("single", b"a").result(20).offset == 0
            cluster.kill(victim)
            try:
                waiting = producer.send("single", b"b")
                with Producer(**how, linger_ms=0, delivery_timeout_ms=1_500,
                              request_timeout_ms=1_000, max_block_ms=1_500) as hasty:  # fmt: skip
                    error = hasty.send("single", b"c").exception(20)
                assert isinstance(error, errors.RetriableError), repr(error)
            finally:
                cluster.start(victim)
            assert waiting.result(30).offset == 1


@pytest.mark.slow
def test_a_restarted_gateway_is_found_again(cluster: LocalCluster, how: dict[str, Any]) -> None:
    with AdminClient(**how) as admin, Producer(**how) as producer:
        admin.create_topics(NewTopic("again", 1, 3))
        assert producer.send("again", b"a").result(20).offset == 0
        cluster.kill_controller()
        handle = producer.send("again", b"b")
        cluster.start_controller()
        assert handle.result(30).offset == 1
        assert admin.describe_cluster().cluster_id


def test_a_bootstrap_without_the_gateway_says_so(cluster: LocalCluster) -> None:
    broker = cluster.bootstrap_servers.split(",")[1]
    with (
        AdminClient(bootstrap_servers=broker, client_routing="gateway") as admin,
        pytest.raises(errors.BootstrapFailed, match=f"{broker}: it is a broker and not the gate"),
    ):
        admin.describe_cluster(timeout=0.5)


def test_records_without_batches_go_where_a_producer_sends_them(
    cluster: LocalCluster, how: dict[str, Any]
) -> None:
    with AdminClient(**how) as admin:
        admin.create_topics(NewTopic("thin", 5, 3))
    keys = [b"key-%d" % number for number in range(20)]
    request = records_service_pb2.SendRequest(topic="thin")
    for key in keys:
        request.records.add(key=key, value=b"thin").headers.add(name="h", value=b"1")
    request.records.add(value=b"later", timestamp_ms=7, partition=4)
    with grpc.insecure_channel(how["bootstrap_servers"]) as channel:
        stub = records_service_pb2_grpc.RecordsStub(channel)  # type: ignore[no-untyped-call]
        answer = stub.Send(request, timeout=30)
        assert [record.error.code for record in answer.records] == [0] * 21
        with Producer(**how) as producer:
            chosen = [producer.send("thin", b"full", key).result(30).partition for key in keys]
        assert [record.partition for record in answer.records] == [*chosen, 4]
        missing = records_service_pb2.SendRequest(topic="nowhere", records=request.records[:1])
        (refused,) = stub.Send(missing, timeout=30).records
        assert refused.error.code == errors.UnknownTopicOrPartition.code
    where = {
        (record.partition, record.offset): (key, b"thin")
        for key, record in zip([*keys, None], answer.records, strict=True)
    }
    last = answer.records[-1]
    where[last.partition, last.offset] = (None, b"later")
    with Consumer(**how, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("thin", number) for number in range(5)])
        found: dict[tuple[int, int], tuple[Any, Any]] = {}
        while len(found) < 41:
            for record in consumer.poll(10):
                found[record.partition, record.offset] = record.key, record.value
    assert where.items() <= found.items()
