"""The simulated network: connections that are FIFO until they break, and single calls that are not.

A `Connection` is TCP as the product uses it: ordered, without loss or copies while it lives; when
it breaks, a random rest of what was under way is lost, the part before it still arrives, however
late, and each side learns of the break at its own time. A `call` is one unary message: it may be
late, lost or delivered twice. Nothing here knows what a message means.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.sim.scheduler import US_PER_MS, Scheduler

Deliver = Callable[[], None]

NOTICED_MS_MAX = (200, 8_000)
"""Within one of these times a connection to a machine that went down is known to be broken."""


@dataclass(frozen=True, slots=True)
class NetParameters:
    """The network's treatment of messages, drawn per seed. Probabilities are per message."""

    delay_mean_ms: float = 5.0
    tail_share: float = 0.0
    tail_ms: tuple[int, int] = (200, 4_000)
    drop: float = 0.0
    duplicate: float = 0.0
    reset: float = 0.0
    linger: float = 0.0  # of a broken connection's direction: what was under way comes late


class Net:
    """The network: it decides which machines can reach each other, and how long messages take."""

    def __init__(self, scheduler: Scheduler, parameters: NetParameters) -> None:
        self.scheduler = scheduler
        self.parameters = parameters
        self.calm = False  # after healing: small delays, nothing lost
        self.connections: list[Connection] = []
        self._rng = scheduler.rng("net")
        self._cut: set[tuple[str, str]] = set()
        self._means: dict[tuple[str, str], float] = {}

    # ---- faults

    def cut(self, source: str, target: str) -> None:
        """From now on nothing that `source` sends reaches `target`; the other way still works."""
        self._cut.add((source, target))

    def uncut(self, source: str, target: str) -> None:
        """End one cut."""
        self._cut.discard((source, target))

    def heal(self) -> None:
        """End all cuts."""
        self._cut.clear()

    def reachable(self, source: str, target: str) -> bool:
        """Whether a message would get through now."""
        return (source, target) not in self._cut

    # ---- single calls

    def call(self, source: str, target: str, deliver: Deliver) -> None:
        """Send one message on its own: late, lost or twice, in no order with others."""
        rng = self._rng
        if not self.calm:
            if rng.random() < self.parameters.drop:
                return
            if rng.random() < self.parameters.duplicate:
                late = rng.randint(*self.parameters.tail_ms) * US_PER_MS
                self.scheduler.after(late, self._arrive, source, target, deliver)
        self.scheduler.after(self.delay_us(source, target), self._arrive, source, target, deliver)

    def _arrive(self, source: str, target: str, deliver: Deliver) -> None:
        if (source, target) not in self._cut:
            deliver()

    def delay_us(self, source: str, target: str) -> int:
        """The time that the next message takes from `source` to `target`."""
        rng = self._rng
        if self.calm:
            return int(rng.expovariate(1.0) * US_PER_MS) + 100
        if rng.random() < self.parameters.tail_share:
            return rng.randint(*self.parameters.tail_ms) * US_PER_MS
        return int(rng.expovariate(1.0 / self._mean(source, target)) * US_PER_MS) + 50

    def _mean(self, source: str, target: str) -> float:
        pair = (source, target)
        mean = self._means.get(pair)
        if mean is None:
            mean = self.parameters.delay_mean_ms * (0.5 + self._rng.random())
            self._means[pair] = mean
        return mean

    # ---- connections

    def connect(
        self,
        client: str,
        server: str,
        on_client_break: Callable[[], None],
        on_server_break: Callable[[], None],
    ) -> Connection:
        """A new ordered connection; the callbacks run once, when that side sees the break."""
        connection = Connection(self, client, server, on_client_break, on_server_break)
        self.connections.append(connection)
        return connection

    def reset_some(self, rng: random.Random) -> Connection | None:
        """Break one open connection, any."""
        self.forget_broken()
        if not self.connections:
            return None
        connection = rng.choice(self.connections)
        connection.reset()
        return connection

    def reset_between(self, client: str, server: str) -> None:
        """Break what `client` has opened to `server`."""
        for connection in self.connections:
            if connection.open and (connection.client, connection.server) == (client, server):
                connection.reset()
        self.forget_broken()

    def break_all_of(self, node: str, *, seen_by_peer: bool) -> None:
        """The process on `node` is gone: its connections break.

        With `seen_by_peer` its kernel still tells the other side (a kill); without, the machine is
        gone and only a time-out will tell (a power loss).
        """
        for connection in self.connections:
            if connection.open and node in (connection.client, connection.server):
                connection.die_at(node, seen_by_peer=seen_by_peer)
        self.forget_broken()

    def forget_broken(self) -> None:
        """Drop what is closed, so that the list stays short."""
        self.connections = [c for c in self.connections if c.open]


