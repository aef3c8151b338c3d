"""The rates at which a broker copies replicas that are out of sync, and lets others copy (KIP-73).

Pure: times go in. Bytes are counted when they have come or gone, so one answer may be more than the
rate allows; the next waits for so much longer. After a pause a second's worth may pass at once.
Replicas that are in sync are never held back: their writers would wait.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pylog.config import LONG_MAX

BURST_MS: Final = 1_000

LOOK_AGAIN_MS: Final = 1_000
"""A wait may be long, and the rate may be another one before it is over."""


class ReplicationThrottle:
    """One rate, in bytes a second, for all throttled replicas together; without a limit at first.

    Invariant: what has passed is paid for at `_paid_ms`.
    """

    def __init__(self) -> None:
        self._rate = LONG_MAX
        self._paid_ms = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether there is a rate at all."""
        return self._rate < LONG_MAX

    def set_rate(self, now_ms: int, rate: int) -> None:
        """The rate from now on; with another one, owed bytes are forgotten."""
        if rate != self._rate:
            self._rate = rate
            self._paid_ms = float(now_ms)

    def passed(self, now_ms: int, size: int) -> None:
        """So many bytes have passed."""
        if self.is_limited:
            began_ms = max(self._paid_ms, float(now_ms - BURST_MS))
            self._paid_ms = began_ms + size * 1000 / max(self._rate, 1)

    @property
    def account(self) -> float:
        """How far what has passed is paid for; `back_to` takes it."""
        return self._paid_ms

    def back_to(self, account: float) -> None:
        """Uncount what has passed since `account` was read, in the same turn."""
        self._paid_ms = account

    def wait_ms(self, now_ms: int) -> int:
        """The milliseconds until more may pass; 0: now. At most a second: then ask again."""
        if not self.is_limited:
            return 0
        if not self._rate:
            return LOOK_AGAIN_MS
        return min(LOOK_AGAIN_MS, max(0, int(self._paid_ms - now_ms + 0.999)))


@dataclass(slots=True)
class ReplicationThrottles:
    """The two rates of a broker: for what it lets others copy, and for what it copies."""

    leader: ReplicationThrottle = field(default_factory=ReplicationThrottle)
    follower: ReplicationThrottle = field(default_factory=ReplicationThrottle)
