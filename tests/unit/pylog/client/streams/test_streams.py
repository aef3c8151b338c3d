"""Framed streams and the way back to gRPC, from the clients' side, against brokers of sockets."""

from __future__ import annotations

import itertools
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from pylog import AdminClient, Consumer, Producer, TopicPartition
from pylog.client.cluster import framed_calls, framed_ports
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.server import Server
from pylog.client.connection import framed_link
from pylog.client.streams import stream
from pylog.errors import ClientClosed, InvalidConfig
from pylog.rpc import streams
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_streams import Dropped, FakeStreamPort
from tests.fakes.waiting import eventually

WARNING = "broker 1 is used over gRPC"


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        running.create_topic("t")
        yield running


def producer(fake: FakeCluster, **settings: Any) -> Producer:
    given = {"linger_ms": 0, "reconnect_backoff_ms": 1, **settings}
    return Producer(bootstrap_servers=fake.bootstrap_servers, **given)


def consume(fake: FakeCluster, count: int, **settings: Any) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer(bootstrap_servers=fake.bootstrap_servers, **settings) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        while len(values) < count:
            records = consumer.poll(5)
            assert records
            values += [record.value for record in records]
    return values


def test_both_clients_take_the_framed_port(fake: FakeCluster) -> None:
    with producer(fake) as sending:
        sending.send("t", b"1").result(10)
    assert consume(fake, 1) == [b"1"]
    assert fake.streams[1].connections == 2


def send_until_told(sending: Producer, caplog: pytest.LogCaptureFixture) -> int:
    """Send numbers until the framed port is said to be the fault: it has rested, and failed again.

    How many were sent.
    """
    sent = itertools.count()

    def is_told() -> bool:
        sending.send("t", b"%d" % next(sent)).result(10)
        return WARNING in caplog.text

    eventually(20, is_told, "the port is the fault")
    return next(sent)


async def broker_of(cluster: Cluster, number: int) -> Server:
    """On the client's loop, whose thread makes its connections."""
    server = cluster.broker(number)
    assert server is not None
    return server


def test_metadata_are_asked_of_the_broker_with_the_fewest_requests_in_flight() -> None:
    held = threading.Event()

    def hold(*_request: Any) -> Any:
        held.wait(30)
        raise Dropped

    with FakeCluster(2) as two:
        two.create_topic("t", 2)
        with producer(two, max_in_flight_requests_per_connection=5) as sending:
            answers = two.streams[1]._answers
            produce, answers[streams.PRODUCE] = answers[streams.PRODUCE], hold
            sending.send("t", b"first", partition=1).result(10)  # a stream with nothing on it
            waiting = [sending.send("t", b"%d" % n, partition=0) for n in range(5)]
            cluster = sending._loop.cluster
            busy = sending._thread.run(broker_of(cluster, 1))
            eventually(10, lambda: busy.load > 0, "requests are in flight")
            two.metadata_by_broker.clear()
            for _ in range(20):
                sending._thread.run(cluster.refresh())
            assert two.metadata_by_broker == {2: 20}
            assert not any(one.done() for one in waiting)
            answers[streams.PRODUCE] = produce
            held.set()
            assert [one.result(10).offset for one in waiting] == [*range(5)]


def test_calls_take_a_framed_connection_of_their_own(fake: FakeCluster) -> None:
    with AdminClient(bootstrap_servers=fake.bootstrap_servers) as admin:
        for _ in range(3):
            assert admin.list_offsets({TopicPartition("t", 0): "latest"})
        eventually(10, lambda: fake.streams[1].call_connections == 1, "calls have a connection")
    assert fake.streams[1].connections == 0


