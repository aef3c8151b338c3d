"""Unary calls to one broker over one framed connection: many under way, answered in any order.

A port that cannot be had, or a broker that takes no calls there, means gRPC, as for streams.
Nothing is tried again here, and what was written once goes by no other way. Loop only.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final, Protocol

from pylog import errors
from pylog.client.background import logger
from pylog.client.cluster.framed_ports import Port, StreamWay
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.cluster.wire import NEVER_TAKEN
from pylog.client.connection.client_connection import (
    Answered,
    ClientConnection,
    Ended,
    Failed,
    Greeted,
    State,
)
from pylog.client.connection.framed_link import FramedLink
from pylog.clock import ticks
from pylog.rpc import calls, streams
from pylog.rpc.apis import RequestT, ResponseT, UnaryApi
from pylog.rpc.v1 import stream_pb2

LOOKS_MAX: Final = 3
LOOK_S: Final = 0.1
"""A connection that is not there after so many looks, so far apart, is not waited for: calls, which
have no order, go over gRPC meanwhile. Several looks, because a busy loop is late with one, and with
the connection as well."""
SILENCE_S: Final = 3.0
"""A caller that gives a call up sooner learns nothing of its connection."""
IDLE_LOOK_S: Final = 1.0
"""The interval at which a connection looks whether it is idle, where a call waits for an answer."""


class Ports(Protocol):
    """A client's knowledge of brokers' framed ports: its `Cluster`."""

    def stream_way(self, broker: int, kind: stream_pb2.StreamKind) -> StreamWay | None:
        """The way to the broker's framed port; None when the broker is to be used over gRPC."""

    def stream_rest_s(self, way: StreamWay) -> float:
        """The seconds to wait before the framed port is tried."""

    def stream_opened(self, way: StreamWay) -> None:
        """The framed port answered the greeting."""

    def stream_broke(self, way: StreamWay) -> None:
        """An attempt to connect failed, or a connection broke."""

    def stream_refused(self, way: StreamWay, reason: str) -> None:
        """The broker answers over gRPC, but its framed port cannot be had."""


