"""Lines about connections that were refused: one in ten seconds, with counts. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Final

LINE_INTERVAL_MS: Final = 10_000
ADDRESSES_SHOWN: Final = 3
ADDRESSES_COUNTED: Final = 1_000
OTHERS: Final = "others"


class RefusalLines:
    """Collects what was refused, and says when a line is due."""

    def __init__(self) -> None:
        self._said_ms: int | None = None
        self._reasons: Counter[str] = Counter()
        self._addresses: Counter[str] = Counter()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be said."""
        return not self._reasons

    def note(self, listener: str, reason: str, address: str) -> None:
        """A connection was refused."""
        self._reasons[f"{listener}: {reason}"] += 1
        if address not in self._addresses and len(self._addresses) >= ADDRESSES_COUNTED:
            address = OTHERS
        self._addresses[address] += 1

    def due(self, now_ms: int) -> str | None:
        """The line to be said now; None while there is nothing to say, or it is too early."""
        if self.is_empty:
            return None
        if self._said_ms is not None and now_ms - self._said_ms < LINE_INTERVAL_MS:
            return None
        self._said_ms = now_ms
        total = sum(self._reasons.values())
        why = ", ".join(f"{reason} ({count})" for reason, count in self._reasons.most_common())
        most = self._addresses.most_common(ADDRESSES_SHOWN)
        who = ", ".join(f"{address} ({count})" for address, count in most)
        more = len(self._addresses) - len(most)
        self._reasons.clear()
        self._addresses.clear()
        word = "connection" if total == 1 else "connections"
        return f"refused {total} {word}: {why}; from {who}" + (f" and {more} more" if more else "")
