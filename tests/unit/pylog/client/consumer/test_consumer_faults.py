"""A consumer whose brokers, logs and deserializers fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pylog import Consumer, errors
from pylog.aio import AsyncConsumer
from pylog.client.consumer import consumer_calls
from pylog.client.consumer.decoding import Decoder
from pylog.client.producer.producer import Producer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition
from pylog.records.record import Record
from tests.fakes.consumers import consumer, fill
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.waiting import eventually

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


def test_a_fault_that_is_caught_late_stops_nothing(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    cluster.fetch_faults.append(errors.TopicAuthorizationFailed.code)
    with consumer(cluster, retry_backoff_ms=1) as c:
        c.assign([T0])
        c.seek(T0, 0)
        c.poll(0)
        with cluster.changed:
            cluster.changed.wait_for(lambda: not cluster.fetch_faults, 5)
        SYSTEM_CLOCK.sleep(0.1)  # the time to try again passes before anybody hears of the fault
        with pytest.raises(errors.TopicAuthorizationFailed):
            c.poll(5)
        assert [r.offset for r in c.poll(5)] == [0, 1, 2]


def test_records_that_are_cut_off_meanwhile(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    cluster.topics["t"].partitions[0].log_start = 7
    with consumer(cluster) as c:
        c.assign([T0])
        c.seek(T0, 2)
        assert [r.offset for r in c.poll(5)] == [7, 8, 9]


def test_passing_faults_are_not_seen(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    cluster.fetch_faults.extend(
        [
            errors.NotLeaderOrFollower.code,
            errors.OffsetNotAvailable.code,
            errors.UnknownTopicOrPartition.code,
        ]
    )
    with consumer(cluster, retry_backoff_ms=10) as c:
        c.assign([T0])
        c.seek(T0, 4)
        assert [r.offset for r in c.poll(5)] == [4, 5, 6, 7, 8, 9]


def test_a_moved_leader_and_a_restarted_broker_are_found(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    with consumer(cluster, retry_backoff_ms=10) as c:
        c.assign([T0])
        assert len(c.poll(5)) == 3
        cluster.move_leader("t", 0, 2)
        fill(cluster, 3)
        assert [r.offset for r in c.poll(5)] == [3, 4, 5]
        cluster.stop_broker(2)
        assert not c.poll(0.05)
        cluster.start_broker(2)
        fill(cluster, 3)
        assert [r.offset for r in c.poll(10)] == [6, 7, 8]


def test_deserializers_and_their_failures(cluster: FakeCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as p:
        for value in (b"1", b"2", b"x", b"4"):
            p.send("t", value, key=b"9", partition=0)
    with consumer(cluster, deserializer=lambda _t, d: int(d)) as c:
        c.assign([T0])
        assert [(r.key, r.value) for r in c.poll(5)] == [(9, 1), (9, 2)]
        for _ in range(2):
            with pytest.raises(errors.SerializationFailed, match="t-0 at offset 2") as caught:
                c.poll(5)
        assert (caught.value.topic, caught.value.topic_partition) == ("t", T0)
        raw = caught.value.record
        assert (raw.offset, raw.key, raw.value) == (2, b"9", b"x")
        c.seek(T0, 3)
        assert [r.value for r in c.poll(5)] == [4]


@pytest.mark.parametrize("columns", [False, True])
def test_a_batch_that_cannot_be_read_holds_back_nothing_else(
    cluster: FakeCluster, columns: bool
) -> None:
    fill(cluster, 30)
    fill(cluster, 30)
    fill(cluster, 3, 1)
    header, batch = cluster.topics["t"].partitions[0].batches[-1]
    cluster.topics["t"].partitions[0].batches[-1] = (header, batch[:-1] + b"!")
    with consumer(cluster) as c:
        c.assign([T0, T1])
        read = 0
        fault: errors.PylogError | None = None
        while read < header.base_offset + 3 or fault is None:
            try:
                read += c.poll_arrow(5).num_rows if columns else len(c.poll(5))
            except errors.CorruptMessage as error:
                fault = error
        assert f"t-0, batch at offset {header.base_offset}" in str(fault)
        assert fault.topic_partition == T0
        assert c.position() == {T0: header.base_offset, T1: 3}
        c.seek(T0, 60)
        assert not c.poll(0.05)


@pytest.mark.parametrize("columns", [False, True])
def test_what_has_rotted_is_told_after_what_is_before_and_a_seek_goes_past(
    cluster: FakeCluster, columns: bool
) -> None:
    for _ in range(3):
        fill(cluster, 10)
    cluster.topics["t"].partitions[0].damaged = (10, 20)
    with consumer(cluster, retry_backoff_ms=1) as c:
        c.assign([T0])
        c.seek(T0, 0)

        def poll() -> list[int]:
            if columns:
                return list(c.poll_arrow(5).column("offset").to_pylist())
            return [record.offset for record in c.poll(5)]

        assert poll() == list(range(10))
        with pytest.raises(errors.CorruptMessage, match=r"t-0: x\.log is damaged") as fault:
            poll()
        assert fault.value.next_offset == 20
        assert c.position(T0) == 10
        c.seek(T0, fault.value.next_offset)
        assert poll() == list(range(20, 30))


def test_an_iteration_meets_rot_after_what_is_before(cluster: FakeCluster) -> None:
    for _ in range(3):
        fill(cluster, 10)
    cluster.topics["t"].partitions[0].damaged = (10, 20)
    with consumer(cluster, retry_backoff_ms=1) as c:
        c.assign([T0])
        c.seek(T0, 0)
        records = iter(c)
        assert [next(records).offset for _ in range(10)] == list(range(10))
        with pytest.raises(errors.CorruptMessage) as fault:
            next(records)
        assert fault.value.next_offset == 20
        c.seek(T0, 20)
        assert next(iter(c)).offset == 20


def test_a_position_that_the_loop_moves_meanwhile_stays_moved(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, 10)
    with consumer(cluster, max_poll_records=4) as c:
        c.assign([T0])
        assert len(c.poll(5)) == 4
        take = Decoder.take

        def cut_while_decoding(decoder: Decoder, count: int) -> list[Record]:
            with c._lock:
                c._positions.seek(c._positions.partitions[T0], 2)
            monkeypatch.undo()
            return take(decoder, count)

        monkeypatch.setattr(Decoder, "take", cut_while_decoding)
        assert c.poll(5).records(T0)[0].offset == 4
        assert c.position(T0) == 2
        assert c.poll(5).records(T0)[0].offset == 2


def arrived(c: Consumer, *partitions: TopicPartition) -> None:
    """Wait until records or a fault of each of these have come."""

    def here() -> bool:
        found = [c._positions.partitions.get(tp) for tp in partitions]
        return all(p is not None and (p.buffer or p.error is not None) for p in found)

    eventually(30, here, f"something of {partitions}")


def test_good_records_come_before_another_partitions_fault(cluster: FakeCluster) -> None:
    fill(cluster, 1_200, partition=0)
    with consumer(cluster, auto_offset_reset="none", max_poll_records=500) as c:
        c.assign([T0, T1])
        c.seek(T0, 0)
        c.seek(T1, 77)
        c.poll(0)
        arrived(c, T0, T1)
        assert sum(len(c.poll(5)) for _ in range(3)) == 1_200
        with pytest.raises(errors.OffsetOutOfRange, match="t-1") as fault:
            c.poll(5)
        assert fault.value.topic_partition == T1


def test_a_stream_of_records_does_not_hide_a_fault(cluster: FakeCluster) -> None:
    fill(cluster, 1, partition=0)
    with consumer(cluster, auto_offset_reset="none") as c:
        c.assign([T0, T1])
        c.seek(T0, 0)
        c.seek(T1, 77)
        c.poll(0)
        arrived(c, T0, T1)
        assert len(c.poll(5)) == 1
        fill(cluster, 1, partition=0)
        arrived(c, T0)
        with pytest.raises(errors.OffsetOutOfRange, match="t-1"):
            c.poll(5)
        assert len(c.poll(5)) == 1


def test_good_records_come_before_a_topic_that_is_denied(cluster: FakeCluster) -> None:
    fill(cluster, 30)
    with consumer(cluster, max_poll_records=10, default_api_timeout_ms=50) as c:
        c.subscribe(["t", "absent"])
        c.poll(0)
        arrived(c, T0)
        eventually(30, lambda: "absent" in c._cluster.denied, "the denial")
        SYSTEM_CLOCK.sleep(0.06)  # the denial counts now
        assert [len(c.poll(5)) for _ in range(3)] == [10, 10, 10]
        with pytest.raises(errors.UnknownTopicOrPartition, match="absent") as fault:
            c.poll(5)
        assert (fault.value.topic, fault.value.topic_partition) == ("absent", None)


def test_a_position_does_not_wait_for_records_of_others(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    with consumer(cluster, auto_offset_reset="none") as c:
        c.assign([T0])
        c.seek(T0, 0)
        c.poll(0)
        arrived(c, T0)
        c.assign([T0, T1])
        with pytest.raises(errors.NoOffsetForPartition, match="t-1") as fault:
            c.position(T1)
        assert fault.value.topic_partition == T1


class Once:
    """Raises at the first call, and then does what it stands for."""

    def __init__(self, call: Callable[..., Any], error: BaseException) -> None:
        self._call = call
        self._error: BaseException | None = error

    def __call__(self, *args: Any, **named: Any) -> Any:
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._call(*args, **named)


@pytest.mark.parametrize("call", ["committed", "commit"])
def test_a_defect_in_a_call_to_the_group_reaches_its_caller(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with consumer(cluster, group_id="g", enable_auto_commit=False) as c:
        c.assign([T0])
        asks = {"committed": lambda: c.committed(T0), "commit": lambda: c.commit({T0: 1})}
        assert c.position(T0) == 0  # nothing else is asked of the coordinator any more
        calls = c._loop._group_calls
        assert calls is not None
        monkeypatch.setattr(
            calls._wire, "answer", Once(calls._wire.answer, MemoryError("none left"))
        )
        with pytest.raises(errors.UnknownServerError, match=r"MemoryError\('none left'\)"):
            asks[call]()
        asks[call]()


def test_a_defect_in_a_look_up_reaches_the_poll(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, 2)
    ask = Once(consumer_calls.list_offsets, MemoryError("none left"))
    monkeypatch.setattr(consumer_calls, "list_offsets", ask)
    with consumer(cluster) as c:
        c.assign([T0])
        with pytest.raises(errors.UnknownServerError, match="none left") as fault:
            c.poll(30)
        assert fault.value.topic_partition == T0
        assert len(c.poll(30)) == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_a_defect_in_a_step_of_the_loop_reaches_the_poll_and_does_not_end_the_loop(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    async def poll_there() -> None:
        async with AsyncConsumer(bootstrap_servers=cluster.bootstrap_servers) as c:
            c.assign([T0])
            core = c._inner._core
            monkeypatch.setattr(core, "poll", Once(core.poll, broken))
            with pytest.raises(errors.UnknownServerError) as fault:
                await c.poll(30)
            assert fault.value.__cause__ is broken
            c.seek(T0, 0)
            assert len(await c.poll(30)) == 2

    broken = AssertionError("a move that is not in the table")
    fill(cluster, 2)
    if is_async:
        asyncio.run(poll_there())
        return
    with consumer(cluster) as c:
        c.assign([T0])
        monkeypatch.setattr(c._core, "poll", Once(c._core.poll, broken))
        with pytest.raises(errors.UnknownServerError, match="not in the table") as fault:
            c.poll(30)
        assert fault.value.__cause__ is broken
        c.seek(T0, 0)
        assert len(c.poll(30)) == 2
