"""What the driver (controller and gateway) shows to Prometheus and to health checks."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from pylog.model import NO_LEADER
from pylog_broker.metadata.records import Endpoint
from pylog_broker.metrics import names
from pylog_broker.metrics.common import add_common, add_connections, add_disks, version
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.metrics.exposition import Page
from pylog_broker.metrics.http import Health
from pylog_broker.metrics.listen import metrics_port
from pylog_broker.metrics.process import LoopLag

if TYPE_CHECKING:
    from pylog_broker.grpc.front import Front
    from pylog_broker.head.shell import ControllerShell

SLICE: Final = 1_000
"""Partitions between two turns of the loop: well under a millisecond."""


class HeadMetrics:
    """The `Source` of a driver. Lives on its loop."""

    def __init__(
        self,
        shell: ControllerShell,
        front: Front,
        counters: RequestCounters,
        expected_brokers: int,
        data_dir: str,
    ) -> None:
        self._shell = shell
        self._front = front
        self._counters = counters
        self._expected = expected_brokers
        self._data_dir = data_dir
        self._version = version()
        self.loop_lag = LoopLag()
        self.stopping = False
        self.endpoint = Endpoint("", 0)
        """Where this is served, as others reach it."""
        self.base_port = 0

    async def live(self) -> Health:
        """It is, unless the metadata log has failed: then only a new start helps."""
        failed = self._shell.failed
        return Health(not failed.done(), failed.result() if failed.done() else "alive")

    async def ready(self) -> Health:
        """Whether the cluster serves: this controller acts, and a broker is live."""
        live = await self.live()
        if not live.well:
            return live
        if self.stopping:
            return Health(False, "stopping")
        running = len(self._shell.controller.running_brokers())
        why = f"{running} of {self._expected} brokers are live"
        if self._shell.no_room:
            why += f"; nothing can be changed: {self._shell.no_room}"
        return Health(running > 0, why)

    async def targets(self) -> str | None:
        """The driver and every registered broker, wherever Spark has put it. Brokers on ports that
        they took by themselves (`metrics.listen` with port 0) are not known here.
        """
        cluster = self._shell.controller.image.cluster_id
        found = [_target(self.endpoint, role="controller", cluster_id=cluster)]
        for broker, registration in sorted(self._shell.controller.image.brokers.items()):
            if self.base_port:
                port = metrics_port(self.base_port, broker)
                at = Endpoint(registration.inner_endpoints[0].host, port)
                found.append(_target(at, role="broker", cluster_id=cluster, broker=str(broker)))
        return json.dumps(found)

    async def page(self) -> str:
        """All metrics of this process."""
        page, shell = Page(), self._shell
        controller = shell.controller
        image = controller.image
        info = (self._version, image.cluster_id, "controller", "")
        add_common(page, self._counters, self.loop_lag.seconds, info)
        fenced = sum(broker.fenced for broker in image.brokers.values())
        page.add(names.ACTIVE_CONTROLLER, int(not shell.failed.done()))
        await add_disks(page, [self._data_dir])
        page.add(names.ACTIVE_BROKERS, len(image.brokers) - fenced)
        page.add(names.FENCED_BROKERS, fenced)
        page.add(names.EXPECTED_BROKERS, self._expected)
        page.add(names.CONTROLLER_EPOCH, controller.controller_epoch)
        page.add(names.ELECTIONS, controller.elections.elections)
        page.add(names.UNCLEAN_ELECTIONS, controller.elections.unclean)
        page.add(names.METADATA_END, controller.decided.offset)
        page.add(names.METADATA_COMMITTED, image.offset)
        page.add_all(
            names.BROKER_LAG,
            {
                (broker,): max(0, image.offset - offset)
                for broker, offset in controller.applied_offsets().items()
            },
        )
        page.add(names.EVENT_QUEUE, shell.queue_size)
        page.add_histograms(names.EVENT_QUEUE_SECONDS, {(): shell.queue_seconds})
        page.add(names.NO_ROOM, int(bool(shell.no_room)))
        front = self._front
        add_connections(page, front.quotas)
        page.add(names.GATEWAY_CONNECTIONS, len(front.connections))
        page.add(names.GATEWAY_TUNNELS, front.tunnels)
        page.add_all(
            names.GATEWAY_BYTES,
            {("in",): front.tunnel_bytes_in, ("out",): front.tunnel_bytes_out},
        )
        await self._add_partitions(page)
        return page.text()

    async def _add_partitions(self, page: Page) -> None:
        image = self._shell.controller.image
        partitions = list(image.partitions())
        offline = away = 0
        for first in range(0, len(partitions), SLICE):
            for partition in partitions[first : first + SLICE]:
                offline += partition.leader == NO_LEADER
                away += partition.leader not in (NO_LEADER, partition.replicas[0])
            await asyncio.sleep(0)
        page.add(names.TOPICS, len(image.topics_by_name))
        page.add(names.GLOBAL_PARTITIONS, len(partitions))
        page.add(names.OFFLINE_PARTITIONS, offline)
        page.add(names.IMBALANCE, away)


def _target(at: Endpoint, **labels: str) -> dict[str, Any]:
    return {"targets": [str(at)], "labels": {f"pylog_{key}": labels[key] for key in labels}}
