"""A broker's framed port for calls that does what a test says, on the test's own loop.

It greets (or refuses, or says nothing) and keeps what was called; the test answers, in whatever
order and with whatever bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from pylog import errors
from pylog.client.cluster.framed_ports import StreamWay
from pylog.client.cluster.metadata import Address
from pylog.rpc import calls, streams
from pylog.rpc.v1 import stream_pb2

BROKER = 3


class Peer:
    """One connection, from the broker's side."""

    def __init__(self, writer: asyncio.StreamWriter, said: stream_pb2.StreamHello) -> None:
        self.said = said
        self.calls: list[calls.Call] = []
        self.is_gone = False
        self._writer = writer

    def send(self, *frames: bytes | list[bytes | bytearray | memoryview]) -> None:
        for frame in frames:
            self._writer.write(frame if isinstance(frame, bytes) else b"".join(frame))

    def answer(self, number: int, response: bytes) -> None:
        self.send(calls.answer_frame(number, [response]))

    def fail(self, number: int, error: errors.PylogError) -> None:
        self.send(calls.failure_frame(number, error))

    def echo(self, *numbers: int) -> None:
        """Answer these calls with what they asked."""
        for call in list(self.calls):
            if call.number in numbers:
                self.answer(call.number, bytes(call.request))

    def hang_up(self) -> None:
        self._writer.transport.abort()


class FakeCallPort:
    """`greeting` is what it says to a hello: by default a welcome; b"" for nothing."""

    def __init__(self, *, calls_max: int = 100, frame_bytes_max: int = 1 << 20) -> None:
        self.greeting = streams.welcome(BROKER, 17, frame_bytes_max, calls_max=calls_max)
        self.hangs_up = False
        """Instead of greeting."""
        self.on_call: Callable[[Peer, calls.Call], None] | None = None
        self.peers: list[Peer] = []
        self.changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> FakeCallPort:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for peer in self.peers:
            peer.hang_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return when it holds, after something has happened here."""
        async with self.changed:
            await self.changed.wait_for(holds)

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = None
        try:
            peer = Peer(writer, streams.read_hello(await _frame(reader)))
            self.peers.append(peer)
            await self._tell()
            if self.hangs_up:
                return
            peer.send(self.greeting)
            while True:
                call = calls.read_call(await _frame(reader))
                peer.calls.append(call)
                if self.on_call is not None:
                    self.on_call(peer, call)
                await self._tell()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            if peer is not None:
                peer.is_gone = True
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            await self._tell()


async def _frame(reader: asyncio.StreamReader) -> memoryview:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return memoryview(await reader.readexactly(size))


class FakePorts:
    """The port as a client knows it; `told` lists the reports of the calls."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.epoch = 17
        self.is_let_be = False
        self.rest_s = 0.0
        self.told: list[str] = []

    def stream_way(self, broker: int, kind: stream_pb2.StreamKind) -> StreamWay | None:
        if self.is_let_be:
            return None
        hello = streams.hello(kind, "c", broker, "me")
        return StreamWay(broker, self.epoch, Address("127.0.0.1", self.port), hello)

    def stream_rest_s(self, _way: StreamWay) -> float:
        rest_s, self.rest_s = self.rest_s, 0.0
        return rest_s

    def stream_opened(self, _way: StreamWay) -> None:
        self.told.append("opened")

    def stream_broke(self, _way: StreamWay) -> None:
        self.told.append("broke")

    def stream_refused(self, _way: StreamWay, reason: str) -> None:
        self.told.append(f"refused: {reason}")
