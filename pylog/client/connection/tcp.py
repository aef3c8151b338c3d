"""A connected TCP socket that never blocks: a thread that has something to send writes it itself,
and one that waits for something may read it itself. Bytes that the kernel does not take at once are
left to the loop, and so is reading while no other thread does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import sys
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from pylog.rpc.framing import Chunks

PIECES_MAX: Final = 512
"""The most buffers of one writev; kernels take 1,024."""


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


def reason_of(error: OSError) -> str:
    """The refusal of the kernel, or of a name's look-up, in a few words."""
    if isinstance(error, socket.gaierror):  # its numbers are others
        return (error.strerror or str(error)).lower()
    # asyncio tells of several addresses in one text without a number.
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


class _Watch:
    """The loop's watch on a socket, for what comes and for room.

    libuv ends a watch of its own on a socket that has an error (the peer was gone when something
    was written, for example), and then uvloop may never call its reader again. So where there is
    epoll, the loop watches an epoll that holds the socket: to the loop an error is then as good as
    something to read.
    """

    def __init__(
        self, raw: socket.socket, loop: asyncio.AbstractEventLoop, on_event: Callable[[], object]
    ) -> None:
        """`on_event`: called on the loop while there is something to look at, maybe in vain."""
        self._socket = raw
        self._loop = loop
        self._on_event = on_event
        self._reading = self._writing = False
        self._epoll = select.epoll() if sys.platform == "linux" else None
        if self._epoll is not None:
            loop.add_reader(self._epoll.fileno(), on_event)

    def set(self, *, reading: bool, writing: bool) -> None:
        """The events to watch for from now on."""
        before = self._reading, self._writing
        if before == (reading, writing):
            return
        self._reading, self._writing = reading, writing
        if self._epoll is None:
            self._set_plainly(before)
            return
        wanted = (select.EPOLLIN if reading else 0) | (select.EPOLLOUT if writing else 0)
        if not wanted:  # an error would be told all the same
            self._epoll.unregister(self._socket)
        elif before == (False, False):
            self._epoll.register(self._socket, wanted)
        else:
            self._epoll.modify(self._socket, wanted)

    def _set_plainly(self, before: tuple[bool, bool]) -> None:
        loop, raw = self._loop, self._socket
        if self._reading and not before[0]:
            loop.add_reader(raw, self._on_event)
        elif before[0] and not self._reading:
            loop.remove_reader(raw)
        if self._writing and not before[1]:
            loop.add_writer(raw, self._on_event)
        elif before[1] and not self._writing:
            loop.remove_writer(raw)

    def close(self) -> None:
        """Watch for nothing any more."""
        self.set(reading=False, writing=False)
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()


class TcpConnection:
    """One socket and the loop's watch on it. `write` and `receive_into` are for any thread, one
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
        self._wants_room = False
        self._unsent: deque[memoryview] = deque()
        self._closed = False
        self._watch = _Watch(raw, loop, self._on_event)
        self._watch.set(reading=True, writing=False)

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
        """The number of bytes that came into `buffer`: -1 for none yet, 0 when there will be no
        more; OSError for a broken connection.
        """
        try:
            return self.socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return -1

    # ---- the loop ------------------------------------------------------------------------------

    def _on_event(self) -> None:
        if self._wants_room:
            self._on_room()
        if not self.is_lent and not self._closed:
            self._on_readable()

    def _watch_again(self) -> None:
        self._watch.set(reading=not self.is_lent, writing=self._wants_room)

    def _watch_for_room(self) -> None:
        if not self._closed:
            self._wants_room = True
            self._watch_again()

    def stop_watching_for_room(self) -> None:
        """All that was left has gone."""
        self._wants_room = False
        self._watch_again()

    def lend(self) -> None:
        """Somebody else watches for what comes, and reads it."""
        if not self.is_lent and not self._closed:
            self.is_lent = True
            self._watch_again()

    def take_back(self) -> None:
        """The loop watches again."""
        if self.is_lent and not self._closed:
            self.is_lent = False
            self._watch_again()

    def say_end(self) -> None:
        """Nothing more will be written."""
        with contextlib.suppress(OSError):  # its reader learns why
            self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the socket."""
        if not self._closed:
            self._closed = True
            self._wants_room = False
            self._watch.close()
            self.socket.close()
