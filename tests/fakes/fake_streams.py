"""The framed port of one fake broker: blocking sockets, a thread for each connection.

It greets as a broker does and hands messages to a generator of answers, which may raise `Dropped`
to break the connection without a word, and calls to a function. `silent` takes connections and
never says anything. Without `answer_call` it is a broker of before there were calls over frames.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pylog import errors
from pylog.rpc import calls, streams
from pylog.rpc.apis import UNARY_APIS, UnaryApi
from pylog.rpc.v1 import log_pb2

CALLS_MAX = 64
_BY_KEY = {api.key: api for api in UNARY_APIS}

Answers = Callable[[Iterator[Any], Any], Iterator[Any]]


class Dropped(Exception):
    """Break the connection."""


class _Context:
    """The part of gRPC's context that the generators of `FakeCluster` use."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def abort(self, _code: object, _details: str) -> None:
        raise Dropped

    def is_active(self) -> bool:
        return self._peeked() != b""

    def asked_again(self) -> bool:
        """Whether another request, or the end, has come behind the one that is being answered."""
        return self._peeked() is not None

    def _peeked(self) -> bytes | None:
        with contextlib.suppress(BlockingIOError):
            return self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        return None


class FakeStreamPort:
    """Listens on loopback from its making until `close`."""

    def __init__(
        self,
        broker: int,
        produce: Answers,
        fetch: Answers,
        *,
        port: int = 0,
        answer_call: Callable[[UnaryApi[Any, Any], Any, Any], Any] | None = None,
        silent: bool = False,
        request_bytes_max: int = 64 << 20,
    ) -> None:
        self.broker = broker
        self.request_bytes_max = request_bytes_max
        self.connections = 0
        """The number of connections of streams, as far as they have said that they are some."""
        self.call_connections = 0
        self.answer_call = answer_call
        """The handler of calls; None: calls are refused, as by a broker that has none."""
        self._answers = {streams.PRODUCE: produce, streams.FETCH: fetch}
        self._silent = silent
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening and drop all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        """Drop all connections."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.add(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, EOFError, Dropped):
            said = streams.read_hello(memoryview(_frame(connection)))
            if said.kind == streams.CALLS:
                self.call_connections += 1
            else:
                self.connections += 1
            if self._silent:
                connection.recv(1)
                return
            if said.broker_id != self.broker:
                fault = errors.InvalidRequest(f"this is broker {self.broker}")
                connection.sendall(streams.fault_frame(fault))
                return
            if said.kind == streams.CALLS:
                self._answer_calls(connection)
                return
            connection.sendall(streams.welcome(self.broker, 1, self.request_bytes_max))
            kind = log_pb2.ProduceRequest if said.kind == streams.PRODUCE else log_pb2.FetchRequest
            messages = _messages(connection, kind.FromString, self.request_bytes_max)
            for answer in self._answers[said.kind](messages, _Context(connection)):
                frame = streams.framed(streams.MESSAGE, [answer.SerializeToString()])
                connection.sendall(b"".join(frame))
        self._open.discard(connection)

    def _answer_calls(self, connection: socket.socket) -> None:
        if self.answer_call is None:
            fault = errors.UnsupportedVersion("streams of kind 3 are not offered")
            connection.sendall(streams.fault_frame(fault))
            return
        limit = self.request_bytes_max
        connection.sendall(streams.welcome(self.broker, 1, limit, calls_max=CALLS_MAX))
        while True:
            call = calls.read_call(memoryview(_frame(connection)))
            api = _BY_KEY[call.key]
            try:
                request = api.request.FromString(bytes(call.request))
                answer = self.answer_call(api, request, _Context(connection))
                frame = calls.answer_frame(call.number, [answer.SerializeToString()])
            except Dropped:
                raise
            except Exception as error:  # noqa: BLE001  a broker lives on, and says that it failed
                known = isinstance(error, errors.PylogError)
                fault = error if known else errors.UnknownServerError(repr(error))
                frame = calls.failure_frame(call.number, fault)
            connection.sendall(b"".join(frame))


def _messages(
    connection: socket.socket, parse: Callable[[bytes], Any], bytes_max: int
) -> Iterator[Any]:
    while True:
        size = int.from_bytes(_exactly(connection, 4), "big")
        if size > bytes_max:
            connection.sendall(streams.fault_frame(errors.InvalidRequest("too large a frame")))
            raise Dropped
        body = _exactly(connection, size)
        assert body[0] == streams.MESSAGE
        yield parse(body[1:])


def _frame(connection: socket.socket) -> bytes:
    return _exactly(connection, int.from_bytes(_exactly(connection, 4), "big"))


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        more = connection.recv(size - len(got))
        if not more:
            raise EOFError
        got += more
    return bytes(got)
