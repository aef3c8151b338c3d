"""A consumer whose waiting thread reads its answers itself, against brokers of sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import errors
from pylog.client.consumer.async_consumer import AsyncConsumer
from pylog.client.consumer.consumer import Consumer
from pylog.client.consumer.consumer_loop import ConsumerLoop
from pylog.client.fetching.fetch_answers import Answers
from pylog.client.producer.producer import Producer
from pylog.client.streams import lent_streams
from pylog.client.streams.framed_carrier import FramedCarrier
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.interrupted import interrupt_everywhere

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    monkeypatch.setattr(lent_streams, "LEND_AFTER", 1)
    monkeypatch.setattr(lent_streams, "AWAY_MS", 60_000)
    with FakeCluster(2) as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture
def sending(fake: FakeCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=fake.bootstrap_servers, linger_ms=0) as made:
        yield made


def send(sending: Producer, value: bytes, partition: int = 0) -> None:
    sending.send("t", value, partition=partition).result(10)


def reading(fake: FakeCluster, *partitions: TopicPartition, **settings: Any) -> Consumer:
    given: dict[str, Any] = {"retry_backoff_ms": 1, "fetch_max_wait_ms": 50, **settings}
    made = Consumer(bootstrap_servers=fake.bootstrap_servers, **given)
    made.assign(partitions or (T0,))
    made.seek_to_beginning()
    return made


def lent(consumer: Consumer, count: int = 1) -> None:
    """Return once so many streams are lent."""
    deadline = SYSTEM_CLOCK.monotonic_ms() + 30_000
    while len(consumer._loop.lent.lent) < count:
        assert SYSTEM_CLOCK.monotonic_ms() < deadline
        consumer.poll(0.05)


def values(consumer: Consumer, count: int, timeout: float = 30) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = SYSTEM_CLOCK.monotonic_ms() + timeout * 1000
    while len(found) < count and SYSTEM_CLOCK.monotonic_ms() < deadline:
        found += [record.value for record in consumer.poll(1)]
    return found


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that read past the loop, as they do."""
    threads: list[int] = []
    read = FramedCarrier.receive

    def told(self: FramedCarrier) -> bool:
        threads.append(threading.get_ident())
        return read(self)

    monkeypatch.setattr(FramedCarrier, "receive", told)
    return threads


def test_the_thread_that_waits_reads(
    fake: FakeCluster, sending: Producer, readers: list[int]
) -> None:
    with reading(fake, T0, T1) as consumer:
        lent(consumer, 2)
        for number in range(20):
            send(sending, b"%d" % number, partition=number % 2)
            assert values(consumer, 1) == [b"%d" % number]
        assert set(readers) == {threading.get_ident()}
        assert len(readers) >= 20


def test_a_look_without_waiting_finds_what_has_come(fake: FakeCluster, sending: Producer) -> None:
    with reading(fake, fetch_max_wait_ms=30_000) as consumer:
        send(sending, b"0")
        lent(consumer)
        send(sending, b"1")
        deadline = SYSTEM_CLOCK.monotonic_ms() + 30_000
        found: list[bytes | None] = []
        while b"1" not in found and SYSTEM_CLOCK.monotonic_ms() < deadline:
            found += [record.value for record in consumer.poll(0)]
        assert found[-1] == b"1"


