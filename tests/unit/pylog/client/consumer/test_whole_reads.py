"""A topic to Arrow, pandas or Polars in one call."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from pylog import errors
from pylog.aio import AsyncConsumer
from pylog.client.consumer.consumer import Consumer
from pylog.model import TopicPartition
from pylog.records.columnar import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS
from tests.fakes.consumers import consumer, fill
from tests.fakes.fake_cluster import FakeCluster

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


def places(table: pa.Table) -> list[tuple[int, int]]:
    return sorted(zip(*(table[name].to_pylist() for name in ("partition", "offset")), strict=True))


def test_everything_that_is_there_is_one_table(cluster: FakeCluster) -> None:
    for partition in range(3):
        fill(cluster, 40, partition)
    with consumer(cluster, "t") as c:
        table = c.to_arrow()
        assert table.schema == RECORD_SCHEMA
        assert places(table) == [(p, offset) for p in range(3) for offset in range(40)]
        assert c.position() == {T0: 40, T1: 40, T2: 40}
        assert c.to_arrow().num_rows == 0  # what is there now, from here on
        fill(cluster, 2, 1)
        assert places(c.to_arrow(include_headers=True)) == [(1, 40), (1, 41)]
        assert c.to_arrow(include_headers=True).schema == RECORD_SCHEMA_WITH_HEADERS


def test_an_empty_topic_is_an_empty_table(cluster: FakeCluster) -> None:
    with consumer(cluster, "t") as c:
        assert c.to_arrow().num_rows == 0
        assert list(c.to_pandas().columns) == RECORD_SCHEMA.names


@pytest.mark.parametrize("most", [0, 1, 7, 40, 100])
def test_no_more_than_asked_for_and_the_rest_later(cluster: FakeCluster, most: int) -> None:
    for partition in range(3):
        fill(cluster, 20, partition)
    with consumer(cluster, "t") as c:
        first = c.to_arrow(most)
        assert first.num_rows == min(most, 60)
        rest = c.to_arrow()
        every = [(p, offset) for p in range(3) for offset in range(20)]
        assert sorted(places(first) + places(rest)) == every


def test_what_comes_while_it_reads_is_left_for_later(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    with consumer(cluster) as c:
        c.assign([T0])
        ends = c.end_offsets

        def and_then_more(*partitions: Any) -> dict[TopicPartition, int]:
            found = ends(*partitions)
            fill(cluster, 5)
            return found

        c.end_offsets = and_then_more  # type: ignore[method-assign]
        assert places(c.to_arrow()) == [(0, offset) for offset in range(10)]
        assert c.position(T0) == 10
        c.end_offsets = ends  # type: ignore[method-assign]
        assert places(c.to_arrow()) == [(0, offset) for offset in range(10, 15)]


def test_partitions_that_are_paused_are_passed_over(cluster: FakeCluster) -> None:
    for partition in range(2):
        fill(cluster, 5, partition)
    with consumer(cluster) as c:
        c.assign([T0, T1])
        c.pause(T1)
        assert places(c.to_arrow()) == [(0, offset) for offset in range(5)]
        c.resume(T1)
        assert places(c.to_arrow()) == [(1, offset) for offset in range(5)]


def test_too_late_loses_nothing(cluster: FakeCluster) -> None:
    for partition in range(2):
        fill(cluster, 5, partition)
    with consumer(cluster) as c:
        c.assign([T0, T1])
        ends = c.end_offsets
        c.end_offsets = lambda *p: {tp: 9 for tp in ends(*p)}  # type: ignore[method-assign]
        with pytest.raises(errors.RequestTimedOut, match=r"within 2 s: it has come to t-0 at 5"):
            c.to_arrow(timeout=2)
        c.end_offsets = ends  # type: ignore[method-assign]
        assert c.position() == {T0: 0, T1: 0}
        assert c.to_arrow().num_rows == 10


def test_pandas_has_what_deserializers_make(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    with consumer(cluster, "t", value_deserializer=lambda _, data: data.decode() + "!") as c:
        frame = c.to_pandas()
        assert list(frame["offset"]) == [0, 1, 2]
        assert all(isinstance(value, str) and value.endswith("!") for value in frame["value"])
        assert str(frame["timestamp"].dtype) == "datetime64[us, UTC]"
    with consumer(cluster, "t", value_deserializer=lambda _, data: json.loads(b"{" + data)) as c:
        with pytest.raises(errors.SerializationFailed, match="t-0 at offset 0: the deserializer"):
            c.to_pandas()
        assert c.position(T0) == 0
        assert c.to_arrow().num_rows == 3


def test_polars(cluster: FakeCluster) -> None:
    import polars

    fill(cluster, 3)
    with consumer(cluster, "t") as c:
        frame = c.to_polars(2)
    assert isinstance(frame, polars.DataFrame)
    assert frame["offset"].to_list() == [0, 1]


@pytest.mark.parametrize(("module", "read"), [
    ("pandas", lambda c: c.to_pandas()), ("polars", lambda c: c.to_polars()),
])  # fmt: skip
def test_a_library_that_is_missing_is_named(
    cluster: FakeCluster,
    module: str,
    read: Callable[[Consumer], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(cluster, 3)
    monkeypatch.setitem(sys.modules, module, None)
    with consumer(cluster, "t") as c:
        with pytest.raises(errors.ResourceNotFound, match=f"needs {module}, .* pip install"):
            read(c)
        assert c.to_arrow().num_rows == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_records": -1}, "max_records=-1: give a whole number from 0"),
        ({"max_records": 1.5}, "max_records=1.5"),
        ({"timeout": "x"}, "timeout='x': give a number of seconds"),
    ],
)
def test_wrong_arguments(cluster: FakeCluster, arguments: Any, words: str) -> None:
    with consumer(cluster, "t") as c, pytest.raises(errors.InvalidRequest, match=words):
        c.to_arrow(**arguments)


def test_a_consumer_of_nothing_and_a_closed_one(cluster: FakeCluster) -> None:
    with consumer(cluster) as c, pytest.raises(errors.InvalidRequest, match="subscribe or assign"):
        c.to_arrow()
    with pytest.raises(errors.ClientClosed):
        c.to_arrow()


def test_an_end_that_cannot_be_looked_up_loses_nothing(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, 5)

    def late(*_: object) -> None:
        raise errors.RequestTimedOut("no end")

    with consumer(cluster) as c:
        c.assign([T0])
        monkeypatch.setattr(c, "_reached", dict)  # the group gives the partition as it is polled
        monkeypatch.setattr(c, "end_offsets", late)
        with pytest.raises(errors.RequestTimedOut, match="no end"):
            c.to_arrow()
        assert c.position(T0) == 0


def test_a_read_that_is_cancelled_takes_nothing(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    entered, cancelled = threading.Event(), threading.Event()

    def deserialize(_topic: str, data: bytes | None) -> bytes | None:
        entered.set()
        assert cancelled.wait(10)
        return data

    async def read() -> int:
        async with AsyncConsumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            value_deserializer=deserialize,
        ) as consumer:
            task = asyncio.create_task(consumer.to_pandas())
            assert await asyncio.to_thread(entered.wait, 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            cancelled.set()
            return len(await consumer.to_pandas())

    assert asyncio.run(read()) == 5


def test_asyncio(cluster: FakeCluster) -> None:
    fill(cluster, 5)

    async def read() -> tuple[int, int, int]:
        servers = cluster.bootstrap_servers
        async with AsyncConsumer(
            "t", bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer:
            table = await consumer.to_arrow(2)
            frame = await consumer.to_pandas(2)
            rest = await consumer.to_polars()
            return table.num_rows, len(frame), len(rest)

    assert asyncio.run(read()) == (2, 2, 1)
