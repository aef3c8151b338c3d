"""A share consumer's requests, as calls."""

from __future__ import annotations

from pylog import errors
from pylog.client.background import as_defect
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.server import Server
from pylog.client.membership.messages import FindCoordinator
from pylog.client.share_consumer.share_wire import API_OF, ShareWire
from pylog.client.sharing.messages import (
    ShareFetch,
    ShareGroupAnswer,
    ShareHeartbeat,
    ShareRequest,
)


class ShareCalls:
    """The calls of one consumer. On the loop."""

    def __init__(self, cluster: Cluster, wire: ShareWire) -> None:
        self._cluster = cluster
        self._wire = wire

    async def call(self, request: ShareRequest) -> ShareGroupAnswer:
        """The broker's answer; raises the reason why there is none. An error that no retry cures is
        a refusal, and so is a defect of ours: somebody waits for an answer.
        """
        try:
            server = await self._server(request)
            message = self._wire.message(request)
            response = await server.call(API_OF[type(request)], message, self._timeout_s(request))
            return self._wire.answer(request, response)
        except errors.PylogError as error:
            if error.retriable or not error.code:
                raise
            return self._wire.refused(request, error.code, str(error))
        except Exception as error:  # noqa: BLE001  the core must hear of it
            defect = as_defect(error, type(request).__name__)
            return self._wire.refused(request, defect.code, str(defect))

    async def _server(self, request: ShareRequest) -> Server:
        cluster = self._cluster
        if isinstance(request, FindCoordinator):
            await cluster.connected(cluster.settings.request_timeout_ms)
            brokers = list(cluster.metadata.brokers)
            server = cluster.broker(cluster.rng.choice(brokers)) if brokers else None
            if server is None:
                cluster.refresh_soon()
                raise errors.CoordinatorNotAvailable("no broker is alive")
            return server
        broker = request.coordinator if isinstance(request, ShareHeartbeat) else request.broker
        server = cluster.broker(broker)
        if server is None:
            cluster.refresh_soon()
            raise errors.BrokerUnreachable(f"broker {broker} is not alive")
        return server

    def _timeout_s(self, request: ShareRequest) -> float:
        timeout_ms = self._cluster.settings.request_timeout_ms
        if isinstance(request, ShareHeartbeat):
            timeout_ms += request.standing_ms
        elif isinstance(request, ShareFetch):
            timeout_ms += request.max_wait_ms
        return timeout_ms / 1000
