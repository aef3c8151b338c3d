"""A producer whose user's thread writes its records itself, against brokers of sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import errors
from pylog.client.connection import tcp
from pylog.client.connection.tcp import TcpConnection
from pylog.client.producer import at_hand
from pylog.client.producer.async_producer import AsyncProducer
from pylog.client.producer.producer import Producer
from pylog.records.reader import iter_records
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.interrupted import interrupt_everywhere


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    monkeypatch.setattr(at_hand, "PACE_S", 0.0)  # no thread is too fast
    with FakeCluster() as running:
        running.create_topic("t", 2)
        yield running


def producer(fake: FakeCluster, **settings: Any) -> Producer:
    """One that has sent to partition 0, whose stream is open."""
    given: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 1, **settings}
    made = Producer(bootstrap_servers=fake.bootstrap_servers, **given)
    made.send("t", b"first", partition=0).result(10)
    return made


def stored(fake: FakeCluster, partition: int = 0) -> list[bytes | None]:
    data = fake.topics["t"].partitions[partition].read(0, 1 << 30)
    return [record.value for record in iter_records(data, "t", partition)]


def writers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that write, as they do."""
    threads: list[int] = []
    write = TcpConnection.write

    def told(self: TcpConnection, pieces: Any) -> None:
        threads.append(threading.get_ident())
        write(self, pieces)

    monkeypatch.setattr(tcp.TcpConnection, "write", told)
    return threads


