"""A connected TCP socket that never blocks: whoever has something to say writes it himself, and
whoever waits for something may read it himself. What the kernel does not take at once is left to
the loop, and so is reading while nobody else does.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from pylog.rpc.framing import Chunks

PIECES_MAX: Final = 512
"""Of one writev; kernels take 1,024."""


async def connected(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """A socket connected to the first of the name's addresses that answers; else OSError."""
    fault: OSError | None = None
    for family, kind, protocol, _, address in await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        raw = socket.socket(family, kind, protocol)
        try:
            raw.setblocking(False)
            await loop.sock_connect(raw, address)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raw.close()
            fault = error
        except BaseException:
            raw.close()
            raise
        else:
            return raw
    raise fault or OSError(f"{host} has no address")


class Connection:
    """One socket and the loop's watches on it. `write` and `receive_into` are for any thread, one
    at a time (the owner's lock); all else is for the loop's.

    Invariant: the loop watches for room exactly while `_unsent` holds something, or is about to.
    """

    def __init__(
        self,
        raw: socket.socket,
        loop: asyncio.AbstractEventLoop,
        *,
        on_readable: Callable[[], object],
        on_room: Callable[[], object],
    ) -> None:
        """`on_room`: called on the loop when the kernel may take more of what was left."""
        self.socket = raw
        self.is_lent = False
        self._loop = loop
        self._on_readable = on_readable
        self._on_room = on_room
        self._unsent: deque[memoryview] = deque()
        self._closed = False
        loop.add_reader(raw, on_readable)

    # ---- any thread ----------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether something waits for the kernel: the loop writes it, and nobody else anything."""
        return bool(self._unsent)

    def write(self, pieces: Chunks) -> None:
        """Send, or keep what the kernel does not take. A broken connection is found by its reader,
        and nowhere else: what is written to it is lost.
        """
        if self._closed:
            return
        waits = bool(self._unsent)
        self._unsent.extend(map(memoryview, pieces))
        if not waits:
            self.write_more()
            if self._unsent:
                self._loop.call_soon_threadsafe(self._watch_for_room)

    def write_more(self) -> None:
        """As much as the kernel takes of what was left."""
        unsent = self._unsent
        try:
            while unsent:
                if len(unsent) == 1:
                    sent = self.socket.send(unsent[0])
                else:
                    sent = self.socket.sendmsg(islice(unsent, PIECES_MAX))
                while unsent and sent >= len(unsent[0]):
                    sent -= len(unsent.popleft())
                if sent:
                    unsent[0] = unsent[0][sent:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            unsent.clear()

    def receive_into(self, buffer: memoryview) -> int:
        """How many bytes came into `buffer`: -1 for none yet, 0 when there will be no more; OSError
        for a broken connection.
        """
        try:
            return self.socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return -1

    # ---- the loop ------------------------------------------------------------------------------

    def _watch_for_room(self) -> None:
        if not self._closed:
            self._loop.add_writer(self.socket, self._on_room)

    def stop_watching_for_room(self) -> None:
        """All that was left has gone."""
        self._loop.remove_writer(self.socket)

    def lend(self) -> None:
        """Somebody else watches for what comes, and reads it."""
        if not self.is_lent and not self._closed:
            self.is_lent = True
            self._loop.remove_reader(self.socket)

    def take_back(self) -> None:
        """The loop watches again."""
        if self.is_lent and not self._closed:
            self.is_lent = False
            self._loop.add_reader(self.socket, self._on_readable)

    def say_end(self) -> None:
        """Nothing more will be written."""
        with contextlib.suppress(OSError):  # its reader learns why
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the socket."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self.socket)
            self._loop.remove_writer(self.socket)
            self.socket.close()
