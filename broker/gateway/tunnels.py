"""HTTP CONNECT at the gateway: a client's request, and the answer.

A client that cannot reach brokers connects to the gateway once per broker, says
`CONNECT broker-3:0` (RFC 9110, section 9.3.6; gRPC does so by itself when its channel is told to)
and is joined to that broker: from then on bytes pass both ways unread, so that order,
back-pressure, deadlines and errors are those of a direct connection. The name stands for whatever
address the broker has at the time.

Pure. `front.py` owns the sockets.
"""

from __future__ import annotations

import struct
from typing import Final

from pylog.model import BrokerId
from pylog.rpc.channel import BROKER_HOST_PREFIX

CONNECT: Final = b"CONNECT "
HEAD_END: Final = b"\r\n\r\n"
HEAD_BYTES_MAX: Final = 4096
ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"

REASON_BYTES_MAX: Final = 400
_SETTINGS: Final = b"\0\0\0\x04\0\0\0\0\0"
_GOAWAY: Final = 7


def broker_asked_for(head: bytes) -> BrokerId | None:
    """The broker in a CONNECT request's first line; None when it asks for something else."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or words[0] != CONNECT.strip():
        return None
    host = words[1].rpartition(b":")[0].decode("ascii", "replace")
    number = host.removeprefix(BROKER_HOST_PREFIX)
    if number == host or not (number.isascii() and number.isdigit()) or len(number) > 9:
        return None
    return BrokerId(int(number))


def not_a_broker(head: bytes) -> bytes:
    """The answer to a CONNECT for anything but a broker: the gateway is no open proxy."""
    body = b"this gateway connects to brokers of its cluster only, by the name broker-<id>:0\n"
    lead = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    return lead + b"Content-Length: %d\r\n\r\n" % len(body) + body


def unreachable(reason: str) -> bytes:
    """The answer when the broker cannot be reached: HTTP/2 that goes away at once, and says why.

    A status of HTTP/1 would do as well, but then gRPC tells its user a number and writes a line to
    standard error; this comes out as UNAVAILABLE with the reason in it.
    """
    text = reason.encode()[:REASON_BYTES_MAX]
    payload = struct.pack(">II", 0, 0) + text  # no call was taken; no error of the protocol
    frame = len(payload).to_bytes(3, "big") + bytes((_GOAWAY, 0)) + bytes(4) + payload
    return ESTABLISHED + _SETTINGS + frame
