"""Controller and gateway of one cluster, joined in one process on the running loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pylog.model import BrokerId
from pylog_broker.config import BROKER_CONFIG, BrokerConfig, without_secrets
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.controller_server.server import ControllerServer
from pylog_broker.gateway.gateway import Gateway
from pylog_broker.head.metrics import HeadMetrics
from pylog_broker.head.settings import HeadSettings
from pylog_broker.logs import follow, hide
from pylog_broker.metadata.records import Endpoint
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.metrics.listen import Metrics, metrics_port
from pylog_broker.process.addresses import Address, check_listener, parse_address
from pylog_broker.process.places import look_at

_log = logging.getLogger("pylog.head")


class Head:
    """Owns the controller and the gateway. One loop, no locks."""

    def __init__(self, settings: HeadSettings) -> None:
        hide(settings.secret.hex())
        self.settings = settings
        self._endpoint: Endpoint | None = None
        self._controller: ControllerServer | None = None
        self._gateway: Gateway | None = None
        self._counters = RequestCounters()
        self._source: HeadMetrics | None = None
        self._metrics: Metrics | None = None
        self.metrics_address = ""
        """`host:port` of the metrics; empty: off."""

    async def start(self) -> Endpoint:
        """Recover, listen, begin to act; gives the gateway's address.

        Raises errors.PylogError and OSError when it cannot (locked directory, port in use).
        """
        settings = self.settings
        address = parse_address(settings.listen, "listen")
        host = self._host_of(address, "listen")
        config = BrokerConfig.from_mapping(settings.config)
        for line in BROKER_CONFIG.without_effect(settings.config):
            _log.warning("%s", line)
        metrics = self._metrics_listener(config)
        root = Path(settings.data_dir).absolute()
        for doubt in look_at(str(root), [str(root / "controller")]):
            _log.warning("%s", doubt)
        try:
            self._controller = server = await ControllerServer.open(
                str(root / "controller"),
                ControllerSettings.from_config(
                    config,
                    expected_brokers=settings.brokers,
                    static_config=dict(without_secrets(settings.config)),
                ),
                settings.secret,
                on_published=lambda: self._follow(config),
            )
            self._gateway = Gateway(
                server.controller,
                server.shell.ask_unless_full,
                config,
                self._counters,
                _log.warning,
            )
            self._follow(config)
            self._endpoint = await self._gateway.start(
                address.host, address.port, host, server.offer
            )
            self._serve_metrics(metrics)
        except BaseException:
            await self.stop()
            raise
        _log.info("cluster %s: gateway on %s", server.cluster_id, self._endpoint)
        return self._endpoint

    def _follow(self, config: BrokerConfig) -> None:
        """The settings that `configs alter` changes on a running driver."""
        if self._controller is not None:
            follow(config.logging_level, self._controller.controller.image.cluster_configs())
        if self._gateway is not None:
            self._gateway.follow()

    def _host_of(self, address: Address, what: str) -> str:
        """The host by which others reach this address."""
        return check_listener(
            address,
            what,
            allow_plaintext=self.settings.allow_plaintext,
            advertised_host=self.settings.advertised_host,
        )

    def _metrics_listener(self, config: BrokerConfig) -> tuple[Address, str] | None:
        if not config.metrics_listen:
            return None
        address = parse_address(config.metrics_listen, "metrics.listen")
        metrics_port(address.port, self.settings.brokers)  # the last broker's must be one, too
        return address, self._host_of(address, "metrics.listen")

    def _serve_metrics(self, listener: tuple[Address, str] | None) -> None:
        if listener is None:
            return
        assert self._controller is not None
        assert self._gateway is not None
        address, host = listener
        source = HeadMetrics(
            self._controller,
            self._gateway,
            self._counters,
            self.settings.brokers,
            self.settings.data_dir,
        )
        self._source, self._metrics = source, Metrics(source, source.loop_lag)
        port = self._metrics.start(address.host, address.port, 0)
        source.endpoint, source.base_port = Endpoint(host, port), address.port
        self.metrics_address = str(Address(host, port))
        _log.info("metrics on http://%s/metrics", self.metrics_address)

    # ---- while it runs --------------------------------------------------------------------------

    @property
    def controller(self) -> ControllerServer:
        """The controller of this process; once `start` has returned."""
        assert self._controller is not None
        return self._controller

    @property
    def cluster_id(self) -> str:
        """The cluster's id; known after `start`."""
        return self.controller.cluster_id

    @property
    def bootstrap(self) -> str:
        """`host:port` of the gateway."""
        assert self._endpoint is not None
        return str(self._endpoint)

    def inner_address(self, *, one_host: bool) -> str:
        """`host:port` of the gateway for brokers, which need not come by the name that clients use.
        `one_host`: they are all on this machine.
        """
        assert self._endpoint is not None
        address = parse_address(self.settings.listen, "listen")
        host = address.host
        if address.is_wildcard:
            host = "127.0.0.1" if one_host else self._endpoint.host
        return str(Address(host, self._endpoint.port))

    def live_brokers(self) -> Sequence[BrokerId]:
        """The brokers that are registered and unfenced, and whose sessions are open."""
        return self.controller.live_brokers()

    def missing_brokers(self) -> Sequence[BrokerId]:
        """Known brokers that neither run nor are about to."""
        return self.controller.controller.missing_brokers()

    async def all_registered(self, count: int) -> None:
        """Return when `count` brokers are live; set a time-out around it."""
        await self.controller.all_registered(count)

    def task_ended(self, incarnation_id: str) -> None:
        """Spark says that the task that ran this incarnation is over: elect away at once."""
        if self._controller is not None:
            self._controller.task_ended(incarnation_id)

    async def serve_until(self, stop: asyncio.Event) -> bool:
        """Wait for `stop`; True when the metadata log failed instead, and all is over."""
        failed = self.controller.failed
        stopped = asyncio.ensure_future(stop.wait())
        either: list[asyncio.Future[Any]] = [stopped, failed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        return failed.done()

    # ---- the end --------------------------------------------------------------------------------

    async def stop_cluster(self, timeout_seconds: float) -> bool:
        """Tell all brokers to stop in order; True when all sessions have ended in time."""
        await self._stop_serving()
        return self._controller is None or await self._controller.stop_cluster(timeout_seconds)

    async def stop(self) -> None:
        """Close the metadata log and the gateway."""
        await self._stop_serving()
        if self._controller is not None:
            await self._controller.stop()
        if self._gateway is not None:
            await self._gateway.stop()
        if self._metrics is not None:
            self._metrics.stop()

    async def _stop_serving(self) -> None:
        """Health checks hear from now on that nothing is served."""
        if self._source is not None:
            self._source.stopping = True
        if self._gateway is not None:
            await self._gateway.stop_serving()
