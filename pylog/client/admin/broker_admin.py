"""Administrators' calls to brokers themselves, for state that only they know, and for settings
while the controller is away. On the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from pylog import errors
from pylog.client.admin import admin_wire
from pylog.client.admin.admin_types import LogDirDescription
from pylog.client.admin.broker_types import BrokerStatus
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.metadata import BrokerInfo
from pylog.rpc import apis
from pylog.rpc.apis import UnaryApi
from pylog.rpc.v1 import admin_pb2

UNKNOWN_BROKER_GRACE_MS: Final = 3_000
"""The time for which brokers may not know a broker before it counts as away."""

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)

T = TypeVar("T")

Faults = dict[int, errors.PylogError]
AskBrokers = Callable[
    [Cluster, Mapping[int, BrokerInfo], Iterable[int], float],
    Coroutine[Any, Any, tuple[dict[int, T], Faults]],
]
"""Asks each of the wanted brokers, of those that are live, within so many seconds."""


async def log_dirs(
    cluster: Cluster, live: Mapping[int, BrokerInfo], wanted: Iterable[int], seconds: float
) -> tuple[dict[int, list[LogDirDescription]], Faults]:
    """The directories of each wanted broker, or why it could not be asked."""
    request = admin_pb2.DescribeLogDirsRequest()
    told, faults = await _ask_each(
        cluster, live, wanted, seconds, apis.DESCRIBE_LOG_DIRS, request, "log directories of"
    )
    results = {
        broker: list(map(admin_wire.directory_of, response.directories))
        for broker, response in told.items()
    }
    return results, faults


async def statuses(
    cluster: Cluster, live: Mapping[int, BrokerInfo], wanted: Iterable[int], seconds: float
) -> tuple[dict[int, BrokerStatus], Faults]:
    """The status of each wanted broker, and the faults of those that could not be asked."""
    request = admin_pb2.DescribeBrokerRequest()
    told, faults = await _ask_each(
        cluster, live, wanted, seconds, apis.DESCRIBE_BROKER, request, "the status of"
    )
    return {broker: admin_wire.status_of(response) for broker, response in told.items()}, faults


async def _ask_each(
    cluster: Cluster,
    live: Mapping[int, BrokerInfo],
    wanted: Iterable[int],
    seconds: float,
    api: UnaryApi[RequestT, ResponseT],
    request: RequestT,
    subject: str,
) -> tuple[dict[int, ResponseT], Faults]:
    """Each broker's answer, or why there is none. A broker that was restarted a moment ago is asked
    again, at its new address.
    """
    results: dict[int, ResponseT] = {}
    faults: Faults = {}

    def attempt_at(
        broker: int, known: Mapping[int, BrokerInfo]
    ) -> Callable[[float], Awaitable[ResponseT]]:

        async def attempt(left_s: float) -> ResponseT:
            nonlocal known
            if broker not in known:
                await cluster.refresh()
                known = cluster.metadata.brokers
            if broker not in known:
                raise errors.BrokerUnreachable(f"broker {broker} is not live any more")
            server, known = cluster.server_of(known[broker]), {}
            return await server.call(api, request, left_s)

        return attempt

    async def ask(broker: int) -> None:
        try:
            known = live if broker in live else await _live_with(broker, cluster, seconds)
            what = f"describing {subject} broker {broker}"
            results[broker] = await cluster.retrying(
                attempt_at(broker, known), int(seconds * 1000), what
            )
        except errors.PylogError as error:
            faults[broker] = error

    await asyncio.gather(*map(ask, wanted))
    return results, faults


async def _live_with(broker: int, cluster: Cluster, seconds: float) -> Mapping[int, BrokerInfo]:
    """The live brokers, with this one. BrokerNotAvailable when it is not among them for a while: a
    broker that is asked may hear late that it has come.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(min(seconds, UNKNOWN_BROKER_GRACE_MS / 1000)):
            while True:
                await cluster.refresh()
                live = cluster.metadata.brokers
                if broker in live:
                    return live
                await asyncio.sleep(0.1)
    there = ", ".join(map(str, sorted(cluster.metadata.brokers))) or "none"
    raise errors.BrokerNotAvailable(
        f"no broker {broker} is live; live are: {there}; start it, or name one of these"
    )


async def configs_of_any_broker(
    cluster: Cluster, request: admin_pb2.DescribeConfigsRequest, seconds: float
) -> admin_pb2.DescribeConfigsResponse | None:
    """The answer of the first broker that gives one; None when none does."""
    for broker in list(cluster.metadata.brokers.values()):
        server = cluster.server_of(broker)
        with contextlib.suppress(errors.BrokerUnreachable):
            return await server.call(apis.DESCRIBE_CONFIGS_OF_BROKER, request, seconds)
    return None
