"""One broker from claim to exit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from broker.node.settings import NodeExit, NodeSettings
from pylog.model import BrokerId


@dataclass(frozen=True, slots=True)
class NodeReady:
    """The broker is registered and unfenced."""

    broker_id: BrokerId
    host: str
    port: int
    replication_port: int
    directory: str


async def run_broker(
    settings: NodeSettings,
    stop: asyncio.Event,
    *,
    on_ready: Callable[[NodeReady], None] | None = None,
) -> NodeExit:
    """Serve until `stop` is set, the cluster stops, or a fault ends it; says why.

    Raises errors.PylogError when the settings are wrong (nothing was started then).
    """
    raise NotImplementedError
