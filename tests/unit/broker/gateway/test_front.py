"""The gateway's front: HTTP/2 goes through, strangers leave one line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from pylog.model import BrokerId
from pylog_broker.gateway.front import LISTENER, PREFACE, Front, stranger
from pylog_broker.gateway.tunnels import ESTABLISHED
from pylog_broker.metadata.records import Endpoint
from pylog_broker.net.quotas import Refusal
from pylog_broker.net.strangers import REPORT_INTERVAL_MS

KAFKA = b"\0\0\0\x23\0\x12\0\x03\0\0\0\x01\0\x07rdkafka" + bytes(20)


class SteppedClock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (PREFACE, None),
        (PREFACE[:5], None),
        (PREFACE + b"more", None),
        (KAFKA[:4], None),
        (KAFKA, "a Kafka client"),
        (b"GET / HTTP/1.1", "a plain HTTP client"),
        (b"CONNECT broker-1:0 HTTP/1.1", None),
        (b"CONNECTED", "a plain HTTP client"),
        (b"\x16\x03\x01\x02\0\x01", "a TLS client"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", "an unknown client"),
    ],
)
def test_first_bytes_tell_who_knocks(first: bytes, says: str | None) -> None:
    what = stranger(first)
    assert (what is None) if says is None else (what is not None and what.startswith(says))


def run(test: Callable[[Front, list[str], SteppedClock], Coroutine[Any, Any, None]]) -> None:
    echoes: list[asyncio.Task[None] | None] = []  # of the running loop

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        echoes.append(asyncio.current_task())
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        echoes.clear()
        lines: list[str] = []
        clock = SteppedClock()
        path = f"\0pylog-test-front-{os.getpid()}"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        inner = await asyncio.start_unix_server(echo, sock=listener)
        broker = await asyncio.start_server(echo, "127.0.0.1", 0)
        there = Endpoint("127.0.0.1", broker.sockets[0].getsockname()[1])
        nobody = socket.socket()  # holds a port, and does not listen
        nobody.bind(("127.0.0.1", 0))
        gone = Endpoint("127.0.0.1", nobody.getsockname()[1])
        brokers = {BrokerId(1): [gone, there], BrokerId(2): [gone]}
        front = Front(path, clock, lines.append, lambda broker: brokers.get(broker, []))
        await front.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(10):
                await test(front, lines, clock)
        finally:
            await front.close()
            inner.close()
            broker.close()
            nobody.close()
            await asyncio.gather(*(task for task in echoes if task))

    # The head runs on uvloop, whose transports differ in small ways.
    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())


def test_http2_goes_through_both_ways() -> None:
    async def test(front: Front, lines: list[str], clock: SteppedClock) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        sent = PREFACE + bytes(range(256)) * 4000
        writer.write(sent[:10])
        await writer.drain()
        writer.write(sent[10:])
        assert await reader.readexactly(len(sent)) == sent
        writer.close()
        assert lines == []

    run(test)


def test_a_kafka_client_leaves_one_line_and_is_closed() -> None:
    async def test(front: Front, lines: list[str], clock: SteppedClock) -> None:
        for knock in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
            writer.write(KAFKA)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
            if knock == 2:
                clock.now_ms += REPORT_INTERVAL_MS
        assert len(lines) == 2
        assert f"a Kafka client seems to have connected to the gRPC port {front.port}" in lines[0]
        assert "Kafka's protocol is not served yet" in lines[0]
        assert "(2 more since the last line)" in lines[1]

    run(test)


def test_connect_joins_a_client_to_its_broker() -> None:
    async def test(front: Front, lines: list[str], clock: SteppedClock) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(b"CONNECT broker-1:0 HTTP/1.1\r\nHost: broker-1:0\r\n\r\n" + b"early")
        assert await reader.readexactly(len(ESTABLISHED) + 5) == ESTABLISHED + b"early"
        assert front.tunnels == 1
        sent = bytes(range(256)) * 8_000
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        assert (front.tunnel_bytes_in, front.tunnel_bytes_out) == (len(sent), len(sent) + 5)
        writer.close()
        while front.tunnels:
            await asyncio.sleep(0)
        assert lines == []

    run(test)


def test_what_cannot_be_reached_is_refused_with_the_reason() -> None:
    async def test(front: Front, lines: list[str], clock: SteppedClock) -> None:
        async def refused(target: str, words: bytes) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
            writer.write(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
            writer.write(PREFACE)  # as gRPC goes on, which must not take the answer away
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while data := await reader.read(65536):
                    answer += data
            assert words in answer, target
            writer.close()

        await asyncio.gather(
            refused("broker-2:0", b"the gateway cannot reach broker 2 at 127.0.0.1:"),
            refused("broker-2:0", b"connection refused"),
            refused("broker-7:0", b"the gateway knows of no broker 7"),
            refused("example.com:443", b"HTTP/1.1 403 "),
        )
        assert front.tunnels == 0
        assert "something other than a broker" in lines[0]

    run(test)


def test_an_endless_request_head_is_cut_off() -> None:
    async def test(front: Front, lines: list[str], clock: SteppedClock) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(b"CONNECT broker-1:0 HTTP/1.1\r\n" + b"x: y\r\n" * 10_000)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()

    run(test)


def test_a_broker_that_does_not_read_holds_its_client_back() -> None:
    """However much the client has to say, the gateway holds a bounded part of it."""

    async def test(front: Front, lines: list[str], clock: SteppedClock) -> None:
        silent = socket.create_server(("127.0.0.1", 0))
        front.locate = lambda broker: [Endpoint("127.0.0.1", silent.getsockname()[1])]
        reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
        writer.write(b"CONNECT broker-1:0 HTTP/1.1\r\n\r\n")
        await reader.readexactly(len(ESTABLISHED))
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 256 << 20:
                writer.write(bytes(1 << 20))
                sent += 1 << 20
                async with asyncio.timeout(0.15):
                    await writer.drain()
        assert sent < 64 << 20, "nobody read, and it went on"
        assert front.tunnel_bytes_in < 32 << 20
        writer.transport.abort()
        silent.close()

    run(test)


def test_who_says_nothing_gives_way_and_who_has_spoken_stays() -> None:
    async def test(front: Front, lines: list[str], clock: SteppedClock) -> None:
        front.quotas.add_listener(LISTENER, 2)
        silent = [await asyncio.open_connection("127.0.0.1", front.port) for _ in range(2)]
        spoken = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
            writer.write(PREFACE)
            assert await reader.readexactly(len(PREFACE)) == PREFACE
            spoken.append((reader, writer))
        for reader, _ in silent:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        late, late_writer = await asyncio.open_connection("127.0.0.1", front.port)
        with contextlib.suppress(ConnectionResetError):
            assert await late.read() == b""
        assert front.quotas.refused == {
            (LISTENER, Refusal.UNPROVEN): 2,
            (LISTENER, Refusal.LISTENER): 1,
        }
        assert "gateway: unproven (1)" in lines[0]
        for _, writer in (*silent, *spoken, (late, late_writer)):
            writer.close()

    run(test)
