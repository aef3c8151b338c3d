"""Strangers on a gRPC port leave one line, told by the kernel; gRPC clients leave none."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import grpc.aio
import pytest
import uvloop
from grpc_health.v1 import health_pb2, health_pb2_grpc

from pylog_broker.grpc.knocks import Ended, Knocks, parse_destroyed
from pylog_broker.grpc.server import GrpcServer
from pylog_broker.net.strangers import REPORT_INTERVAL_MS, StrangerReports

KAFKA = b"\0\0\0\x1e\0\x12\0\x03\0\0\0\x01\0\x07rdkafka" + bytes(13)
TLS = b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(194)
SETTINGS = bytes.fromhex("000000040000000000")  # HTTP/2's frame: length, type, flags, stream
ACK = 1
HTTP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class SteppedClock:
    """Moves a report's interval with every look, unless it stands."""

    def __init__(self, step_ms: int = REPORT_INTERVAL_MS) -> None:
        self.now_ms = 1_000
        self.step_ms = step_ms

    def monotonic_ms(self) -> int:
        self.now_ms += self.step_ms
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


def news(
    *, family: int = socket.AF_INET, port: int = 9_000, peer: bytes = bytes([10, 0, 0, 7]),
    acked: int = 53, received: int = 35, kind: int = 2,
) -> bytes:  # fmt: skip
    info = bytes(120) + struct.pack("=QQ", acked, received) + bytes(96)
    attributes = struct.pack("=HH", 5, 8) + b"\x03" + bytes(3)  # another one, padded
    attributes += struct.pack("=HH", 4 + len(info), kind) + info
    body = struct.pack("=BBBB", family, 7, 0, 0) + struct.pack(">HH", port, 40_000)
    body += bytes(16) + peer.ljust(16, b"\0") + bytes(12) + bytes(20)
    head = struct.pack("=IHHII", 16 + len(body) + len(attributes), 20, 0, 0, 0)
    return head + body + attributes


def test_a_message_of_the_kernel() -> None:
    assert parse_destroyed(news()) == Ended(9_000, "10.0.0.7", 40_000, 53, 35)
    mapped = bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 7])
    found = parse_destroyed(news(family=socket.AF_INET6, peer=mapped))
    assert found is not None
    assert found.peer == "10.0.0.7"
    found = parse_destroyed(news(family=socket.AF_INET6, peer=bytes(15) + b"\x01"))
    assert found is not None
    assert found.peer == "[::1]"


@pytest.mark.parametrize("length", [0, 15, 16, 87, 88, 91, 96, 150, 230])
def test_a_cut_message_says_nothing(length: int) -> None:
    assert parse_destroyed(news()[:length]) is None


def test_other_attributes_say_nothing() -> None:
    assert parse_destroyed(news(kind=3)) is None
    endless = bytearray(news())
    endless[88:92] = bytes(4)
    assert parse_destroyed(bytes(endless)) is None


def test_one_line_in_a_while() -> None:
    lines: list[str] = []
    clock = SteppedClock(step_ms=0)
    reports = StrangerReports(clock, lines.append)
    for number in range(4):
        reports.tell(f"line {number}")
    clock.now_ms += REPORT_INTERVAL_MS
    reports.tell("line 4")
    assert lines == ["line 0", "line 4 (3 more since the last line)"]


class Lines:
    """The lines that were reported, and a way to wait for the next one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._news = asyncio.Event()

    def add(self, line: str) -> None:
        self.lines.append(line)
        self._news.set()

    async def next(self) -> str:
        while not self.lines:
            self._news.clear()
            await self._news.wait()
        return self.lines.pop(0)


def run(test: Callable[[int, Lines], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        server = GrpcServer(1 << 20)
        port = await server.start("127.0.0.1:0")
        lines = Lines()
        knocks = Knocks(SteppedClock(), lines.add)
        try:
            if not await knocks.start("127.0.0.1", port):
                pytest.skip("this kernel does not tell of ended connections")
            async with asyncio.timeout(60):
                await test(port, lines)
        finally:
            knocks.close()
            await server.stop(0)

    uvloop.run(main())


async def knock(port: int, first: bytes, *, patient: bool) -> int:
    """Send, and hang up at once or after the server; gives the own port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    own: int = writer.get_extra_info("sockname")[1]
    writer.write(first)
    await (reader.read(-1) if patient else reader.readexactly(5))
    writer.close()
    return own


async def greet(port: int) -> None:
    """Greet as a gRPC client without any call does. Not by one of gRPC's: it could leave before the
    server has acknowledged its settings, which makes it a stranger.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS)
    kind, flags = -1, 0
    while kind != SETTINGS[3] or not flags & ACK:
        head = await reader.readexactly(len(SETTINGS))
        kind, flags = head[3], head[4]
        await reader.readexactly(int.from_bytes(head[:3]))
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("patient", [True, False])
@pytest.mark.parametrize("first", [KAFKA, TLS, HTTP], ids=["kafka", "tls", "http"])
def test_a_stranger_leaves_one_clear_line(first: bytes, patient: bool) -> None:
    async def test(port: int, lines: Lines) -> None:
        own = await knock(port, first, patient=patient)
        assert await lines.next() == (
            "a client that does not speak gRPC seems to have connected to the gRPC port "
            f"{port} from 127.0.0.1:{own} (it sent {len(first)} bytes); use pylog's "
            "client: Kafka's protocol is not served yet, and this port has no TLS"
        )

    run(test)


def test_clients_of_grpc_and_those_who_say_nothing_leave_no_line() -> None:
    async def test(port: int, lines: Lines) -> None:
        await greet(port)
        for calls in (1, 2):
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                await channel.channel_ready()
                for _ in range(calls):
                    stub: Any = health_pb2_grpc.HealthStub(channel)
                    await stub.Check(health_pb2.HealthCheckRequest())
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()
        own = await knock(port, KAFKA, patient=True)
        assert f"from 127.0.0.1:{own} " in await lines.next()
        assert lines.lines == []

    run(test)


def test_where_the_kernel_does_not_tell_nothing_is_reported() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        knocks = Knocks(SteppedClock(), print)
        assert not await knocks.start("127.0.0.1", port)
        knocks.close()

    asyncio.run(main())
