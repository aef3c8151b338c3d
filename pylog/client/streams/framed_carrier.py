"""A request stream over a TCP connection of its own: frames instead of HTTP/2, no tasks, no copies.

`pylog/rpc/streams.py` has the frames. Where the connection or the greeting fails, the stream goes
on over gRPC; a connection that breaks later is the stream's end.

Requests may be written, and answers read, by the thread that has them to write or waits for them
(`is_free`, `read_here`); everything else, and these as long as nobody else does, is for the loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from enum import Enum
from typing import Final

from google.protobuf.message import DecodeError

from pylog import errors
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.cluster.server import StreamWay
from pylog.client.streams.carrier import Carried
from pylog.client.streams.connection import Connection, connected
from pylog.rpc import streams
from pylog.rpc.framing import FrameCutter

CONNECT_S_MAX: Final = 2.0
"""For the connection and the greeting: a firewall that swallows packets costs so much, twice. Less
would mistake a busy machine for one."""
ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""A frame of a broker; above all limits of one fetch, for the one batch that always comes."""
READS_MAX: Final = 16
"""So many full buffers in a row are read before the loop looks at other things."""


class State(Enum):
    """How far the connection is."""

    CONNECTING = "no greeting was answered yet"
    OPEN = "requests go out, answers come"
    CLOSED = "nothing is told any more"


