"""The metadata of a simulated client: the product's `ClusterMetadata`, kept fresh as the product's
client does it: one question at a time, asked anew after a while, or sooner for a caller that needs
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.cluster.wire import snapshot_of
from pylog.rpc.v1 import log_pb2
from tests.sim.rpc import Actor, unary

if TYPE_CHECKING:
    import random

    from tests.sim.cluster import Cluster

ANSWER_MS = 400
BACKOFF_MS = (40, 120)
MAX_AGE_MS = 5_000


class KeptMetadata:
    """The metadata of one client. `on_change` hears of every answer."""

    def __init__(
        self, cluster: Cluster, actor: Actor, rng: random.Random, on_change: Callable[[], None]
    ) -> None:
        self.metadata = ClusterMetadata()
        self._cluster = cluster
        self._actor = actor
        self._rng = rng
        self._on_change = on_change
        self._topics: dict[str, None] = {}
        self._wanted = False
        self._asking = False
        self._asked = 0

    def refresh_soon(self, *topics: str) -> None:
        """Ask again, about these topics too from now on."""
        self._topics.update(dict.fromkeys(topics))
        self._wanted = True
        if not self._asking:
            self._ask()

    def _ask(self) -> None:
        self._wanted = False
        self._asking = True
        self._asked += 1
        cluster = self._cluster
        # The product asks the brokers that it knows first; all of them are its bootstrap addresses.
        known = sorted(self.metadata.brokers)
        node = cluster.brokers[self._rng.choice(sorted(cluster.brokers))]
        if known and self._rng.random() < 0.8:
            node = cluster.owners.get(self._rng.choice(known), node)
        unary(
            cluster.net,
            self._actor,
            lambda: node.process,
            lambda process, value, answer: process.clients.serve_metadata(value, answer),
            log_pb2.MetadataRequest(topics=list(self._topics)),
            self._heard,
            ANSWER_MS,
        )

    def _heard(self, answer: log_pb2.MetadataResponse | None) -> None:
        if answer is not None:
            self.metadata.update(snapshot_of(answer))
            self._on_change()
        wait_ms = self._rng.randint(*BACKOFF_MS)
        self._actor.timer(wait_ms, self._go_on, answer is None)

    def _go_on(self, failed: bool) -> None:
        self._asking = False
        if failed or self._wanted:
            self._ask()
        else:
            self._actor.timer(MAX_AGE_MS, self._grown_old, self._asked)

    def _grown_old(self, asked: int) -> None:
        if asked == self._asked and not self._asking:
            self._ask()
