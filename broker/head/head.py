"""Controller and gateway of one cluster, on the running loop."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId
from pylog.rpc.v1 import cluster_pb2_grpc
from pylog_broker.api.admin import AdminHandler
from pylog_broker.api.calls import Calls
from pylog_broker.api.metadata import MetadataHandler
from pylog_broker.config import BROKER_CONFIG, BrokerConfig, without_secrets
from pylog_broker.controller.controller import Controller
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.grpc.cluster_service import ClusterService
from pylog_broker.grpc.front import Front
from pylog_broker.grpc.log_service import SERVICE, add_gateway_log
from pylog_broker.grpc.server import GrpcServer
from pylog_broker.grpc.unary import add_unary_service
from pylog_broker.head.metrics import HeadMetrics
from pylog_broker.head.settings import HeadSettings
from pylog_broker.head.shell import ControllerShell
from pylog_broker.ids import random_id
from pylog_broker.logs import IDENTITY, follow, hide
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import Endpoint
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.metrics.listen import Metrics, metrics_port
from pylog_broker.net.acceptor import Gate
from pylog_broker.net.shares import gateway_connections_max
from pylog_broker.node.gate import gate_of, limits_of
from pylog_broker.node.host import boot_id, open_files_max
from pylog_broker.node.places import look_at
from pylog_broker.node.settings import Address, check_listener, parse_address
from pylog_broker.protobuf.admin_apis import admin_apis
from pylog_broker.protobuf.log_apis import metadata_api
from pylog_broker.protobuf.unary import UnaryApis
from pylog_broker.storage.errors import DirectoryLocked
from pylog_broker.storage.files import OsFiles

_log = logging.getLogger("pylog.head")

LOCK_SECONDS_MAX: Final = 10.0
"""The predecessor may still be writing its last."""


class Head:
    """Owns the controller, its metadata log and the gateway's servers. One loop, no locks."""

    def __init__(self, settings: HeadSettings) -> None:
        hide(settings.secret.hex())
        self.settings = settings
        self._endpoint: Endpoint | None = None
        self._shell: ControllerShell | None = None
        self._service: ClusterService | None = None
        self._server: GrpcServer | None = None
        self._front: Front | None = None
        self._gate: Gate | None = None
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
        host = check_listener(
            address,
            "listen",
            allow_plaintext=settings.allow_plaintext,
            advertised_host=settings.advertised_host,
        )
        config = BrokerConfig.from_mapping(settings.config)
        for line in BROKER_CONFIG.without_effect(settings.config):
            _log.warning("%s", line)
        metrics = self._metrics_listener(config)
        root = Path(settings.data_dir).absolute()
        for doubt in look_at(str(root), [str(root / "controller")]):
            _log.warning("%s", doubt)
        log = await self._open_log(str(root / "controller"))
        try:
            controller = Controller(
                log.machine,
                ControllerSettings.from_config(
                    config,
                    expected_brokers=settings.brokers,
                    static_config=dict(without_secrets(settings.config)),
                ),
                random_id,
                next_offset=log.end_offset,
            )
            self._shell = shell = ControllerShell(
                controller,
                log,
                SYSTEM_CLOCK,
                on_published=lambda: self._follow(config, controller.image),
            )
            shell.perform(controller.start(SYSTEM_CLOCK.monotonic_ms(), SYSTEM_CLOCK.wall_ms()))
            while controller.image.controller_epoch != controller.controller_epoch:
                await shell.next_change()
            log.remember_cluster(controller.image.cluster_id)
            IDENTITY.cluster = controller.image.cluster_id
            IDENTITY.controller_epoch = int(controller.controller_epoch)
            port = await self._listen(address.host, address.port, config)
            self._serve_metrics(metrics)
        except BaseException:
            await self.stop()
            raise
        self._endpoint = Endpoint(host, port)
        _log.info("cluster %s: gateway on %s", controller.image.cluster_id, self._endpoint)
        return self._endpoint

    def _follow(self, config: BrokerConfig, image: MetadataImage) -> None:
        """What `configs alter` changes on a running driver."""
        follow(config.logging_level, image.cluster_configs())
        if self._gate is not None:
            live = config.under(image.cluster_configs())
            self._gate.quotas.limits = limits_of(live, open_files_max())

    async def _open_log(self, directory: str) -> MetadataLog:
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + LOCK_SECONDS_MAX * 1000
        while True:
            try:
                return MetadataLog.open(
                    OsFiles(), directory, boot_id=boot_id(), wall_ms=SYSTEM_CLOCK.wall_ms()
                )
            except DirectoryLocked:
                if SYSTEM_CLOCK.monotonic_ms() >= deadline_ms:
                    raise
            await asyncio.sleep(0.1)

    async def _listen(self, host: str, port: int, config: BrokerConfig) -> int:
        shell = self._shell
        assert shell is not None
        controller = shell.controller
        service = ClusterService(
            controller, shell.ask, shell.perform, SYSTEM_CLOCK, self.settings.secret
        )
        shell.service = self._service = service
        files_max = open_files_max()
        most = gateway_connections_max(files_max, config.max_connections)
        self._gate = gate_of(config, files_max, SYSTEM_CLOCK, _log.warning)
        self._server = server = GrpcServer(
            config.socket_request_max_bytes,
            self._counters,
            connections_max=most,
            idle_ms_max=config.connections_max_idle_ms,
        )
        metadata = MetadataHandler(
            lambda: controller.image, lambda: self._endpoint, is_gateway=True
        )
        admin = AdminHandler(controller, shell.ask_unless_full, lambda: self._endpoint)
        apis = UnaryApis(Calls(self._counters), [metadata_api(metadata), *admin_apis(admin)])
        server.offer(partial(add_gateway_log, apis), SERVICE)
        server.offer(partial(add_unary_service, apis, "Admin"), "pylog.v1.Admin")
        server.add(cluster_pb2_grpc.add_ClusterServicer_to_server, service, "pylog.v1.Cluster")
        inner = f"pylog-gateway-{uuid.uuid4().hex}"
        await server.start(f"unix-abstract:{inner}")
        self._front = Front(
            f"\0{inner}",
            SYSTEM_CLOCK,
            _log.warning,
            self._locate,
            gate=self._gate,
            connections_max=most,
        )
        bound = await self._front.start(host, port)
        await server.set_serving(True)
        return bound

    def _metrics_listener(self, config: BrokerConfig) -> tuple[Address, str] | None:
        if not config.metrics_listen:
            return None
        address = parse_address(config.metrics_listen, "metrics.listen")
        metrics_port(address.port, self.settings.brokers)  # the last broker's must be one, too
        host = check_listener(
            address,
            "metrics.listen",
            allow_plaintext=self.settings.allow_plaintext,
            advertised_host=self.settings.advertised_host,
        )
        return address, host

    def _serve_metrics(self, listener: tuple[Address, str] | None) -> None:
        if listener is None:
            return
        assert self._shell is not None
        assert self._front is not None
        address, host = listener
        brokers = self.settings.brokers
        source = HeadMetrics(
            self._shell, self._front, self._counters, brokers, self.settings.data_dir
        )
        self._source, self._metrics = source, Metrics(source, source.loop_lag)
        port = self._metrics.start(address.host, address.port, 0)
        source.endpoint, source.base_port = Endpoint(host, port), address.port
        self.metrics_address = str(Address(host, port))
        _log.info("metrics on http://%s/metrics", self.metrics_address)

    def _locate(self, broker: BrokerId) -> Sequence[Endpoint]:
        """Where clients that come through the gateway find a broker."""
        assert self._shell is not None
        registration = self._shell.controller.image.brokers.get(broker)
        return () if registration is None else registration.inner_endpoints

    # ---- while it runs --------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The cluster's id; known after `start`."""
        assert self._shell is not None
        return self._shell.controller.image.cluster_id

    @property
    def bootstrap(self) -> str:
        """`host:port` of the gateway."""
        assert self._endpoint is not None
        return str(self._endpoint)

    def inner_address(self, *, one_host: bool) -> str:
        """`host:port` of the gateway for brokers, who need not come by the name that clients use.
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
        assert self._shell is not None
        return self._shell.controller.running_brokers()

    def missing_brokers(self) -> Sequence[BrokerId]:
        """Known brokers that neither run nor are about to."""
        assert self._shell is not None
        return self._shell.controller.missing_brokers()

    async def all_registered(self, count: int) -> None:
        """Return when `count` brokers are live; set a time-out around it."""
        assert self._shell is not None
        while len(self.live_brokers()) < count:
            await self._shell.next_change()

    def task_ended(self, incarnation_id: str) -> None:
        """Spark says that the task that ran this incarnation is over: elect away at once."""
        if self._shell is not None:
            now_ms = SYSTEM_CLOCK.monotonic_ms()
            self._shell.perform(self._shell.controller.task_ended(now_ms, incarnation_id))

    async def serve_until(self, stop: asyncio.Event) -> bool:
        """Wait for `stop`; True when the metadata log failed instead, and all is over."""
        assert self._shell is not None
        stopped = asyncio.ensure_future(stop.wait())
        either: list[asyncio.Future[Any]] = [stopped, self._shell.failed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        return self._shell.failed.done()

    # ---- the end --------------------------------------------------------------------------------

    async def stop_cluster(self, timeout_seconds: float) -> bool:
        """Tell all brokers to stop in order; True when all sessions have ended in time."""
        await self._not_serving()
        shell, service = self._shell, self._service
        if shell is None or service is None:
            return True
        shell.perform(shell.controller.stop_cluster(SYSTEM_CLOCK.monotonic_ms()))
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + timeout_seconds * 1000
        while service.open_sessions and SYSTEM_CLOCK.monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.02)
        shell.perform(shell.controller.cluster_stopped(SYSTEM_CLOCK.monotonic_ms()))
        return not service.open_sessions

    async def stop(self) -> None:
        """Close the gateway and the metadata log."""
        await self._not_serving()
        if self._shell is not None:
            await self._shell.stop()
        if self._front is not None:
            await self._front.close()
        if self._gate is not None:
            self._gate.close()
        if self._server is not None:
            await self._server.stop(0.2)
        if self._metrics is not None:
            self._metrics.stop()

    async def _not_serving(self) -> None:
        """What health checks hear from now on."""
        if self._source is not None:
            self._source.stopping = True
        if self._server is not None:
            await self._server.set_serving(False)
