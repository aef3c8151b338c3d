from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from pylog import errors
from pylog.aio import AsyncProducer
from pylog.records.reader import iter_records
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(1) as running:
        running.create_topic("one")
        yield running


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await coroutine

    asyncio.run(bounded())


def producer(cluster: FakeCluster, **config: Any) -> AsyncProducer:
    given: dict[str, Any] = {"linger_ms": 0, "max_block_ms": 5_000, **config}
    return AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, **given)


def values(cluster: FakeCluster) -> list[bytes | None]:
    data = cluster.topics["one"].partitions[0].read(0, 1 << 30)
    return [record.value for record in iter_records(data, "one", 0)]


def test_records_are_awaited_when_it_suits(cluster: FakeCluster) -> None:
    async def main() -> None:
        async with producer(cluster) as p:
            sent = [await p.send("one", b"%d" % i) for i in range(200)]
            assert [(await s).offset for s in sent] == list(range(200))
            assert sent[3].done()
            assert (await sent[3]).offset == 3
            assert (await p.send_and_wait("one", b"last", key=b"k")).offset == 200
            assert await p.partitions_for("one") == [0]
            assert p.metrics()["record-send-total"] == 201

    run(main())
    assert values(cluster)[-1] == b"last"


def test_many_tasks_keep_their_order_at_a_full_buffer_while_the_loop_goes_on(
    cluster: FakeCluster,
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def main() -> None:
        async with producer(cluster, buffer_memory=4_000, batch_size=500) as p:
            ticking = asyncio.ensure_future(tick())
            sent = await asyncio.gather(*(p.send("one", b"%04d" % i) for i in range(300)))
            await p.flush(10)
            assert [(await s).offset for s in sent] == list(range(300))
            ticking.cancel()

    run(main())
    assert values(cluster) == [b"%04d" % i for i in range(300)]
    assert ticks > 10


async def give_up(*sends: Coroutine[Any, Any, Any]) -> None:
    """Have each wait on the loop, and cancel it then."""
    for send in sends:
        task = asyncio.create_task(send)
        done, _ = await asyncio.wait({task}, timeout=0.02)
        assert not done
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_a_send_that_is_cancelled_at_a_full_buffer_sends_nothing_and_holds_no_thread(
    cluster: FakeCluster,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        few: dict[str, Any] = {
            "buffer_memory": 1_000,
            "max_request_size": 1_000,
            "batch_size": 500,
            "max_in_flight_requests_per_connection": 1,
            "request_timeout_ms": 1_000,
            "max_block_ms": 20_000,
        }
        async with producer(cluster, **few) as p:
            await p.send_and_wait("one", b"first")
            cluster.produce_faults.append("hang")
            kept = [await p.send("one", b"%d" % i + b"-" * 300) for i in range(2)]
            await give_up(*(p.send("one", b"%d" % i + b"-" * 300) for i in range(2, 8)))
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 0.5)
            kept.append(await p.send("one", b"last"))
            assert [(await one).offset for one in kept] == [1, 2, 3]

    run(main())
    assert [(value or b"").rstrip(b"-") for value in values(cluster)] == [
        b"first",
        b"0",
        b"1",
        b"last",
    ]


def test_a_send_that_begins_as_others_wait_does_not_overtake_them(cluster: FakeCluster) -> None:
    async def main() -> None:
        async with producer(cluster) as p:

            async def first_and_last() -> None:
                await p.send("one", b"0")  # it waits for the topic's metadata
                await p.send("one", b"3")

            await asyncio.gather(first_and_last(), p.send("one", b"1"), p.send("one", b"2"))

    run(main())
    assert values(cluster) == [b"0", b"1", b"2", b"3"]


def test_flushes_and_look_ups_that_are_cancelled_hold_no_thread(cluster: FakeCluster) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with producer(cluster) as p:
            cluster.produce_faults.append("hang")
            sent = await p.send("one", b"x")
            await give_up(p.flush(), p.flush(), p.flush())
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 0.5)
            assert not sent.done()
            await p.close(0)
        nowhere = AsyncProducer(bootstrap_servers="127.0.0.1:1", max_block_ms=10_000)
        async with nowhere as p:
            await give_up(p.send("one", b"x"), p.partitions_for("one"), p.refresh("one"))
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 0.5)

    run(main())


@pytest.mark.usefixtures("short_grace")
def test_errors_come_where_they_belong(cluster: FakeCluster) -> None:
    async def main() -> None:
        async with producer(cluster, retry_backoff_ms=10) as p:
            with pytest.raises(errors.UnknownTopicOrPartition, match="nope"):
                await p.send("nope", b"x")
            with pytest.raises(errors.SerializationFailed):
                await p.send("one", 5)
            cluster.produce_faults.append(errors.TopicAuthorizationFailed.code)
            refused = await p.send("one", b"x")
            with pytest.raises(errors.TopicAuthorizationFailed):
                await refused
            with pytest.raises(errors.InvalidTxnState):
                await p.begin_transaction()
        with pytest.raises(errors.ClientClosed):
            await p.send("one", b"x")

    run(main())


def test_who_stops_waiting_for_a_record_harms_nobody(cluster: FakeCluster) -> None:
    async def main() -> None:
        cluster.produce_faults.append("hang")
        p = producer(cluster)
        sent = await p.send("one", b"x")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await sent
        await p.close(0)
        with pytest.raises(errors.ClientClosed):
            await sent

    run(main())


def test_tables(cluster: FakeCluster) -> None:
    async def main() -> None:
        async with producer(cluster) as p:
            sent = await p.send_arrow("one", pa.table({"value": [b"a", b"b"]}))
            assert [m.offset for m in await sent] == [0]

    run(main())
    assert values(cluster) == [b"a", b"b"]
