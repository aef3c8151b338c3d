"""Administration of sinks of queries: each sink is asked of its coordinator, lists of every live
broker. On the loop.
"""

from __future__ import annotations

from typing import Any

from pylog import errors
from pylog.client.admin import sink_wire
from pylog.client.admin.coordinators import ask_coordinators
from pylog.client.admin.group_admin import ask_every_broker
from pylog.client.admin.sink_types import SinkListing
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.metadata import BrokerInfo
from pylog.client.cluster.outcomes import Answers
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.rpc import apis
from pylog.rpc.v1 import group_pb2, sink_pb2


async def list_sinks(
    cluster: Cluster, request: sink_pb2.ListSinksRequest, timeout_ms: int
) -> tuple[dict[int, list[SinkListing]], dict[int, errors.PylogError]]:
    """The sinks of each live broker, or why it could not be asked."""

    async def ask(server: Server, broker: BrokerInfo, left_s: float) -> list[SinkListing]:
        response = await server.call(apis.LIST_SINKS, request, left_s)
        fault = error_of(response.error, f"broker {broker.id}")
        if fault is not None:
            raise fault
        return [sink_wire.listing_of(each, broker.id) for each in response.sinks]

    return await ask_every_broker(cluster, ask, timeout_ms, "list sinks")


async def abort_sink(cluster: Cluster, key: sink_pb2.SinkKey, timeout_ms: int) -> int:
    """The number of open attempts of a sink that were aborted."""
    request = sink_pb2.AbortSinkBatchRequest(sink=key, whole_sink=True)
    aborted = await _ask(cluster, key, apis.ABORT_SINK_BATCH, request, timeout_ms, "abort a sink")
    return int(aborted.attempts)


async def forget_sink(cluster: Cluster, key: sink_pb2.SinkKey, timeout_ms: int) -> None:
    """Nothing is known of the sink any more."""
    request = sink_pb2.ForgetSinkRequest(sink=key)
    await _ask(cluster, key, apis.FORGET_SINK, request, timeout_ms, "forget a sink")


async def _ask(
    cluster: Cluster,
    key: sink_pb2.SinkKey,
    api: apis.UnaryApi[Any, Any],
    request: Any,
    timeout_ms: int,
    what: str,
) -> Any:
    name = f"sink {key.sink_id!r} of query {key.query_id!r}"

    async def ask(
        server: Server, _broker: BrokerInfo, part: list[str], left_s: float
    ) -> Answers[str, Any]:
        response = await server.call(api, request, left_s)
        return [(each, error_of(response.error, name), response) for each in part]

    place = sink_wire.placement_of(key)
    outcomes = await ask_coordinators(
        cluster, [place], ask, timeout_ms, what, group_pb2.COORDINATOR_TRANSACTION
    )
    for fault in outcomes.faults.values():
        raise fault
    return outcomes.in_order()[place]
