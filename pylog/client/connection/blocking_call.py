"""One call over one framed connection, made and closed for it, by a thread that waits. For
processes that make so few calls that a loop would cost more than all of them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

from google.protobuf.message import DecodeError

from pylog import errors
from pylog.client.connection.client_connection import (
    Answered,
    ClientConnection,
    Ended,
    Event,
    Failed,
    Greeted,
)
from pylog.clock import ticks
from pylog.rpc import streams
from pylog.rpc.apis import RequestT, ResponseT, UnaryApi

CONNECT_S_MAX: Final = 2.0
"""For the connection and the greeting, each: as `framed_link`."""
_NEVER_TAKEN: Final = (errors.InvalidRequest, errors.InvalidConfig, errors.UnsupportedVersion)
"""By these a broker says that the request itself is wrong."""


def call_over_frames(
    broker: int,
    address: tuple[str, int],
    hello: bytes,
    api: UnaryApi[RequestT, ResponseT],
    request: RequestT,
    timeout_s: float,
) -> ResponseT:
    """The broker's answer. Nothing is tried again.

    Raises BrokerUnreachable, which names the address and the fault, and does not tell whether the
    call was carried out; else the broker's own error.
    """
    where = f"{address[0]}:{address[1]}"
    deadline_s = ticks() + timeout_s
    try:
        with socket.create_connection(address, min(timeout_s, CONNECT_S_MAX)) as raw:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _Conversation(raw, broker, deadline_s).call(hello, api, request)
    except TimeoutError:
        raise errors.BrokerUnreachable(f"{where}: no answer within {timeout_s:.3g} s") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise errors.BrokerUnreachable(f"{where}: {reason}") from None
    except DecodeError as error:
        raise errors.BrokerUnreachable(f"{where}: its answer cannot be read: {error}") from None
    except _Broke as broke:
        raise errors.BrokerUnreachable(f"{where}: {broke}") from None


class _Broke(Exception):
    """The connection ended before the answer came."""


class _Conversation:
    def __init__(self, raw: socket.socket, broker: int, deadline_s: float) -> None:
        self._raw = raw
        self._deadline_s = deadline_s
        self._core: ClientConnection[str] = ClientConnection(streams.CALLS, broker)

    def call(
        self, hello: bytes, api: UnaryApi[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        self._send([hello])
        self._next(min(self._deadline_s, ticks() + CONNECT_S_MAX))
        left_ms = max(int((self._deadline_s - ticks()) * 1000), 1)
        said = request.SerializeToString()
        _, pieces = self._core.call(api.name, api, said, left_ms)
        self._send(pieces)
        match self._next(self._deadline_s):
            case Answered(_, response):
                return api.response.FromString(bytes(response))
            case other:
                raise AssertionError(f"{other} answers no call")

    def _send(self, pieces: Sequence[bytes | bytearray | memoryview]) -> None:
        self._raw.settimeout(max(self._deadline_s - ticks(), 0.001))
        self._raw.sendall(b"".join(pieces))

    def _next(self, deadline_s: float) -> Event[str]:
        """The next thing that the broker says, which is no fault."""
        while True:
            left_s = deadline_s - ticks()
            if left_s <= 0:
                raise TimeoutError
            self._raw.settimeout(left_s)
            count = self._raw.recv_into(self._core.free_buffer())
            events = self._core.received(count) if count else self._core.closed_by_broker()
            for event in events:
                match event:
                    case Greeted() | Answered():
                        return event
                    case Failed(_, error) if isinstance(error, _NEVER_TAKEN):
                        raise error
                    case Failed(_, error):
                        raise _Broke(f"{error.name}: {error}")
                    case Ended(reason):
                        raise _Broke(reason)
