"""The link between a framed connection's core and its socket: connect, greet, receive.

Its owner says which thread reads, and tells of what came. The carrier of calls has one, and so has
the carrier of a stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic

from pylog.client.connection.client_connection import (
    CallT,
    ClientConnection,
    Ended,
    Event,
    Greeted,
    State,
)
from pylog.client.connection.tcp import TcpConnection, connected, reason_of
from pylog.rpc import streams

CONNECT_S_MAX: Final = 2.0
"""For the connection and the greeting: a firewall that swallows packets costs so much, twice. Less
would mistake a busy machine for one."""
READS_MAX: Final = 16
"""So many full buffers in a row are read before the loop looks at other things."""


class FramedLink(Generic[CallT]):
    """For the loop, but `receive` is for any thread, one at a time (the owner's lock)."""

    def __init__(
        self,
        core: ClientConnection[CallT],
        *,
        on_readable: Callable[[], object],
        on_room: Callable[[], object],
    ) -> None:
        """`on_readable`: called on the loop when `receive` may have something to say."""
        self.core = core
        self.socket: TcpConnection | None = None
        self._on_readable = on_readable
        self._on_room = on_room
        self._loop = asyncio.get_running_loop()
        self._greeted: asyncio.Future[Ended[CallT] | None] = self._loop.create_future()

    async def connect(
        self, host: str, port: int, hello: bytes, within_s: float
    ) -> Ended[CallT] | None:
        """None once the broker has greeted; else why it is none that can be used, and the socket is
        closed. It takes CONNECT_S_MAX at most, also when it may take longer.
        """
        within_s = min(within_s, CONNECT_S_MAX)
        try:
            async with asyncio.timeout(within_s):
                raw = await connected(self._loop, host, port)
                streams.watch_peer(raw)
                self.socket = TcpConnection(
                    raw, self._loop, on_readable=self._on_readable, on_room=self._on_room
                )
                self.socket.write([hello])
                return await self._greeted
        except TimeoutError:
            return Ended(f"no answer within {within_s:.3g} s")
        except OSError as error:
            return Ended(reason_of(error))
        finally:
            if self.core.state is not State.OPEN:
                self.close()

    def receive(self) -> list[Event[CallT]]:
        """The events of all bytes that have come by now; the connection's end is the last of
        them."""
        core, socket = self.core, self.socket
        assert socket is not None
        events: list[Event[CallT]] = []
        was_open = core.state is State.OPEN
        for _ in range(READS_MAX):
            buffer = core.free_buffer()
            try:
                count = socket.receive_into(buffer)
            except OSError as error:
                events += core.broke(reason_of(error))
                break
            if count == 0:
                events += core.closed_by_broker()
            if count <= 0:
                break
            events += core.received(count)
            if count < len(buffer) or not was_open or core.state is State.ENDED:
                break
        if not was_open and events and not self._greeted.done():
            first = events[0]
            assert isinstance(first, Greeted | Ended), "nothing is said before the greeting"
            self._greeted.set_result(first if isinstance(first, Ended) else None)
        return events

    def close(self) -> None:
        """Let go of the socket; the core says nothing more."""
        self.core.close()
        if self.socket is not None:
            self.socket.close()
