"""The gateway that runs: metadata and administration over gRPC, and tunnels to brokers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId
from pylog_broker.api.admin import AdminHandler, Ask
from pylog_broker.api.calls import Calls
from pylog_broker.api.metadata import MetadataHandler
from pylog_broker.api.send import SendHandler
from pylog_broker.config import BrokerConfig
from pylog_broker.controller.controller import Controller
from pylog_broker.gateway.front import Front
from pylog_broker.gateway.leader_calls import LeaderCalls
from pylog_broker.grpc.log_service import SERVICE as LOG_SERVICE
from pylog_broker.grpc.log_service import add_gateway_log
from pylog_broker.grpc.server import GrpcServer
from pylog_broker.grpc.unary import add_unary_service
from pylog_broker.metadata.records import Endpoint
from pylog_broker.metrics import names
from pylog_broker.metrics.common import add_connections
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.metrics.exposition import Page
from pylog_broker.net.shares import gateway_connections_max
from pylog_broker.process.gate import gate_of, limits_of
from pylog_broker.process.host import open_files_max
from pylog_broker.protobuf.admin_apis import admin_apis
from pylog_broker.protobuf.log_apis import metadata_api
from pylog_broker.protobuf.send import send_api
from pylog_broker.protobuf.unary import UnaryApis

ADMIN_SERVICE: Final = "pylog.v1.Admin"
RECORDS_SERVICE: Final = "pylog.v1.Records"


class Gateway:
    """Owns the gateway's public port and the gRPC server behind it. Lives on the controller's loop,
    whose committed image it reads.
    """

    def __init__(
        self,
        controller: Controller,
        ask: Ask,
        config: BrokerConfig,
        counters: RequestCounters,
        report: Callable[[str], None],
    ) -> None:
        """`ask` passes an administrator's question to the controller; `report` takes log lines."""
        self.endpoint: Endpoint | None = None
        """The address that clients connect to; None before it listens."""
        self._controller = controller
        self._config = config
        files_max = open_files_max()
        connections_max = gateway_connections_max(files_max, config.max_connections)
        self._gate = gate_of(config, files_max, SYSTEM_CLOCK, report)
        self._server = GrpcServer(
            config.socket_request_max_bytes,
            counters,
            connections_max=connections_max,
            idle_ms_max=config.connections_max_idle_ms,
        )
        self._inner = f"pylog-gateway-{uuid.uuid4().hex}"
        self._front = Front(
            f"\0{self._inner}",
            SYSTEM_CLOCK,
            report,
            self._locate,
            gate=self._gate,
            connections_max=connections_max,
        )
        metadata = MetadataHandler(lambda: controller.image, lambda: self.endpoint, is_gateway=True)
        admin = AdminHandler(controller, ask, lambda: self.endpoint)
        self._leaders = LeaderCalls(self._locate)
        send = SendHandler(lambda: controller.image, self._leaders, SYSTEM_CLOCK)
        apis = UnaryApis(
            Calls(counters), [metadata_api(metadata), *admin_apis(admin), send_api(send)]
        )
        self._server.offer(partial(add_gateway_log, apis), LOG_SERVICE)
        self._server.offer(partial(add_unary_service, apis, "Admin"), ADMIN_SERVICE)
        self._server.offer(partial(add_unary_service, apis, "Records"), RECORDS_SERVICE)

    async def start(
        self, host: str, port: int, told: str, more: Callable[[GrpcServer], None]
    ) -> Endpoint:
        """Listen; gives the address that clients connect to, with the host `told`. `more` adds what
        else this port offers. OSError when the address cannot be bound.
        """
        more(self._server)
        await self._server.start(f"unix-abstract:{self._inner}")
        bound = await self._front.start(host, port)
        self.endpoint = Endpoint(told, bound)
        await self._server.set_serving(True)
        return self.endpoint

    def follow(self) -> None:
        """Take the limits of connections out of the committed metadata."""
        live = self._config.under(self._controller.image.cluster_configs())
        self._gate.quotas.limits = limits_of(live, open_files_max())

    def add_metrics(self, page: Page) -> None:
        """The gateway's connections and tunnels."""
        front = self._front
        add_connections(page, front.quotas)
        page.add(names.GATEWAY_CONNECTIONS, len(front.connections))
        page.add(names.GATEWAY_TUNNELS, front.tunnels)
        page.add_all(
            names.GATEWAY_BYTES,
            {("in",): front.tunnel_bytes_in, ("out",): front.tunnel_bytes_out},
        )

    async def stop_serving(self) -> None:
        """Health checks hear that it does not serve, from now on."""
        await self._server.set_serving(False)

    async def stop(self) -> None:
        """Close the port and every connection."""
        await self._front.close()
        self._gate.close()
        await self._server.stop(0.2)
        await self._leaders.close()

    def _locate(self, broker: BrokerId) -> Sequence[Endpoint]:
        """The addresses at which clients that come through the gateway find a broker."""
        registration = self._controller.image.brokers.get(broker)
        return () if registration is None else registration.inner_endpoints
