"""Clients that come to a broker's gRPC port without HTTP/2: told by the kernel, afterwards.

gRPC hangs up on such a client without a word. These ways to get one were tried, with grpcio 1.85:

- its own log says nothing at any `GRPC_VERBOSITY`. Of all its tracers only `GRPC_TRACE=http` prints
  the mismatch, among several lines for every write of every connection;
- interceptors see calls, and there is none. Python cannot give gRPC a socket that it has accepted
  and looked at; `grpc_server_add_channel_from_fd` and C++'s acceptors are not exported;
- a `Front` on this port, as the gateway has: every byte passes Python twice more. Medians of the
  ratios of interleaved runs: 12 to 45 % less throughput with messages of 1 MiB, and up to 27 % more
  time for a round trip. The gateway can afford that, the data path cannot.

So nothing stands in the way of the data, and the kernel is asked instead: a netlink socket
(`sock_diag`, group "TCP destroyed") hears of each connection of this port that is over, with the
bytes that went each way. It needs no privilege and costs a connection nothing while it lives. A
client that speaks HTTP/2 always gets more than the server's opening, at least the 9 bytes that
acknowledge its settings; one that sent something and got no more than the opening does not.
Its bytes are gone by then, so the line cannot say what it is.

Where the kernel does not tell (no Linux, a sandbox), nothing is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import ipaddress
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from pylog.clock import Clock
from pylog_broker.net.strangers import StrangerReports

_log = logging.getLogger("pylog.grpc")

_NETLINK_SOCK_DIAG: Final = 4
_TCP4_DESTROYED: Final = 1 << 0
_TCP6_DESTROYED: Final = 1 << 2
_SO_ATTACH_FILTER: Final = 26

# struct nlmsghdr, then struct inet_diag_msg (the fields up to the peer's address), then attributes
#   0 length u32, 4 type u16, 6 flags u16, 8 sequence u32, 12 port id u32
#  16 family u8, 17 state u8, 18 timer u8, 19 retransmits u8
#  20 own port u16, 22 peer's port u16 (both big endian), 24 own address, 40 peer's address
#  88 attributes: length u16, type u16, content, padded to 4
_LENGTH: Final = Struct("=I")
_PORTS: Final = Struct(">HH")
_ATTRIBUTE: Final = Struct("=HH")
_PORTS_AT: Final = 20
_PEER_AT: Final = 40
_ATTRIBUTES_AT: Final = 88
_TCP_INFO: Final = 2
_ACKED_RECEIVED: Final = Struct("=QQ")
_ACKED_AT: Final = 120  # of struct tcp_info: tcpi_bytes_acked, tcpi_bytes_received

SETTINGS_ACK_BYTES: Final = 9
_FIN: Final = 1  # counts as a byte, either way
_OPENING_SECONDS_MAX: Final = 2.0
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True, slots=True)
class Ended:
    """A connection that is over: bytes that the peer confirmed, and bytes that it sent."""

    port: int
    peer: str
    peer_port: int
    acked: int
    received: int


def parse_destroyed(message: bytes) -> Ended | None:
    """The news of one netlink message; None when it is something else."""
    if len(message) < _ATTRIBUTES_AT:
        return None
    (length,) = _LENGTH.unpack_from(message, 0)
    port, peer_port = _PORTS.unpack_from(message, _PORTS_AT)
    at, end = _ATTRIBUTES_AT, min(length, len(message))
    while at + _ATTRIBUTE.size <= end:
        size, kind = _ATTRIBUTE.unpack_from(message, at)
        if size < _ATTRIBUTE.size:
            return None
        content = at + _ATTRIBUTE.size
        if kind == _TCP_INFO and content + _ACKED_AT + _ACKED_RECEIVED.size <= end:
            acked, received = _ACKED_RECEIVED.unpack_from(message, content + _ACKED_AT)
            return Ended(port, _address(message), peer_port, acked, received)
        at += (size + 3) & ~3
    return None


def _address(message: bytes) -> str:
    if message[16] == socket.AF_INET:
        return str(ipaddress.IPv4Address(message[_PEER_AT : _PEER_AT + 4]))
    address = ipaddress.IPv6Address(message[_PEER_AT : _PEER_AT + 16])
    return str(address.ipv4_mapped or f"[{address}]")


class Knocks:
    """Reports strangers on one port. Lives on the broker's loop."""

    def __init__(self, clock: Clock, report: Callable[[str], None]) -> None:
        self._reports = StrangerReports(clock, report)
        self._socket: socket.socket | None = None
        self._port = 0
        self._opening = 0
        self._own_port = 0

    async def start(self, host: str, port: int) -> bool:
        """Begin, with a server that listens already; False when the kernel does not tell."""
        self._port = port
        try:
            self._opening = await self._measure_opening(host, port)
            self._socket = _listen(port)
        except (OSError, AttributeError, TimeoutError) as error:
            _log.debug("strangers on port %d will not be reported: %s", port, error)
            return False
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._on_news)
        return True

    def close(self) -> None:
        """Listen no more."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    async def _measure_opening(self, host: str, port: int) -> int:
        """So many bytes gRPC sends before it looks at its peer: measured as its first stranger."""
        host = _LOOPBACK.get(host, host)
        async with asyncio.timeout(_OPENING_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                self._own_port = int(writer.get_extra_info("sockname")[1])
                writer.write(bytes(64))
                return len(await reader.read(-1))
            finally:
                writer.close()

    def _on_news(self) -> None:
        assert self._socket is not None
        while True:
            try:
                message = self._socket.recv(8192)
            except BlockingIOError:
                return
            except OSError:
                continue  # more news than fit: some are lost
            ended = parse_destroyed(message)
            if ended is not None and ended.port == self._port:
                self._judge(ended)

    def _judge(self, ended: Ended) -> None:
        sent = ended.received - _FIN
        if sent <= 0 or ended.acked >= self._opening + SETTINGS_ACK_BYTES:
            return
        if ended.peer_port == self._own_port:
            self._own_port = 0
            return
        self._reports.tell(
            "a client that does not speak gRPC seems to have connected to the gRPC port "
            f"{ended.port} from {ended.peer}:{ended.peer_port} (it sent {sent} bytes); use "
            "pylog's client: Kafka's protocol is not served yet, and this port has no TLS"
        )


def _listen(port: int) -> socket.socket:
    """A netlink socket that hears of ended connections; of this port only, where that works."""
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    news = socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG)
    try:
        with contextlib.suppress(OSError):
            _attach_port_filter(news, port)
        news.bind((0, _TCP4_DESTROYED | _TCP6_DESTROYED))
    except OSError:
        news.close()
        raise
    return news


def _attach_port_filter(news: socket.socket, port: int) -> None:
    """So that other processes' connections on this machine do not wake us (classic BPF)."""
    instruction = Struct("=HBBI")
    program = (
        (0x28, 0, 0, _PORTS_AT),  # load the half word at the own port
        (0x15, 0, 1, port),  # go on if it is ours, else skip one
        (0x06, 0, 0, 0xFFFFFFFF),  # take the message
        (0x06, 0, 0, 0),  # drop it
    )
    code = b"".join(instruction.pack(*line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    head = Struct("@HP").pack(len(program), ctypes.addressof(buffer))
    news.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, head)
