"""The consumer's requests to its group's coordinator, as calls."""

from __future__ import annotations

from typing import Final

from google.protobuf.message import DecodeError

from pylog import errors
from pylog.client.background import as_defect
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.server import Server
from pylog.client.membership.messages import (
    ConsumerGroupHeartbeat,
    FindCoordinator,
    GroupAnswer,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    OffsetCommit,
    OffsetsCommitted,
    SyncGroup,
)
from pylog.client.membership.wire import API_OF, GroupWire, TopicId

JOIN_PATIENCE_MS: Final = 5_000
"""A member that joins waits for the slowest one, and then for the answer: as long as in Kafka."""


class GroupCalls:
    """The calls of one consumer. On the loop."""

    def __init__(self, cluster: Cluster, wire: GroupWire, rebalance_timeout_ms: int) -> None:
        self._cluster = cluster
        self._wire = wire
        self._rebalance_timeout_ms = rebalance_timeout_ms

    async def call(self, request: GroupRequest, topic_id: TopicId) -> GroupAnswer:
        """The broker's answer; raises the reason why there is none. An error that no retry cures is
        a refusal, and so is a defect of ours: somebody waits for an answer.
        """
        try:
            server = await self._server(request)
            message = self._wire.message(request, topic_id)
            response = await server.call(API_OF[type(request)], message, self._timeout_s(request))
            return self._wire.answer(request, response)
        except errors.PylogError as error:
            if error.retriable or not error.code:
                raise
            return self._wire.refused(request, error.code, str(error))
        except Exception as error:  # noqa: BLE001  the core must hear of it
            defect = as_defect(error, type(request).__name__)
            return self._wire.refused(request, defect.code, str(defect))

    def encoded(self, request: OffsetCommit) -> tuple[bytes, float]:
        """The commit as it goes over a line, and the seconds that its answer may take."""
        message = self._wire.commit(request)
        return message.SerializeToString(), self._timeout_s(request)

    def decoded(self, request: OffsetCommit, response: memoryview) -> OffsetsCommitted:
        """The answer that came over a line. Raises BrokerUnreachable where it cannot be read."""
        try:
            message = API_OF[OffsetCommit].response.FromString(bytes(response))
        except DecodeError as error:
            raise errors.BrokerUnreachable(f"an answer cannot be read: {error}") from None
        answer = self._wire.answer(request, message)
        assert isinstance(answer, OffsetsCommitted)
        return answer

    async def _server(self, request: GroupRequest) -> Server:
        cluster = self._cluster
        if not isinstance(request, FindCoordinator):
            server = cluster.broker(request.coordinator)
            if server is None:
                cluster.refresh_soon()
                raise errors.CoordinatorNotAvailable(f"broker {request.coordinator} is not alive")
            return server
        await cluster.connected(cluster.settings.request_timeout_ms)
        brokers = list(cluster.metadata.brokers)
        server = cluster.broker(cluster.rng.choice(brokers)) if brokers else None
        if server is None:
            cluster.refresh_soon()
            raise errors.CoordinatorNotAvailable("no broker is alive")
        return server

    def _timeout_s(self, request: GroupRequest) -> float:
        timeout_ms = self._cluster.settings.request_timeout_ms
        if isinstance(request, ConsumerGroupHeartbeat | Heartbeat):
            timeout_ms += request.standing_ms
        if isinstance(request, JoinGroup | SyncGroup):
            timeout_ms = max(timeout_ms, self._rebalance_timeout_ms + JOIN_PATIENCE_MS)
        return timeout_ms / 1000
