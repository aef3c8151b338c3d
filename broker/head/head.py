"""Controller and gateway of one cluster, on the running loop."""

from __future__ import annotations

from collections.abc import Sequence

from broker.head.settings import HeadSettings
from broker.metadata.records import Endpoint
from pylog.model import BrokerId


class Head:
    """Owns the controller, its metadata log and the gateway's server. One loop, no locks."""

    def __init__(self, settings: HeadSettings) -> None:
        self.settings = settings

    async def start(self) -> Endpoint:
        """Recover, listen, begin to act; gives the gateway's address.

        Raises errors.PylogError and OSError when it cannot (locked directory, port in use).
        """
        raise NotImplementedError

    @property
    def cluster_id(self) -> str:
        """The cluster's id; known after `start`."""
        raise NotImplementedError

    @property
    def bootstrap(self) -> str:
        """`host:port` of the gateway."""
        raise NotImplementedError

    def live_brokers(self) -> Sequence[BrokerId]:
        """The brokers that are registered and unfenced."""
        raise NotImplementedError

    async def all_registered(self, count: int) -> None:
        """Return when `count` brokers are live; set a time-out around it."""
        raise NotImplementedError

    def task_ended(self, incarnation_id: str) -> None:
        """Spark says that the task that ran this incarnation is over: elect away at once."""
        raise NotImplementedError

    async def stop_cluster(self, timeout_seconds: float) -> bool:
        """Tell all brokers to stop in order; True when all sessions have ended in time."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Close the gateway and the metadata log."""
        raise NotImplementedError
