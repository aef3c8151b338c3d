"""Takes the connections of one listener, as far as they may stay.

A loop's own servers accept whatever comes: without a descriptor left asyncio writes a stack trace a
second, and uvloop closes the listener for good. Here a connection is looked at before anything is
made for it, what is refused costs two calls of the kernel, and a few are taken in each turn of the
loop, however many come.

In all of pylog's protocols the client speaks first. So nothing is made for a connection that has
not said anything either: it waits as a bare descriptor in an epoll of its own, costs a tenth of a
whole one, and gives way to the next when there is no room.
"""

from __future__ import annotations

import asyncio
import errno
import select
import socket
from collections.abc import Callable
from typing import Final

from pylog.clock import Clock
from pylog_broker.net.quotas import ConnectionQuotas, Limits, Refusal
from pylog_broker.net.refusal_lines import LINE_INTERVAL_MS, RefusalLines

BACKLOG: Final = 512
"""Connections that the kernel keeps until they are taken."""
TAKEN_AT_ONCE: Final = 16
"""In one turn of the loop."""
SILENCE_SECONDS: Final = 5.0
"""A connection that has said nothing goes when it is looked for a second time, after 5 to 10
seconds.
"""
REST_SECONDS: Final = 1.0
"""After the kernel had no descriptor or memory for a connection."""
_SCARCE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Gate:
    """The shared state of a process's listeners: limits, counts, the line about what was
    refused.
    """

    def __init__(
        self, clock: Clock, report: Callable[[str], None], limits: Limits | None = None
    ) -> None:
        self.quotas = ConnectionQuotas(limits)
        self._clock = clock
        self._report = report
        self._lines = RefusalLines()
        self._timer: asyncio.TimerHandle | None = None

    def now_ms(self) -> int:
        """By the monotonic clock."""
        return self._clock.monotonic_ms()

    def refused(self, listener: str, reason: str, address: str) -> None:
        """Say so, now or with the next ones."""
        self._lines.note(listener, reason, address)
        self._say()

    def _say(self) -> None:
        line = self._lines.due(self.now_ms())
        if line is not None:
            self._report(line)
        if not self._lines.is_empty and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LINE_INTERVAL_MS / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._say()

    def close(self) -> None:
        """Say nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Place:
    """The place of one connection, until it leaves."""

    __slots__ = ("_counts_for_address", "_gate", "address", "listener")

    def __init__(self, gate: Gate, listener: str, address: str) -> None:
        self.address = address
        self.listener: str | None = listener
        self._gate = gate
        self._counts_for_address = True

    def move(self, listener: str) -> bool:
        """Count there, and no longer for the address; False when there is no room."""
        assert self.listener is not None
        if not self._gate.quotas.moved(self.listener, listener):
            self._gate.refused(listener, Refusal.LISTENER.value, self.address)
            return False
        self.listener = listener
        self._leave_address()
        return True

    def leave(self, refusal: Refusal | None = None) -> None:
        """Count no more; once or more often. `refusal`: it did not go of its own accord."""
        if self.listener is None:
            return
        quotas, listener, self.listener = self._gate.quotas, self.listener, None
        quotas.left_listener(listener)
        self._leave_address()
        if refusal is not None:
            quotas.count_refusal(listener, refusal)
            self._gate.refused(listener, refusal.value, self.address)

    def _leave_address(self) -> None:
        if self._counts_for_address:
            self._counts_for_address = False
            self._gate.quotas.left_address(self.address)


class Acceptor:
    """Lives on the loop that starts it. `make` gives the protocol of a connection, which must
    have its place left when it is lost.

    Invariant: the descriptors in `_silent` are those registered with `_epoll`.
    """

    def __init__(
        self,
        gate: Gate,
        listener: str,
        most: int,
        make: Callable[[Place], asyncio.BaseProtocol],
        *,
        make_room: Callable[[], bool] = lambda: False,
        last_words: Callable[[Refusal], bytes] = lambda refusal: b"",
        has_rate: bool = True,
    ) -> None:
        """`make_room`: ends a connection that has begun to say what it wants, and is not done;
        False: there is none.
        `last_words`: what a connection that may not stay is sent.
        """
        self._gate = gate
        self._listener = listener
        self._make = make
        self._make_room = make_room
        self._last_words = last_words
        self._has_rate = has_rate
        self._sockets: list[socket.socket] = []
        self._resting: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._epoll = select.epoll()
        self._silent: dict[int, tuple[socket.socket, Place]] = {}  # the oldest first
        self._seen: set[int] = set()  # those that were there at the last look
        self._looking: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        gate.quotas.add_listener(listener, most)

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port. OSError when the address cannot be bound."""
        found = await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                raw = socket.socket(family, socket.SOCK_STREAM)
                self._sockets.append(raw)
                raw.setblocking(False)
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                raw.bind((address[0], port, *address[2:]))
                raw.listen(BACKLOG)
                port = int(raw.getsockname()[1])
        except OSError as error:
            self._close_sockets()
            reason = (error.strerror or str(error)).lower()
            raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from None
        self._watch()
        return port

    def start_on(self, listening: socket.socket) -> None:
        """Take the connections of a socket that listens."""
        listening.setblocking(False)
        self._sockets.append(listening)
        self._watch()

    def stop_listening(self) -> None:
        """Take no new connection."""
        if self._resting is not None:
            self._resting.cancel()
        else:
            self._unwatch()
        self._close_sockets()
        if not self._epoll.closed:
            if self._looking is not None:
                self._loop.remove_reader(self._epoll.fileno())
                self._looking.cancel()
            for descriptor in list(self._silent):
                self._end_silent(descriptor, None)
            self._epoll.close()

    async def close(self) -> None:
        """Stop listening, and return when no connection is being taken any more."""
        self.stop_listening()
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _close_sockets(self) -> None:
        sockets, self._sockets = self._sockets, []
        for raw in sockets:
            raw.close()

    # ---- taking --------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._resting = None
        if self._looking is None:
            self._loop.add_reader(self._epoll.fileno(), self._on_words)
            self._looking = self._loop.call_later(SILENCE_SECONDS, self._look_for_silence)
        for raw in self._sockets:
            self._loop.add_reader(raw.fileno(), self._on_connections, raw)

    def _unwatch(self) -> None:
        for raw in self._sockets:
            self._loop.remove_reader(raw.fileno())

    def _rest(self, seconds: float) -> None:
        if self._resting is None and self._sockets:
            self._unwatch()
            self._resting = self._loop.call_later(seconds, self._watch)

    def _on_connections(self, listening: socket.socket) -> None:
        gate = self._gate
        for _ in range(TAKEN_AT_ONCE):
            if self._connecting and gate.quotas.is_full(self._listener):
                return  # those that were just taken can give way only once they are there
            wait_ms = gate.quotas.wait_ms(gate.now_ms()) if self._has_rate else 0
            if wait_ms:
                self._rest(wait_ms / 1000)
                return
            try:
                raw, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                gate.quotas.count_refusal(self._listener, Refusal.FILES)
                gate.refused(self._listener, Refusal.FILES.value, "addresses that were not asked")
                self._rest(REST_SECONDS)
                return
            if self._has_rate:
                gate.quotas.taken()
            self._on_connection(raw, str(address[0]))

    def _on_connection(self, raw: socket.socket, address: str) -> None:
        gate, quotas = self._gate, self._gate.quotas
        if quotas.is_full(self._listener) and not quotas.is_address_full(address):
            if self._silent:
                self._end_silent(next(iter(self._silent)), Refusal.UNPROVEN)
            else:
                self._make_room()
        refusal = quotas.opened(self._listener, address, raw.fileno())
        if refusal is None:
            self._silent[raw.fileno()] = raw, Place(gate, self._listener, address)
            self._epoll.register(raw.fileno(), select.EPOLLIN)
            return
        try:
            raw.setblocking(False)
            words = self._last_words(refusal)
            if words:
                raw.send(words)
        except OSError:
            pass  # it is gone, or does not listen
        finally:
            raw.close()
        gate.refused(self._listener, refusal.value, address)

    # ---- those that have not spoken ------------------------------------------------------------

    def _on_words(self) -> None:
        """Some connections have said something, or have gone."""
        for descriptor, _ in self._epoll.poll(0, TAKEN_AT_ONCE):
            raw, place = self._forget_silent(descriptor)
            task = self._loop.create_task(self._connect(raw, place))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def _forget_silent(self, descriptor: int) -> tuple[socket.socket, Place]:
        self._epoll.unregister(descriptor)
        self._seen.discard(descriptor)
        return self._silent.pop(descriptor)

    def _end_silent(self, descriptor: int, refusal: Refusal | None) -> None:
        raw, place = self._forget_silent(descriptor)
        raw.close()
        place.leave(refusal)

    def _look_for_silence(self) -> None:
        for descriptor in list(self._seen):
            self._end_silent(descriptor, Refusal.UNPROVEN)
        self._seen = set(self._silent)
        self._looking = self._loop.call_later(SILENCE_SECONDS, self._look_for_silence)

    async def _connect(self, raw: socket.socket, place: Place) -> None:
        raw.setblocking(False)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(lambda: self._make(place), raw)
        except OSError:  # it is gone already
            raw.close()
            place.leave()
        except BaseException:
            raw.close()
            place.leave()
            raise
