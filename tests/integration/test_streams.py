"""Framed streams with real brokers: what they carry, whom they refuse, and what happens without."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition, errors
from pylog.client.streams.framed_carrier import FramedCarrier
from pylog.client.streams.grpc_carrier import GrpcCarrier
from pylog.clock import SYSTEM_CLOCK
from pylog.records.builder import encode_batch
from pylog.rpc import apis, calls, streams
from pylog.rpc.framing import FrameCutter
from pylog.rpc.produce_wire import Item, Request, encode_message
from pylog.rpc.v1 import log_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"min.insync.replicas": "2", "queued.max.request.bytes": "4000000"}
    with LocalCluster(3, config=config) as running:
        yield running


@pytest.fixture
def topic(cluster: LocalCluster, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")[:80]
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 3, 3)])
    return str(name)


def read(cluster: LocalCluster, topic: str, count: int, **settings: Any) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([TopicPartition(topic, n) for n in range(3)])
        consumer.seek_to_beginning()
        while len(values) < count:
            records = consumer.poll(10)
            assert records, f"{len(values)} of {count}"
            values += [record.value for record in records]
    return sorted(values, key=lambda value: int(value or b"0"))


class RawStream:
    """One framed stream by a blocking socket."""

    def __init__(self, cluster: LocalCluster, broker: int) -> None:
        self.at = cluster._ports[broker][2]
        self.socket = socket.create_connection(("127.0.0.1", self.at), timeout=10)
        self._cutter = FrameCutter(1 << 26)
        self._frames: deque[bytes] = deque()

    def frame(self) -> bytes:
        while not self._frames:
            count = self.socket.recv_into(self._cutter.free_buffer())
            if not count:
                return b""
            self._frames.extend(map(bytes, self._cutter.received(count)))
        return self._frames.popleft()

    def __enter__(self) -> RawStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_records_go_there_and_come_back(cluster: LocalCluster, topic: str, transport: str) -> None:
    servers = cluster.bootstrap_servers
    with Producer(
        bootstrap_servers=servers, client_transport=transport, compression_type="lz4"
    ) as producer:
        for number in range(3_000):
            producer.send(topic, b"%d" % number, partition=number % 3)
        producer.flush()
        carriers = {type(s._carrier) for s in producer._loop.streams.values()}
        assert carriers == {FramedCarrier if transport == "auto" else GrpcCarrier}
    expected = [b"%d" % number for number in range(3_000)]
    assert read(cluster, topic, 3_000, client_transport=transport) == expected


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_without_acks_too(cluster: LocalCluster, topic: str, transport: str) -> None:
    servers = cluster.bootstrap_servers
    with Producer(bootstrap_servers=servers, client_transport=transport, acks="0") as producer:
        for number in range(300):
            producer.send(topic, b"%d" % number, partition=number % 3)
    assert read(cluster, topic, 300) == [b"%d" % number for number in range(300)]


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_without_acks_records_go_on_at_the_new_leader(
    cluster: LocalCluster, topic: str, transport: str
) -> None:
    with RawClient(cluster.bootstrap_servers) as raw:
        preferred = raw.partition(topic).leader
        cluster.stop(preferred)
        cluster.start(preferred)
        eventually(30, lambda: len(raw.partition(topic).isr) == 3, "all are in sync again")
        assert raw.partition(topic).leader != preferred
    sent = 0
    read: list[int] = []
    with (
        Producer(
            bootstrap_servers=cluster.bootstrap_servers, client_transport=transport, acks="0"
        ) as producer,
        Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()

        def arrives() -> bool:
            nonlocal sent
            before = len(read)
            producer.send(topic, b"%d" % sent, partition=0)
            sent += 1
            read.extend(int(record.value or b"") for record in consumer.poll(0.1))
            return len(read) > before

        eventually(30, arrives, "the leader stores records")
        # Its broker lives on and keeps the connection; metadata is minutes from being renewed.
        assert admin.elect_leaders([TopicPartition(topic, 0)]) == {
            TopicPartition(topic, 0): preferred
        }
        moved = sent
        eventually(30, lambda: arrives() and read[-1] >= moved, "the new leader stores records")
        for number in range(sent, sent + 50):
            producer.send(topic, b"%d" % number, partition=0)
        while read[-1] < sent + 49:
            records = consumer.poll(10)
            assert records, f"{read[-1]} of {sent + 49}"
            read.extend(int(record.value or b"") for record in records)
    assert read == sorted(set(read))
    assert read[-50:] == [*range(sent, sent + 50)]


def test_through_the_gateway_it_stays_grpc(cluster: LocalCluster, topic: str) -> None:
    gateway = cluster.bootstrap_servers.split(",")[0]
    with Producer(bootstrap_servers=gateway, client_routing="gateway") as producer:
        producer.send(topic, b"1").result(10)
        assert {type(s._carrier) for s in producer._loop.streams.values()} == {GrpcCarrier}
    assert read(cluster, topic, 1) == [b"1"]


def test_a_killed_broker_comes_back_to_its_streams(cluster: LocalCluster, topic: str) -> None:
    sent = 0
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:

        def send(count: int) -> None:
            nonlocal sent
            for number in range(sent, sent + count):
                producer.send(topic, b"%d" % number, partition=number % 3).result(30)
            sent += count

        send(30)
        cluster.kill(2)
        send(30)
        cluster.start(2)
        deadline = SYSTEM_CLOCK.monotonic_ms() + 30_000
        framed: set[int] = set()
        while 2 not in framed and SYSTEM_CLOCK.monotonic_ms() < deadline:
            with (
                AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
                contextlib.suppress(errors.PylogError),  # it is not in sync yet
            ):
                admin.elect_leaders([TopicPartition(topic, n) for n in range(3)])
            send(3)
            framed = {
                broker
                for broker, stream in producer._loop.streams.items()
                if type(stream._carrier) is FramedCarrier
            }
        assert framed == {1, 2, 3}
    assert read(cluster, topic, sent) == [b"%d" % number for number in range(sent)]


def test_a_port_that_is_another_brokers_now(topic: str, cluster: LocalCluster) -> None:
    """As after a restart that shuffled the ports."""
    ports = cluster._ports[1]
    with RawStream(cluster, 2) as other:
        cluster_id = _cluster_id(cluster)
        other.socket.sendall(streams.hello(streams.PRODUCE, cluster_id, 1, "lost"))
        fault = streams.read_fault(memoryview(other.frame()))
        assert isinstance(fault, errors.InvalidRequest)
        assert f"this is broker 2 of cluster {cluster_id}, and not broker 1" in str(fault)
        assert other.frame() == b""
    assert ports[2] != cluster._ports[2][2]


def _cluster_id(cluster: LocalCluster) -> str:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        return str(admin.describe_cluster().cluster_id)


def test_strangers_leave_one_line(cluster: LocalCluster) -> None:
    log = cluster.data_dir / "logs" / "broker-3.log"
    before = log.read_text().count("stream listener: closed")
    for _ in range(20):
        with RawStream(cluster, 3) as stranger:
            stranger.socket.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert stranger.frame()[0] == streams.ERROR
    lines = [line for line in log.read_text().splitlines() if "stream listener: closed" in line]
    assert len(lines) - before == 1
    assert "it looks like HTTP" in lines[-1]


def test_a_slow_replication_holds_a_framed_stream_back(cluster: LocalCluster, topic: str) -> None:
    """4 MB may wait for acknowledgements; with followers that stand still, more is not read until
    the first are answered. None is refused.
    """
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        leader = admin.describe_topics(topic)[topic].partitions[0].leader
    assert leader is not None
    batch = encode_batch([bytes(500_000)])
    others = [broker for broker in cluster.brokers if broker != leader]
    codes: list[int] = []
    times_ms: list[int] = []
    with RawStream(cluster, leader) as stream:
        stream.socket.sendall(streams.hello(streams.PRODUCE, _cluster_id(cluster), leader, ""))
        assert stream.frame()[0] == streams.WELCOME
        for broker in others:
            cluster.pause(broker)
        try:
            requests = [Request(n, -1, 2_000, [Item(topic, "", 0, batch)]) for n in range(10)]

            def send() -> None:
                for request in requests:
                    pieces = streams.framed(streams.MESSAGE, encode_message([request], ""))
                    stream.socket.sendall(b"".join(pieces))

            sender = threading.Thread(target=send)
            sender.start()
            for _ in requests:
                frame = stream.frame()
                assert frame[0] == streams.MESSAGE
                answer = log_pb2.ProduceResponse.FromString(frame[1:])
                codes += [ack.error.code for ack in answer.acks]
                times_ms.append(SYSTEM_CLOCK.monotonic_ms())
            sender.join(10)
        finally:
            for broker in others:
                cluster.resume(broker)
    assert codes == [errors.RequestTimedOut.code] * 10
    assert times_ms[7] - times_ms[6] > 1_500  # its time began when it was read


def test_calls_of_a_client_that_reads_no_answers_hold_up_nobody(
    cluster: LocalCluster, topic: str
) -> None:
    request = log_pb2.MetadataRequest(topics=[topic]).SerializeToString()
    count = 10_000
    with RawStream(cluster, 1) as stream:
        stream.socket.sendall(streams.hello(streams.CALLS, _cluster_id(cluster), 1, ""))
        assert stream.frame()[0] == streams.WELCOME
        numbers = range(count)
        sent = [
            b"".join(calls.call_frame(n, apis.METADATA.key, 0, 60_000, request)) for n in numbers
        ]
        sender = threading.Thread(target=stream.socket.sendall, args=(b"".join(sent),))
        sender.start()
        with RawClient(cluster.bootstrap_servers) as raw:
            answer = raw.metadata(topic)
            assert [len(each.partitions) for each in answer.topics] == [3]
        answered = set()
        for _ in numbers:
            number, said = calls.read_answer(memoryview(stream.frame()))
            assert isinstance(said, memoryview)
            answered.add(number)
        sender.join(10)
    assert answered == set(numbers)


def test_half_a_call_that_is_cut_leaves_the_broker_as_it_was(
    cluster: LocalCluster, topic: str
) -> None:
    request = log_pb2.MetadataRequest(topics=[topic]).SerializeToString()
    whole = b"".join(calls.call_frame(7, apis.METADATA.key, 0, 60_000, request))
    for end in (3, 9, len(whole) - 1, len(whole)):
        with RawStream(cluster, 1) as stream:
            stream.socket.sendall(streams.hello(streams.CALLS, _cluster_id(cluster), 1, ""))
            assert stream.frame()[0] == streams.WELCOME
            stream.socket.sendall(whole[:end])
    with RawStream(cluster, 1) as stream:
        stream.socket.sendall(streams.hello(streams.CALLS, _cluster_id(cluster), 1, ""))
        assert stream.frame()[0] == streams.WELCOME
        stream.socket.sendall(whole)
        number, said = calls.read_answer(memoryview(stream.frame()))
        assert number == 7
        assert isinstance(said, memoryview)