class _Call:
    """One caller's."""

    __slots__ = ("answer", "api", "connection", "deadline_s", "frames", "number", "request")

    def __init__(self, api: UnaryApi[Any, Any], request: bytes, deadline_s: float) -> None:
        self.api = api
        self.request = request
        self.deadline_s = deadline_s
        self.answer: asyncio.Future[memoryview | None]
        self.answer = asyncio.get_running_loop().create_future()
        self.connection: _CallConnection | None = None  # over which it was sent
        self.number = 0  # there
        self.frames = 0  # that had come there before, or to the connection that it waited for

    def succeed(self, answer: memoryview | None) -> None:
        """None: it is to go over gRPC."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: errors.PylogError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # looked at: the caller may be cancelled in this turn


class FramedCalls:
    """The calls of one client to one broker.

    Invariant: a call is in `_queue`, was sent over `_current` or one of `_left`, or is answered.
    Calls wait in the queue only while the current connection is being made, or takes no more.
    """

    def __init__(self, broker: int, ports: Ports, name: str, idle_s: float) -> None:
        """`name`: what faults call the server. `idle_s`: after so long without a call the
        connection is closed; negative: never.
        """
        self.broker = broker
        self.ports = ports
        self.name = name
        self.idle_s = idle_s
        self._queue: dict[_Call, None] = {}
        self._current: _CallConnection | None = None
        self._left: set[_CallConnection] = set()
        """Fell silent: what was sent over them may still be answered, and nothing else is sent."""
        self._takes_none: Port | None = None
        """This life of the broker takes no calls over frames."""
        self._not_offered: set[int] = set()
        """APIs, by key, that the broker carries out over gRPC alone; until it greets again."""
        self._fallen = False  # gRPC answers where the framed port did not
        self._refused: tuple[StreamWay, str] | None = None  # gRPC is being tried
        self._refusals = 0  # in a row
        self._closed = False

    async def call(
        self, api: UnaryApi[RequestT, ResponseT], request: RequestT, timeout_s: float
    ) -> memoryview | None:
        """The response's bytes; None when the call was not sent, and is to go over gRPC.

        Raises as `Server.call`.
        """
        if self._closed:
            raise errors.ClientClosed("the client is closed")
        current = self._current
        if api.key in self._not_offered:
            return None
        if current.is_late if current is not None else self._way() is None:
            return None
        began_s = ticks()
        call = _Call(api, request.SerializeToString(), began_s + timeout_s)
        call.frames = current.core.frames if current is not None else 0
        self._queue[call] = None
        self._go_on()
        try:
            async with asyncio.timeout(timeout_s):
                return await call.answer
        except asyncio.CancelledError:
            if ticks() - began_s >= SILENCE_S:
                self._look_for_silence(call)
            raise
        except TimeoutError:
            self._look_for_silence(call)
            raise errors.BrokerUnreachable(
                f"{self.name}: no answer within {timeout_s:.3g} s"
            ) from None
        finally:
            self._queue.pop(call, None)
            if call.connection is not None:
                call.connection.done(call)

    def answered_over_grpc(self) -> None:
        """The server is there: if its framed port was refused, that is the port's fault."""
        if self._refused is not None:
            refused, self._refused = self._refused, None
            if self._refusals > 1:  # after the first one the broker may just have come back
                self.ports.stream_refused(*refused)

    def unreachable_over_grpc(self) -> None:
        """The server is not there at all, which is no fault of its framed port."""
        self._refused = None
        self._refusals = 0

    async def close(self, fault: str = "") -> None:
        """End all calls; returns when nothing of them is left. `fault`: why it is not the client
        that is closed.
        """
        self._closed = True

        def ended() -> errors.PylogError:
            if fault:
                return errors.BrokerUnreachable(f"{self.name}: {fault}")
            return errors.ClientClosed("the client was closed while the call waited")

        for call in self._queue:
            call.fail(ended())
        ending = [*self._left]
        if self._current is not None:
            ending.append(self._current)
        self._left.clear()
        self._current = None
        for connection in ending:
            for call in connection.core.close():
                call.fail(ended())
            connection.close()
        await asyncio.gather(*(c.connecting for c in ending), return_exceptions=True)

    def _way(self) -> StreamWay | None:
        """The way for a new connection; None where none may be made now."""
        way = self.ports.stream_way(self.broker, streams.CALLS)
        if way is None or way.port == self._takes_none:
            return None
        if self._fallen and self.ports.stream_rest_s(way):
            return None
        return way

    def _go_on(self) -> None:
        if self._current is None and not self._closed:
            way = self._way()
            if way is None:
                self._use_grpc()
                return
            self._current = _CallConnection(self, way)
        if self._current is not None:
            self._current.send_from(self._queue)

    def _use_grpc(self) -> None:
        for call in self._queue:
            call.succeed(None)
        self._queue.clear()

    def _look_for_silence(self, call: _Call) -> None:
        """A connection that was silent while a call waited, or came no further than into a frame,
        gets no more calls: it may never say anything again.
        """
        self._queue.pop(call, None)
        connection = call.connection or self._current
        if connection is None or connection is not self._current:
            return
        if connection.core.state is State.OPEN and connection.core.frames == call.frames:
            logger.debug("%s: a framed connection fell silent", self.name)
            self._left.add(connection)
            self._current = None
            self.ports.stream_broke(connection.way)
            if not connection.is_waited_for:
                self.unused(connection)
            if self._queue:
                self._go_on()

    # ---- what connections tell -----------------------------------------------------------------

    def late(self, connection: _CallConnection) -> None:
        """The connection is still being made, and is not waited for any longer."""
        if connection is self._current:
            self._use_grpc()

    def opened(self, connection: _CallConnection) -> None:
        """The broker greeted."""
        connection.is_late = self._fallen = False
        self._not_offered.clear()
        self._refused = None
        self._refusals = 0
        self.ports.stream_opened(connection.way)
        self._go_on()

    def not_had(self, connection: _CallConnection, fault: Ended[_Call]) -> None:
        """The connection could not be made: what waits for it goes over gRPC."""
        self._current = None
        if isinstance(fault.error, errors.UnsupportedVersion):  # an older broker
            logger.debug("%s: no calls over its framed port: %s", self.name, fault.reason)
            self._takes_none = connection.way.port
        else:
            self.ports.stream_broke(connection.way)
            self._fallen = True
            self._refused = (connection.way, fault.reason)
            self._refusals += 1
        self._use_grpc()

    def ended(self, connection: _CallConnection, fault: Ended[_Call]) -> None:
        """The connection, which stood, is no more."""
        for call in fault.calls:
            call.fail(errors.BrokerUnreachable(f"{self.name}: {fault.reason}"))
        if connection is not self._current:
            self._left.discard(connection)
            return
        self._current = None
        if fault.calls or self._queue:
            self.ports.stream_broke(connection.way)
        if self._queue:
            self._go_on()

    def failed(self, call: _Call, error: errors.PylogError) -> None:
        """The broker did not carry the call out. An API that it does not have over frames it may
        have over gRPC.
        """
        if isinstance(error, errors.UnsupportedVersion):
            self._not_offered.add(call.api.key)
            call.succeed(None)
        elif isinstance(error, NEVER_TAKEN):
            call.fail(error)
        elif isinstance(error, errors.MessageTooLarge):
            call.fail(errors.MessageTooLarge(f"{self.name}: {error}"))
        else:
            call.fail(errors.BrokerUnreachable(f"{self.name}: {error.name}: {error}"))

    def has_room(self, connection: _CallConnection) -> None:
        """Calls were answered there."""
        if connection is self._current and self._queue:
            connection.send_from(self._queue)

    def unused(self, connection: _CallConnection) -> None:
        """Nobody waits for an answer there."""
        if connection in self._left:
            self._left.discard(connection)
            connection.close()

    def went_idle(self, connection: _CallConnection) -> None:
        """Nothing was called for a while."""
        if connection is self._current:
            self._current = None
        connection.close()