def test_a_broker_that_takes_no_calls_over_frames_is_called_over_grpc(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with FakeCluster(framed_calls=False) as older:
        older.create_topic("t")
        with producer(older) as sending:
            for number in range(3):
                sending.send("t", b"%d" % number).result(10)
            sending._thread.run(sending._loop.cluster.refresh())
        assert consume(older, 3) == [b"0", b"1", b"2"]
        assert older.streams[1].connections == 2  # its streams are taken as ever
        eventually(10, lambda: older.streams[1].call_connections == 2, "each client asks once")
    assert not caplog.records


def test_a_close_ends_a_call_that_waits_for_its_answer(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framed_calls, "LOOK_S", 30.0)  # a busy machine may take long to connect
    called, over = threading.Event(), threading.Event()

    def never(*_call: object) -> Any:
        called.set()
        over.wait(30)
        raise Dropped

    fake.streams[1].answer_call = never
    admin = AdminClient(bootstrap_servers=fake.bootstrap_servers)
    faults: list[BaseException] = []

    def call() -> None:
        try:
            admin.list_offsets({TopicPartition("t", 0): "latest"})
        except BaseException as fault:  # noqa: BLE001
            faults.append(fault)

    waiting = threading.Thread(target=call)
    waiting.start()
    assert called.wait(30)
    admin.close()
    waiting.join(30)
    over.set()
    assert [type(fault) for fault in faults] == [ClientClosed]


def test_large_batches_travel_whole(fake: FakeCluster) -> None:
    value = bytes(range(256)) * 3_000
    with producer(fake, max_request_size=1 << 21) as sending:
        sending.send("t", value).result(10)
        sending.send("t", value).result(10)
    assert consume(fake, 2) == [value, value]


def test_grpc_on_request(fake: FakeCluster) -> None:
    with producer(fake, client_transport="grpc") as sending:
        sending.send("t", b"1").result(10)
    assert consume(fake, 1, client_transport="grpc") == [b"1"]
    assert fake.streams[1].connections == 0


def test_another_transport_is_refused_by_name() -> None:
    with pytest.raises(InvalidConfig, match="client_transport"):
        Producer(bootstrap_servers="127.0.0.1:1", client_transport="udp")


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_without_acks_the_last_records_go_too(fake: FakeCluster, transport: str) -> None:
    with producer(fake, acks="0", client_transport=transport) as sending:
        for number in range(20):
            sending.send("t", b"%d" % number)
    assert fake.topics["t"].partitions[0].end == 20
    assert consume(fake, 20) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_without_acks_records_go_on_at_a_new_leader(transport: str) -> None:
    with FakeCluster(2) as fake:
        stored = fake.create_topic("t").partitions[0].batches
        with producer(fake, acks="0", client_transport=transport) as sending:
            sending.send("t", b"0")
            eventually(20, lambda: len(stored) == 1, "the first record is stored")
            fake.move_leader("t", 0, 2)
            sent = 0

            def arrives() -> bool:
                nonlocal sent
                sent += 1
                sending.send("t", b"%d" % sent)
                return len(stored) > 1

            eventually(20, arrives, "a record is stored at the new leader")
            for number in range(sent + 1, sent + 21):
                sending.send("t", b"%d" % number)
        values = [int(value or b"") for value in consume(fake, stored[-1][0].last_offset + 1)]
        assert values == sorted(values)
        assert values[-20:] == [*range(sent + 1, sent + 21)]


def test_a_refused_port_means_grpc_and_one_line(
    fake: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        fake.announced[1] = free.getsockname()[1]  # bound, and nobody listens
        with producer(fake) as sending:
            send_until_told(sending, caplog)
            for number in range(5):
                sending.send("t", b"%d" % number).result(10)
    assert [r.message for r in caplog.records if WARNING in r.message] == [
        f"broker 1 is used over gRPC, which costs more processor time, because its stream port "
        f"127.0.0.1:{fake.announced[1]} cannot be used: connection refused. Open the port, or set "
        "client_transport='grpc'"
    ]


def test_a_port_that_swallows_everything_is_given_up(
    fake: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framed_link, "CONNECT_S_MAX", 0.05)
    service: Any = None
    with closing(FakeStreamPort(1, service, service, silent=True)) as silent:
        fake.announced[1] = silent.port
        with producer(fake) as sending:
            send_until_told(sending, caplog)
        assert 1 <= silent.connections <= 2
        assert 1 <= silent.call_connections <= 2
    assert f"{WARNING}, which" in caplog.text
    assert "no answer within 0.05 s" in caplog.text


def test_a_port_gets_as_long_as_connections_may_take(
    fake: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    service: Any = None
    with closing(FakeStreamPort(1, service, service, silent=True)) as silent:
        fake.announced[1] = silent.port
        given = {"socket_connection_setup_timeout_ms": 10, "reconnect_backoff_ms": 1}
        with producer(fake, socket_connection_setup_timeout_max_ms=20, **given) as sending:
            send_until_told(sending, caplog)
    assert re.search(r"cannot be used: no answer within 0\.0[12]", caplog.text)


def test_closing_while_connecting_does_not_hang(fake: FakeCluster) -> None:
    service: Any = None
    with closing(FakeStreamPort(1, service, service, silent=True)) as silent:
        fake.announced[1] = silent.port
        sending = producer(fake)
        record = sending.send("t", b"1")
        while not silent.connections:
            sending._thread.run(_nothing())
        sending.close(0)
        assert record.exception(5) is not None


async def _nothing() -> None:
    pass


def test_the_port_of_another_broker_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    with FakeCluster(brokers=2) as fake:
        fake.create_topic("t")
        fake.announced[1] = fake.streams[2].port
        with producer(fake) as sending:
            sent = send_until_told(sending, caplog)
        assert "cannot be used: INVALID_REQUEST: this is broker 2" in caplog.text
        assert consume(fake, sent) == [b"%d" % number for number in range(sent)]


def test_a_dead_broker_is_no_fault_of_its_port(
    fake: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    # Both within the time of a delivery: the broker's gRPC port, which rests up to a second unless
    # told otherwise, tells the framed one.
    soon = {"retry_backoff_max_ms": 50, "retry_backoff_ms": 10, "reconnect_backoff_max_ms": 50}
    with producer(fake, delivery_timeout_ms=3_000, request_timeout_ms=2_900, **soon) as sending:
        sending.send("t", b"1").result(10)
        fake.stop_broker(1)
        fault = sending.send("t", b"2").exception(10)
        assert fault is not None
        fake.start_broker(1)
        sending.send("t", b"3").result(10)
        sending.send("t", b"4").result(10)
        assert fake.streams[1].connections >= 1
    assert WARNING not in caplog.text


def test_a_broken_stream_is_begun_anew(fake: FakeCluster) -> None:
    with producer(fake) as sending:
        sending.send("t", b"1").result(10)
        fake.produce_faults.append("drop")
        assert sending.send("t", b"2").result(10).offset == 1  # stored before the break
        assert sending.send("t", b"3").result(10).offset == 2
    assert fake.streams[1].connections == 2


def test_a_port_rests_before_it_is_tried_again(fake: FakeCluster) -> None:
    """Unlike the producer, which tries again at once here."""
    with producer(fake, reconnect_backoff_ms=60_000, retry_backoff_ms=1) as sending:
        sending.send("t", b"1").result(10)
        fake.produce_faults.append("drop")
        again = sending.send("t", b"2")
        with pytest.raises(TimeoutError):
            again.result(0.3)
        assert fake.streams[1].connections == 1
        sending.close(0)
    with producer(fake, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=1) as sending:
        sending.send("t", b"3").result(10)
        fake.produce_faults.append("drop")
        assert sending.send("t", b"4").result(10).offset >= 3


def test_after_a_while_the_port_is_tried_again(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framed_ports, "NO_STREAM_MS", 0)
    monkeypatch.setattr(framed_ports, "NO_STREAM_MS_MAX", 0)
    right = fake.streams[1].port
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        fake.announced[1] = free.getsockname()[1]
        with producer(fake) as sending:
            for number in range(4):
                sending.send("t", b"%d" % number).result(10)
            assert fake.streams[1].connections == 0
            fake.announced[1] = right
            sending._thread.run(sending._loop.cluster.refresh())
            sending.send("t", b"4").result(10)
            assert fake.streams[1].connections == 1
    assert consume(fake, 5) == [b"%d" % number for number in range(5)]


def test_a_busy_stream_changes_back_in_order(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never has nothing under way by itself: what comes waits for what is under way."""
    # On a slow machine the port is let be before the test has opened it again.
    monkeypatch.setattr(framed_ports, "NO_STREAM_MS", 0)
    monkeypatch.setattr(framed_ports, "NO_STREAM_MS_MAX", 0)
    port = fake.streams[1].port
    fake.streams[1].close()
    with producer(fake, batch_size=0) as sending:
        sending.send("t", b"0").result(10)
        service = fake.services[1]
        fake.streams[1] = FakeStreamPort(1, service.ProduceStream, service.FetchStream, port=port)
        sent = itertools.count(1)

        def has_changed() -> bool:
            for _ in range(20):
                sending.send("t", b"%d" % next(sent))
            return fake.streams[1].connections == 1

        eventually(20, has_changed, "it is used again")
        for _ in range(100):
            sending.send("t", b"%d" % next(sent))
        sending.flush()
        total = next(sent)
    assert consume(fake, total) == [b"%d" % number for number in range(total)]


# ---- idle ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["auto", "grpc"])
def test_an_idle_stream_is_closed_and_the_next_record_makes_another(
    fake: FakeCluster, transport: str
) -> None:
    with producer(fake, connections_max_idle_ms=20, client_transport=transport) as sending:
        streams = sending._loop.streams
        for _ in range(3):
            sending.send("t", b"1").result(10)
            eventually(10, lambda: not streams, "the stream is closed")
        assert sending._loop.sender.pipes.of(1).faults == 0
    if transport == "auto":
        assert fake.streams[1].connections == 3
    assert consume(fake, 3) == [b"1"] * 3


def test_a_stream_that_its_broker_closes_while_nothing_is_due_is_no_fault(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "QUIET_S", 0)
    with producer(fake, reconnect_backoff_ms=60_000, retry_backoff_ms=60_000) as sending:
        sending.send("t", b"1").result(10)
        fake.streams[1].hang_up()
        eventually(10, lambda: not sending._loop.streams, "the end is noticed")
        sending.send("t", b"2").result(10)
    assert fake.streams[1].connections == 2


def test_a_fetch_that_waits_is_not_idle(fake: FakeCluster) -> None:
    with Consumer(
        bootstrap_servers=fake.bootstrap_servers,
        connections_max_idle_ms=20,
        fetch_max_wait_ms=300,
    ) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        assert not consumer.poll(1)
        with producer(fake) as sending:
            sending.send("t", b"1").result(10)
        assert [record.value for record in consumer.poll(10)] == [b"1"]
        assert fake.streams[1].connections == 2
