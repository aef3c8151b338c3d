"""The protocol of framed streams, for both ends: kinds of frames, the greeting, errors.

`proto/pylog/rpc/v1/stream.proto` tells the layout. No sockets here.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from google.protobuf.message import DecodeError

from pylog import distribution, errors
from pylog.rpc.apis import UNARY_APIS
from pylog.rpc.framing import JOINED_BYTES_MAX, LENGTH_BYTES, Chunks
from pylog.rpc.v1 import common_pb2, stream_pb2

VERSION: Final = 1
MAGIC: Final = b"PYLG"
GREETING_BYTES_MAX: Final = 4096
"""The most bytes of either side's first frame: a peer gets no more memory before it has said what
it is."""

HELLO: Final = 1
WELCOME: Final = 2
MESSAGE: Final = 3
ERROR: Final = 4
CALL: Final = 5
ANSWER: Final = 6
FAILURE: Final = 7

PRODUCE: Final = stream_pb2.STREAM_PRODUCE
FETCH: Final = stream_pb2.STREAM_FETCH
CALLS: Final = stream_pb2.STREAM_CALLS

SOFTWARE: Final = "pylog"

_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
_UNSENT_MS_MAX: Final = 30_000


def framed(kind: int, pieces: Chunks) -> Chunks:
    """The pieces of one frame, ready for writev."""
    size = 1 + sum(map(len, pieces))
    head = size.to_bytes(LENGTH_BYTES, "big") + bytes((kind,))
    return [b"".join((head, *pieces))] if size <= JOINED_BYTES_MAX else [head, *pieces]


@lru_cache(256)
def hello(kind: stream_pb2.StreamKind, cluster_id: str, broker_id: int, client_id: str) -> bytes:
    """A client's first frame."""
    said = stream_pb2.StreamHello(
        version=VERSION,
        kind=kind,
        cluster_id=cluster_id,
        broker_id=broker_id,
        client_id=client_id,
        software_name=SOFTWARE,
        software_version=software_version(),
        apis=_spoken(),
    )
    return b"".join(framed(HELLO, [MAGIC, said.SerializeToString()]))


def welcome(
    broker_id: int, broker_epoch: int, frame_bytes_max: int, *, calls_max: int = 0
) -> bytes:
    """A broker's first frame. `calls_max`: how many calls may wait for their answers."""
    said = stream_pb2.StreamWelcome(
        version=VERSION,
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        frame_bytes_max=frame_bytes_max,
        calls_max=calls_max,
        software_name=SOFTWARE,
        software_version=software_version(),
        apis=_spoken(),
    )
    return b"".join(framed(WELCOME, [said.SerializeToString()]))


@lru_cache(1)
def software_version() -> str:
    """The installed package's version."""
    return distribution.version()


@lru_cache(1)
def _spoken() -> tuple[stream_pb2.ApiVersion, ...]:
    return tuple(
        stream_pb2.ApiVersion(key=api.key, version_max=api.version_max) for api in UNARY_APIS
    )


def agreed_versions(told: Iterable[stream_pb2.ApiVersion]) -> dict[int, int]:
    """By API key the version that both sides speak, as the other side `told` of its own: the lower
    one, and 0 of an API that it does not name.
    """
    theirs = {api.key: api.version_max for api in told}
    return {api.key: max(min(api.version_max, theirs.get(api.key, 0)), 0) for api in UNARY_APIS}


def fault_frame(error: errors.PylogError) -> bytes:
    """A broker's last frame."""
    said = common_pb2.Error(code=error.code, message=str(error))
    return b"".join(framed(ERROR, [said.SerializeToString()]))


def read_hello(body: memoryview) -> stream_pb2.StreamHello:
    """The greeting in a client's first frame; InvalidRequest for what is no greeting of ours, and
    UnsupportedVersion for one of another time.
    """
    if len(body) < 1 + len(MAGIC) or body[0] != HELLO or bytes(body[1 : 1 + len(MAGIC)]) != MAGIC:
        raise errors.InvalidRequest(
            "this port takes pylog's framed streams only, and the first frame is no greeting of one"
            f"{_foreign(body)}"
        )
    try:
        said = stream_pb2.StreamHello.FromString(bytes(body[1 + len(MAGIC) :]))
    except DecodeError as error:
        raise errors.InvalidRequest(f"the greeting cannot be read: {error}") from None
    if said.version < VERSION:
        raise errors.UnsupportedVersion(
            f"version {said.version} of framed streams is not offered; this broker has {VERSION}"
        )
    return said


def read_welcome(body: memoryview) -> stream_pb2.StreamWelcome:
    """The welcome in a broker's first frame; raises the error that it refuses with, and
    InvalidRequest for anything else.
    """
    if len(body) and body[0] == ERROR:
        raise read_fault(body)
    if not len(body) or body[0] != WELCOME:
        raise errors.InvalidRequest("it is no port for pylog's framed streams")
    try:
        return stream_pb2.StreamWelcome.FromString(bytes(body[1:]))
    except DecodeError as error:
        raise errors.InvalidRequest(f"its greeting cannot be read: {error}") from None


def read_fault(body: memoryview) -> errors.PylogError:
    """The error in a frame of that kind."""
    try:
        said = common_pb2.Error.FromString(bytes(body[1:]))
    except DecodeError as error:
        return errors.InvalidRequest(f"its error cannot be read: {error}")
    return errors.from_code(said.code, said.message)


def watch_peer(raw: Any) -> None:
    """Have the kernel notice a peer that is gone without a word: a cut cable, a stopped machine.
    `raw`: a socket, or None.
    """
    if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
        return
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        raw.setsockopt(socket.IPPROTO_TCP, option, value)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNSENT_MS_MAX)


def _foreign(body: memoryview) -> str:
    """Kafka's requests begin with an api key and a version, two bytes each."""
    if len(body) >= 4 and body[0] == 0 and body[1] < 100 and body[2] == 0:
        return "; it looks like a Kafka client"
    return ""
