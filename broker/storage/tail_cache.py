"""The newest batches of each log in memory, so that tail readers and followers touch no file.

Bounded twice: a log keeps at most its own limit, all logs of a broker together at most the
budget's. Over the budget, the log that was appended to longest ago gives its oldest batches first.
Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from typing import Final, NamedTuple

from pylog_broker.storage.files import Buffer

_COMPACT_AT: Final = 1024  # dead entries at the front of the lists before they are sliced away


class TailRead(NamedTuple):
    """Whole batches, and the offset after the last of them."""

    records: Buffer
    first_offset: int
    next_offset: int


class TailBudget:
    """The memory that the tails of all logs may hold together."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self._by_age: OrderedDict[int, TailCache] = OrderedDict()  # longest unused first
        self._newest: TailCache | None = None  # the last of them

    def grow(self, tail: TailCache, size: int) -> None:
        """`tail` took `size` bytes more; others (and in the end itself) give way."""
        self.bytes_used += size
        if self._newest is not tail:
            self._newest = tail
            self._by_age[id(tail)] = tail
            self._by_age.move_to_end(id(tail))
        while self.bytes_used > self.bytes_max:
            oldest = next(iter(self._by_age.values()))
            oldest.drop_oldest()

    def shrink(self, tail: TailCache, size: int) -> None:
        """`tail` gave `size` bytes back."""
        self.bytes_used -= size
        assert self.bytes_used >= 0
        if not tail.bytes_used:
            self._by_age.pop(id(tail), None)
            if self._newest is tail:
                self._newest = None


class TailCache:
    """One log's newest batches: contiguous in the log, up to its end.

    The lists run in parallel; entries before `_begin` are dead. `_ends[i]` counts all bytes ever
    added up to and with batch i, so a range's size is one subtraction.
    """

    def __init__(self, bytes_max: int, budget: TailBudget) -> None:
        self._bytes_max = bytes_max
        self._budget = budget
        self.bytes_used = 0
        self._reset()

    def _reset(self) -> None:
        self._begin = 0
        self._total = 0
        self._bases: list[int] = []
        self._lasts: list[int] = []
        self._ends: list[int] = []
        self._pieces: list[Buffer] = []  # two for each batch: header and rest, or all and nothing

    def __len__(self) -> int:
        return len(self._bases) - self._begin

    @property
    def first_offset(self) -> int | None:
        """The oldest offset in memory, None when there is none."""
        return self._bases[self._begin] if len(self) else None

    def add(self, base_offset: int, last_offset: int, head: Buffer, rest: Buffer) -> None:
        """The log's new last batch."""
        size = len(head) + len(rest)
        if size > self._bytes_max:
            self.clear()
            return
        self._total += size
        self._bases.append(base_offset)
        self._lasts.append(last_offset)
        self._ends.append(self._total)
        self._pieces.append(head)
        self._pieces.append(rest)
        self.bytes_used += size
        self._budget.grow(self, size)
        while self.bytes_used > self._bytes_max:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Forget the oldest batch."""
        at = self._begin
        size = len(self._pieces[2 * at]) + len(self._pieces[2 * at + 1])
        self._pieces[2 * at] = self._pieces[2 * at + 1] = b""
        self._begin = at + 1
        self.bytes_used -= size
        self._budget.shrink(self, size)
        if not len(self):
            self._reset()
        elif self._begin >= _COMPACT_AT and self._begin > len(self):
            begin = self._begin
            del self._bases[:begin], self._lasts[:begin], self._ends[:begin]
            del self._pieces[: 2 * begin]
            self._begin = 0

    def drop_below(self, offset: int) -> None:
        """Forget batches that end before `offset`: the file says something else now."""
        while len(self) and self._lasts[self._begin] < offset:
            self.drop_oldest()

    def clear(self) -> None:
        """Forget everything."""
        if not self._bases:
            return
        used, self.bytes_used = self.bytes_used, 0
        self._reset()
        if used:
            self._budget.shrink(self, used)

    def truncate(self, end_offset: int) -> None:
        """Forget batches that reach to or beyond `end_offset`."""
        while len(self) and self._lasts[-1] >= end_offset:
            size = len(self._pieces.pop()) + len(self._pieces.pop())
            self._bases.pop()
            self._lasts.pop()
            self._ends.pop()
            self._total -= size
            self.bytes_used -= size
            self._budget.shrink(self, size)
        if not len(self):
            self._reset()

    def read(
        self, offset: int, max_bytes: int, *, upper_bound: int, min_one: bool
    ) -> TailRead | None:
        """Whole batches from the one that holds `offset`; None when that is not in memory."""
        begin, bases, lasts = self._begin, self._bases, self._lasts
        if begin == len(bases) or offset < bases[begin]:
            return None
        first = bisect_left(lasts, offset, lo=begin)
        if first == len(lasts):
            return TailRead(b"", offset, offset)
        ends = self._ends
        before = ends[first - 1] if first else ends[0] - self._size(0)
        stop = bisect_left(lasts, upper_bound, lo=first)
        stop = bisect_right(ends, before + max_bytes, lo=first, hi=stop)
        if stop == first:
            if not min_one or lasts[first] >= upper_bound:
                return TailRead(b"", offset, offset)
            stop = first + 1
        records = b"".join(self._pieces[2 * first : 2 * stop])
        return TailRead(records, bases[first], lasts[stop - 1] + 1)

    def bytes_between(self, offset: int, upper_bound: int) -> int | None:
        """Bytes of the batches from the one that holds `offset` to `upper_bound`; None as above."""
        begin = self._begin
        if begin == len(self._bases) or offset < self._bases[begin]:
            return None
        first = bisect_left(self._lasts, offset, lo=begin)
        stop = bisect_left(self._lasts, upper_bound, lo=first)
        if stop <= first:
            return 0
        ends = self._ends
        return ends[stop - 1] - (ends[first - 1] if first else ends[0] - self._size(0))

    def _size(self, index: int) -> int:
        if index >= len(self._bases):
            return 0
        return len(self._pieces[2 * index]) + len(self._pieces[2 * index + 1])
