"""One connection of a port that takes frames, whatever its protocol: bytes in, bytes out.

It has a place among all connections, buffers for what comes, answers in the order of their
requests, and it reads on only while its protocol wants more. A subclass knows the meaning of a
frame (`broker/framed`, `broker/kafka`). Nothing here asks what the transport is made of, so that
TLS can stand before it.

The loop over the frames of one read is not here. Framed streams leave it in the middle, while
memory or an answer is due, and keep what is left; a broker's requests are all handed over at once.
One loop for both would ask about memory for each of a follower's fetches, or call a method for each
frame, thousands of times in a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeVar, cast

from pylog.rpc.framing import Chunks, FrameCutter
from pylog_broker.net.acceptor import Place
from pylog_broker.net.quotas import Refusal


class Slot:
    """The place of one answer in its connection's order. `answer`: framed, None while it is due."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: Chunks | None = None


SlotT = TypeVar("SlotT", bound=Slot)


def take_ready(slots: deque[SlotT]) -> Chunks:
    """The answers that are next in order, whose slots are given up."""
    chunks: Chunks = []
    while slots:
        answer = slots[0].answer
        if answer is None:
            break
        del slots[0]
        chunks += answer
    return chunks


class Connection(asyncio.BufferedProtocol):
    """Lives on the loop that accepted it. `_transport` is None before and behind its life.

    `peer`: host and port of its other end. `received`: bytes so far.
    """

    def __init__(self, place: Place, cutter: FrameCutter) -> None:
        self.peer = "?"
        self.received = 0
        self._place = place
        self._cutter = cutter
        self._transport: asyncio.Transport | None = None
        self._writing_paused = False
        self._reading_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        name = transport.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if name else "?"

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._place.leave()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._cutter.free_buffer()

    @property
    def unsent_bytes(self) -> int:
        """Bytes that were written and the kernel has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def hold_reading(self, wanted: bool) -> None:
        """Read nothing more while that is wanted."""
        transport = self._transport
        if transport is None or wanted == self._reading_paused or transport.is_closing():
            return
        self._reading_paused = wanted
        if wanted:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # ---- its end -------------------------------------------------------------------------------

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """End a connection that nobody uses."""
        if self._transport is not None:
            self._transport.close()

    def give_way(self) -> None:
        """End a connection that has not said who it is: others want its place."""
        self._place.leave(Refusal.UNPROVEN)
        self.abort()
