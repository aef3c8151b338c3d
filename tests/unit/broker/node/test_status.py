"""A broker's description of itself, while it starts and while it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId
from pylog_broker.api.broker_description import BrokerPart, ListenerView, PartState, Role
from pylog_broker.metadata.records import Endpoint, usual_listeners
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.net.acceptor import Gate
from pylog_broker.node.metrics import BrokerParts
from pylog_broker.node.status import describe
from tests.fakes.broker_group import BrokerGroup

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
LISTENERS = usual_listeners(Endpoint("a", 1), Endpoint("a", 2), Endpoint("a", 3))


@pytest.fixture
def group(tmp_path: Path) -> Iterator[BrokerGroup]:
    running = BrokerGroup(tmp_path)
    yield running
    for broker in list(running.managers):
        running.stop(broker)


def parts_of(group: BrokerGroup, broker: BrokerId) -> BrokerParts:
    parts = BrokerParts(broker, "c", RequestCounters(), registered_ms=7, rack="r")
    engine: Any = SimpleNamespace(manager=group.managers[broker])
    membership: Any = SimpleNamespace(image=group.images[broker], broker_epoch=3, fenced=False)
    parts.engine, parts.membership = cast(Any, engine), cast(Any, membership)
    parts.logs = group.logs[broker]
    return parts


def states(parts: BrokerParts) -> dict[str, PartState]:
    return {part.name: part.state for part in asyncio.run(describe(parts)).parts}


def test_a_broker_that_starts_has_nothing_of_use_yet() -> None:
    described = asyncio.run(describe(BrokerParts(1, "c", RequestCounters())))
    assert (described.broker_epoch, described.registered_ms) == (-1, 0)
    assert (described.listeners, described.replicas) == ([], [])
    assert {part.state for part in described.parts} == {PartState.STARTING}
    assert [part.name for part in described.parts] == [
        "lifecycle", "metadata", "logs", "log cleaner", "replica manager", "request handlers",
        "group coordinator", "transaction coordinator", "share coordinator",
    ]  # fmt: skip


def test_replicas_are_told_with_their_roles(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    leading, following = (asyncio.run(describe(parts_of(group, b))) for b in (ONE, TWO))
    assert [(each.role, each.state.leader) for each in leading.replicas] == [(Role.LEADER, ONE)]
    assert [each.role for each in following.replicas] == [Role.FOLLOWER]
    assert (leading.broker_epoch, leading.registered_ms, leading.rack) == (3, 7, "r")
    (manager,) = (part for part in leading.parts if part.name == "replica manager")
    assert manager == BrokerPart(
        "replica manager",
        PartState.RUNNING,
        "replicas 1, leaders 1, offline 0, waiting requests 2",
    )
    group.logs[TWO].logs[0].start_was_refused(OSError(5, "refused"))
    group.produce(1, b"v")
    group.run()
    broken = asyncio.run(describe(parts_of(group, TWO)))
    assert [each.role for each in broken.replicas] == [Role.OFFLINE]
    assert states(parts_of(group, TWO))["replica manager"] is PartState.DEGRADED


def test_listeners_are_told_with_their_connections(group: BrokerGroup) -> None:
    parts = parts_of(group, ONE)
    parts.listeners = LISTENERS
    gate = parts.gate = Gate(SYSTEM_CLOCK, lambda _: None)
    gate.quotas.add_listener("streams", 10)
    gate.quotas.by_listener["streams"] = 4
    clients, framed, replication = LISTENERS
    assert asyncio.run(describe(parts)).listeners == [
        ListenerView(clients, True, -1),
        ListenerView(framed, True, 4),
        ListenerView(replication, True, -1),
    ]
    parts.stopping = "asked to stop"
    assert [each.is_open for each in asyncio.run(describe(parts)).listeners] == [False] * 3
    assert states(parts)["lifecycle"] is PartState.STOPPING
