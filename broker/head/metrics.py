"""Metrics of the driver (controller and gateway), and its answers to health checks."""

from __future__ import annotations

import json
from typing import Any

from pylog_broker.controller_server.metrics import add_controller
from pylog_broker.controller_server.server import ControllerServer
from pylog_broker.gateway.gateway import Gateway
from pylog_broker.metadata.records import Endpoint
from pylog_broker.metrics.common import add_common, add_disks, version
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.metrics.exposition import Page
from pylog_broker.metrics.http import Health
from pylog_broker.metrics.listen import metrics_port
from pylog_broker.metrics.process import LoopLag


class HeadMetrics:
    """The `Source` of a driver. Lives on its loop."""

    def __init__(
        self,
        controller: ControllerServer,
        gateway: Gateway,
        counters: RequestCounters,
        expected_brokers: int,
        data_dir: str,
    ) -> None:
        self._controller = controller
        self._gateway = gateway
        self._counters = counters
        self._expected = expected_brokers
        self._data_dir = data_dir
        self._version = version()
        self.loop_lag = LoopLag()
        self.stopping = False
        self.endpoint = Endpoint("", 0)
        """The address at which this page is served, as others reach it."""
        self.base_port = 0

    async def live(self) -> Health:
        """It is, unless the metadata log has failed: then only a new start helps."""
        failed = self._controller.failed
        return Health(not failed.done(), failed.result() if failed.done() else "alive")

    async def ready(self) -> Health:
        """Whether the cluster serves: this controller acts, and a broker is live."""
        live = await self.live()
        if not live.well:
            return live
        if self.stopping:
            return Health(False, "stopping")
        running = len(self._controller.live_brokers())
        why = f"{running} of {self._expected} brokers are live"
        if self._controller.shell.no_room:
            why += f"; nothing can be changed: {self._controller.shell.no_room}"
        return Health(running > 0, why)

    async def targets(self) -> str | None:
        """The driver and every registered broker, wherever Spark has put it. Brokers on ports that
        they took by themselves (`metrics.listen` with port 0) are not known here.
        """
        image = self._controller.controller.image
        cluster = image.cluster_id
        found = [_target(self.endpoint, role="controller", cluster_id=cluster)]
        for broker, registration in sorted(image.brokers.items()):
            if self.base_port:
                port = metrics_port(self.base_port, broker)
                at = Endpoint(registration.inner_endpoints[0].host, port)
                found.append(_target(at, role="broker", cluster_id=cluster, broker=str(broker)))
        return json.dumps(found)

    async def page(self) -> str:
        """All metrics of this process."""
        page = Page()
        info = (self._version, self._controller.cluster_id, "controller", "")
        add_common(page, self._counters, self.loop_lag.seconds, info)
        await add_disks(page, [self._data_dir])
        self._gateway.add_metrics(page)
        await add_controller(page, self._controller, self._expected)
        return page.text()


def _target(at: Endpoint, **labels: str) -> dict[str, Any]:
    return {"targets": [str(at)], "labels": {f"pylog_{key}": labels[key] for key in labels}}
