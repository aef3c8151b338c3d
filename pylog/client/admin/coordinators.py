"""Groups and transactional ids are asked of their coordinators, each about its own. On the loop.

A coordinator that loads, moves or cannot be reached is looked for again, and only what has no
answer yet is asked again, until the time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from pylog import errors
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.metadata import BrokerInfo
from pylog.client.cluster.outcomes import Answers, Outcomes
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.rpc import apis
from pylog.rpc.v1 import group_pb2

V = TypeVar("V")
Ask = Callable[[Server, BrokerInfo, list[str], float], Awaitable[Answers[str, V]]]
"""Asks a coordinator about some of its groups, within so many seconds."""

FIND_S_MAX: Final = 3.0
"""One broker that swallows requests must not hold up the question that every broker can answer."""


def passes_at_coordinator(error: errors.PylogError) -> bool:
    """Whether the group's coordinator, or the next one, may soon say otherwise."""
    return isinstance(
        error,
        errors.CoordinatorLoadInProgress
        | errors.CoordinatorNotAvailable
        | errors.NotCoordinator
        | errors.NetworkException
        | errors.BrokerUnreachable
        | errors.UnstableOffsetCommit
        | errors.ConcurrentTransactions
        | errors.ThrottlingQuotaExceeded,
    )


def live_brokers(cluster: Cluster) -> list[BrokerInfo]:
    """The brokers that metadata tells of. Raises CoordinatorNotAvailable where there is none."""
    live = list(cluster.metadata.brokers.values())
    if not live:
        cluster.refresh_soon()
        raise errors.CoordinatorNotAvailable("no broker is live")
    return live


async def ask_coordinators(
    cluster: Cluster,
    groups: Sequence[str],
    ask: Ask[V],
    timeout_ms: int,
    what: str,
    kind: group_pb2.CoordinatorType = group_pb2.COORDINATOR_GROUP,
) -> Outcomes[str, V]:
    """The outcome of each group, or of other names that have a coordinator. RequestTimedOut when no
    coordinator answered in time.
    """
    outcomes: Outcomes[str, V] = Outcomes(groups, passes_at_coordinator)
    noun = "group" if kind == group_pb2.COORDINATOR_GROUP else "transactional id"

    async def ask_one(broker: int, part: list[str], left_s: float) -> None:
        try:
            info = cluster.metadata.brokers.get(broker)
            if info is None:
                raise errors.CoordinatorNotAvailable(f"its coordinator, broker {broker}, is away")
            answers = await ask(cluster.server_of(info), info, part, left_s)
        except errors.ClientClosed:
            raise
        except errors.PylogError as error:
            answers = [(group, error, None) for group in part]  # type: ignore[misc]
        for answer in answers:
            outcomes.told(*answer)

    async def attempt(left_s: float) -> None:
        by_broker: dict[int, list[str]] = {}
        for coordinator in await _coordinators(cluster, outcomes.left, left_s, kind):
            fault = error_of(coordinator.error, f"{noun} {coordinator.key!r}")
            if fault is None:
                by_broker.setdefault(coordinator.broker_id, []).append(coordinator.key)
            elif passes_at_coordinator(fault):
                outcomes.passing[coordinator.key] = fault
            else:
                outcomes.faults[coordinator.key] = fault
        await asyncio.gather(*(ask_one(b, part, left_s) for b, part in by_broker.items()))
        if outcomes.left:
            cluster.refresh_soon()  # a coordinator may be a broker that is new here, or gone

    try:
        await outcomes.complete(cluster, attempt, timeout_ms, what)
    except errors.RequestTimedOut as error:
        if outcomes.nothing_told:
            raise
        outcomes.late(what, timeout_ms, error)
    return outcomes


async def _coordinators(
    cluster: Cluster, groups: list[str], left_s: float, kind: group_pb2.CoordinatorType
) -> Iterable[group_pb2.Coordinator]:
    """The coordinator of each group, from the first broker that answers."""
    if not groups:
        return ()
    request = group_pb2.FindCoordinatorRequest(type=kind, keys=groups)
    live = live_brokers(cluster)
    cluster.rng.shuffle(live)
    last: errors.PylogError | None = None
    for broker in live:
        server = cluster.server_of(broker)
        try:
            answer = await server.call(apis.FIND_COORDINATOR, request, min(left_s, FIND_S_MAX))
        except errors.BrokerUnreachable as error:
            last = error
        else:
            return answer.coordinators
    cluster.refresh_soon()
    assert last is not None
    raise last
