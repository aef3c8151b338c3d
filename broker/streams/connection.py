"""One client's framed stream: greeting, then requests in order and their answers in order.

No task for a request: frames are handled as they come, answers are written as they are ready. What
cannot be handled yet waits here, and while anything does nothing more is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from enum import Enum
from operator import attrgetter
from typing import Final, Protocol, cast

from google.protobuf.message import DecodeError

from broker.clients.requests import PRODUCE_PIPELINE_MAX, ClientRequests
from broker.clients.wire import fetched
from broker.replication.messages import PartitionData
from pylog import errors
from pylog.rpc import streams
from pylog.rpc.framing import Chunks, FrameCutter
from pylog.rpc.produce_wire import parse_message
from pylog.rpc.v1 import log_pb2, stream_pb2

_ACKS: Final = attrgetter("acks")

BUFFER_BYTES: Final = 8 * 1024
"""What a connection holds on to while nothing comes; a larger frame gets a buffer of its own."""

_log = logging.getLogger("pylog.streams")


class State(Enum):
    """What the next frame must be."""

    GREETING = "a hello"
    PRODUCE = "a ProduceRequest"
    FETCH = "a FetchRequest"
    CLOSED = "nothing is taken any more"


class _Slot:
    """The place of one produce answer in its stream's order."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: bytes | None = None


class _Fetching:
    """A fetch that was not answered for the last time. `stands`: it was answered before."""

    __slots__ = ("stands", "token")

    def __init__(self) -> None:
        self.stands = False
        self.token: object | None = None


class Listener(Protocol):
    """What connections need of who listens."""

    frame_bytes_max: int
    requests: ClientRequests

    def opened(self, connection: StreamConnection) -> errors.PylogError | None:
        """A connection came; why it may not stay."""

    def closed(self, connection: StreamConnection) -> None:
        """It is gone."""

    def refused(self, connection: StreamConnection, state: State, fault: errors.PylogError) -> None:
        """It was ended because of what came."""

    def greet(self, said: stream_pb2.StreamHello) -> bytes:
        """The answer to a greeting; raises what it is refused with."""


