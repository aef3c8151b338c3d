"""One broker from claim to exit, for whoever hosts it: a process of its own, or a Spark task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pylog_broker.node.settings import NodeExit, NodeReady, NodeSettings


async def run_broker(
    settings: NodeSettings,
    stop: asyncio.Event,
    *,
    hurry: asyncio.Event | None = None,
    on_ready: Callable[[NodeReady], None] | None = None,
) -> NodeExit:
    """Serve until `stop` is set, the cluster stops, or a fault ends it; says why.

    With `hurry` set too, the stop flushes but waits for nobody else. Raises errors.InvalidConfig
    when the settings are wrong (nothing was started then). gRPC is imported only in here: Spark
    forks its workers.
    """
    from pylog_broker.node.service import BrokerService

    service = BrokerService(settings, stop, hurry or asyncio.Event(), on_ready or (lambda _: None))
    return await service.run()
