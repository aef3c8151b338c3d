"""A client's framed connection without its socket: bytes go in, events come out.

Covers the greeting, the cutting of frames, which answer belongs to which call, and the one end that
each connection has. Does not cover what a stream's messages say, nor the callers that wait for
them. Pure: the reader of the socket hands in the bytes that came, on any thread, one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from pylog import errors
from pylog.rpc import calls, streams
from pylog.rpc.apis import UnaryApi
from pylog.rpc.framing import Chunks, FrameCutter, FrameRefused
from pylog.rpc.v1 import stream_pb2

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""A frame of a broker; above all limits of one fetch, for the one batch that always comes."""

CallT = TypeVar("CallT")


class State(Enum):
    """The states of a connection: each state is followed by a later one only."""

    GREETING = "no greeting was answered yet"
    OPEN = "requests go out, answers come"
    ENDED = "nothing is told any more"


@dataclass(frozen=True, slots=True)
class Agreed:
    """The outcome of the greetings of both sides."""

    broker_epoch: int
    frame_bytes_max: int  # of the client's frames
    calls_max: int  # so many calls may wait for their answers; 0: this broker takes none
    software_name: str
    software_version: str
    versions: Mapping[int, int]  # of each API by its key: the highest that both sides speak


@dataclass(frozen=True, slots=True)
class Greeted:
    """The broker took the greeting: requests may go."""

    agreed: Agreed


@dataclass(frozen=True, slots=True)
class Answered(Generic[CallT]):
    """A call's response, as a view."""

    call: CallT
    response: memoryview


@dataclass(frozen=True, slots=True)
class Failed(Generic[CallT]):
    """The broker could not carry a call out, and says why."""

    call: CallT
    error: errors.PylogError


@dataclass(frozen=True, slots=True)
class Ended(Generic[CallT]):
    """Nothing comes any more. `calls` were not answered. `error`: as the broker named it, or what
    is wrong with what it sent; None for a connection that broke or was closed.
    """

    reason: str
    error: errors.PylogError | None = None
    calls: tuple[CallT, ...] = ()


Event = memoryview | Greeted | Answered[CallT] | Failed[CallT] | Ended[CallT]
"""A view is a message of a stream of produce or fetch: one object less for each on that path."""


class ClientConnection(Generic[CallT]):
    """A client's end of the protocol on one socket. `CallT` is whatever the caller tells calls
    apart by.

    Invariant: `_calls` holds the numbers that were written and not answered; None stands for a call
    that nobody waits for any more, whose answer will come all the same.
    """

    def __init__(self, kind: stream_pb2.StreamKind, broker: int) -> None:
        self.state = State.GREETING
        self.agreed: Agreed | None = None
        """From the moment at which the broker greeted."""
        self.frames = 0
        """So many have come."""
        self.frame_bytes_max = 0
        """That the broker takes, as its greeting tells."""
        self._kind = kind
        self._takes_messages = False
        self._broker = broker
        self._cutter = FrameCutter(streams.GREETING_BYTES_MAX)
        self.free_buffer = self._cutter.free_buffer
        """Gives where the next bytes go; never empty."""
        self._calls: dict[int, CallT | None] = {}
        self._next = 0

    # ---- what comes ----------------------------------------------------------------------------

    def received(self, count: int) -> list[Event[CallT]]:
        """The events in `count` more bytes of the last buffer, in order. `Ended` is the last of
        all."""
        if self.state is State.ENDED:
            return []
        refused: FrameRefused | None = None
        try:
            frames = self._cutter.received(count)
        except FrameRefused as error:
            frames, refused = [*error.whole], error
        self.frames += len(frames)
        events: list[Event[CallT]] = []
        try:
            for body in frames:
                if self._takes_messages and len(body) and body[0] == streams.MESSAGE:
                    events.append(body[1:])
                else:
                    self._on_frame(body, events)
            if refused is not None:
                raise refused
        except errors.PylogError as error:
            events.append(self._end(f"{error.name}: {error}", error))
        return events

    def closed_by_broker(self) -> list[Event[CallT]]:
        """The broker has said all that it will say."""
        return self.broke("the broker closed the stream")

    def broke(self, reason: str) -> list[Event[CallT]]:
        """The socket is of no more use."""
        return [] if self.state is State.ENDED else [self._end(reason)]

    def close(self) -> tuple[CallT, ...]:
        """End it from this side, without an event: the calls that were not answered."""
        return self._end("").calls

    def _on_frame(self, body: memoryview, events: list[Event[CallT]]) -> None:
        if self.state is State.GREETING:
            events.append(self._on_welcome(body))
        elif len(body) and body[0] == streams.ERROR:
            raise streams.read_fault(body)
        elif self._takes_messages:
            raise errors.InvalidRequest("a frame of a kind that no broker sends")
        else:
            self._on_answer(body, events)

    def _on_answer(self, body: memoryview, events: list[Event[CallT]]) -> None:
        number, said = calls.read_answer(body)
        if number not in self._calls:
            raise errors.InvalidRequest(
                f"an answer to call {number}, which was not made, or was answered before"
            )
        call = self._calls.pop(number)
        if call is None:
            return
        if isinstance(said, errors.PylogError):
            events.append(Failed(call, said))
        else:
            events.append(Answered(call, said))

    def _on_welcome(self, body: memoryview) -> Greeted:
        said = streams.read_welcome(body)
        if said.broker_id != self._broker:
            raise errors.InvalidRequest(f"it is the port of broker {said.broker_id}")
        if self._kind == streams.CALLS and said.calls_max <= 0:
            raise errors.UnsupportedVersion("it takes no calls")
        self._cutter.frame_bytes_max = ANSWER_BYTES_MAX
        self._takes_messages = self._kind != streams.CALLS
        self.frame_bytes_max = said.frame_bytes_max
        self.state = State.OPEN
        self.agreed = Agreed(
            said.broker_epoch,
            said.frame_bytes_max,
            said.calls_max,
            said.software_name,
            said.software_version,
            streams.agreed_versions(said.apis),
        )
        return Greeted(self.agreed)

    def _end(self, reason: str, error: errors.PylogError | None = None) -> Ended[CallT]:
        self.state = State.ENDED
        left = tuple(call for call in self._calls.values() if call is not None)
        self._calls.clear()
        return Ended(reason, error, left)

    # ---- what goes -----------------------------------------------------------------------------

    @property
    def may_call(self) -> bool:
        """Whether the broker takes one more call."""
        agreed = self.agreed
        return (
            self.state is State.OPEN and agreed is not None and len(self._calls) < agreed.calls_max
        )

    def call(
        self, call: CallT, api: UnaryApi[Any, Any], request: bytes, timeout_ms: int
    ) -> tuple[int, Chunks]:
        """A call's number, and its frame, ready for writev; `may_call` holds."""
        assert self.agreed is not None
        assert self.may_call
        while self._next in self._calls:
            self._next = (self._next + 1) % calls.NUMBERS
        number, self._next = self._next, (self._next + 1) % calls.NUMBERS
        self._calls[number] = call
        version = self.agreed.versions[api.key]
        return number, calls.call_frame(number, api.key, version, timeout_ms, request)

    def forget(self, number: int, call: CallT) -> None:
        """Nobody waits for the call of this number any more, if it was not answered. It counts
        until its answer comes.
        """
        if self._calls.get(number) == call:
            self._calls[number] = None
