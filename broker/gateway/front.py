"""The gateway's public socket: a look at the first bytes, then straight through, to gRPC here or to
a broker.

gRPC closes a connection that does not speak HTTP/2 without telling anyone, and shows nobody the
bytes. The gateway's address is what a Kafka client would be pointed at by mistake, and its own
traffic is small (metadata, administration, brokers' sessions), so here an extra hop over a local
socket is worth one clear line in the log. Brokers' own ports have no such hop (`knocks`).

A connection that begins with HTTP CONNECT is joined to the broker that it names (`tunnels`). Bytes
are read from one side no faster than the other side takes them, so a connection holds at most a few
hundred KiB here.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from pylog.clock import Clock
from pylog.model import BrokerId
from pylog_broker.gateway.tunnels import (
    CONNECT,
    ESTABLISHED,
    HEAD_BYTES_MAX,
    HEAD_END,
    broker_asked_for,
    not_a_broker,
    unreachable,
)
from pylog_broker.metadata.records import Endpoint
from pylog_broker.net.acceptor import Acceptor, Gate, Place
from pylog_broker.net.quotas import ConnectionQuotas, Refusal
from pylog_broker.net.shares import CONNECTIONS_MAX
from pylog_broker.net.strangers import StrangerReports

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FIRST_BYTES_SECONDS_MAX: Final = 10.0
LISTENER: Final = "gateway"
BROKER_SECONDS_MAX: Final = 3.0
"""The time that a broker may take to accept a connection."""
LAST_WORD_SECONDS: Final = 0.2
"""From the answer of a refusal to the close: unread bytes at a close take the answer with them."""

Locate = Callable[[BrokerId], Sequence[Endpoint]]
"""The addresses of a broker, best first; none when the cluster has no such broker."""


def stranger(first: bytes) -> str | None:
    """The kind of peer that begins with `first`; None while it may be HTTP/2."""
    if PREFACE.startswith(first[: len(PREFACE)]) or CONNECT.startswith(first[: len(CONNECT)]):
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

    def __init__(
        self,
        inner_path: str,
        clock: Clock,
        report: Callable[[str], None],
        locate: Locate = lambda broker: (),
        *,
        gate: Gate | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        """`inner_path`: the Unix socket of the gRPC server, abstract when it begins with NUL.
        `gate`: of all listeners of the process.
        """
        self.inner_path = inner_path
        self.locate = locate
        self.connections: set[_Outer] = set()
        self.silent: dict[_Outer, None] = {}
        """Those that have not said what they are, the oldest first."""
        self.tunnels = 0
        """Connections that are joined to a broker, at the moment."""
        self.tunnel_bytes_in = 0
        self.tunnel_bytes_out = 0
        self._reports = StrangerReports(clock, report)
        self._gate = gate or Gate(clock, report)
        self._connections_max = connections_max
        self._acceptor: Acceptor | None = None
        self.port = 0

    @property
    def quotas(self) -> ConnectionQuotas:
        """The counter of its connections."""
        return self._gate.quotas

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port. OSError when the address cannot be bound."""
        self._acceptor = Acceptor(
            self._gate,
            LISTENER,
            self._connections_max,
            lambda place: _Outer(self, place),
            make_room=self._make_room,
        )
        self.port = await self._acceptor.start(host, port)
        return self.port

    def _make_room(self) -> bool:
        for connection in self.silent:
            connection.give_way()
            return True
        return False

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        for connection in list(self.connections):
            connection.abort()
        if self._acceptor is not None:
            await self._acceptor.close()

    def report(self, peer: str, what: str) -> None:
        """Tell of a stranger, at most once per interval."""
        hint = "; use pylog's client: Kafka's protocol is not served yet" if "Kafka" in what else ""
        self._reports.tell(f"{what} {self.port} from {peer}{hint}")


