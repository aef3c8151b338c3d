"""The request log: a line for each request, when somebody asks for it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable
from typing import Any

import pytest

from pylog import errors
from pylog.rpc import streams
from pylog_broker.api import request_log
from pylog_broker.api.context import RequestContext
from pylog_broker.api.request_log import RequestTimes
from pylog_broker.metrics.counters import PARTS, RequestCounters
from tests.fakes.stream_world import World, fetch, produce, run

TIMES = "".join(rf" {name}=(\d+\.\d{{3}})ms" for name in ("queue", "local", "remote", "response"))
LINE = re.compile(
    r"(\w+) client\.id='(.*)' software='[^']*' listener=(\w+) connection=(\S+) "
    rf"principal=User:ANONYMOUS{TIMES} total=(\d+\.\d{{3}})ms(.*)"
)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    """API, client id, listener, connection and error; the times add up."""
    found = []
    for record in caplog.records:
        told = LINE.fullmatch(record.getMessage())
        assert told is not None, record.getMessage()
        *times, total = map(float, told.groups()[4:9])
        assert sum(times) == pytest.approx(total, abs=0.1)
        found.append((*told.groups()[:4], told[10]))
    caplog.clear()
    return found


def test_produce_and_fetch_are_told_when_they_are_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def test() -> None:
        with caplog.at_level(logging.DEBUG, "pylog.request"):
            world = World(streams.PRODUCE)
            world.feed(produce(1) + produce(2) + produce(3, acks=0))
            assert lines(caplog) == []
            world.ack(0)
            assert lines(caplog) == [("Produce", "me", "streams", "127.0.0.1:5", "")]
            world.refuse(1, errors.NotLeaderOrFollower("another leads"))
            world.ack(2)
            told = [("Produce", *line[4:]) for line in lines(caplog)]
            assert told == [("Produce", " error=NOT_LEADER_OR_FOLLOWER"), ("Produce", "")]
            readers = World(streams.FETCH)
            readers.manager.at_once = True
            readers.feed(fetch(1))
            assert lines(caplog) == [("Fetch", "me", "streams", "127.0.0.1:5", "")]
            assert readers.connection._came == {}

    run(test)


def test_nothing_is_told_or_kept_when_nobody_asks(caplog: pytest.LogCaptureFixture) -> None:
    def test() -> None:
        with caplog.at_level(logging.INFO, "pylog.request"):
            world = World(streams.PRODUCE)
            world.feed(produce(1))
            world.ack(0)
            assert caplog.records == []
            assert world.connection._came == {}

    run(test)


def test_a_unary_call_is_told_also_when_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    context = RequestContext("grpc", "10.0.0.1", "10.0.0.1:7", "ev\nil")

    async def gives() -> int:
        return 7

    async def fails() -> int:
        raise errors.InvalidRequest("too much")

    async def main() -> None:
        assert await request_log.told("ListOffsets", context, RequestTimes(), gives()) == 7
        with pytest.raises(errors.InvalidRequest):
            await request_log.told("ListOffsets", context, RequestTimes(), fails())

    with caplog.at_level(logging.DEBUG, "pylog.request"):
        asyncio.run(main())
    place = ("ListOffsets", r"ev\nil", "grpc", "10.0.0.1:7")
    assert lines(caplog) == [(*place, ""), (*place, " error=INVALID_REQUEST")]


def parts(counters: RequestCounters, api: str) -> dict[str, float]:
    """The parts of the time; those up to the answer add up to all of it."""
    spent = counters.seconds[api]
    assert spent.queue + spent.local + spent.remote == pytest.approx(spent.sum)
    return {part: getattr(spent, part) for part in PARTS}


def test_the_parts_of_produce_and_fetch_are_counted_without_the_log() -> None:
    def test() -> None:
        world = World(streams.PRODUCE)
        world.feed(produce(1) + produce(2))
        assert world.counters.seconds == {}
        world.ack(0)
        world.ack(1)
        assert sum(world.counters.seconds["Produce"].counts) == 2
        assert min(parts(world.counters, "Produce").values()) > 0
        readers = World(streams.FETCH)
        readers.feed(fetch(1, standing=64))
        token: Any = readers.manager.fetched[0][1]
        for _ in range(2):
            token.stands(())
            last = parts(readers.counters, "Fetch")
            assert min(last.values()) > 0
        token(())
        again = parts(readers.counters, "Fetch")
        assert sum(readers.counters.seconds["Fetch"].counts) == 3
        # the request came once, and was handed over once
        assert (again["queue"], again["local"]) == (last["queue"], last["local"])
        assert again["remote"] > last["remote"]

    run(test)


def test_a_call_is_local_until_it_waits() -> None:
    counters = RequestCounters()

    async def gives() -> int:
        return 7

    async def waits(steps: list[str]) -> int:
        try:
            await asyncio.sleep(0)
            steps.append("waited")
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            steps.append("cancelled")
            await asyncio.sleep(0)
        return 8

    async def make(api: str, work: Awaitable[int]) -> int:
        timed = RequestTimes()
        answer = await request_log.told(api, RequestContext("", "", ""), timed, work)
        timed.count(counters, api)
        return answer

    async def main() -> None:
        assert await make("Metadata", gives()) == 7
        steps: list[str] = []
        call = asyncio.ensure_future(make("JoinGroup", waits(steps)))
        while not steps:
            await asyncio.sleep(0)
        call.cancel()
        assert await call == 8
        assert steps == ["waited", "cancelled"]

    asyncio.run(main())
    assert parts(counters, "Metadata")["remote"] == 0
    waited = parts(counters, "JoinGroup")
    assert waited["remote"] > 0
    assert waited["local"] > 0
