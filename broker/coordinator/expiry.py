"""Whether something that goes for good has been kept for long enough. Pure.

A coordinator's records have the times of the wall clock, which may be set by days at once. So the
broker is asked how much of its clock can be trusted (`storage/segments/retention.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Expiry:
    """`trusted_ms(kept_ms)`: the time by which what is kept for so long may go; None when it cannot
    be told. Without it the wall clock counts.
    """

    trusted_ms: Callable[[int], int | None] | None = None

    def has_come(self, wall_ms: int, expires_ms: int, kept_ms: int) -> bool:
        """Whether something that is kept for `kept_ms` may go, which ends at `expires_ms`."""
        if expires_ms > wall_ms:
            return False
        if self.trusted_ms is None:
            return True
        by_ms = self.trusted_ms(kept_ms)
        return by_ms is not None and expires_ms <= by_ms


BY_WALL_CLOCK: Final = Expiry()