class _Outer(asyncio.Protocol):
    """The client's side of one connection."""

    def __init__(self, front: Front, place: Place) -> None:
        self.front = front
        self._place = place
        self.to_broker = False
        self._first = bytearray()
        self._backlog: deque[bytes] | None = deque()
        self._inner: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._refused = False
        self._peer = "?"
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        name = transport.get_extra_info("peername")
        self._peer = f"{name[0]}:{name[1]}" if name else "?"
        self.front.connections.add(self)
        self.front.silent[self] = None
        self._after(FIRST_BYTES_SECONDS_MAX, self._on_deadline)

    def give_way(self) -> None:
        """End a connection that has not said what it is: others want its place."""
        self.front.silent.pop(self, None)
        self._place.leave(Refusal.UNPROVEN)
        self.abort()

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        """One timer a connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _on_deadline(self) -> None:
        if self._connecting is None:
            if self._first:
                self.front.report(self._peer, stranger(bytes(self._first) + bytes(8)) or "someone")
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            if self.to_broker:
                self.front.tunnel_bytes_in += len(data)
            self._inner.write(data)
            return
        if self._refused:
            return
        assert self._backlog is not None
        if self._connecting is not None:
            # A client that sends more before the other end is there does not wait its turn.
            self._backlog.append(data)
            if self.transport is not None:
                self.transport.pause_reading()
            return
        self._first += data
        self._look()

    def _look(self) -> None:
        """Decide by the first bytes."""
        first, backlog = bytes(self._first), self._backlog
        assert backlog is not None
        what = stranger(first)
        if what is not None:
            self.front.report(self._peer, what)
            self.abort()
        elif first.startswith(CONNECT):
            head, end, rest = first.partition(HEAD_END)
            if end:
                self.front.silent.pop(self, None)
                self._first.clear()
                if rest:
                    backlog.append(rest)
                self._tunnel(head)
            elif len(first) > HEAD_BYTES_MAX:
                self.abort()
        elif len(first) >= len(PREFACE):
            self.front.silent.pop(self, None)
            self._first.clear()
            backlog.append(first)
            self._connecting = asyncio.ensure_future(self._connect())

    # ---- to gRPC in this process -----------------------------------------------------------------

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        # Connected by hand: uvloop's own way cuts an abstract name at its leading NUL.
        inner: socket.socket | None = None
        try:
            inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            inner.setblocking(False)
            await loop.sock_connect(inner, self.front.inner_path)
            transport, _ = await loop.create_unix_connection(lambda: _Inner(self), sock=inner)
        except OSError:
            if inner is not None:
                inner.close()
            self.abort()
            return
        self._join(transport)

    def _join(self, transport: asyncio.Transport) -> None:
        if self.transport is None or self.transport.is_closing():
            transport.abort()
            return
        backlog, self._backlog = self._backlog or deque(), None
        self._inner = transport
        transport.writelines(backlog)
        self.transport.resume_reading()

    # ---- to a broker -----------------------------------------------------------------------------

    def _tunnel(self, head: bytes) -> None:
        broker = broker_asked_for(head)
        if broker is None:
            self.front.report(self._peer, "an HTTP client asked for something other than a broker")
            self._refuse(not_a_broker(head))
        else:
            self._connecting = asyncio.ensure_future(self._connect_to(broker))

    async def _connect_to(self, broker: BrokerId) -> None:
        endpoints = self.front.locate(broker)
        if not endpoints:
            self._refuse(unreachable(f"the gateway knows of no broker {broker}"))
            return
        faults = []
        for endpoint in endpoints:
            fault = await self._try(endpoint)
            if fault is None:
                return
            faults.append(f"at {endpoint}, {fault}")
        said = "; ".join(faults)
        self._refuse(unreachable(f"the gateway cannot reach broker {broker} {said}"))

    async def _try(self, endpoint: Endpoint) -> str | None:
        """Join the client to this address; why not, when it cannot be done."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(BROKER_SECONDS_MAX):
                transport, _ = await loop.create_connection(
                    lambda: _Inner(self), endpoint.host, endpoint.port
                )
        except TimeoutError:
            return f"no answer within {BROKER_SECONDS_MAX:g} s"
        except OSError as error:
            return os.strerror(error.errno).lower() if error.errno else str(error)
        if self.transport is not None:
            self.to_broker = True
            self.front.tunnels += 1
            self.transport.write(ESTABLISHED)
        self._join(transport)
        return None

    def _refuse(self, answer: bytes) -> None:
        """Say why not, and close a little later."""
        if self.transport is None:
            return
        self._refused = True
        self._backlog = None
        self.transport.resume_reading()
        self.transport.write(answer)
        self._after(LAST_WORD_SECONDS, self.abort)

    # ---- both ------------------------------------------------------------------------------------

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
        self._place.leave()
        self.front.connections.discard(self)
        self.front.silent.pop(self, None)
        if self.to_broker:
            self.front.tunnels -= 1
        if self._timer is not None:
            self._timer.cancel()
        if self._inner is not None:
            self._inner.close()

    def abort(self) -> None:
        """Drop the connection at once."""
        if self.transport is not None:
            self.transport.abort()


class _Inner(asyncio.Protocol):
    """The other side of one connection: gRPC here, or a broker."""

    def __init__(self, outer: _Outer) -> None:
        self._outer = outer

    def data_received(self, data: bytes) -> None:
        outer = self._outer
        if outer.transport is not None:
            if outer.to_broker:
                outer.front.tunnel_bytes_out += len(data)
            outer.transport.write(data)

    def pause_writing(self) -> None:
        if self._outer.transport is not None:
            self._outer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._outer.transport is not None:
            self._outer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._outer.transport is not None:
            self._outer.transport.close()
