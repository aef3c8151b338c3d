"""Many threads at one producer, at the small buffers and broken streams where they meet."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pylog import errors
from pylog.client.producer import producer as producer_module
from pylog.client.producer.delivery import DeliveryHandle
from pylog.client.producer.producer import Producer
from pylog.client.sending.record_times import RecordTimes
from pylog.records.reader import iter_records
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 4)
        yield running


@pytest.fixture(autouse=True)
def _frequent_switches() -> Iterator[None]:
    """Threads take turns a thousand times as often as they would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


def producer(cluster: FakeCluster, **config: Any) -> Producer:
    given: dict[str, Any] = {"linger_ms": 1, "max_block_ms": 20_000, **config}
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **given)


def run(*work: Callable[[], None]) -> None:
    faults: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as fault:  # noqa: BLE001  told by the test
            faults.append(fault)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "stuck"
    assert not faults


KeyOf = Callable[[bytes], bytes | None]


def no_key(_value: bytes) -> None:
    return None


def one_key(_value: bytes) -> bytes:
    return b"key"


def seldom_a_key(value: bytes) -> bytes | None:
    return value[-1:] if len(value) % 2 else None


KEYS = pytest.mark.parametrize("key_of", [no_key, one_key, seldom_a_key])


def check(
    cluster: FakeCluster, sent: list[tuple[bytes, DeliveryHandle]], key_of: KeyOf | None = None
) -> None:
    """Each handle names the place where its very record is stored; nothing else is."""
    records = {}
    for n, partition in enumerate(cluster.topics["t"].partitions):
        for record in iter_records(partition.read(0, 1 << 30), "t", n):
            assert record.value is not None
            assert key_of is None or record.key == key_of(record.value)
            records[n, record.offset] = record.value
    places = {}
    for value, handle in sent:
        told = handle.result(0)
        places[told.partition, told.offset] = value
    assert places == records
    assert len(places) == len(sent)


@KEYS
def test_one_thread_sends_while_others_flush(cluster: FakeCluster, key_of: KeyOf) -> None:
    """The owner adds without the lock, and every batch is closed under its hands."""
    sent: list[tuple[bytes, DeliveryHandle]] = []
    over = threading.Event()

    def send() -> None:
        try:
            for i in range(20_000):
                value = b"%d" % i
                sent.append((value, p.send("t", value, key_of(value))))
        finally:
            over.set()

    def flush() -> None:
        while not over.is_set():
            p.flush(20)

    with producer(cluster, batch_size=700) as p:
        run(send, flush, flush)
        p.flush(20)
        check(cluster, sent, key_of)
    for partition in range(4):
        offsets = [
            place.offset
            for place in (handle.result(0) for _, handle in sent)
            if place.partition == partition
        ]
        assert offsets == sorted(offsets)


def test_eight_threads_with_callbacks_small_buffers_and_faults(cluster: FakeCluster) -> None:
    code = errors.NotEnoughReplicas.code
    cluster.produce_faults.extend([0, "drop", 0, code, 0, 0, "drop", code] * 8)
    cluster.batch_bytes_max = 200
    sent: list[list[tuple[bytes, DeliveryHandle]]] = [[] for _ in range(8)]
    told: list[tuple[bytes, Any, Any]] = []

    def sender(number: int) -> Callable[[], None]:
        def work() -> None:
            for i in range(1_000):
                value = b"%d-%d" % (number, i)
                mine = sent[number]
                if number % 4 == 0:
                    mine.append((value, p.send("t", value)))
                elif number % 4 == 1:
                    mine.append((value, p.send("t", value, key=b"%d" % (i % 7))))
                elif number % 4 == 2:
                    mine.append((value, p.send("t", value, partition=i % 4, headers={"h": "x"})))
                else:

                    def on_delivery(metadata: Any, error: Any, value: bytes = value) -> None:
                        told.append((value, metadata, error))
                        if len(told) % 100 == 0:
                            raise RuntimeError("a callback of the user's")

                    mine.append((value, p.send("t", value, on_delivery=on_delivery)))

        return work

    with producer(cluster, batch_size=500, buffer_memory=5_000, retry_backoff_ms=5) as p:
        run(*map(sender, range(8)))
        p.flush(30)
        check(cluster, [pair for mine in sent for pair in mine])
        assert p.metrics()["buffer-available-bytes"] == 5_000
    assert len(told) == 2_000
    assert all(error is None for _, _, error in told)
    for mine in sent:
        by_partition: dict[int, list[int]] = {}
        for _, handle in mine:
            place = handle.result(0)
            by_partition.setdefault(place.partition, []).append(place.offset)
        for offsets in by_partition.values():
            assert offsets == sorted(offsets)


