"""One gRPC call by hand over a socket, for bytes that no gRPC library would send."""

from __future__ import annotations

import contextlib
import socket
import struct
from types import TracebackType
from typing import Self

from pylog.clock import SYSTEM_CLOCK

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _header(name: bytes, value: bytes) -> bytes:
    """HPACK: literal, without index, without Huffman."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


class Call:
    """Opens stream 1 for `method`; messages go out as they are given, prefix included."""

    def __init__(self, server: str, method: str, *more: tuple[bytes, bytes]) -> None:
        """`more`: further headers, each of name and value under 128 bytes."""
        host, port = server.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=10)
        head = b"".join(
            _header(name, value)
            for name, value in (
                (b":method", b"POST"),
                (b":scheme", b"http"),
                (b":path", method.encode()),
                (b":authority", server.encode()),
                (b"content-type", b"application/grpc"),
                (b"te", b"trailers"),
                *more,
            )
        )
        self._socket.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, b"")
            + _frame(_HEADERS, _END_HEADERS, 1, head)
        )
        self._buffer = b""

    def send(self, data: bytes, *, end: bool = False) -> None:
        """Some bytes of the stream."""
        self._socket.sendall(_frame(_DATA, _END_STREAM if end else 0, 1, data))

    def status(self, seconds: float) -> int | None:
        """The call's grpc-status; None when the stream ended without one. AssertionError when it
        does not end in time.
        """
        end_ms = SYSTEM_CLOCK.monotonic_ms() + seconds * 1000
        status: int | None = None
        while True:
            frame = self._next(end_ms)
            if frame is None:
                return status
            kind, flags, stream, payload = frame
            if kind == _SETTINGS and not flags & _ACK:
                with contextlib.suppress(OSError):
                    self._socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))
            at = payload.find(b"grpc-status")
            if kind == _HEADERS and at >= 0:
                size = payload[at + 11]
                status = int(payload[at + 12 : at + 12 + size])
            if kind == _GOAWAY or (
                stream == 1 and (kind == _RST_STREAM or (kind == _HEADERS and flags & _END_STREAM))
            ):
                return status

    def _next(self, end_ms: float) -> tuple[int, int, int, bytes] | None:
        while len(self._buffer) < 9 or len(self._buffer) < 9 + self._size():
            left_ms = end_ms - SYSTEM_CLOCK.monotonic_ms()
            assert left_ms > 0, "the call did not end in time"
            self._socket.settimeout(left_ms / 1000)
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                continue
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._buffer += data
        size = self._size()
        kind, flags, stream = struct.unpack(">BBI", self._buffer[3:9])
        payload, self._buffer = self._buffer[9 : 9 + size], self._buffer[9 + size :]
        return kind, flags, stream & 0x7FFFFFFF, payload

    def _size(self) -> int:
        return int.from_bytes(self._buffer[:3], "big")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
