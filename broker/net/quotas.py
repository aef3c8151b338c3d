"""Whether a connection that has come may stay, and when the next one is taken: Kafka's
ConnectionQuotas.

`max.connections` counts by listener, `max.connections.per.ip` by address over all of them, both at
one time. `max.connection.creation.rate` is how many are taken in a second; those above it wait
where they are, in the kernel's queue (KIP-612). The listener for other brokers has no such rate,
and its peers do not count for their address once they have proved themselves.

Pure: events and times go in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pylog.config import INT_MAX

BURST_SECONDS: Final = 1.0
"""After a pause so much of the rate may come together."""
WAIT_MS_MAX: Final = 1_000


class Refusal(Enum):
    """The reasons why a connection may not stay; the value is the name of a setting or a limit."""

    LISTENER = "max.connections"
    """Its listener has as many as it may."""
    ADDRESS = "max.connections.per.ip"
    """Its address has."""
    FILES = "open files"
    """The rest of the files that the process may have open is kept for logs."""
    UNPROVEN = "unproven"
    """It did not prove in time what it is, and others wanted its place."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings. `overrides`: by address, instead of `per_ip`."""

    per_ip: int = INT_MAX
    overrides: Mapping[str, int] = field(default_factory=dict)
    creation_rate: int = INT_MAX
    last_descriptor: int = INT_MAX

    def of_address(self, address: str) -> int:
        """The number of connections that the address may have."""
        return self.overrides.get(address, self.per_ip)


class ConnectionQuotas:
    """Counts the connections of one process."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.by_listener: dict[str, int] = {}
        self.refused: dict[tuple[str, Refusal], int] = {}
        """Since the start, by listener."""
        self._most: dict[str, int] = {}
        self._by_address: dict[str, int] = {}
        self._tokens = float(self.limits.creation_rate)
        self._filled_ms: int | None = None

    def add_listener(self, name: str, most: int) -> None:
        """A listener that may have so many at a time."""
        self._most[name] = most
        self.by_listener.setdefault(name, 0)

    def wait_ms(self, now_ms: int) -> int:
        """The milliseconds to take no connection; 0: one may be taken now."""
        rate = self.limits.creation_rate
        if rate >= INT_MAX:
            return 0
        before, self._filled_ms = self._filled_ms, now_ms
        most = max(rate * BURST_SECONDS, 1.0) if rate else 0.0
        came = most if before is None else rate * (now_ms - before) / 1000
        self._tokens = min(most, self._tokens + came)
        if self._tokens < 1:
            return min(WAIT_MS_MAX, int((1 - self._tokens) * 1000 / rate) + 1) if rate else 1_000
        return 0

    def taken(self) -> None:
        """One was taken, as the rate allows."""
        self._tokens -= 1

    def is_full(self, listener: str) -> bool:
        """Whether the listener has as many as it may."""
        return self.by_listener[listener] >= self._most[listener]

    def is_address_full(self, address: str) -> bool:
        """Whether the address has as many as it may."""
        return self._by_address.get(address, 0) >= self.limits.of_address(address)

    def opened(self, listener: str, address: str, descriptor: int) -> Refusal | None:
        """A connection has come: it counts, or why it may not stay."""
        refusal = self._refusal(listener, address, descriptor)
        if refusal is not None:
            self.count_refusal(listener, refusal)
            return refusal
        self.by_listener[listener] += 1
        self._by_address[address] = self._by_address.get(address, 0) + 1
        return None

    def _refusal(self, listener: str, address: str, descriptor: int) -> Refusal | None:
        limits = self.limits
        if descriptor >= limits.last_descriptor:
            return Refusal.FILES
        if self.is_address_full(address):
            return Refusal.ADDRESS
        return Refusal.LISTENER if self.is_full(listener) else None

    def count_refusal(self, listener: str, refusal: Refusal) -> None:
        """One was refused."""
        key = listener, refusal
        self.refused[key] = self.refused.get(key, 0) + 1

    def left_address(self, address: str) -> None:
        """A connection no longer counts for its address."""
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]

    def left_listener(self, listener: str) -> None:
        """A connection no longer counts for its listener."""
        self.by_listener[listener] -= 1
        assert self.by_listener[listener] >= 0

    def moved(self, before: str, now: str) -> bool:
        """A connection counts for another listener from now on; False when that is full."""
        if self.is_full(now):
            self.count_refusal(now, Refusal.LISTENER)
            return False
        self.left_listener(before)
        self.by_listener[now] += 1
        return True
