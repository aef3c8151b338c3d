"""A request stream over a TCP connection of its own: frames instead of HTTP/2, no tasks, no copies.

`pylog/rpc/streams.py` has the frames. Where the connection or the greeting fails, the stream goes
on over gRPC; a connection that breaks later is the stream's end.
"""

from __future__ import annotations

import asyncio
import os
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, cast

from google.protobuf.message import DecodeError

from pylog import errors
from pylog.client.server import StreamWay
from pylog.rpc import streams
from pylog.rpc.framing import FrameCutter

if TYPE_CHECKING:
    from pylog.client.stream import RequestStream

CONNECT_S_MAX: Final = 2.0
"""For the connection and the greeting: a firewall that swallows packets costs so much, twice. Less
would mistake a busy machine for one."""
ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""A frame of a broker; above all limits of one fetch, for the one batch that always comes."""


class State(Enum):
    """How far the connection is."""

    CONNECTING = "no greeting was answered yet"
    OPEN = "requests go out, answers come"
    CLOSED = "nothing is told any more"


class FramedCarrier(asyncio.BufferedProtocol):
    """Lives on the client's loop."""

    def __init__(self, stream: RequestStream[Any, Any], way: StreamWay) -> None:
        self._stream = stream
        self._way = way
        self._parse = stream.kind.parse_view
        self._state = State.CONNECTING
        self._cutter = FrameCutter(streams.GREETING_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._flushing = False
        self._fault = ""
        self._loop = asyncio.get_running_loop()
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._connecting = asyncio.ensure_future(self._connect())

    def wake(self) -> None:
        # Not at once: requests that are decided on together share a message.
        if self._state is State.OPEN and not self._flushing and not self._paused:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def close(self, *, abort: bool) -> None:
        if self._state is State.CLOSED:
            return
        self._state = State.CLOSED
        self._connecting.cancel()
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()

    async def finish(self) -> None:
        if self._transport is not None:
            self._transport.write_eof()
            await self._ended

    # ---- the beginning -------------------------------------------------------------------------

    async def _connect(self) -> None:
        address = self._way.address
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self._loop.create_connection(lambda: self, address.host, address.port)
                await self._greeted
        except TimeoutError:
            reason = f"no answer within {CONNECT_S_MAX:g} s"
        except errors.PylogError as error:
            reason = f"{error.name}: {error}"
        except OSError as error:
            # asyncio tells of several addresses in one text without a number.
            reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        else:
            return
        finally:
            if self._state is State.CONNECTING and self._transport is not None:
                self._transport.abort()
        if self._state is State.CONNECTING:
            self._state = State.CLOSED
            self._stream.fall_back(self._way, reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        if self._state is State.CLOSED:
            self._transport.abort()
            return
        streams.watch_peer(transport)
        self._transport.write(self._way.hello)

    def _on_welcome(self, body: memoryview) -> None:
        said = streams.read_welcome(body)
        if said.broker_id != self._way.broker:
            raise errors.InvalidRequest(f"it is the port of broker {said.broker_id}")
        self._cutter.frame_bytes_max = ANSWER_BYTES_MAX
        self._state = State.OPEN
        self._greeted.set_result(None)
        self._stream.opened()
        if self._stream.has_requests:
            self.wake()

    def _refuse(self, error: Exception) -> None:
        if not self._greeted.done():
            self._greeted.set_exception(error)
            self._greeted.exception()  # looked at: nobody may wait for it any more

    # ---- what the transport says ---------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._ended.set_result(None)
        reason = self._fault or (str(exc).lower() if exc else "the broker closed the stream")
        if self._state is State.OPEN:
            self._state = State.CLOSED
            self._stream.ended(reason)
        else:
            self._refuse(ConnectionError(reason))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._cutter.free_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for body in self._cutter.received(nbytes):
                if self._state is State.CLOSED:
                    return
                self._on_frame(body)
        except errors.PylogError as error:
            if self._state is State.CONNECTING:
                self._refuse(error)
                return
            self._break(f"{error.name}: {error}")
        except DecodeError as error:  # of an answer: a greeting's is an InvalidRequest
            self._break(f"its answer cannot be read: {error}")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._stream.has_requests:
            self.wake()

    # ---- requests and answers ------------------------------------------------------------------

    def _flush(self) -> None:
        self._flushing = False
        stream = self._stream
        while stream.has_requests and not self._paused and self._state is State.OPEN:
            assert self._transport is not None
            pieces, told = stream.next_message()
            self._transport.writelines(streams.framed(streams.MESSAGE, pieces))
            stream.written(told)

    def _on_frame(self, body: memoryview) -> None:
        if self._state is State.CONNECTING:
            self._on_welcome(body)
        elif len(body) and body[0] == streams.MESSAGE:
            self._stream.answered(self._parse(body[1:]))
        elif len(body) and body[0] == streams.ERROR:
            raise streams.read_fault(body)
        else:
            raise errors.InvalidRequest("a frame of a kind that no broker sends")

    def _break(self, fault: str) -> None:
        self._fault = fault
        if self._transport is not None:
            self._transport.abort()
