from __future__ import annotations

import asyncio
import gc
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pylog import errors
from pylog.aio import AsyncConsumer
from pylog.client.producer.producer import Producer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition
from tests.fakes.fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 2)
        yield running


def fill(cluster: FakeCluster, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as p:
        for i in range(count):
            p.send("t", b"%d" % i, partition=0, timestamp_ms=1_000 + i)


def consumer(cluster: FakeCluster, *topics: str, **config: Any) -> AsyncConsumer:
    given: dict[str, Any] = {"auto_offset_reset": "earliest", **config}
    return AsyncConsumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **given)


def test_records_columns_and_positions(cluster: FakeCluster) -> None:
    fill(cluster, 10)

    async def read() -> None:
        async with consumer(cluster, max_poll_records=4) as c:
            c.assign([T0, T1])
            assert c.assignment() == {T0, T1}
            assert [r.offset for r in await c.poll(5)] == [0, 1, 2, 3]
            assert await c.position(T0) == 4
            assert await c.lag(T0) == 6
            assert (await c.poll_arrow(5))["offset"].to_pylist() == [4, 5, 6, 7, 8, 9]
            c.seek(T0, 8)
            seen = []
            async for record in c:
                seen.append(record.offset)
                if len(seen) == 2:
                    break
            assert seen == [8, 9]
            c.seek(T0, 6)
            async for _ in c:
                break
            assert await c.position(T0) == 7
            assert [r.offset for r in await c.poll(5)] == [7, 8, 9]
            await c.seek_to_beginning(T0)
            await c.pause(T0)
            assert c.paused() == {T0}
            assert not await c.poll(0.05)
            await c.resume()
            assert len(await c.poll(5)) == 4
            assert await c.end_offsets([T0, T1]) == {T0: 10, T1: 0}
            assert c.metrics()["records-consumed-total"] >= 14
            with pytest.raises(errors.InvalidGroupId, match=r"commit\(\) needs a group"):
                await c.commit()
        with pytest.raises(errors.ClientClosed):
            await c.poll(0)

    asyncio.run(read())


def test_what_has_rotted_is_told_after_what_is_before(cluster: FakeCluster) -> None:
    async def read() -> None:
        async with consumer(cluster) as c:
            c.assign([T0])
            c.seek(T0, 0)
            assert [r.offset for r in await c.poll(30)] == [0, 1]
            with pytest.raises(errors.CorruptMessage) as fault:
                await c.poll(30)
            assert fault.value.next_offset == 4
            c.seek(T0, 4)
            assert [r.offset for r in await c.poll(30)] == [4, 5]

    for _ in range(3):
        fill(cluster, 2)
    cluster.topics["t"].partitions[0].damaged = (2, 4)
    asyncio.run(read())


def test_waiting_holds_up_no_other_task(cluster: FakeCluster) -> None:
    async def read() -> None:
        async with consumer(cluster) as c:
            c.assign([T0])
            assert not await c.poll(0.01)
            waiting = asyncio.ensure_future(c.poll(30))
            await asyncio.sleep(0)
            with pytest.raises(errors.WrongThread, match="another task"):
                await c.poll(0)
            await asyncio.to_thread(fill, cluster, 1)
            assert [r.value for r in await waiting] == [b"0"]
            waiting = asyncio.ensure_future(c.poll(30))
            await asyncio.sleep(0)
            c.wakeup()
            with pytest.raises(errors.WokenUp):
                await waiting
            before = SYSTEM_CLOCK.monotonic_ms()
            assert not await c.poll(0.1)
            assert SYSTEM_CLOCK.monotonic_ms() - before >= 95

    asyncio.run(read())


class SlowCall:
    """A call of the consumer that stays in its thread until it is let go."""

    def __init__(self, consumer: AsyncConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.may_end = threading.Event(), threading.Event()
        self._inner = consumer._inner
        monkeypatch.setattr(self._inner, "end_offsets", self._call)

    def _call(self, *_: TopicPartition, **_named: float | None) -> None:
        with self._inner._use():
            self.entered.set()
            assert self.may_end.wait(30)

    async def cancel(self, task: asyncio.Task[Any]) -> None:
        """Cancel the task that is in the call."""
        assert await asyncio.to_thread(self.entered.wait, 10)
        task.cancel()


def test_what_comes_behind_a_cancelled_call_waits_for_its_end(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, 3)

    async def read() -> None:
        async with consumer(cluster) as c:
            c.assign(T0)
            slow = SlowCall(c, monkeypatch)
            asked = asyncio.create_task(c.end_offsets(T0))
            await slow.cancel(asked)
            with pytest.raises(asyncio.CancelledError):
                await asked
            with pytest.raises(errors.RequestTimedOut, match="was cancelled"):
                await c.poll(0)
            asyncio.get_running_loop().call_later(0.02, slow.may_end.set)
            assert await c.beginning_offsets(T0) == {T0: 0}
            assert [record.offset for record in await c.poll(5)] == [0, 1, 2]

    asyncio.run(read())


def test_a_task_that_is_cancelled_in_a_call_closes_its_consumer(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read() -> None:
        made = consumer(cluster)
        slow = SlowCall(made, monkeypatch)

        async def use() -> None:
            async with made as c:
                await c.end_offsets(T0)

        task = asyncio.create_task(use())
        await slow.cancel(task)
        asyncio.get_running_loop().call_later(0.02, slow.may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(errors.ClientClosed):
            await made.poll(0)

    asyncio.run(read())


def test_a_call_that_is_cancelled_waits_no_more(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    cluster.groups.faults["OffsetCommit"] = deque([errors.CoordinatorLoadInProgress.code] * 10_000)
    told: list[object] = []

    async def read() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context))
        loop.set_default_executor(ThreadPoolExecutor(2))
        async with consumer(cluster, group_id="g", enable_auto_commit=False) as c:
            c.assign(T0)
            for _ in range(4):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(c.commit({T0: 3}), 0.05)
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 0.3)
            assert len(await c.poll(5)) == 3

    asyncio.run(read())
    gc.collect()
    assert told == []


def test_a_loop_that_was_closed_in_a_poll_leaves_the_consumer_to_the_next(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    c = consumer(cluster)
    closed = asyncio.new_event_loop()
    c.assign(T0)
    lost = closed.create_task(c.poll(30))
    lost._log_destroy_pending = False  # type: ignore[attr-defined]
    closed.run_until_complete(asyncio.sleep(0))
    assert c._inner._loop.listener is not None
    closed.close()
    fill(cluster, 3)

    async def read() -> None:
        async with c:
            polled = asyncio.create_task(c.poll(30))
            await asyncio.sleep(0)
            lost.get_coro().close()
            assert len(await polled) == 3

    asyncio.run(read())
    assert [r for r in caplog.records if r.exc_info or r.levelname == "ERROR"] == []
