"""The transactional producers of a run: their transactional ids, and what befalls them.

A producer crashes in the middle, is late, stands still for longer than its transaction may last, or
is followed by another instance while it believes to be the only one. At the end all are good.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pylog_broker.controller.settings import TRANSACTION_STATE, InternalTopic
from pylog_broker.coordinator.transactions.config import TransactionConfig
from tests.sim.scheduler import US_PER_MS
from tests.sim.transaction_ghost import TransactionGhost
from tests.sim.transactional_producers import TransactionalApp
from tests.sim.transformers import Input, Transformer

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

PAUSE_MS_MAX = 5_000


class _Place:
    """The place of one instance after the other, under one transactional id."""

    def __init__(
        self, transactional_id: str, kind: type[TransactionalApp] = TransactionalApp
    ) -> None:
        self.transactional_id = transactional_id
        self.kind = kind
        self.lives = 0
        self.app: TransactionalApp | None = None


class TransactionApps:
    """All of a cluster's."""

    def __init__(self, cluster: Cluster) -> None:
        swarm = cluster.swarm.transactions
        assert swarm is not None
        self._cluster = cluster
        self._swarm = swarm
        self._rng = cluster.scheduler.rng("transactional applications")
        sinks = cluster.swarm.sinks
        self.config = TransactionConfig(
            max_timeout_ms=60_000,
            id_expiration_ms=86_400_000,
            expiration_interval_ms=3_000,
        )
        if sinks is not None:
            expires = sinks.lease_ms < 1_000 and not swarm.producers
            self.config = replace(
                self.config,
                max_timeout_ms=10_000,
                id_expiration_ms=2_000 if expires else self.config.id_expiration_ms,
                expiration_interval_ms=1_000,
                sink_lease_ms=sinks.lease_ms,
            )
        self.ghost = TransactionGhost(cluster)
        self._places = [_Place(f"x{number}") for number in range(swarm.producers)]
        if cluster.groups is not None and sinks is None:
            self._places.append(_Place("y0", Transformer))
        self.outputs: dict[bytes, Input] = {}
        """The input of each record that a transformer has sent."""
        self._apps: list[TransactionalApp] = []
        self._is_over = False

    @property
    def topic(self) -> InternalTopic:
        """The settings of the coordinators' topic."""
        swarm = self._cluster.swarm
        config = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "min.insync.replicas": str(swarm.min_insync),
            "segment.bytes": str(swarm.segment_bytes),
            "file.delete.delay.ms": "1000",
            "delete.retention.ms": "1500",
            "message.timestamp.after.max.ms": str(2**63 - 1),
            "flush.messages": str(swarm.flush_messages),
            "flush.ms": str(swarm.flush_ms),
        }
        return InternalTopic(
            TRANSACTION_STATE, self._swarm.partitions, swarm.replication_factor, config
        )

    # ---- producers

    def start(self) -> None:
        """One producer after the other."""
        for place in self._places:
            self._later(self._rng.expovariate(1 / 700), self._fill, place)
        self._next()

    def _later(self, wait_ms: float, fn: object, *args: object) -> None:
        self._cluster.scheduler.after(int(wait_ms * US_PER_MS), fn, *args)  # type: ignore[arg-type]

    def _fill(self, place: _Place) -> None:
        if place.app is not None and place.app.alive:
            return
        place.lives += 1
        name = f"{place.transactional_id}i{place.lives}"
        self._cluster.scheduler.note("comes", name)
        app = place.kind(self._cluster, self, name, place.transactional_id, self._swarm.timeout_ms)
        place.app = app
        self._apps.append(app)
        self._cluster.producers.append(app)
        app.hear(app.start)
        if self._is_over:
            app.hear(app.say_last_words)

    def has_other(self, app: TransactionalApp) -> bool:
        """Whether there is, or was, another instance: also an older one may be heard later."""
        of_id = [each for each in self._apps if each.transactional_id == app.transactional_id]
        return len(of_id) > 1

    def ended(self, app: TransactionalApp) -> None:
        """An instance cannot go on; another one comes, sooner or later."""
        for place in self._places:
            if place.app is app:
                self._later(self._away_ms(), self._fill, place)

    def _away_ms(self) -> float:
        return 50 if self._is_over else self._rng.expovariate(1 / self._swarm.away_ms)

    # ---- what befalls them

    def _next(self) -> None:
        self._later(self._rng.expovariate(1 / self._swarm.interval_ms), self._act)

    def _act(self) -> None:
        if self._is_over or not self._places:
            return
        place = self._rng.choice(self._places)
        kind = self._rng.choice(self._swarm.faults)
        app = place.app
        if app is not None and app.alive:
            self._cluster.scheduler.note("to a producer", kind, app.name)
            self._cluster.sometimes[f"transactions: {kind}"] += 1
            self._strike(kind, place, app)
        self._next()

    def _strike(self, kind: str, place: _Place, app: TransactionalApp) -> None:
        rng = self._rng
        match kind:
            case "crash":
                app.crash()
                self._later(self._away_ms(), self._fill, place)
            case "zombie":
                # the old one is not dead as yet, but forgotten
                place.app = None
                self._fill(place)
                self._later(rng.randint(1_000, 6_000), app.crash)
            case "stall":
                app.hear(app.stall, self._swarm.timeout_ms * (0.3 + rng.random() * 1.5))
            case "pause":
                app.machine.pause()
                self._later(rng.randint(50, PAUSE_MS_MAX), app.machine.resume)
            case _:
                raise AssertionError(kind)

    # ---- the end

    def settle(self) -> None:
        """Every id has a producer, which commits once more."""
        self._is_over = True
        kept = [place.app for place in self._places]
        for app in self._apps:
            app.machine.resume()
            if app not in kept and app.alive:
                app.crash()
        for place in self._places:
            if place.app is None or not place.app.alive:
                self._fill(place)

    @property
    def waits_for(self) -> list[str]:
        """L1: what is not settled."""
        found = [
            f"{place.transactional_id} lacks a producer"
            for place in self._places
            if place.app is None or not place.app.alive
        ]
        return found + self.ghost.waits_for
