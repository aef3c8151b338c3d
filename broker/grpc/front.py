"""The gateway's public socket: a look at the first bytes, then straight through to gRPC.

gRPC closes a connection that does not speak HTTP/2 without telling anyone, and shows nobody the
bytes. The gateway's address is what a Kafka client would be pointed at by mistake, and its traffic
is small (metadata, administration, brokers' sessions), so here an extra hop over a local socket is
worth one clear line in the log. Brokers' own ports carry the data and have no such hop (`knocks`).
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from broker.grpc.strangers import StrangerReports
from pylog.clock import Clock

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FIRST_BYTES_SECONDS_MAX: Final = 10.0
CONNECTIONS_MAX: Final = 10_000


def stranger(first: bytes) -> str | None:
    """What a peer is that begins with `first`; None while it may be HTTP/2."""
    if PREFACE.startswith(first[: len(PREFACE)]):
        return None
    if first[:2] == b"\x16\x03":
        return "a TLS client seems to have connected to the plaintext gRPC port"
    if first[:1].isalpha():
        return "a plain HTTP client seems to have connected to the gRPC port"
    if len(first) >= 8:
        size = int.from_bytes(first[:4], "big", signed=True)
        key, version = int.from_bytes(first[4:6], "big"), int.from_bytes(first[6:8], "big")
        if 8 <= size <= 1 << 20 and key <= 100 and version <= 30:
            return "a Kafka client seems to have connected to the gRPC port"
    elif first[0] == 0:
        return None  # perhaps a Kafka frame: four more bytes tell
    return "an unknown client seems to have connected to the gRPC port"


class Front:
    """Accepts, looks, connects through. Lives on the head's loop."""

    def __init__(self, inner_path: str, clock: Clock, report: Callable[[str], None]) -> None:
        """`inner_path`: the Unix socket of the gRPC server, abstract when it begins with NUL."""
        self.inner_path = inner_path
        self.connections: set[_Outer] = set()
        self._reports = StrangerReports(clock, report)
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port. OSError when the address cannot be bound."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Outer(self), host, port)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self.connections):
            connection.abort()
        await self._server.wait_closed()

    def report(self, peer: str, what: str) -> None:
        """Tell of a stranger, at most once per interval."""
        hint = "; set spark.pylog.kafka.listen" if "Kafka" in what else ""
        self._reports.tell(f"{what} {self.port} from {peer}{hint}")


class _Outer(asyncio.Protocol):
    """The client's side of one connection."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._first = bytearray()
        self._backlog: deque[bytes] | None = deque()
        self._inner: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._peer = "?"
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if name else "?"
        if len(self._front.connections) >= CONNECTIONS_MAX:
            self.abort()
            return
        self._front.connections.add(self)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(FIRST_BYTES_SECONDS_MAX, self._on_deadline)

    def _on_deadline(self) -> None:
        if self._connecting is None:
            if self._first:
                self._front.report(self._peer, stranger(bytes(self._first) + bytes(8)) or "someone")
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.write(data)
            return
        assert self._backlog is not None
        self._backlog.append(data)
        if self._connecting is not None:
            return
        self._first += data[: len(PREFACE)]
        what = stranger(bytes(self._first))
        if what is not None:
            self._front.report(self._peer, what)
            self.abort()
        elif len(self._first) >= len(PREFACE):
            self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        # Connected by hand: uvloop's own way cuts an abstract name at its leading NUL.
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        inner.setblocking(False)
        try:
            await loop.sock_connect(inner, self._front.inner_path)
            transport, _ = await loop.create_unix_connection(lambda: _Inner(self), sock=inner)
        except OSError:
            inner.close()
            self.abort()
            return
        if self.transport is None or self.transport.is_closing():
            transport.abort()
            return
        backlog, self._backlog = self._backlog or deque(), None
        self._inner = transport
        transport.writelines(backlog)

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_reading()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._front.connections.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._inner is not None:
            self._inner.close()

    def abort(self) -> None:
        """Drop the connection at once."""
        if self.transport is not None:
            self.transport.abort()


class _Inner(asyncio.Protocol):
    """gRPC's side of one connection."""

    def __init__(self, outer: _Outer) -> None:
        self._outer = outer

    def data_received(self, data: bytes) -> None:
        if self._outer.transport is not None:
            self._outer.transport.write(data)

    def pause_writing(self) -> None:
        if self._outer.transport is not None:
            self._outer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._outer.transport is not None:
            self._outer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._outer.transport is not None:
            self._outer.transport.close()