class Connection:
    """Two FIFO directions between `client` and `server`."""

    def __init__(
        self,
        net: Net,
        client: str,
        server: str,
        on_client_break: Callable[[], None],
        on_server_break: Callable[[], None],
    ) -> None:
        self.net = net
        self.client = client
        self.server = server
        self.open = True
        self._on_break = {client: on_client_break, server: on_server_break}
        self._told = {client: False, server: False}
        # arrival of the newest message each way, and the number below which all still arrive
        self._last_us = {client: 0, server: 0}
        self._sent = {client: 0, server: 0}
        self._arrived = {client: 0, server: 0}
        self._limit: dict[str, int | None] = {client: None, server: None}
        self._held_until_us = {client: 0, server: 0}
        self._stalled: dict[str, list[tuple[int, Deliver]]] = {client: [], server: []}

    def under_way(self, source: str) -> bool:
        """Whether something that `source` sent has not arrived yet."""
        return self.open and self._sent[source] > self._arrived[source]

    def peer(self, node: str) -> str:
        """The other end."""
        return self.server if node == self.client else self.client

    def send(self, source: str, deliver: Deliver) -> None:
        """Send in order after all that `source` sent before; swallowed once it is broken."""
        if not self.open:
            return
        net = self.net
        if not net.calm and net._rng.random() < net.parameters.reset:
            # whether this message itself was out before the break is left open
            self._post(source, deliver)
            self.reset()
            return
        self._post(source, deliver)

    def _post(self, source: str, deliver: Deliver) -> None:
        net = self.net
        number = self._sent[source]
        self._sent[source] = number + 1
        at_us = max(
            self._last_us[source], net.scheduler.now_us + net.delay_us(source, self.peer(source))
        )
        self._last_us[source] = at_us
        net.scheduler.at(at_us, self._arrive, source, number, deliver)

    def _arrive(self, source: str, number: int, deliver: Deliver) -> None:
        limit = self._limit[source]
        if limit is not None and number >= limit:
            return
        if self._held_until_us[source] > self.net.scheduler.now_us:
            at_us = self._held_until_us[source]
            self.net.scheduler.at(at_us, self._arrive, source, number, deliver)
            return
        if self._stalled[source] or not self.net.reachable(source, self.peer(source)):
            if self.open:
                # TCP sends again when the way is free, in order
                if not self._stalled[source]:
                    self.net.scheduler.after(200 * US_PER_MS, self._retransmit, source)
                self._stalled[source].append((number, deliver))
            return
        self._arrived[source] = number + 1
        deliver()

    def _retransmit(self, source: str) -> None:
        if not self.open:
            self._stalled[source].clear()
            return
        if not self.net.reachable(source, self.peer(source)):
            self.net.scheduler.after(200 * US_PER_MS, self._retransmit, source)
            return
        stalled, self._stalled[source] = self._stalled[source], []
        for number, deliver in stalled:
            limit = self._limit[source]
            if limit is not None and number >= limit:
                break
            self._arrived[source] = number + 1
            deliver()

    def reset(self) -> None:
        """Break it now, outcome unknown: part of what is under way still arrives."""
        self._break(notify=(self.client, self.server))

    def close(self, by: str) -> None:
        """`by` gives it up (a time-out, say): it learns nothing more, the peer sees the end."""
        self._told[by] = True
        self._break(notify=(self.peer(by),))

    def die_at(self, node: str, *, seen_by_peer: bool) -> None:
        """The process at `node` is gone and is told nothing."""
        self._told[node] = True
        self._break(notify=(self.peer(node),) if seen_by_peer else ())
        if not seen_by_peer:
            # keep-alive finds out in the end, or the machine's reset once it is up again
            wait_ms = self.net._rng.randint(20, self.net._rng.choice(NOTICED_MS_MAX))
            self.net.scheduler.after(wait_ms * US_PER_MS, self._tell, self.peer(node))

    def _break(self, notify: tuple[str, ...]) -> None:
        if not self.open:
            return
        self.open = False
        rng = self.net._rng
        for source in (self.client, self.server):
            self._limit[source] = rng.randint(self._arrived[source], self._sent[source])
            if not self.net.calm and rng.random() < self.net.parameters.linger:
                late_us = rng.randint(*self.net.parameters.tail_ms) * US_PER_MS
                self._held_until_us[source] = self.net.scheduler.now_us + late_us
        for node in notify:
            wait = self.net.delay_us(self.peer(node), node)
            if not self.net.reachable(self.peer(node), node):
                wait += rng.randint(500, 3_000) * US_PER_MS
            # the end of a stream comes after everything that was in it
            peer = self.peer(node)
            limit = self._limit[peer]
            at_us = self.net.scheduler.now_us + wait
            if limit is not None and limit > self._arrived[peer]:
                at_us = max(at_us, self._last_us[peer], self._held_until_us[peer])
            self.net.scheduler.at(at_us, self._tell, node)

    def _tell(self, node: str) -> None:
        if not self._told[node]:
            self._told[node] = True
            self._on_break[node]()
