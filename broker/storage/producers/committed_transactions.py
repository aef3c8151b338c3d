"""The newest committed transactions of a log, in memory.

Pure. Each marker of a commit adds one, on leaders and followers alike, and the oldest go. It says
nothing that the batches do not say: `transaction_scan` reads those where this begins too late.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from pylog.model import TransactionName, TransactionSpan

KEPT: Final = 1_000
"""So many are kept at least, and twice as many at most: 64 KB."""


class CommittedTransactions:
    """In the order of their markers. It has every one with a marker at `known_from` or behind."""

    __slots__ = ("_epochs", "_firsts", "_markers", "_producers", "known_from")

    def __init__(self, known_from: int = 0) -> None:
        self.known_from = known_from
        self._producers = array("q")
        self._epochs = array("h")
        self._firsts = array("q")
        self._markers = array("q")

    def add(self, producer_id: int, epoch: int, first: int, marker: int) -> None:
        """A marker was appended that commits a transaction."""
        self._producers.append(producer_id)
        self._epochs.append(epoch)
        self._firsts.append(first)
        self._markers.append(marker)
        if len(self._markers) >= 2 * KEPT:
            old = len(self._markers) - KEPT
            self.known_from = self._markers[old - 1] + 1
            for column in (self._producers, self._epochs, self._firsts, self._markers):
                del column[:old]

    def clear(self) -> None:
        """The log has nothing any more."""
        for column in (self._producers, self._epochs, self._firsts, self._markers):
            del column[:]
        self.known_from = 0

    def spans(self, start: int, end: int) -> Iterator[TransactionSpan]:
        """Those with markers in [start, end), oldest first."""
        for row in range(bisect_left(self._markers, start), bisect_left(self._markers, end)):
            yield TransactionSpan(
                TransactionName(self._producers[row], self._epochs[row]),
                self._firsts[row],
                self._markers[row],
            )
