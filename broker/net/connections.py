"""All connections of one listener: which have not said whose they are, and which have no work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

LOOK_SECONDS_MAX: Final = 15.0


class Idler(Protocol):
    """A connection that may be without work."""

    received: int

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due."""

    def close(self) -> None:
        """End it, as nobody uses it."""


class Comer(Protocol):
    """A connection that is new."""

    def give_way(self) -> None:
        """End it: others want its place."""


IdlerT = TypeVar("IdlerT", bound=Idler)
ComerT = TypeVar("ComerT", bound=Comer)


class IdleClose(Generic[IdlerT]):
    """Closes the connections on which nothing came, and nothing was due, for as long as that may
    be. Their clients make others when they need them. Lives on the listener's loop.
    """

    def __init__(self, connections: Iterable[IdlerT], ms_max: int) -> None:
        """`connections`: as they are at the time. `ms_max`: -1: no limit."""
        self.seconds_max = ms_max / 1000
        self._connections = connections
        self._idle: dict[IdlerT, tuple[int, float]] = {}
        """The bytes that they had received when first seen without work, and when that was."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look from time to time, if there is a limit."""
        if self.seconds_max >= 0:
            seconds = min(LOOK_SECONDS_MAX, max(self.seconds_max / 4, 0.1))
            self._timer = asyncio.get_running_loop().call_later(seconds, self.look)

    def look(self) -> None:
        """Close those whose time is up."""
        now, before = asyncio.get_running_loop().time(), self._idle
        self._idle = {}
        for connection in list(self._connections):
            if not connection.is_idle:
                continue
            received, since = before.get(connection, (-1, now))
            if received != connection.received:
                received, since = connection.received, now
            if now - since >= self.seconds_max:
                connection.close()
            else:
                self._idle[connection] = received, since
        self.start()

    def forget(self, connection: IdlerT) -> None:
        """It is gone."""
        self._idle.pop(connection, None)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()


class Newcomers(Generic[ComerT]):
    """Connections that have not said, or proved, who they are. The oldest gives way when there is
    no room: so no crowd of them keeps others out, which say it at once. One that is there at two
    looks is ended. Lives on the listener's loop.
    """

    def __init__(self, look_seconds: float, end: Callable[[ComerT], None]) -> None:
        """`end`: one took too long, between one and two times `look_seconds`."""
        self._look_seconds = look_seconds
        self._end = end
        self._new: dict[ComerT, bool] = {}  # the oldest first; whether they were here at a look
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: ComerT) -> None:
        """It came."""
        self._new[connection] = False

    def discard(self, connection: ComerT) -> None:
        """It is known by now, or gone."""
        self._new.pop(connection, None)

    def make_room(self) -> bool:
        """Have the oldest go; False: there is none."""
        for connection in self._new:
            del self._new[connection]
            connection.give_way()
            return True
        return False

    def start(self) -> None:
        """Look from time to time."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._look_seconds, self.look)

    def look(self) -> None:
        """End those that were here at the last look."""
        for connection, was_here in list(self._new.items()):
            if was_here:
                self._new.pop(connection, None)
                self._end(connection)
            else:
                self._new[connection] = True
        self.start()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