@KEYS
def test_threads_that_take_turns_with_the_ownership(cluster: FakeCluster, key_of: KeyOf) -> None:
    sent: list[list[tuple[bytes, DeliveryHandle]]] = [[] for _ in range(3)]
    turn = threading.Barrier(3)

    def sender(number: int) -> Callable[[], None]:
        def work() -> None:
            for phase in range(6):
                if phase % 3 == number or phase == 5:
                    for i in range(3_000):  # alone, then all together
                        value = b"%d-%d-%d" % (number, phase, i)
                        sent[number].append((value, p.send("t", value, key_of(value))))
                turn.wait(30)

        return work

    with producer(cluster, batch_size=600) as p:
        run(*map(sender, range(3)))
        p.flush(30)
        check(cluster, [pair for mine in sent for pair in mine], key_of)


@pytest.mark.parametrize("key", [None, b"key"])
def test_an_owner_that_is_deposed_while_it_looks_adds_to_nobody_elses_batch(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, key: bytes | None
) -> None:
    """The other thread has counted the records of its batch and not added its own yet."""
    adding, went_on = threading.Event(), threading.Event()
    sent: list[tuple[bytes, DeliveryHandle]] = []
    begin, locked, identity = RecordTimes.begin, Producer._send, threading.get_ident
    me = identity()
    with producer(cluster, linger_ms=60_000) as p:
        other = threading.Thread(
            target=lambda: sent.append((b"other", p.send("t", b"other", key))), daemon=True
        )

        def look() -> int:
            if identity() == me and other.ident is None:
                other.start()
                assert adding.wait(20)
            return identity()

        def begin_slowly(times: RecordTimes, index: int, now_ns: int) -> None:
            if identity() == other.ident:
                adding.set()
                assert went_on.wait(20)
            begin(times, index, now_ns)

        def send_locked(producer: Producer, *arguments: Any) -> DeliveryHandle:
            if identity() == me:
                went_on.set()
            return locked(producer, *arguments)

        sent.append((b"first", p.send("t", b"first", key)))
        monkeypatch.setattr(producer_module, "get_ident", look)
        monkeypatch.setattr(RecordTimes, "begin", begin_slowly)
        monkeypatch.setattr(Producer, "_send", send_locked)
        sent.append((b"mine", p.send("t", b"mine", key)))
        went_on.set()
        other.join(20)
        p.flush(20)
        check(cluster, sent)


def test_closing_while_threads_send_fails_or_stores_each_record(cluster: FakeCluster) -> None:
    sent: list[list[tuple[bytes, DeliveryHandle]]] = [[] for _ in range(4)]
    started = threading.Barrier(5)

    def sender(number: int) -> Callable[[], None]:
        def work() -> None:
            started.wait(20)
            for i in range(100_000):
                value = b"%d-%d" % (number, i)
                try:
                    sent[number].append((value, p.send("t", value)))
                except errors.ClientClosed:
                    return

        return work

    def close() -> None:
        started.wait(20)
        p.close(0.2)

    p = producer(cluster, batch_size=500)
    p.partitions_for("t")
    run(close, *map(sender, range(4)))
    done = [pair for mine in sent for pair in mine]
    assert all(handle.done() for _, handle in done)
    kept = [(value, handle) for value, handle in done if handle.exception(0) is None]
    places = {
        (n, record.offset): record.value
        for n, partition in enumerate(cluster.topics["t"].partitions)
        for record in iter_records(partition.read(0, 1 << 30), "t", n)
    }
    for value, handle in kept:
        told = handle.result(0)
        assert places[told.partition, told.offset] == value
