"""Deadlines of many waiting things, each added, cancelled and found expired in constant time.

A hierarchical timing wheel (Varghese and Lauck, scheme 6), as Apache Kafka's purgatory uses. With a
tick of 1 ms and 64 slots a level:

    level 0:   64 slots of     1 ms   due within 64 ms
    level 1:   64 slots of    64 ms   due within 4.1 s
    level 2:   64 slots of 4,096 ms   due within 4.4 min      and so on, levels appear when needed

An item due in 700 ms is put into level 1 and moves down to level 0 when its slot's time begins, so
it expires in its own millisecond, never early. A heap keeps the start times of the slots in use:
`advance` touches only slots that hold something, and a wheel that is jumped ahead by a day costs no
more than one that ticks.

Unlike Kafka's, a cancelled item leaves at once: most waits end long before their deadline, and
their remains must not pile up. Pure: `advance` gets the time.
"""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

T = TypeVar("T")

SLOT_BITS: Final = 6
_SLOT_MASK: Final = (1 << SLOT_BITS) - 1


class TimerEntry(Generic[T]):
    """One item in a wheel; the handle to cancel it by."""

    __slots__ = ("_slot", "deadline_ms", "item")

    def __init__(self, deadline_ms: int, item: T) -> None:
        self.deadline_ms = deadline_ms
        self.item = item
        self._slot: dict[TimerEntry[T], None] | None = None

    def cancel(self) -> bool:
        """Take the item out; False when it has expired or was cancelled before."""
        if self._slot is None:
            return False
        del self._slot[self]
        self._slot = None
        return True

    @property
    def pending(self) -> bool:
        """Whether it is still in the wheel."""
        return self._slot is not None


class TimingWheel(Generic[T]):
    """Items by deadline. Time starts at `now_ms` and moves only by `advance`."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now = now_ms
        # (slot's first millisecond, level) -> entries in order of adding. Only slots that were put
        # to use and whose time has not come are here; one emptied by cancels stays until then.
        self._slots: dict[tuple[int, int], dict[TimerEntry[T], None]] = {}
        self._starts: list[tuple[int, int]] = []  # a heap over the keys of `_slots`

    def __len__(self) -> int:
        return sum(map(len, self._slots.values()))

    def add(self, deadline_ms: int, item: T) -> TimerEntry[T]:
        """Keep `item` until `deadline_ms`. One that is already due expires at the next advance."""
        entry = TimerEntry(deadline_ms, item)
        self._place(entry)
        return entry

    def _place(self, entry: TimerEntry[T]) -> None:
        now, due = self._now, entry.deadline_ms
        if due < now:
            due = now
        # The level is the highest group of bits in which the deadline differs from now: all items
        # of one slot then share everything above it, and the slot's time begins after now.
        level = max((due ^ now).bit_length() - 1, 0) // SLOT_BITS
        width = level * SLOT_BITS
        key = ((due >> width) << width, level)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = {}
            heapq.heappush(self._starts, key)
        slot[entry] = None
        entry._slot = slot

    def advance(self, now_ms: int) -> list[T]:
        """All items due at or before `now_ms`, by deadline and then in the order they were added.

        A time before the last one changes nothing.
        """
        expired: list[TimerEntry[T]] = []
        starts = self._starts
        while starts and starts[0][0] <= now_ms:
            key = heapq.heappop(starts)
            slot = self._slots.pop(key)
            self._now = max(self._now, key[0])
            for entry in slot:
                if entry.deadline_ms <= now_ms:
                    entry._slot = None
                    expired.append(entry)
                else:
                    self._place(entry)
        self._now = max(self._now, now_ms)
        expired.sort(key=_deadline)
        return [entry.item for entry in expired]

    @property
    def next_deadline(self) -> int | None:
        """The time for the next call of `advance`, or None when nothing waits.

        Never after the earliest deadline; before it by at most the width of that item's slot,
        where `advance` moves it to a finer level.
        """
        starts = self._starts
        while starts and not self._slots[starts[0]]:
            del self._slots[heapq.heappop(starts)]
        return starts[0][0] if starts else None


def _deadline(entry: TimerEntry[T]) -> int:
    return entry.deadline_ms