class FramedCarrier:
    """The stream's lock guards what is written and what is received; the stream is told of answers
    outside of it, but under one of their own: who receives some tells them before anybody receives
    the next, or two threads would tell the answers of one request in the wrong order.
    """

    def __init__(self, stream: Carried, way: StreamWay) -> None:
        self._stream = stream
        self._way = way
        self._parse = stream.kind.parse_view
        self._lock = stream.lock
        self._telling = threading.RLock()  # before the stream's lock
        self._state = State.CONNECTING
        self._cutter = FrameCutter(streams.GREETING_BYTES_MAX)
        self._connection: Connection | None = None
        self._closing = False  # once what is left has gone
        self._flushing = False
        self._frame_bytes_max = 0  # that the broker takes, as its greeting tells
        self._too_large: TooLarge | None = None  # the message at which the stream ends
        self._loop = asyncio.get_running_loop()
        self._greeted: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._finishing = False
        self._connecting = asyncio.ensure_future(self._connect())

    def wake(self) -> None:
        # Not at once: requests that are decided on together share a message.
        if self._state is State.OPEN and not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._on_flush)

    def close(self, *, abort: bool) -> None:
        with self._lock:
            if self._state is State.CLOSED:
                return
            self._state = State.CLOSED
            self._connecting.cancel()
            if self._connection is not None:
                self._closing = self._connection.is_full and not abort
                if self._closing:
                    self._connection.lend()  # nobody reads any more
                else:
                    self._connection.close()

    async def finish(self) -> None:
        if self._connection is not None:
            self._finishing = True
            if not self._connection.is_full:
                self._connection.say_end()
            await self._ended

    # ---- the beginning -------------------------------------------------------------------------

    async def _connect(self) -> None:
        address = self._way.address
        while rest_s := self._stream.rest_s(self._way):
            await asyncio.sleep(rest_s)
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                raw = await connected(self._loop, address.host, address.port)
                streams.watch_peer(raw)
                self._connection = Connection(
                    raw, self._loop, on_readable=self._on_readable, on_room=self._on_room
                )
                self._connection.write([self._way.hello])
                await self._greeted
        except TimeoutError:
            reason = f"no answer within {CONNECT_S_MAX:g} s"
        except errors.PylogError as error:
            reason = f"{error.name}: {error}"
        except OSError as error:
            reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        else:
            return
        finally:
            if self._state is State.CONNECTING and self._connection is not None:
                self._connection.close()
        if self._state is State.CONNECTING:
            self._state = State.CLOSED
            self._stream.fall_back(self._way, reason)

    def _on_welcome(self, body: memoryview) -> None:
        said = streams.read_welcome(body)
        if said.broker_id != self._way.broker:
            raise errors.InvalidRequest(f"it is the port of broker {said.broker_id}")
        self._cutter.frame_bytes_max = ANSWER_BYTES_MAX
        self._frame_bytes_max = said.frame_bytes_max
        self._state = State.OPEN
        self._greeted.set_result(None)
        self._stream.opened(self._way)
        if self._stream.has_requests:
            self.wake()

    # ---- for other threads ---------------------------------------------------------------------

    @property
    def is_free(self) -> bool:
        """Whether a request may be written here and now, by any thread that has the lock."""
        connection = self._connection
        return (
            self._state is State.OPEN
            and not self._flushing
            and self._too_large is None
            and connection is not None
            and not connection.is_full
        )

    @property
    def connection(self) -> Connection | None:
        """What a thread may wait at for answers, instead of the loop; None when it may not."""
        return self._connection if self._state is State.OPEN else None

    def flush(self) -> None:
        """Write what the stream has, as far as the kernel takes it. The lock is held."""
        stream, connection = self._stream, self._connection
        while stream.has_requests and self._state is State.OPEN and self._too_large is None:
            assert connection is not None
            if connection.is_full:
                return
            pieces, told = stream.next_message()
            size = 1 + sum(map(len, pieces))
            if size > self._frame_bytes_max:
                # Nothing may go past it, and the broker would end the stream as well.
                self._too_large = TooLarge(
                    size, self._frame_bytes_max, by_server=True, is_answer=False
                )
                self._loop.call_soon_threadsafe(self._fail, str(self._too_large))
                return
            connection.write(streams.framed(streams.MESSAGE, pieces))
            stream.written(told)

    def read_here(self) -> bool:
        """Take in what has come, on a thread that waits for it; False when the loop must go on:
        it finds out what is wrong.
        """
        with self._telling:
            with self._lock:
                if self._state is not State.OPEN:
                    return False
                try:
                    frames = self._receive()
                except (OSError, errors.PylogError) as error:
                    self._loop.call_soon_threadsafe(self._fail_of, error)
                    return False
            for body in frames or ():
                try:
                    if not len(body) or body[0] != streams.MESSAGE:
                        raise DecodeError
                    answer = self._parse(body[1:])
                except DecodeError:
                    self._loop.call_soon_threadsafe(self._take_frames, [body])
                    return False
                self._stream.answered(answer)
            return frames is not None

    # ---- what comes ----------------------------------------------------------------------------

    def _receive(self) -> list[memoryview] | None:
        """The frames that are whole by now; None at the end of the stream. The lock is held."""
        connection = self._connection
        assert connection is not None
        frames: list[memoryview] = []
        for _ in range(READS_MAX):
            buffer = self._cutter.free_buffer()
            count = connection.receive_into(buffer)
            if count == 0 and not frames:
                return None
            if count <= 0:
                break
            frames += self._cutter.received(count)
            if count < len(buffer) or self._state is State.CONNECTING:
                break
        return frames

    def _on_readable(self) -> None:
        with self._telling:
            try:
                with self._lock:
                    if self._state is State.CLOSED:
                        return
                    frames = self._receive()
            except (OSError, errors.PylogError) as error:
                self._fail_of(error)
            else:
                if frames is None:
                    self._fail("the broker closed the stream")
                else:
                    self._take_frames(frames)

    def _take_frames(self, frames: list[memoryview]) -> None:
        try:
            for body in frames:
                if self._state is State.CLOSED:
                    return
                self._on_frame(body)
        except errors.PylogError as error:
            self._fail_of(error)
        except DecodeError as error:  # of an answer: a greeting's is an InvalidRequest
            self._fail(f"its answer cannot be read: {error}")

    def _on_frame(self, body: memoryview) -> None:
        if self._state is State.CONNECTING:
            self._on_welcome(body)
        elif len(body) and body[0] == streams.MESSAGE:
            self._stream.answered(self._parse(body[1:]))
        elif len(body) and body[0] == streams.ERROR:
            raise streams.read_fault(body)
        else:
            raise errors.InvalidRequest("a frame of a kind that no broker sends")

    def _fail_of(self, error: Exception) -> None:
        if isinstance(error, errors.PylogError):
            self._fail(f"{error.name}: {error}", error)
        else:
            self._fail(str(error).lower(), error)

    def _fail(self, reason: str, error: Exception | None = None) -> None:
        """The connection is of no more use."""
        with self._lock:
            was, connection = self._state, self._connection
            if was is State.OPEN:
                self._state = State.CLOSED
        assert connection is not None
        connection.close()
        if not self._ended.done():
            self._ended.set_result(None)
        if was is State.OPEN:
            if self._too_large is None:
                self._stream.broke(self._way)
            self._stream.ended(str(self._too_large or reason), self._too_large)
        elif was is State.CONNECTING and not self._greeted.done():
            self._greeted.set_exception(error or ConnectionError(reason))
            self._greeted.exception()  # looked at: nobody may wait for it any more

    # ---- what goes -----------------------------------------------------------------------------

    def _on_flush(self) -> None:
        with self._lock:
            self._flushing = False
            self.flush()

    def _on_room(self) -> None:
        with self._lock:
            connection = self._connection
            assert connection is not None
            connection.write_more()
            if connection.is_full:
                return
            connection.stop_watching_for_room()
            if self._closing:
                connection.close()
            elif self._finishing and not self._stream.has_requests:
                connection.say_end()
            else:
                self.flush()
