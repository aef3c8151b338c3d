"""A request stream over a TCP connection of its own: frames instead of HTTP/2, no tasks, no copies.

`pylog/client/connection` has the frames and the socket. Where the connection or the greeting fails,
the stream goes on over gRPC; a connection that breaks later is the stream's end.

Requests may be written, and answers received, by the thread that has them to write or waits for
them (`is_free`, `receive`); everything else, and these as long as nobody else does, is for the
loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Never

from google.protobuf.message import DecodeError

from pylog.client.cluster.framed_ports import StreamWay
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.connection.client_connection import (
    ClientConnection,
    Ended,
    Event,
    Greeted,
    State,
)
from pylog.client.connection.framed_link import FramedLink
from pylog.client.connection.tcp import TcpConnection
from pylog.client.streams.carrier import Carried
from pylog.rpc import streams


class FramedCarrier:
    """The stream's lock guards what is written and what is received; the stream is told of answers
    outside of it, but under a lock of their own: a thread that receives some tells them before
    another one receives the next, or two threads would tell the answers of one request in the wrong
    order.
    """

    def __init__(self, stream: Carried, way: StreamWay) -> None:
        self._stream = stream
        self._way = way
        self._parse = stream.kind.parse_view
        self._lock = stream.lock
        self._telling = threading.RLock()  # before the stream's lock
        self._core: ClientConnection[Never] = ClientConnection(stream.kind.kind, way.broker)
        self._link = FramedLink(self._core, on_readable=self._on_readable, on_room=self._on_room)
        self._closed = False  # nothing is told any more
        self._closing = False  # the socket, once what is left has gone
        self._flushing = False
        self._too_large: TooLarge | None = None  # the message at which the stream ends
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._finishing = False
        self._connecting = asyncio.ensure_future(self._connect())

    def wake(self) -> None:
        # Not at once: requests that are decided on together share a message.
        if self._core.state is State.OPEN and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._on_flush)

    def close(self, *, abort: bool) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._connecting.cancel()
            self._core.close()
            socket = self._link.socket
            if socket is not None:
                self._closing = socket.is_full and not abort
                if self._closing:
                    socket.lend()  # nobody reads any more
                else:
                    socket.close()

    async def finish(self) -> None:
        socket = self._link.socket
        if socket is not None:
            self._finishing = True
            if not socket.is_full:
                socket.say_end()
            await self._ended

    async def _connect(self) -> None:
        address, within_s = self._way.address, self._way.connect_s
        while rest_s := self._stream.rest_s(self._way):
            await asyncio.sleep(rest_s)
        fault = await self._link.connect(address.host, address.port, self._way.hello, within_s)
        if fault is not None and not self._closed:
            self._closed = True
            self._stream.fall_back(self._way, fault.reason)

    # ---- for other threads ---------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """Whether a request may be written here and now, by any thread that has the lock."""
        socket = self._link.socket
        return (
            self._core.state is State.OPEN
            and not self._flushing
            and self._too_large is None
            and socket is not None
            and not socket.is_full
        )

    @property
    def connection(self) -> TcpConnection | None:
        """The connection at which a thread may wait for answers, instead of the loop; None when it
        may not."""
        return self._link.socket if self._core.state is State.OPEN else None

    def flush(self) -> None:
        """Write what the stream has, as far as the kernel takes it. The lock is held."""
        stream, core, socket = self._stream, self._core, self._link.socket
        while stream.has_requests and core.state is State.OPEN and self._too_large is None:
            assert socket is not None
            if socket.is_full:
                return
            pieces, told = stream.next_message()
            size = 1 + sum(map(len, pieces))
            if size > core.frame_bytes_max:
                # Nothing may go past it, and the broker would end the stream as well.
                self._too_large = TooLarge(
                    size, core.frame_bytes_max, by_server=True, is_answer=False
                )
                self._loop.call_soon_threadsafe(self._fail, str(self._too_large))
                return
            socket.write(streams.framed(streams.MESSAGE, pieces))
            stream.written(told)

    def receive(self) -> bool:
        """Take in what has come, on a thread that waits for it; False when the loop must go on:
        it finds out what is wrong.
        """
        with self._telling:
            with self._lock:
                if self._core.state is not State.OPEN:
                    return False
                events = self._link.receive()
            for at, event in enumerate(events):
                try:
                    if not isinstance(event, memoryview):
                        raise DecodeError
                    answer = self._parse(event)
                except DecodeError:
                    self._loop.call_soon_threadsafe(self._take, events[at:])
                    return False
                self._stream.answered(answer)
            return True

    # ---- for the loop --------------------------------------------------------------------------

    def _on_readable(self) -> None:
        with self._telling:
            with self._lock:
                if self._core.state is State.ENDED:
                    return
                events = self._link.receive()
            self._take(events)

    def _take(self, events: Sequence[Event[Never]]) -> None:
        for event in events:
            if self._closed:
                return
            match event:
                case memoryview():
                    try:
                        answer = self._parse(event)
                    except DecodeError as error:
                        self._fail(f"its answer cannot be read: {error}")
                        return
                    self._stream.answered(answer)
                case Greeted():
                    self._stream.opened(self._way)
                    if self._stream.has_requests:
                        self.wake()
                case Ended() if self._core.agreed is not None:  # else `_connect` learns it
                    self._fail(event.reason)

    def _fail(self, reason: str) -> None:
        """The connection, which stood, is of no more use."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._link.close()
        if not self._ended.done():
            self._ended.set_result(None)
        if self._too_large is None:
            self._stream.broke(self._way)
        self._stream.ended(str(self._too_large or reason), self._too_large)

    def _on_flush(self) -> None:
        with self._lock:
            self._flushing = False
            self.flush()

    def _on_room(self) -> None:
        with self._lock:
            socket = self._link.socket
            assert socket is not None
            socket.write_more()
            if socket.is_full:
                return
            socket.stop_watching_for_room()
            if self._closing:
                socket.close()
            elif self._finishing and not self._stream.has_requests:
                socket.say_end()
            else:
                self.flush()
