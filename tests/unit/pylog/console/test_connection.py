"""Connections of browsers that take their time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from pylog.console import connection
from pylog.console.connection import BrowserConnection

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(_scope: Any, receive: Any, send: Any) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    length = b"%d" % len(body)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-length", length)]})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected() -> AsyncIterator[Streams]:
    config, state = uvicorn.Config(app, log_config=None, lifespan="off"), ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: BrowserConnection(config, state, {}), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            yield reader, writer
        finally:
            writer.close()


def run(test: Callable[[Streams], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20), connected() as streams:
            await test(streams)

    asyncio.run(whole())


async def is_ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "begin", [b"", b"GET / HT", POST, POST + b"abc"], ids=["nothing", "head", "form", "most"]
)
def test_a_request_that_does_not_come_ends_the_connection(
    begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.05)

    async def test(streams: Streams) -> None:
        reader, writer = streams
        writer.write(begin)
        assert await is_ended(reader)

    run(test)


def test_a_second_request_that_does_not_come_ends_the_connection_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(streams: Streams) -> None:
        reader, writer = streams
        writer.write(GET)
        assert b"x-length: 0" in await reader.readuntil(b"\r\n\r\n0\r\n\r\n")
        monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.05)
        writer.write(GET[:10])
        assert await is_ended(reader)

    run(test)


def test_requests_that_have_come_have_all_the_time_for_their_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[BrowserConnection] = []
    begin = BrowserConnection._begin

    def counting(self: BrowserConnection) -> None:
        begun.append(self)
        begin(self)

    monkeypatch.setattr(BrowserConnection, "_begin", counting)

    async def test(streams: Streams) -> None:
        reader, writer = streams
        writer.write(POST)
        writer.write(b"abcd")
        assert b"x-length: 4" in await reader.readuntil(b"\r\n\r\n0\r\n\r\n")
        writer.write(GET + GET)  # the second one lies there when the first one ends
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n0\r\n\r\n")
        assert begun[0]._due is None
        assert len(begun) == 2

    run(test)
