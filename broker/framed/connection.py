"""One client's framed stream: a greeting, then produces or fetches in order, or calls in any order.

Produces and fetches have no tasks: frames are handled as they come, and answers are written as they
are ready. Frames that cannot be handled yet wait here, and while anything does nothing more is
read. Nor is it while the memory for requests of all connections is used up (`RequestMemory`); and
no fetch and no call begins while clients have not taken too much of what was answered
(`AnswerMemory`).
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import logging
import termios
from collections import deque
from collections.abc import Sequence
from enum import Enum
from operator import attrgetter
from typing import Final, Protocol

from google.protobuf.message import DecodeError

from pylog import errors
from pylog.clock import ticks
from pylog.rpc import streams
from pylog.rpc.framing import Chunks, FrameCutter
from pylog.rpc.produce_wire import parse_message
from pylog.rpc.v1 import log_pb2, stream_pb2
from pylog_broker.api.api import DataApi
from pylog_broker.api.context import RequestContext, bounded_client_id, bounded_software
from pylog_broker.api.produce import PRODUCE_PIPELINE_MAX, Answers
from pylog_broker.api.request_memory import SMALL_BYTES as READ_BYTES
from pylog_broker.framed.gathering import Gathering
from pylog_broker.framed.open_calls import OpenCalls
from pylog_broker.net.acceptor import Place
from pylog_broker.net.connection import Connection, Slot, take_ready
from pylog_broker.protobuf.produce_and_fetch import (
    all_produced,
    fetch_from,
    fetched,
    produce_from,
)
from pylog_broker.protobuf.unary import UnaryApis
from pylog_broker.replication.fetch_messages import PartitionData

LISTENER: Final = "streams"

_ACKS: Final = attrgetter("acks")

BUFFER_BYTES: Final = READ_BYTES
"""The buffer of a connection while nothing comes; a larger frame gets a buffer of its own."""

_log = logging.getLogger("pylog.streams")


class State(Enum):
    """The kind of frame that must come next."""

    GREETING = "a hello"
    PRODUCE = "a ProduceRequest"
    FETCH = "a FetchRequest"
    CALLS = "a call"
    CLOSED = "nothing is taken any more"


_STATES: Final = {
    streams.PRODUCE: State.PRODUCE,
    streams.FETCH: State.FETCH,
    streams.CALLS: State.CALLS,
}
_OPEN: Final = frozenset(_STATES.values())
_MAKE_ANSWERS: Final = (State.FETCH, State.CALLS)
"""Their answers may be large, and wait until others have taken theirs."""
_LEAVE_WORK: Final = (State.PRODUCE, State.CALLS)
"""Frames of them leave memory taken behind: batches, or calls, whose answers are due."""


class _Fetching:
    """A fetch that was not answered for the last time. `stands`: it was answered before."""

    __slots__ = ("frame", "stands", "token")

    def __init__(self, frame: memoryview) -> None:
        self.frame = frame
        self.stands = False
        self.token: object | None = None


def _size_of(partitions: Sequence[PartitionData]) -> int:
    return sum(len(item.records) for item in partitions)


class Listener(Protocol):
    """The server, as its connections see it."""

    data: DataApi
    apis: UnaryApis
    calls_max: int
    gathering: Gathering

    def frame_bytes_max_of(self, kind: stream_pb2.StreamKind) -> int:
        """The largest frame of such a stream."""

    def opened(self, connection: StreamConnection) -> None:
        """A connection came."""

    def closed(self, connection: StreamConnection) -> None:
        """It is gone."""

    def refused(self, connection: StreamConnection, state: State, fault: errors.PylogError) -> None:
        """It was ended because of what came in that state; CLOSED: the fault is counted already."""

    def greet(self, connection: StreamConnection, said: stream_pb2.StreamHello) -> bytes:
        """The answer to a greeting; raises what it is refused with."""


class StreamConnection(Connection):
    """Lives on the broker's loop.

    Invariant: `_waiting` holds frames only while `_is_held`; a stream of fetches has at most one
    under way, and begins none before its client has taken the answers so far. The next frame ends
    one that stands.
    """

    def __init__(self, server: Listener, place: Place) -> None:
        super().__init__(place, FrameCutter(streams.GREETING_BYTES_MAX, BUFFER_BYTES))
        self.state = State.GREETING
        self.frames = 0
        self._server = server
        self._data = server.data
        self._context = RequestContext(LISTENER, "", "")
        self._memory = server.data.produce.memory
        self._answers = server.data.fetch.answers
        self._waiting: deque[memoryview] = deque()
        self._came: dict[int, float] = {}  # when which frame was there
        self._slots: deque[Slot] = deque()
        self._calls: OpenCalls | None = None
        self._checking: asyncio.Task[None] | None = None
        self._fetching: _Fetching | None = None
        self._starved = False  # nothing is read for want of memory
        self._wants_room = False  # for an answer; no fetch begins
        self._held = 0  # of that memory
        self._looked = 0  # what had been received when the memory asked
        self._handling = False

    # ---- what the transport says ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.opened(self)
        streams.watch_peer(transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.state = State.CLOSED
        self._server.closed(self)
        self._waiting.clear()
        self._slots.clear()
        self._held = 0
        self._memory.forget(self)
        self._answers.forget(self)
        if self._checking is not None:
            self._checking.cancel()
        if self._calls is not None:
            self._calls.cancel()
        self._end_fetch()

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
            self._came.update(dict.fromkeys(map(id, frames), ticks()))
            if self._held:
                self._memory.came_whole(self)
            self._advance()
        if self._held or self._waiting or self._cutter.held:
            self._count_memory()
        if self._cutter.growth or self._memory.is_full:
            self._take_memory()

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._answers.hold(self, self.unsent_bytes)
        if self._calls is not None:
            self._calls.pause()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._answers.hold(self, 0)
        if self._calls is not None:
            self._calls.go_on()
        self._advance()

    # ---- memory --------------------------------------------------------------------------------

    def _count_memory(self) -> None:
        """Tell what this connection holds by now: half a frame, or whole ones that must wait."""
        held = self._cutter.held + sum(map(len, self._waiting))
        if held != self._held and self._transport is not None:
            self._held = held
            self._memory.hold(self, held)

    def _take_memory(self) -> None:
        """Have what the next bytes need, or read nothing until there is room."""
        cutter, memory = self._cutter, self._memory
        growth = cutter.growth
        if not growth and (cutter.held or self.state not in _LEAVE_WORK):
            return  # the buffer that it has may be filled; and other frames leave nothing behind
        if self._transport is None or self.state is State.CLOSED:
            return
        usual = cutter.usual_growth
        if usual > growth and memory.has_plenty(usual):
            growth = usual
        self._starved = not memory.may_take(self, growth or BUFFER_BYTES)
        if growth and not self._starved:
            cutter.grow(growth)
            self._count_memory()
        self._regulate()

    def resume(self) -> None:
        """There is room, for requests or for answers."""
        if self._starved:
            self._starved = False
            if self._cutter.growth:
                self._take_memory()
            else:
                self._regulate()
        self._wants_room = False
        self._advance()

    def could_go_on(self) -> bool:
        """Whether anything came since this was asked last, or its client has sent more than may be
        read at the moment.
        """
        before, self._looked = self._looked, self.received
        if self.received != before or not self._cutter.missing:
            return True
        unread = array.array("i", [0])
        raw = self._transport.get_extra_info("socket") if self._transport is not None else None
        if raw is not None:
            fcntl.ioctl(raw.fileno(), termios.FIONREAD, unread)
        return unread[0] >= min(self._cutter.missing, BUFFER_BYTES)

    # ---- what the server asks ------------------------------------------------------------------

    @property
    def context(self) -> RequestContext:
        """The client at the other end, once it has greeted."""
        return self._context

    @property
    def is_inside_frame(self) -> bool:
        """Whether the client, which has greeted, owes the rest of a frame."""
        if self._reading_paused or (self._fetching is not None and not self._fetching.stands):
            return False
        if self.state in (State.GREETING, State.CLOSED):
            return False
        return self._cutter.is_inside_frame

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due: no answer, no half request. A fetch that stands is due."""
        return (
            self.state in _OPEN
            and self._fetching is None
            and not self._calls
            and self._checking is None
            and not (self._slots or self._waiting or self._starved)
            and not (self._cutter.is_inside_frame or self.unsent_bytes)
        )

    def close(self) -> None:
        """End a connection that nobody uses."""
        self.state = State.CLOSED
        super().close()

    def end_calls(self, fault: errors.PylogError) -> None:
        """Answer the calls that are open with an error, and end the connection; others stay."""
        if self._calls:
            self._waiting.clear()
            self._calls.refuse(fault)
            self.close()

    def give_way(self) -> None:
        """End a connection that has not said what it is: others want its place."""
        self.state = State.CLOSED
        super().give_way()

    def drop(self, fault: errors.PylogError) -> None:
        """End a connection whose client takes nothing, so that nothing can be said to it."""
        before = self.state
        if self._transport is not None and before is not State.CLOSED:
            self.state = State.CLOSED
            self._waiting.clear()
            self._transport.abort()
            self._server.refused(self, before, fault)

    def refuse(self, fault: errors.PylogError, *, is_counted: bool = False) -> None:
        """Say why, and end the connection. `is_counted`: the fault stands in the metrics."""
        before = self.state
        if self._transport is None or before is State.CLOSED:
            return
        self.state = State.CLOSED
        self._waiting.clear()
        if self._calls is not None:
            self._calls.cancel()
        self._transport.write(streams.fault_frame(fault))
        self._transport.close()
        self._server.refused(self, State.CLOSED if is_counted else before, fault)

    # ---- frames --------------------------------------------------------------------------------

    @property
    def _is_held(self) -> bool:
        """Whether the next frame must wait."""
        if self._writing_paused or self._checking is not None:
            return True
        if self._fetching is not None:
            return not self._fetching.stands
        if self._calls is not None:
            return len(self._calls) >= self._server.calls_max
        return len(self._slots) >= PRODUCE_PIPELINE_MAX

    def _has_room(self) -> bool:
        """Whether the next frame may be handled for all that others have not taken."""
        if self.state in _MAKE_ANSWERS and not self._wants_room:
            self._wants_room = self._answers.is_full
        if self._wants_room:
            self._answers.wait(self)
        return not self._wants_room

    def _advance(self) -> None:
        """Handle what can be handled; read on only when nothing waits."""
        if self._handling:  # an answer came while its request was being handed over
            return
        waiting = self._waiting
        if not waiting and not self._reading_paused:
            return  # an answer was given, and nothing waited for that
        self._handling = True
        try:
            while waiting and not self._is_held and self._has_room():
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
        if self._held:
            self._count_memory()
        self._regulate()

    def _regulate(self) -> None:
        # A fetch under way alone does not stop the reading: two calls of the system for each would
        # say no more than that its client, which waits for the answer, sends nothing.
        self.hold_reading(
            self._starved or bool(self._waiting) or (self._fetching is None and self._is_held)
        )

    def _on_frame(self, body: memoryview) -> None:
        came = self._came.pop(id(body), None)
        if self.state is State.GREETING:
            self._greet(body)
            return
        if self._calls is not None:
            if self.state is State.CALLS:
                self._calls.begin(body, ticks() if came is None else came)
            return
        if not len(body) or body[0] != streams.MESSAGE:
            kind = body[0] if len(body) else "none"
            raise errors.InvalidRequest(f"a frame of kind {kind}, where {self.state.value} belongs")
        if self.state is State.PRODUCE:
            self._produce(body[1:], came)
        elif self.state is State.FETCH:
            self._fetch(body, came)

    def _greet(self, body: memoryview) -> None:
        said = streams.read_hello(body)
        answer = self._server.greet(self, said)
        self._context = RequestContext(
            LISTENER,
            self.peer.rpartition(":")[0],
            self.peer,
            bounded_client_id(said.client_id),
            bounded_software(said.software_name),
            bounded_software(said.software_version),
        )
        self.state = _STATES[said.kind]
        if self.state is State.CALLS:
            self._calls = OpenCalls(
                self, self._server.apis, self._context, self._memory, self._server.gathering
            )
        self._cutter.frame_bytes_max = self._server.frame_bytes_max_of(said.kind)
        if self.state is State.FETCH and self._transport is not None:
            # Or what consumers wait for would be written when all that came together is handled.
            self._transport.set_write_buffer_limits(0)
        self._write([answer])

    def _write(self, chunks: Chunks) -> None:
        """Nothing follows the fault that ends the connection."""
        if self._transport is not None and self.state is not State.CLOSED:
            self._transport.writelines(chunks)
            if self._writing_paused:
                self._answers.hold(self, self.unsent_bytes)

    # ---- calls ---------------------------------------------------------------------------------

    def write_answer(self, chunks: Chunks) -> None:
        """Send a call's answer, and take what waited for its place."""
        self._write(chunks)
        if self._reading_paused:
            self._advance()

    # ---- produce -------------------------------------------------------------------------------

    def _produce(self, message: memoryview, came: float | None) -> None:
        requests = parse_message(message)
        slot = Slot() if any(map(_ACKS, requests)) else None
        if slot is not None:
            self._slots.append(slot)

        def done(answers: Answers) -> None:
            if slot is not None:
                slot.answer = streams.framed(streams.MESSAGE, [all_produced(requests, answers)])
                self._flush()

        values = [*map(produce_from, requests)]
        handle = self._data.produce.handle
        checking = handle(self._context, values, done, self._end_unheard, came)
        if checking is not None:
            self._checking = checking
            checking.add_done_callback(self._on_checked)

    def _end_unheard(self, fault: errors.PylogError) -> None:
        """Nobody hears of a refused batch otherwise, and that another leads by now."""
        self.refuse(fault, is_counted=True)

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
        chunks = take_ready(self._slots)
        if chunks:
            self._write(chunks if len(chunks) == 1 else [b"".join(chunks)])
            if self._reading_paused:
                self._advance()

    # ---- fetch ---------------------------------------------------------------------------------

    def _fetch(self, frame: memoryview, came: float | None) -> None:
        request = log_pb2.FetchRequest.FromString(bytes(frame[1:]))
        self._end_fetch()  # one that stands: its client asks something else by now
        fetching = self._fetching = _Fetching(frame)

        def done(partitions: Sequence[PartitionData]) -> None:
            if self._fetching is fetching:
                self._fetching = None
                if not self._answers.fits(_size_of(partitions)):
                    if not fetching.stands:
                        self._ask_again(fetching)
                        return
                    partitions = ()  # its client asks from where the last answer ended
                answer = fetched(request.correlation, partitions)
                self._write(streams.framed(streams.MESSAGE, answer))
                self._advance()

        def stands(partitions: Sequence[PartitionData]) -> None:
            if self._fetching is fetching:
                fetching.stands = True
                answer = fetched(request.correlation, partitions, stands=True)
                self._write(streams.framed(streams.MESSAGE, answer))
                self._advance()

        value = fetch_from(request, may_stand=True)
        fetching.token = self._data.fetch.handle(self._context, value, done, stands, came)

    def _ask_again(self, fetching: _Fetching) -> None:
        """Forget what was found, and look for it when others have taken their answers."""
        self._waiting.appendleft(fetching.frame)
        self._wants_room = True
        self._advance()

    def _end_fetch(self) -> None:
        """Nobody waits for what the fetch under way finds."""
        fetching, self._fetching = self._fetching, None
        if fetching is not None and fetching.token is not None:
            self._data.fetch.cancel(fetching.token)