class _CallConnection:
    """One connection, from the attempt to make it to its end."""

    def __init__(self, owner: FramedCalls, way: StreamWay) -> None:
        self.way = way
        self.core: ClientConnection[_Call] = ClientConnection(streams.CALLS, way.broker)
        self._owner = owner
        self._link = FramedLink(self.core, on_readable=self._receive, on_room=self._on_room)
        self.is_late = False  # calls go over gRPC until it is there
        self._waited_for = 0  # calls
        self._used_s = ticks()
        loop = asyncio.get_running_loop()
        self._looks = 0
        self._timer = loop.call_later(LOOK_S, self._look)
        self.connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        while rest_s := self._owner.ports.stream_rest_s(self.way):
            await asyncio.sleep(rest_s)
        address, within_s = self.way.address, self.way.connect_s
        fault = await self._link.connect(address.host, address.port, self.way.hello, within_s)
        if fault is not None:
            self._timer.cancel()
            self._owner.not_had(self, fault)

    def _look(self) -> None:
        self._looks += 1
        if self._looks < LOOKS_MAX:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        else:
            self.is_late = True
            self._owner.late(self)

    def send_from(self, queue: dict[_Call, None]) -> None:
        """As many calls as the broker takes."""
        while queue and self.core.may_call:
            call = next(iter(queue))
            del queue[call]
            if not call.answer.done():
                self._send(call)

    def _send(self, call: _Call) -> None:
        core, socket = self.core, self._link.socket
        assert socket is not None
        size, limit = calls.CALL_HEAD_BYTES + len(call.request), core.frame_bytes_max
        if size > limit:
            too_large = TooLarge(size, limit, by_server=True, is_answer=False)
            call.fail(too_large.error(self._owner.name))
            return
        left_ms = max(math.ceil((call.deadline_s - ticks()) * 1000), 1)
        call.number, pieces = core.call(call, call.api, call.request, left_ms)
        call.connection, call.frames = self, core.frames
        self._waited_for += 1
        socket.write(pieces)

    @property
    def is_waited_for(self) -> bool:
        """Whether somebody waits for an answer that is to come here."""
        return self._waited_for > 0

    def done(self, call: _Call) -> None:
        """Its caller waits no more."""
        self.core.forget(call.number, call)
        self._waited_for -= 1
        self._used_s = ticks()
        if not self._waited_for:
            self._owner.unused(self)

    def close(self) -> None:
        """Let go of the socket."""
        self._timer.cancel()
        self.connecting.cancel()
        self._link.close()

    def _receive(self) -> None:
        if self.core.state is State.ENDED:
            return
        for event in self._link.receive():
            match event:
                case Answered(call, response):
                    call.succeed(response)
                case Failed(call, error):
                    self._owner.failed(call, error)
                case Greeted():
                    self._timer.cancel()
                    self._look_for_idle_in(self._owner.idle_s)
                    self._owner.opened(self)
                case Ended() if self.core.agreed is not None:  # else `_connect` learns it
                    self.close()
                    self._owner.ended(self, event)
        self._owner.has_room(self)

    def _on_room(self) -> None:
        socket = self._link.socket
        assert socket is not None
        socket.write_more()
        if not socket.is_full:
            socket.stop_watching_for_room()

    # ---- idle ----------------------------------------------------------------------------------

    def _look_for_idle_in(self, seconds: float) -> None:
        if seconds >= 0:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(seconds, self._look_for_idle)

    def _look_for_idle(self) -> None:
        left_s = self._used_s + self._owner.idle_s - ticks()
        if self._waited_for or left_s > 0:
            self._look_for_idle_in(max(left_s, IDLE_LOOK_S))
        else:
            self._owner.went_idle(self)
