"""Calls of a simulated broker's coordinators to those of other brokers: one connection for each
broker and API, as in the product. It may break at any time, and what was asked by it come late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pylog import errors
from pylog.model import BrokerId
from pylog_broker.kafka.broker_apis import BrokerApi
from tests.sim.rpc import Call, Rpc

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess

PEER_MS = 2_500
"""The time for which a broker waits for another one's answer."""


class PeerCall(NamedTuple):
    """A request of a broker to another one."""

    api: int
    request: Any


class PeerService(Protocol):
    """The service that answers them."""

    def serve_peer(self, asked: PeerCall, call: Call) -> None:
        """A call that another broker makes."""


class PeerCalls:
    """The calls of one life of a broker. `kind`: for the counters; `service_of`: the service of
    another broker that is asked.
    """

    def __init__(
        self,
        process: BrokerProcess,
        kind: str,
        service_of: Callable[[BrokerProcess], PeerService | None],
    ) -> None:
        self._process = process
        self._kind = kind
        self._service_of = service_of
        self._connections: dict[tuple[BrokerId, int], Rpc] = {}

    async def call(
        self,
        broker: BrokerId,
        api: BrokerApi[Any, Any],
        request: Any,
        *,
        timeout_seconds: float = PEER_MS / 1_000,
    ) -> Any:
        """See `BrokerCalls`."""
        process, cluster = self._process, self._process.cluster
        server = cluster.process(broker)
        if broker not in process.image.brokers:
            raise errors.BrokerNotAvailable(f"broker {broker} is not registered")
        service = None if server is None else self._service_of(server)
        if server is None or service is None:
            raise errors.NetworkException(f"nobody listens at broker {broker}")
        key = (broker, api.key)
        rpc = self._connections.get(key)
        if rpc is None or not rpc.open or rpc.server is not server:
            rpc = self._connections[key] = Rpc(cluster.net, process, server)
        assert process.loop is not None
        answered = process.loop.create_future()

        def heard(answer: Any) -> None:
            if not answered.done():
                answered.set_result(answer)

        timeout_ms = timeout_seconds * 1_000
        rpc.request(service.serve_peer, PeerCall(api.key, request), heard, timeout_ms)
        answer = await answered
        if answer is None:
            cluster.sometimes[f"{self._kind}: {api.counted_as} not answered"] += 1
            raise errors.NetworkException(f"the connection to broker {broker} broke")
        return answer
