"""The production cores, and test-only copies of them with one known bug each.

A variant changes one decision of a core while it is installed. Each must be caught by the
simulator; a checker that has never failed is not evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.storage.manager import LogManager

from broker.config import BrokerConfig
from broker.controller.controller import Controller
from broker.controller.settings import ControllerSettings
from broker.metadata.image import MetadataImage
from broker.replication.manager import ReplicaManager
from broker.replication.settings import ReplicationSettings
from pylog.model import BrokerId
from tests.sim.swarm import Swarm


class Variant:
    """The production cores as they are."""

    @contextmanager
    def installed(self) -> Iterator[Variant]:
        """The variant, its change in effect."""
        yield self

    def adapt(self, swarm: Swarm) -> Swarm:
        """The parameters to run with; a variant may lean towards what its bug needs."""
        return swarm

    def controller(
        self, image: MetadataImage, settings: ControllerSettings, new_id: Callable[[], str]
    ) -> Controller:
        """A new controller."""
        return Controller(image, settings, new_id)

    def replica_manager(
        self,
        broker: BrokerId,
        logs: LogManager,
        config: BrokerConfig,
        settings: ReplicationSettings,
    ) -> ReplicaManager:
        """A new replica manager."""
        return ReplicaManager(broker, logs, config, settings=settings)


VARIANTS: dict[str, Variant] = {"production": Variant()}
