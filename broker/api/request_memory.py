"""The bytes of requests that a broker holds, over all its connections, and the connections that
read on.

Two kinds count: what has come of requests that are not handed over yet, by the size of the buffers
that were made for it, and what is in work: the batches whose acknowledgement is due, and the
requests of calls that are not answered. Above the limit (`queued.max.request.bytes`) connections
stop reading. Requests that are whole are always handed over, so what is due drains by itself. Many
half requests may not drain: then one connection at a time goes on reading above the limit until its
request is whole, and `look` names the connections that hold memory and do not go on, to be closed.

Pure: `resume` wakes connections, and does no more than read on.
"""

from __future__ import annotations

from typing import Final, Protocol

from pylog import errors

LOOK_SECONDS: Final = 1.0
LOOKS_WITHOUT_PROGRESS_MAX: Final = 5
"""Looks at which a connection had nothing new to read, while others waited for its memory."""
LOOKS_ABOVE_LIMIT_MAX: Final = 10
"""Looks within which the connection that reads above the limit must have its request whole."""
LOOKS_FOR_ANSWERS_MAX: Final = 5
"""Looks for which a large request waits where small ones take what room there is."""
SMALL_BYTES: Final = 8 * 1024
"""The bytes that a connection without a large request brings when it reads on: its buffer."""


class Receiver(Protocol):
    """A connection."""

    def resume(self) -> None:
        """Read on, or ask again."""

    def could_go_on(self) -> bool:
        """Whether anything came, or waits to be read, since this was asked last."""

    def refuse(self, fault: errors.PylogError) -> None:
        """End the connection, and say why."""


class RequestMemory:
    """Invariant: `receiving` is the sum of what members hold. Above `bytes_max` it grows by the
    member `_ahead` only, and by what a read in progress brings.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.in_flight = 0
        """The bytes of batches whose acknowledgement is due, and of open calls."""
        self.receiving = 0
        """The bytes of requests that are not handed over yet."""
        self._held: dict[Receiver, int] = {}
        self._waiting: dict[Receiver, int] = {}  # in order; how much each wants
        self._ahead: Receiver | None = None
        self._looks_ahead = 0  # since one went ahead, or others began to wait
        self._idle_looks: dict[Receiver, int] = {}

    @property
    def used(self) -> int:
        """All of it."""
        return self.in_flight + self.receiving

    @property
    def is_full(self) -> bool:
        """Whether no more is to be read."""
        return self.in_flight + self.receiving >= self.bytes_max

    @property
    def waiting(self) -> int:
        """Connections that do not read."""
        return len(self._waiting)

    # ---- connections ---------------------------------------------------------------------------

    def has_plenty(self, more: int) -> bool:
        """Whether so much leaves half of the memory to others."""
        return 2 * (self.used + more) <= self.bytes_max

    def may_take(self, member: Receiver, more: int) -> bool:
        """Whether the member may read on and hold `more`; else it waits for `resume`."""
        if self.used + more <= self.bytes_max:
            return True
        if member is self._ahead:
            return True
        self._waiting[member] = more
        if self.in_flight or self._ahead is not None:
            return False
        return self._let_one_ahead() is member

    def hold(self, member: Receiver, size: int) -> None:
        """The member holds so much now."""
        before = self._held.get(member, 0)
        if size:
            self._held[member] = size
        elif before:
            del self._held[member]
            if member is self._ahead:
                self._ahead = None
        self.receiving += size - before
        if size < before:
            self._serve()

    def came_whole(self, member: Receiver) -> None:
        """The member's large request is whole: another may go ahead, though this one holds it until
        it can be handed over.
        """
        if member is self._ahead:
            self._ahead = None

    def forget(self, member: Receiver) -> None:
        """It is gone."""
        self._waiting.pop(member, None)
        self._idle_looks.pop(member, None)
        if member is self._ahead:
            self._ahead = None
        self.hold(member, 0)
        self._serve()

    # ---- what is in work -----------------------------------------------------------------------

    def handed_over(self, size: int) -> None:
        """Batches, or a call, of so many bytes wait for their answer."""
        self.in_flight += size

    def answered(self, size: int) -> None:
        """Their answer is there."""
        self.in_flight -= size
        self._serve()

    # ---- members that read on ------------------------------------------------------------------

    def _serve(self) -> None:
        if not self._waiting:
            return
        room = self.bytes_max - self.used
        for member, more in list(self._waiting.items()):
            if room <= 0:
                break
            if more <= room and member in self._waiting:
                room -= more
                del self._waiting[member]
                member.resume()
        if self.in_flight == 0 and self._ahead is None:
            ahead = self._let_one_ahead()
            if ahead is not None:
                ahead.resume()

    def _let_one_ahead(self) -> Receiver | None:
        """The next one with a large request may read above the limit."""
        for member, more in self._waiting.items():
            if more > SMALL_BYTES:
                del self._waiting[member]
                self._ahead, self._looks_ahead = member, 0
                return member
        return None

    def look(self) -> list[Receiver]:
        """Once in `LOOK_SECONDS`: the connections to close, because others wait for the memory that
        they hold and they do not go on.
        """
        if not self._waiting:
            self._idle_looks.clear()
            self._looks_ahead = 0
            return []
        before, self._idle_looks = self._idle_looks, {}
        slow = []
        for member in self._held:
            if not member.could_go_on():
                looks = self._idle_looks[member] = before.get(member, 0) + 1
                if looks >= LOOKS_WITHOUT_PROGRESS_MAX:
                    slow.append(member)
        self._looks_ahead += 1
        ahead = self._ahead
        if ahead is None:
            # While batches in flight take most of the memory, their answers will make room.
            if 2 * self.in_flight < self.bytes_max or self._looks_ahead > LOOKS_FOR_ANSWERS_MAX:
                ahead = self._let_one_ahead()
            if ahead is not None:
                ahead.resume()
        elif self._looks_ahead >= LOOKS_ABOVE_LIMIT_MAX and ahead not in slow:
            slow.append(ahead)
        for member in [member for member, more in self._waiting.items() if more <= SMALL_BYTES]:
            del self._waiting[member]
            member.resume()
        return slow
