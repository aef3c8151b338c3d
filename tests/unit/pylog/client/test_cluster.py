"""The connections of a client end when they are told to, whatever they were about to do."""

from __future__ import annotations

import asyncio

from pylog.client.background import shared_loop
from pylog.client.cluster import Cluster, ClusterSettings
from pylog.client.settings import ADMIN_SETTINGS
from tests.fakes.fake_cluster import FakeCluster


def test_a_close_together_with_a_wish_for_a_refresh_returns() -> None:
    thread = shared_loop()

    async def close_while_asked() -> None:
        cluster = Cluster(thread, settings)
        await cluster.connected(10_000)
        # The refreshing rests until it is wanted, which it is in the same turn as the close.
        while not (cluster._wanted and cluster._wanted._waiters):
            await asyncio.sleep(0)
        cluster.refresh_soon()
        async with asyncio.timeout(5):
            await cluster.close()

    with FakeCluster(1) as running:
        given = {"bootstrap_servers": running.bootstrap_servers, "retry_backoff_ms": 1}
        settings = ClusterSettings.of(ADMIN_SETTINGS.parse(given))
        for _ in range(5):
            thread.run(close_while_asked())
