"""The time at which each record of a batch was sent: its timestamps in milliseconds, as runs of
equal ones.

A busy producer puts hundreds of records into a millisecond, so that looking whether a new one has
begun costs less than to note each.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

_NS_PER_MS: Final = 1_000_000


class RecordTimes:
    """Grows while its batch is open. `until_ns` is the wall clock up to which records have the
    timestamp of the one before; a clock that steps back is followed by the next batch.

    Of runs that begin at the same record the last one counts: the thread that noted an earlier one
    was interrupted before it added the record.
    """

    __slots__ = ("runs", "until_ns")

    def __init__(self) -> None:
        self.until_ns = 0
        self.runs = array("q")  # pairs of the first record's index and the timestamp

    def begin(self, index: int, now_ns: int) -> None:
        """From the record `index` on it is the millisecond of `now_ns`."""
        timestamp = now_ns // _NS_PER_MS
        self.runs.extend((index, timestamp))  # both or, at Ctrl-C, none
        self.until_ns = (timestamp + 1) * _NS_PER_MS

    def give(self, index: int, timestamp: int) -> None:
        """The record `index` has a timestamp of the user's, which says nothing of the next one."""
        self.until_ns = 0
        self.runs.extend((index, timestamp))

    @property
    def common(self) -> int | None:
        """The one timestamp of all records, None where they differ."""
        return self.runs[1] if len(self.runs) == 2 else None

    def of_all(self, count: int) -> array[int]:
        """The timestamps of the first `count` records."""
        stamps = array("q")
        runs = self.runs
        for place in range(0, len(runs), 2):
            del stamps[runs[place] :]
            stamps.extend(array("q", (runs[place + 1],)) * (count - runs[place]))
        return stamps

    def of(self, indexes: Iterable[int]) -> Iterator[int]:
        """The timestamps of records in ascending order, each in less time than by itself."""
        runs = iter(zip(self.runs[::2], self.runs[1::2], strict=True))
        next_first, next_timestamp = next(runs, (sys.maxsize, -1))
        timestamp = -1
        for index in indexes:
            while next_first <= index:
                timestamp = next_timestamp
                next_first, next_timestamp = next(runs, (sys.maxsize, -1))
            yield timestamp

    def __getitem__(self, index: int) -> int:
        runs = self.runs
        place = bisect_right(range(len(runs) // 2), index, key=lambda run: runs[2 * run])
        return runs[2 * place - 1]
