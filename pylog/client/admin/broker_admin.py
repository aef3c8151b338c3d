"""What administrators ask of brokers themselves: their directories, and settings while the
controller is away. On the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping

from pylog import errors
from pylog.client.admin import admin_wire
from pylog.client.admin.admin_types import LogDirDescription
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.metadata import BrokerInfo
from pylog.rpc import apis
from pylog.rpc.v1 import admin_pb2


async def log_dirs(
    cluster: Cluster, live: Mapping[int, BrokerInfo], wanted: Iterable[int], seconds: float
) -> tuple[dict[int, list[LogDirDescription]], dict[int, errors.PylogError]]:
    """The directories of each wanted broker, or why it could not be asked. One that was restarted a
    moment ago is asked again, at its new address.
    """
    results: dict[int, list[LogDirDescription]] = {}
    faults: dict[int, errors.PylogError] = {}

    def attempt_at(broker: int) -> Callable[[float], Awaitable[admin_pb2.DescribeLogDirsResponse]]:
        known = live

        async def attempt(left_s: float) -> admin_pb2.DescribeLogDirsResponse:
            nonlocal known
            if broker not in known:
                await cluster.refresh()
                known = cluster.metadata.brokers
            if broker not in known:
                raise errors.BrokerUnreachable(f"broker {broker} is not live any more")
            server, known = cluster.server_of(known[broker]), {}
            request = admin_pb2.DescribeLogDirsRequest()
            return await server.call(apis.DESCRIBE_LOG_DIRS, request, left_s)

        return attempt

    async def ask(broker: int) -> None:
        try:
            if broker not in live:
                there = ", ".join(map(str, sorted(live))) or "none"
                raise errors.BrokerNotAvailable(f"no broker {broker} is live; live are: {there}")
            what = f"describing log directories of broker {broker}"
            response = await cluster.retrying(attempt_at(broker), int(seconds * 1000), what)
            results[broker] = list(map(admin_wire.directory_of, response.directories))
        except errors.PylogError as error:
            faults[broker] = error

    await asyncio.gather(*map(ask, wanted))
    return results, faults


async def configs_of_any_broker(
    cluster: Cluster, request: admin_pb2.DescribeConfigsRequest, seconds: float
) -> admin_pb2.DescribeConfigsResponse | None:
    """The answer of the first broker that gives one; None when none does."""
    for broker in list(cluster.metadata.brokers.values()):
        server = cluster.server_of(broker)
        with contextlib.suppress(errors.BrokerUnreachable):
            return await server.call(apis.DESCRIBE_CONFIGS_OF_BROKER, request, seconds)
    return None