class StreamConnection(asyncio.BufferedProtocol):
    """Lives on the broker's loop.

    Invariant: `_waiting` holds frames only while `_is_held`; a stream of fetches has at most one
    under way, and begins none before its client has taken the answers so far. The next frame ends
    one that stands.
    """

    def __init__(self, server: Listener) -> None:
        self.state = State.GREETING
        self.peer = "?"
        self.frames = 0
        self.received = 0
        self._server = server
        self._cutter = FrameCutter(streams.GREETING_BYTES_MAX, BUFFER_BYTES)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[memoryview] = deque()
        self._slots: deque[_Slot] = deque()
        self._checking: asyncio.Task[None] | None = None
        self._fetching: _Fetching | None = None
        self._writing_paused = False
        self._reading_paused = False
        self._handling = False

    # ---- what the transport says ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if name else "?"
        fault = self._server.opened(self)
        if fault is not None:
            self.refuse(fault)
            return
        streams.watch_peer(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.state = State.CLOSED
        self._transport = None
        self._server.closed(self)
        self._waiting.clear()
        self._slots.clear()
        if self._checking is not None:
            self._checking.cancel()
        self._end_fetch()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._cutter.free_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        try:
            frames = self._cutter.received(nbytes)
        except errors.PylogError as fault:
            self.refuse(fault)
            return
        if frames:
            self.frames += len(frames)
            self._waiting.extend(frames)
            self._advance()

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._advance()

    # ---- what the server asks ------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """What was written and the kernel has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def is_inside_frame(self) -> bool:
        """Whether the client, which has greeted, owes the rest of a frame."""
        if self._reading_paused or (self._fetching is not None and not self._fetching.stands):
            return False
        if self.state in (State.GREETING, State.CLOSED):
            return False
        return self._cutter.is_inside_frame

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def refuse(self, fault: errors.PylogError) -> None:
        """Say why, and end the connection."""
        before = self.state
        if self._transport is None or before is State.CLOSED:
            return
        self.state = State.CLOSED
        self._waiting.clear()
        self._transport.write(streams.fault_frame(fault))
        self._transport.close()
        self._server.refused(self, before, fault)

    # ---- frames --------------------------------------------------------------------------------

    @property
    def _is_held(self) -> bool:
        """Whether the next frame must wait."""
        if self._writing_paused or self._checking is not None:
            return True
        if self._fetching is not None:
            return not self._fetching.stands
        return len(self._slots) >= PRODUCE_PIPELINE_MAX

    def _advance(self) -> None:
        """Handle what can be handled; read on only when nothing waits."""
        if self._handling:  # an answer came while its request was being handed over
            return
        waiting = self._waiting
        if not waiting and not self._reading_paused:
            return  # an answer was given, and nothing waited for that
        self._handling = True
        try:
            while waiting and not self._is_held:
                self._on_frame(waiting.popleft())
        except errors.PylogError as fault:
            self.refuse(fault)
        except DecodeError as error:
            self.refuse(errors.InvalidRequest(f"the bytes are not {self.state.value}: {error}"))
        except Exception:  # noqa: BLE001 (the top of a connection: the server must live on)
            _log.exception("a frame of %s failed unexpectedly", self.peer)
            self.refuse(errors.UnknownServerError())
        finally:
            self._handling = False
        self._regulate()

    def _regulate(self) -> None:
        # A fetch under way alone does not stop the reading: two calls of the system for each would
        # say no more than that its client, which waits for the answer, sends nothing.
        wanted = bool(self._waiting) or (self._fetching is None and self._is_held)
        if (
            self._transport is None
            or wanted == self._reading_paused
            or self._transport.is_closing()
        ):
            return
        self._reading_paused = wanted
        if wanted:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _on_frame(self, body: memoryview) -> None:
        if self.state is State.GREETING:
            self._greet(body)
            return
        if not len(body) or body[0] != streams.MESSAGE:
            kind = body[0] if len(body) else "none"
            raise errors.InvalidRequest(f"a frame of kind {kind}, where {self.state.value} belongs")
        if self.state is State.PRODUCE:
            self._produce(body[1:])
        elif self.state is State.FETCH:
            self._fetch(body[1:])

    def _greet(self, body: memoryview) -> None:
        said = streams.read_hello(body)
        answer = self._server.greet(said)
        self.state = State.PRODUCE if said.kind == streams.PRODUCE else State.FETCH
        self._cutter.frame_bytes_max = self._server.frame_bytes_max
        if self.state is State.FETCH and self._transport is not None:
            # Or what consumers wait for would be written when all that came together is handled.
            self._transport.set_write_buffer_limits(0)
        self._write([answer])

    def _write(self, chunks: Chunks) -> None:
        """Nothing follows the fault that ends the connection."""
        if self._transport is not None and self.state is not State.CLOSED:
            self._transport.writelines(chunks)

    # ---- produce -------------------------------------------------------------------------------

    def _produce(self, message: memoryview) -> None:
        requests = parse_message(message)
        slot = _Slot() if any(map(_ACKS, requests)) else None
        if slot is not None:
            self._slots.append(slot)

        def done(answer: bytes) -> None:
            if slot is not None:
                slot.answer = answer
                self._flush()

        checking = self._server.requests.produce(requests, done)
        if checking is not None:
            self._checking = checking
            checking.add_done_callback(self._on_checked)

    def _on_checked(self, task: asyncio.Task[None]) -> None:
        self._checking = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("a batch of %s could not be checked", self.peer, exc_info=error)
            self.refuse(errors.UnknownServerError())
            return
        self._advance()

    def _flush(self) -> None:
        """Send the answers that are next in order."""
        slots = self._slots
        chunks: Chunks = []
        while slots and slots[0].answer is not None:
            chunks += streams.framed(streams.MESSAGE, [slots.popleft().answer or b""])
        if chunks:
            self._write(chunks if len(chunks) == 1 else [b"".join(chunks)])
            if self._reading_paused:
                self._advance()

    # ---- fetch ---------------------------------------------------------------------------------

    def _fetch(self, message: memoryview) -> None:
        request = log_pb2.FetchRequest.FromString(bytes(message))
        self._end_fetch()  # one that stands: its client asks something else by now
        fetching = self._fetching = _Fetching()

        def done(partitions: Sequence[PartitionData]) -> None:
            if self._fetching is fetching:
                self._fetching = None
                answer = fetched(request.correlation, partitions)
                self._write(streams.framed(streams.MESSAGE, answer))
                self._advance()

        def stands(partitions: Sequence[PartitionData]) -> None:
            if self._fetching is fetching:
                fetching.stands = True
                answer = fetched(request.correlation, partitions, stands=True)
                self._write(streams.framed(streams.MESSAGE, answer))
                self._advance()

        fetching.token = self._server.requests.fetch(request, done, stands)

    def _end_fetch(self) -> None:
        """Nobody waits for what the fetch under way finds."""
        fetching, self._fetching = self._fetching, None
        if fetching is not None and fetching.token is not None:
            self._server.requests.cancel(fetching.token)
