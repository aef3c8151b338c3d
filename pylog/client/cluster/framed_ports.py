"""The times at which clients try brokers' framed ports: the wait after a connection failed or
broke, and the longer one for a port that cannot be reached at all. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pylog.client.cluster.metadata import Address

NO_STREAM_MS: Final = 60_000
NO_STREAM_MS_MAX: Final = 3_600_000
"""The time for which a broker is used over gRPC after its framed port could not be reached; doubles
each time, because trying it may cost two seconds."""

Port = tuple[Address, int]
"""A framed port of one life of a broker: its address, and the broker's epoch. Another life, or
another address, is tried at once."""


@dataclass(frozen=True, slots=True)
class StreamWay:
    """The way in which a framed stream to a broker begins."""

    broker: int
    epoch: int
    address: Address
    hello: bytes
    connect_s: float = math.inf
    """The time that an attempt to connect may take."""

    @property
    def port(self) -> Port:
        """The port for which failures to connect are counted."""
        return self.address, self.epoch


@dataclass(slots=True)
class _State:
    failures: int = 0  # since a connection was last greeted
    rests_until_ms: int = 0
    let_be_until_ms: int = 0
    let_be_ms: int = 0


class FramedPorts:
    """As Kafka's ClusterConnectionStates: after the first failure, and after a good connection
    broke, a port rests for `reconnect.backoff.ms`, doubling up to `reconnect.backoff.max.ms`, each
    time within 20 %, until a connection is greeted.
    """

    def __init__(
        self, first_ms: int, longest_ms: int, setup_ms: int = 10_000, setup_longest_ms: int = 30_000
    ) -> None:
        """`setup_ms`: what an attempt to connect may take at first, and after failures at most."""
        self._first_ms = min(first_ms, longest_ms)
        self._longest_ms = longest_ms
        self._setup_ms = min(setup_ms, setup_longest_ms)
        self._setup_longest_ms = setup_longest_ms
        self._states: dict[Port, _State] = {}

    def rest_ms(self, port: Port, now_ms: int) -> int:
        """The milliseconds to wait before the next attempt to connect."""
        state = self._states.get(port)
        return 0 if state is None else max(state.rests_until_ms - now_ms, 0)

    def connect_ms(self, port: Port, jitter: float) -> int:
        """The milliseconds that the next attempt to connect may take. `jitter`: from 0 to 1."""
        state = self._states.get(port)
        failures = 0 if state is None else min(state.failures, 62)
        within_ms = min(self._setup_ms << failures, self._setup_longest_ms)
        return int(within_ms * (0.8 + 0.4 * jitter)) if failures else within_ms

    def broke(self, port: Port, now_ms: int, jitter: float) -> None:
        """An attempt failed, or a connection broke. Faults that come while the port rests are of
        the same break: a client has several connections to a broker. `jitter`: from 0 to 1.
        """
        state = self._states.setdefault(port, _State())
        if now_ms < state.rests_until_ms:
            return
        rest_ms = min(self._first_ms << min(state.failures, 62), self._longest_ms)
        state.rests_until_ms = now_ms + int(rest_ms * (0.8 + 0.4 * jitter))
        state.failures += 1

    def greeted(self, port: Port) -> None:
        """A connection stands."""
        state = self._states.get(port)
        if state is not None:
            state.failures = state.rests_until_ms = 0

    def is_let_be(self, port: Port, now_ms: int) -> bool:
        """Whether the broker is to be used over gRPC for now."""
        state = self._states.get(port)
        return state is not None and state.let_be_until_ms > now_ms

    def let_be(self, port: Port, now_ms: int) -> bool:
        """The broker answers over gRPC, but this port cannot be had; True for the first time.
        Failures that come while the port is let be are of the same fault.
        """
        state = self._states.setdefault(port, _State())
        if state.let_be_until_ms > now_ms:
            return False
        is_first = not state.let_be_ms
        state.let_be_ms = min(max(NO_STREAM_MS, 2 * state.let_be_ms), NO_STREAM_MS_MAX)
        state.let_be_until_ms = now_ms + state.let_be_ms
        return is_first

    def keep(self, told: Iterable[Port]) -> None:
        """Forget what metadata does not tell of."""
        live = set(told)
        self._states = {port: state for port, state in self._states.items() if port in live}