def test_the_thread_that_sends_writes(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with producer(fake) as p:
        threads = writers(monkeypatch)
        for number in range(20):
            assert p.send("t", b"%d" % number, partition=0).result(10).offset == number + 1
        assert threads == [threading.get_ident()] * 20
    assert stored(fake) == [b"first", *(b"%d" % number for number in range(20))]


def test_several_threads_leave_it_to_the_loop(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with producer(fake) as p:
        other = threading.Thread(target=lambda: p.send("t", b"other", partition=0).result(10))
        other.start()
        other.join()
        threads = writers(monkeypatch)
        p.send("t", b"mine", partition=0).result(10)
        assert threading.get_ident() not in threads
    assert stored(fake) == [b"first", b"other", b"mine"]


@pytest.mark.parametrize(
    "settings", [{"linger_ms": 1}, {"acks": "0"}, {"client_transport": "grpc"}]
)
def test_what_is_unusual_is_the_loops(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    with producer(fake, **settings) as p:
        threads = writers(monkeypatch)
        p.send("t", b"1", partition=0)
        p.flush(10)
        assert threading.get_ident() not in threads


def test_a_fast_thread_leaves_it_to_the_loop(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_hand, "PACE_S", 1e9)
    with producer(fake) as p:
        threads = writers(monkeypatch)
        p.send("t", b"1", partition=0).result(10)
        assert threading.get_ident() not in threads


def test_a_callers_loop_has_better_things_to_do(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = writers(monkeypatch)

    async def send() -> None:
        async with AsyncProducer(bootstrap_servers=fake.bootstrap_servers, linger_ms=0) as p:
            for _ in range(3):
                await p.send_and_wait("t", b"1", partition=0)

    asyncio.run(send())
    assert threads
    assert threading.get_ident() not in threads


def test_a_callback_sends_by_the_loop(fake: FakeCluster) -> None:
    answered: list[Any] = []
    over = threading.Event()

    with producer(fake) as p:

        def second(_metadata: object, _error: object) -> None:
            handle = p.send("t", b"second", partition=0)
            handle.add_done_callback(lambda done: (answered.append(done.result(0)), over.set()))

        p.send("t", b"1", partition=0, on_delivery=second)
        assert over.wait(10)
    assert answered[0].offset == 2


def test_a_callback_may_wait_for_a_lock_that_the_sending_thread_holds(fake: FakeCluster) -> None:
    guard = threading.Lock()
    done = threading.Semaphore(0)

    def told(_metadata: object, _error: object) -> None:
        with guard:
            done.release()

    with producer(fake) as p:
        for number in range(200):
            with guard:
                p.send("t", b"%d" % number, partition=0, on_delivery=told)
        for _ in range(200):
            assert done.acquire(timeout=10)


def test_a_broken_stream_is_begun_anew(fake: FakeCluster) -> None:
    with producer(fake) as p:
        for number in range(1, 10):
            if number % 3 == 0:
                fake.produce_faults.append("drop")  # stored before the break
            assert p.send("t", b"%d" % number, partition=0).result(10).offset == number
    assert stored(fake) == [b"first", *(b"%d" % number for number in range(1, 10))]


def test_after_close_it_raises(fake: FakeCluster) -> None:
    p = producer(fake)
    p.close()
    with pytest.raises(errors.ClientClosed):
        p.send("t", b"1", partition=0)


def test_interrupted_anywhere_every_record_comes_at_most_once_and_later_ones_do(
    fake: FakeCluster,
) -> None:
    with producer(fake) as p:
        number = 0

        def check(run: Any) -> bool:
            nonlocal number
            number += 1
            interrupted: bool = run(lambda: p.send("t", b"%d" % number, partition=0))
            assert p.send("t", b"after %d" % number, partition=0).result(20)
            p.flush(20)
            return interrupted

        assert interrupt_everywhere(check) > 60
        assert not p._accumulator.incomplete
    values = stored(fake)
    assert len(set(values)) == len(values)
    assert [v for v in values if b"after" in (v or b"")] == [
        b"after %d" % at for at in range(1, number + 1)
    ]


def test_interrupted_on_the_way_into_an_open_batch_later_handles_are_their_own_records(
    fake: FakeCluster,
) -> None:
    with Producer(bootstrap_servers=fake.bootstrap_servers, linger_ms=60_000) as p:
        number = 0
        first = p.send("t", b"first of the batch")

        def check(run: Any) -> bool:
            nonlocal number, first
            number += 1
            interrupted: bool = run(lambda: p.send("t", b"%d" % number))
            handles = [p.send("t", b"after %d" % number) for _ in range(2)]
            p.flush(20)
            offsets = [handle.result(0).offset for handle in (first, *handles)]
            added = b"%d" % number in stored(fake, handles[0].result(0).partition)
            assert offsets[1:] == [offsets[0] + 1 + added, offsets[0] + 2 + added]
            first = p.send("t", b"first of the batch")
            return interrupted

        assert interrupt_everywhere(check) > 3


@pytest.mark.parametrize("headers", [None, {"h": b"x"}])
def test_interrupted_anywhere_no_record_has_anothers_key_nor_none(
    fake: FakeCluster, headers: dict[str, bytes] | None
) -> None:
    fake.create_topic("one", 1)
    with Producer(bootstrap_servers=fake.bootstrap_servers, linger_ms=60_000) as p:
        number = 0

        def check(run: Any) -> bool:
            nonlocal number
            number += 1
            name = b"%d" % number
            p.send("one", b"before", b"before")
            interrupted: bool = run(lambda: p.send("one", name, name, headers))
            p.send("one", b"plain")
            p.send("one", b"after", b"after")
            p.flush(20)
            return interrupted

        assert interrupt_everywhere(check) > 8
    data = fake.topics["one"].partitions[0].read(0, 1 << 30)
    records = list(iter_records(data, "one", 0))
    assert [r.value for r in records if r.key is None] == [b"plain"] * number
    assert all(r.key == r.value for r in records if r.key is not None)
    others = (b"before", b"plain", b"after")
    assert all(bool(r.headers) == bool(headers and r.value not in others) for r in records)


def test_interrupted_just_before_the_loop_is_called_it_is_called_all_the_same(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else everybody would believe that the loop is about to look, and nobody call it again."""
    with producer(fake, linger_ms=20) as p:
        assert p.send("t", b"1", partition=0).result(20)
        call, left = p._thread.call, ["one"]

        def interrupted(function: Any, *arguments: Any) -> None:
            if left and function == p._loop._on_wake:
                left.clear()
                raise KeyboardInterrupt
            call(function, *arguments)

        monkeypatch.setattr(p._thread, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            p.send("t", b"2", partition=0)
        assert p.send("t", b"3", partition=0).result(20)
        assert not p._loop._wake_pending


# ---- the socket -------------------------------------------------------------------------------


def test_what_the_kernel_does_not_take_the_loop_writes() -> None:
    async def write() -> None:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        here.setblocking(False)
        room = asyncio.Event()
        with there:
            made = TcpConnection(here, loop, on_readable=lambda: None, on_room=room.set)
            pieces = [bytes([number % 251]) * 10_000 for number in range(200)]
            other = threading.Thread(target=made.write, args=(list(pieces),))
            other.start()
            other.join()
            assert made.is_full
            made.write([b"behind"])
            got = bytearray()
            while made.is_full:
                got += there.recv(1 << 20)
                await room.wait()
                room.clear()
                made.write_more()
            made.stop_watching_for_room()
            made.close()
            while more := there.recv(1 << 20):
                got += more
            assert bytes(got) == b"".join(pieces) + b"behind"

    asyncio.run(write())


def test_a_lent_connection_is_watched_again_when_it_comes_back() -> None:
    async def lend() -> None:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        here.setblocking(False)
        came = asyncio.Event()
        with there:
            made = TcpConnection(here, loop, on_readable=came.set, on_room=lambda: None)
            made.lend()
            there.send(b"1")
            await asyncio.sleep(0)
            assert not came.is_set()
            buffer = memoryview(bytearray(10))
            assert made.receive_into(buffer) == 1
            assert made.receive_into(buffer) == -1
            there.send(b"2")
            made.take_back()
            await asyncio.wait_for(came.wait(), 30)
            made.close()
            made.take_back()
            made.write([b"nobody"])
            assert not made.is_full

    asyncio.run(lend())