def test_a_thread_that_is_away_gives_back(
    fake: FakeCluster, sending: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(fake) as consumer:
        lent(consumer)
        monkeypatch.setattr(lent_streams, "AWAY_MS", 0)
        with fake.changed:  # the loop goes on asking
            before = len(fake.fetch_requests)
            assert fake.changed.wait_for(lambda: len(fake.fetch_requests) > before + 2, 30)
        assert not consumer._loop.lent.lent
        send(sending, b"1")
        assert values(consumer, 1) == [b"1"]


def test_an_answer_is_told_before_anybody_reads_the_next_one(
    fake: FakeCluster, sending: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch that stands is answered again, and the loop may read that before the thread that has
    read the answer before gets on with it: it would be taken for that one, which would be missing.
    """
    tell = ConsumerLoop._on_response
    overtaken = threading.Event()
    held: list[bool] = []

    async def take_back(loop: ConsumerLoop) -> None:
        loop.lent.take_back()

    def held_once(self: ConsumerLoop, broker: int, response: Answers) -> None:
        if not any(len(answer.batches) for answer in response.partitions):
            tell(self, broker, response)
        elif threading.current_thread() is threading.main_thread() and not held:
            self._thread.run(take_back(self))
            sending.send("t", b"2", partition=0)
            held.append(overtaken.wait(0.3))
            tell(self, broker, response)
        else:
            tell(self, broker, response)
            overtaken.set()

    with reading(fake, fetch_max_wait_ms=30_000) as consumer:
        send(sending, b"0")
        lent(consumer)
        monkeypatch.setattr(ConsumerLoop, "_on_response", held_once)
        for stream in consumer._loop._streams.values():
            monkeypatch.setattr(stream, "_on_response", consumer._loop._on_response)
        sending.send("t", b"1", partition=0)
        assert values(consumer, 2) == [b"1", b"2"]
    assert held == [False]


def test_a_large_answer_gives_back(fake: FakeCluster, sending: Producer) -> None:
    with reading(fake) as consumer:
        lent(consumer)
        send(sending, bytes(100_000))
        assert values(consumer, 1) == [bytes(100_000)]
        consumer._thread.run(_nothing())
        assert not consumer._loop.lent.lent


async def _nothing() -> None:
    pass


def _poll_on(consumer: Consumer, faults: list[errors.PylogError]) -> None:
    try:
        while True:
            consumer.poll(60)
    except errors.PylogError as fault:
        faults.append(fault)


def test_wakeup_and_close_end_a_wait(fake: FakeCluster) -> None:
    for end, error in (("wakeup", errors.WokenUp), ("close", errors.ClientClosed)):
        with reading(fake) as consumer:
            lent(consumer)
            faults: list[errors.PylogError] = []

            thread = threading.Thread(target=_poll_on, args=(consumer, faults))
            thread.start()
            while not consumer._loop.lent.somebody_waits:
                consumer._thread.run(_nothing())
            getattr(consumer, end)()
            thread.join(30)
            assert [type(told) for told in faults] == [error]


def test_wakeup_does_not_wait_for_a_lock(fake: FakeCluster) -> None:
    """A signal's handler may call it, on the thread that holds the lock."""
    with reading(fake) as consumer:
        lent(consumer)
        with consumer._lock:
            consumer.wakeup()
        with pytest.raises(errors.WokenUp):
            consumer.poll(30)


def test_a_stream_that_breaks_while_it_is_lent_is_begun_anew(
    fake: FakeCluster, sending: Producer
) -> None:
    with reading(fake) as consumer:
        for number in range(20):
            lent(consumer)
            for connection in list(fake.streams[1]._open):
                connection.shutdown(2)
            sending.send("t", b"%d" % number, partition=0)
            assert values(consumer, 1) == [b"%d" % number]


def test_seek_pause_and_resume(fake: FakeCluster, sending: Producer) -> None:
    with reading(fake, T0, T1) as consumer:
        lent(consumer, 2)
        for number in range(3):
            send(sending, b"%d" % number)
        assert values(consumer, 3) == [b"0", b"1", b"2"]
        consumer.seek(T0, 1)
        assert values(consumer, 2) == [b"1", b"2"]
        consumer.pause(T0)
        send(sending, b"3")
        assert values(consumer, 1, timeout=0.2) == []
        consumer.resume(T0)
        assert values(consumer, 1) == [b"3"]
        send(sending, b"other", partition=1)
        assert values(consumer, 1) == [b"other"]
        consumer.assign([T1])
        send(sending, b"more", partition=1)
        assert values(consumer, 1) == [b"more"]


def test_nothing_is_lent_over_grpc(fake: FakeCluster, sending: Producer) -> None:
    with reading(fake, client_transport="grpc") as consumer:
        for number in range(5):
            send(sending, b"%d" % number)
            assert values(consumer, 1) == [b"%d" % number]
        assert not consumer._loop.lent.lent


def test_nothing_is_lent_to_a_callers_loop(
    fake: FakeCluster, sending: Producer, readers: list[int]
) -> None:
    async def read() -> None:
        async with AsyncConsumer(bootstrap_servers=fake.bootstrap_servers) as consumer:
            consumer.assign([T0])
            await consumer.seek_to_beginning()
            for number in range(5):
                await asyncio.to_thread(send, sending, b"%d" % number)
                [record] = await consumer.poll(10)
                assert record.value == b"%d" % number

    asyncio.run(read())
    assert not readers


def test_interrupted_anywhere_all_records_come_once(
    fake: FakeCluster, sending: Producer, readers: list[int]
) -> None:
    found: list[bytes | None] = []
    with reading(fake, fetch_max_wait_ms=5) as consumer:
        number = 0
        streams = consumer._loop.lent

        def wait() -> None:
            with consumer._lock:
                streams.begin()
            streams.wait(1)

        def check(run: Any) -> bool:
            nonlocal number
            lent(consumer)
            number += 1
            send(sending, b"%d" % number)

            interrupted: bool = run(wait)
            send(sending, b"after %d" % number)
            while not found or found[-1] != b"after %d" % number:
                records = consumer.poll(10)
                assert records
                found.extend(record.value for record in records)
            return interrupted

        assert interrupt_everywhere(check, every=2) > 30
    expected = [b"%s%d" % (how, at) for at in range(1, number + 1) for how in (b"", b"after ")]
    assert found == expected
    assert readers
