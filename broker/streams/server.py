"""The listener for framed streams: who is connected, who is refused, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from broker.clients.requests import ClientRequests
from broker.streams.connection import State, StreamConnection
from pylog import errors
from pylog.rpc import streams
from pylog.rpc.v1 import stream_pb2

CONNECTIONS_MAX: Final = 10_000
GREETING_LOOK_SECONDS: Final = 5.0
"""A greeting must be whole when it is looked for a second time, after 5 to 10 seconds."""
LOOK_SECONDS: Final = 15.0
"""More must have come of a frame that has begun. Idle connections stay; the kernel asks whether
their other end lives.
"""
PROGRESS_BYTES_MIN: Final = 16 * 1024
"""Of a large frame over a slow line, from look to look."""

FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
"""A request for the most partitions that one may name, with the longest names."""

_REQUESTS: Final = {State.PRODUCE: "Produce", State.FETCH: "Fetch"}


class StreamServer:
    """Lives on the broker's loop. `broker_epoch()`: that of the present registration."""

    def __init__(
        self,
        requests: ClientRequests,
        *,
        broker_id: int,
        cluster_id: str,
        broker_epoch: Callable[[], int],
        frame_bytes_max: int,
        report: Callable[[str], None],
    ) -> None:
        """`report`: a line about a stranger; bounded by who takes it."""
        self.requests = requests
        self._frame_bytes_max = frame_bytes_max
        self.connections: set[StreamConnection] = set()
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._broker_epoch = broker_epoch
        self._report = report
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._greetings_timer: asyncio.TimerHandle | None = None
        self._unfinished: dict[StreamConnection, tuple[int, int]] = {}
        self._strangers: set[StreamConnection] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port. OSError when the address cannot be bound."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: StreamConnection(self), host, port)
        self._timer = loop.call_later(LOOK_SECONDS, self._on_time)
        self._greetings_timer = loop.call_later(GREETING_LOOK_SECONDS, self._look_for_greetings)
        return int(self._server.sockets[0].getsockname()[1])

    def stop_listening(self) -> None:
        """Take no new connection."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Drop every connection; what waits is forgotten."""
        self.stop_listening()
        for timer in (self._timer, self._greetings_timer):
            if timer is not None:
                timer.cancel()
        for connection in list(self.connections):
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()

    # ---- for connections -----------------------------------------------------------------------

    def opened(self, connection: StreamConnection) -> errors.PylogError | None:
        """A connection came; why it may not stay."""
        if len(self.connections) >= CONNECTIONS_MAX:
            return errors.ThrottlingQuotaExceeded(
                f"this broker has {CONNECTIONS_MAX} framed streams, and takes no more"
            )
        self.connections.add(connection)
        return None

    def closed(self, connection: StreamConnection) -> None:
        """It is gone."""
        self.connections.discard(connection)
        self._unfinished.pop(connection, None)
        self._strangers.discard(connection)

    def refused(self, connection: StreamConnection, state: State, fault: errors.PylogError) -> None:
        """It was ended because of what came."""
        request = _REQUESTS.get(state)
        if request is not None:
            self.requests.counters.failed(request, fault.code)
        self._report(f"stream listener: closed {connection.peer}: {fault}")

    def greet(self, said: stream_pb2.StreamHello) -> bytes:
        """The answer to a greeting; raises what it is refused with."""
        if said.cluster_id != self._cluster_id or said.broker_id != self._broker_id:
            raise errors.InvalidRequest(
                f"this is broker {self._broker_id} of cluster {self._cluster_id}, and not broker "
                f"{said.broker_id} of cluster {said.cluster_id or 'unknown'}: ask for metadata anew"
            )
        if said.kind not in (streams.PRODUCE, streams.FETCH):
            raise errors.UnsupportedVersion(f"streams of kind {said.kind} are not offered")
        limit = self.frame_bytes_max_of(said.kind)
        return streams.welcome(self._broker_id, self._broker_epoch(), limit)

    def frame_bytes_max_of(self, kind: stream_pb2.StreamKind) -> int:
        """The largest frame of such a stream."""
        if kind == streams.FETCH:
            return min(self._frame_bytes_max, FETCH_BYTES_MAX)
        return self._frame_bytes_max

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

    def _look_for_greetings(self) -> None:
        """End the connections that had not greeted at the last look, and have not yet."""
        before = self._strangers
        self._strangers = {c for c in self.connections if c.state is State.GREETING}
        what = f"its greeting did not come within {GREETING_LOOK_SECONDS:g} s"
        for connection in before & self._strangers:
            connection.refuse(errors.RequestTimedOut(what))
        loop = asyncio.get_running_loop()
        self._greetings_timer = loop.call_later(GREETING_LOOK_SECONDS, self._look_for_greetings)
