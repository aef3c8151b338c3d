"""The bytes of answers that wait for clients to take them, over all of a broker's connections.

Above the limit (`queued.max.response.bytes`) no fetch begins, and an answer that was found
meanwhile is dropped and looked for again when there is room. Connections that take next to nothing
of what they asked for, while others wait for room, are named by `look`, to be closed.

Pure: `resume` wakes connections.
"""

from __future__ import annotations

from typing import Final, Protocol

from pylog import errors

LOOK_SECONDS: Final = 5.0
TAKEN_BYTES_MIN: Final = 64 * 1024
"""The fewest bytes of an answer that are to be taken from look to look, while others wait for room.
"""
SMALL_BYTES: Final = 16 * 1024
"""Answers up to here are always given: a connection has no second one before it took the first."""


class Taker(Protocol):
    """A connection, or a call."""

    def resume(self) -> None:
        """There is room for an answer: go on, or ask again."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes that it has not taken by now."""

    def drop(self, fault: errors.PylogError) -> None:
        """End it, for that reason. It takes nothing, so no error can reach it."""


class AnswerMemory:
    """Invariant: `unsent` is the sum of what takers hold."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.unsent = 0
        self._held: dict[Taker, int] = {}
        self._waiting: dict[Taker, None] = {}  # in order
        self._seen: dict[Taker, int] = {}  # what was unsent at the last look

    @property
    def is_full(self) -> bool:
        """Whether no fetch should begin."""
        return self.unsent >= self.bytes_max

    @property
    def waiting(self) -> int:
        """Those that wait for room."""
        return len(self._waiting)

    def fits(self, size: int) -> bool:
        """Whether an answer of so many bytes may be given; the first always, or a broker with a
        small limit would answer nobody.
        """
        return size <= SMALL_BYTES or self.unsent + size <= self.bytes_max or not self.unsent

    def wait(self, taker: Taker) -> None:
        """Have it resumed when there is room."""
        self._waiting[taker] = None

    def hold(self, taker: Taker, size: int) -> None:
        """So much was not taken by now."""
        before = self._held.get(taker, 0)
        if size:
            self._held[taker] = size
        elif before:
            del self._held[taker]
        self.unsent += size - before
        if size < before:
            self._serve()

    def forget(self, taker: Taker) -> None:
        """It is gone."""
        self._waiting.pop(taker, None)
        self._seen.pop(taker, None)
        self.hold(taker, 0)
        self._serve()

    def _serve(self) -> None:
        """One after the other: each may fill what is left."""
        for taker in list(self._waiting):
            if self.is_full:
                return
            if taker in self._waiting:
                del self._waiting[taker]
                taker.resume()

    def look(self) -> list[Taker]:
        """Once in `LOOK_SECONDS`: what was taken meanwhile, and the connections to close, because
        others wait and they take next to nothing.
        """
        for taker in list(self._held):
            self.hold(taker, taker.unsent_bytes)
        if not self._waiting:
            self._seen.clear()
            return []
        before, self._seen = self._seen, dict(self._held)
        return [
            taker
            for taker, size in self._held.items()
            if taker in before and before[taker] - size < TAKEN_BYTES_MIN
        ]
