"""A connection to a group's coordinator for a thread that commits and waits: it writes the commit
and reads the answer itself.

To wake the loop's thread, and to be woken by it, costs more than the commit. The loop makes the
line when such commits come one after another, and closes it when none came for a while. A commit
that its thread does not wait for any more stays on its way, and the loop reads its answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final

from pylog import errors
from pylog.client.cluster.framed_ports import StreamWay
from pylog.client.connection.client_connection import (
    Answered,
    ClientConnection,
    Ended,
    Failed,
    State,
)
from pylog.client.connection.framed_link import FramedLink
from pylog.client.membership.messages import OffsetCommit
from pylog.clock import ticks
from pylog.rpc import calls, streams
from pylog.rpc.apis import OFFSET_COMMIT

NOT_CARRIED_OUT: Final = None
"""The outcome of a commit that the broker has not taken up: the loop sends it its own way."""

Outcome = memoryview | errors.PylogError | None
"""The response; the reason for which nobody knows what became of it; or NOT_CARRIED_OUT."""


class CommitLine:
    """One connection, which carries one commit at a time.

    `turn`, which every user of it has, guards all but what is said to be for the loop. The line is
    lent to the thread that commits, but while the loop reads for one that has gone.
    """

    def __init__(
        self,
        way: StreamWay,
        turn: threading.RLock,
        *,
        told: Callable[[OffsetCommit, Outcome], None],
        ended: Callable[[CommitLine], None],
        idle_s: float,
    ) -> None:
        """`told`: called with the outcome of each commit, on the thread that reads it. `ended`: on
        that thread as well, when the line is of no more use. `idle_s`: after so long without a
        commit it is closed; negative: never.
        """
        self.broker = way.broker
        self.request: OffsetCommit | None = None
        """The commit that is on its way."""
        self._way = way
        self._turn = turn
        self._told = told
        self._ended = ended
        self._idle_s = idle_s
        self._core: ClientConnection[OffsetCommit] = ClientConnection(streams.CALLS, way.broker)
        self._link = FramedLink(self._core, on_readable=self._on_readable, on_room=self._on_room)
        self._loop = asyncio.get_running_loop()
        self._used_s = ticks()
        self._until_s = 0.0
        self._number = -1  # the socket's
        self._timer: asyncio.TimerHandle | None = None

    async def connect(self) -> bool:
        """Whether commits can go over it. For the loop."""
        way = self._way
        fault = await self._link.connect(
            way.address.host, way.address.port, way.hello, way.connect_s
        )
        if fault is not None or self._link.socket is None:
            return False
        self._link.socket.lend()
        self._number = self._link.socket.socket.fileno()
        if self._idle_s >= 0:
            self._timer = self._loop.call_later(self._idle_s, self._look_for_idle)
        return True

    # ---- the thread that commits ---------------------------------------------------------------

    def takes(self, request_bytes: int) -> bool:
        """Whether a commit of so many bytes may be written here and now."""
        socket = self._link.socket
        if self.request is not None or socket is None or socket.is_full:
            return False
        self.receive()  # the broker may have closed it
        return (
            self._core.state is State.OPEN
            and socket.is_lent
            and self._core.may_call
            and calls.CALL_HEAD_BYTES + request_bytes <= self._core.frame_bytes_max
        )

    def send(self, request: OffsetCommit, body: bytes, timeout_s: float) -> None:
        """Write it; `takes` holds. Never blocks: what the kernel does not take the loop writes."""
        socket = self._link.socket
        assert socket is not None
        self.request = request
        self._used_s = ticks()
        self._until_s = self._used_s + timeout_s
        _, pieces = self._core.call(request, OFFSET_COMMIT, body, max(round(timeout_s * 1000), 1))
        socket.write(pieces)

    def fileno(self) -> int:
        """The socket's, to wait at; the line may have ended."""
        return self._number

    def receive(self) -> bool:
        """Take in all that has come; whether more may come."""
        with self._turn:
            if self._core.state is not State.OPEN:
                return False
            for event in self._link.receive():
                match event:
                    case Answered(request, response):
                        self._settle(request, response)
                    case Failed(request, _):
                        self._settle(request, NOT_CARRIED_OUT)
                        self.end("the broker refused a call")
                    case Ended(reason):
                        self.end(reason)
            return self._core.state is State.OPEN

    def give_up_late(self) -> None:
        """End the line when the answer has not come in time."""
        if self.request is not None and ticks() >= self._until_s:
            self.end("no answer in time")

    def end(self, reason: str) -> None:
        """It is of no more use; nobody knows what became of what is on its way."""
        with self._turn:
            self._core.close()
            self._loop.call_soon_threadsafe(self.close)
            if self.request is not None:
                fault = errors.BrokerUnreachable(f"broker {self.broker}: {reason}")
                self._settle(self.request, fault)
            self._ended(self)

    def _settle(self, request: OffsetCommit, outcome: Outcome) -> None:
        self.request = None
        self._told(request, outcome)

    # ---- the loop ------------------------------------------------------------------------------

    def read_here(self) -> None:
        """The thread does not wait any more: the loop reads what comes for it."""
        with self._turn:
            socket = self._link.socket
            if self.request is None or socket is None or self._core.state is not State.OPEN:
                return
            socket.take_back()
            self._loop.call_later(max(self._until_s - ticks(), 0.0), self._give_up_here)

    def _give_up_here(self) -> None:
        with self._turn:
            self.give_up_late()

    def _on_readable(self) -> None:
        if self._core.state is not State.OPEN:
            self._link.receive()  # the greeting
            return
        with self._turn:
            self.receive()
            socket = self._link.socket
            if self.request is None and socket is not None:
                socket.lend()

    def _on_room(self) -> None:
        with self._turn:
            socket = self._link.socket
            assert socket is not None
            socket.write_more()
            if not socket.is_full:
                socket.stop_watching_for_room()

    def _look_for_idle(self) -> None:
        with self._turn:
            left_s = self._used_s + self._idle_s - ticks()
            if self.request is None and left_s <= 0:
                self.end("it was idle")
            else:
                self._timer = self._loop.call_later(max(left_s, 1.0), self._look_for_idle)

    def close(self) -> None:
        """Let go of the socket."""
        if self._timer is not None:
            self._timer.cancel()
        self._link.close()
