"""The request log: a line for each request, when somebody asks for it."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from pylog import errors
from pylog.rpc import streams
from pylog_broker.api import request_log
from pylog_broker.api.context import RequestContext
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
        assert await request_log.told("ListOffsets", context, gives()) == 7
        with pytest.raises(errors.InvalidRequest):
            await request_log.told("ListOffsets", context, fails())

    with caplog.at_level(logging.DEBUG, "pylog.request"):
        asyncio.run(main())
    place = ("ListOffsets", r"ev\nil", "grpc", "10.0.0.1:7")
    assert lines(caplog) == [(*place, ""), (*place, " error=INVALID_REQUEST")]
