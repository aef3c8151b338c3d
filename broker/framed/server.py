"""The listener for framed streams: it accepts or refuses connections, and reports refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.plain_text import escaped
from pylog.rpc import streams
from pylog.rpc.v1 import stream_pb2
from pylog_broker.api.api import DataApi
from pylog_broker.framed.connection import LISTENER, State, StreamConnection
from pylog_broker.framed.gathering import Gathering
from pylog_broker.framed.open_calls import CALLS_MAX, UNKNOWN
from pylog_broker.net.acceptor import Acceptor, Gate
from pylog_broker.net.connections import IdleClose, Newcomers
from pylog_broker.net.quotas import Refusal
from pylog_broker.net.shares import CONNECTIONS_MAX
from pylog_broker.protobuf.unary import UnaryApis

GREETING_LOOK_SECONDS: Final = 5.0
"""A greeting must be whole when it is looked for a second time, after 5 to 10 seconds."""
LOOK_SECONDS: Final = 15.0
"""More must have come of a frame that has begun. Idle connections stay; the kernel asks whether
their other end lives.
"""
PROGRESS_BYTES_MIN: Final = 16 * 1024
"""The fewest bytes of a large frame that must come over a slow line, from look to look."""

STOPS: Final = "this broker stops, and does not tell whether the call had an effect"

ID_CHARS_MAX: Final = 64
"""Characters of the cluster id that a stranger sends, in an answer and a log line. A cluster's id
has 22."""
ASKING_BYTES_MAX: Final = 8 * 1024 * 1024
"""A fetch, or a call: a request for the most partitions that one may name, with the longest names.
"""

_REQUESTS: Final = {State.PRODUCE: "Produce", State.FETCH: "Fetch", State.CALLS: UNKNOWN}
_KINDS: Final = (streams.PRODUCE, streams.FETCH, streams.CALLS)


class StreamServer:
    """Lives on the broker's loop. `broker_epoch()`: that of the present registration."""

    def __init__(
        self,
        data: DataApi,
        apis: UnaryApis,
        *,
        broker_id: int,
        cluster_id: str,
        broker_epoch: Callable[[], int],
        frame_bytes_max: int,
        report: Callable[[str], None],
        gate: Gate | None = None,
        connections_max: int = CONNECTIONS_MAX,
        idle_ms_max: int = -1,
        calls_max: int = CALLS_MAX,
        on_closed: Callable[[str], None] = lambda place: None,
    ) -> None:
        """`report`: takes a line about a stranger, and bounds the number of lines. `gate`: of all
        listeners of the process; None: one of its own, without limits by address and time.
        `idle_ms_max`: -1: no limit. `on_closed`: a connection has ended, by its place.
        """
        self._on_closed = on_closed
        self.data = data
        self.apis = apis
        self.calls_max = calls_max
        self.gathering = Gathering()
        self._frame_bytes_max = frame_bytes_max
        self.connections: set[StreamConnection] = set()
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._broker_epoch = broker_epoch
        self._report = report
        self._gate = gate or Gate(SYSTEM_CLOCK, report)
        self._connections_max = connections_max
        self.idle = IdleClose(self.connections, idle_ms_max)
        self.newcomers = Newcomers(GREETING_LOOK_SECONDS, _greets_too_late)
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._unfinished: dict[StreamConnection, tuple[int, int]] = {}

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port. OSError when the address cannot be bound."""
        loop = asyncio.get_running_loop()
        self._acceptor = Acceptor(
            self._gate,
            LISTENER,
            self._connections_max,
            lambda place: StreamConnection(self, place),
            make_room=self.newcomers.make_room,
            last_words=self._last_words,
        )
        port = await self._acceptor.start(host, port)
        self._timer = loop.call_later(LOOK_SECONDS, self._on_time)
        self.newcomers.start()
        self.idle.start()
        return port

    def stop_listening(self) -> None:
        """Take no new connection."""
        if self._acceptor is not None:
            self._acceptor.stop_listening()

    def _last_words(self, refusal: Refusal) -> bytes:
        return streams.fault_frame(
            errors.ThrottlingQuotaExceeded(
                f"this broker takes no more connections here at the moment ({refusal.value})"
            )
        )

    async def close(self) -> None:
        """Drop every connection. Calls that are open are answered with an error; what else waits is
        forgotten.
        """
        self.stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        self.newcomers.stop()
        self.idle.stop()
        self.gathering.close()
        for connection in list(self.connections):
            connection.end_calls(errors.NetworkException(STOPS))
        await asyncio.sleep(0)  # uvloop writes at the end of a turn
        for connection in list(self.connections):
            connection.abort()
        if self._acceptor is not None:
            await self._acceptor.close()

    # ---- for connections -----------------------------------------------------------------------

    def opened(self, connection: StreamConnection) -> None:
        """A connection came."""
        self.connections.add(connection)
        self.newcomers.add(connection)

    def closed(self, connection: StreamConnection) -> None:
        """It is gone."""
        self.connections.discard(connection)
        self._unfinished.pop(connection, None)
        self.newcomers.discard(connection)
        self.idle.forget(connection)
        self._on_closed(connection.context.place)

    def refused(self, connection: StreamConnection, state: State, fault: errors.PylogError) -> None:
        """It was ended because of what came in that state; CLOSED: the fault is counted already."""
        request = _REQUESTS.get(state)
        if request is not None:
            self.data.counters.failed(request, fault.code)
        self._report(f"stream listener: closed {connection.peer}: {fault}")

    def greet(self, connection: StreamConnection, said: stream_pb2.StreamHello) -> bytes:
        """The answer to a greeting; raises what it is refused with."""
        if said.cluster_id != self._cluster_id or said.broker_id != self._broker_id:
            wanted = escaped(said.cluster_id, ID_CHARS_MAX) or "unknown"
            raise errors.InvalidRequest(
                f"this is broker {self._broker_id} of cluster {self._cluster_id}, and not broker "
                f"{said.broker_id} of cluster {wanted}: ask for metadata anew"
            )
        if said.kind not in _KINDS:
            raise errors.UnsupportedVersion(f"streams of kind {said.kind} are not offered")
        self.newcomers.discard(connection)
        limit = self.frame_bytes_max_of(said.kind)
        calls_max = self.calls_max if said.kind == streams.CALLS else 0
        return streams.welcome(self._broker_id, self._broker_epoch(), limit, calls_max=calls_max)

    def frame_bytes_max_of(self, kind: stream_pb2.StreamKind) -> int:
        """The largest frame of such a stream."""
        if kind == streams.PRODUCE:
            return self._frame_bytes_max
        return min(self._frame_bytes_max, ASKING_BYTES_MAX)

    # ---- time ----------------------------------------------------------------------------------

    def _on_time(self) -> None:
        """End the connections that are in the same frame as at the last look, and no further."""
        before, self._unfinished = self._unfinished, {}
        for connection in list(self.connections):
            if not connection.is_inside_frame:
                continue
            frames, received = before.get(connection, (-1, 0))
            slow = connection.received - received < PROGRESS_BYTES_MIN
            if frames == connection.frames and slow:
                what = f"the rest of a frame did not come within {LOOK_SECONDS:g} s"
                connection.refuse(errors.RequestTimedOut(what))
            else:
                self._unfinished[connection] = (connection.frames, connection.received)
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._on_time)


def _greets_too_late(connection: StreamConnection) -> None:
    what = f"its greeting did not come within {GREETING_LOOK_SECONDS:g} s"
    connection.refuse(errors.RequestTimedOut(what))
