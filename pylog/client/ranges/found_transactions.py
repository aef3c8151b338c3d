"""The transactions of a range, put together of several answers. Pure.

An answer that ends early tells also what was open there. A later one tells its marker, or that it
is still open, or nothing: then it was aborted.
"""

from __future__ import annotations

from collections.abc import Iterable

from pylog.model import TransactionName, TransactionSpan


class FoundTransactions:
    """The transactions of one partition, by name. Several of one name (transaction version 1) count
    as one, from the first record of the first to the marker of the last.
    """

    def __init__(self) -> None:
        self._spans: dict[TransactionName, TransactionSpan] = {}
        self._unresolved: set[TransactionName] = set()

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, spans: Iterable[TransactionSpan], *, whole: bool) -> None:
        """One more answer, in order. `whole`: it is the last one."""
        for span in spans:
            name, first, marker = span
            known = self._spans.get(name)
            if known is not None:
                first = min(first, known.first)
            if marker < 0 and not whole:
                if known is None:
                    self._unresolved.add(name)
                elif name not in self._unresolved:
                    marker = known.marker
            else:
                self._unresolved.discard(name)
            self._spans[name] = TransactionSpan(name, first, marker)
        if whole:
            for name in self._unresolved:
                del self._spans[name]
            self._unresolved.clear()

    def spans(self) -> list[TransactionSpan]:
        """What is known of each."""
        return list(self._spans.values())
