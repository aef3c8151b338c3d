"""A broker's description of itself: listeners, parts with their states, replicas with their roles.

It looks at replicas in slices, as a scrape of the metrics does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.api.broker_description import (
    BrokerDescribed,
    BrokerPart,
    HostedReplica,
    ListenerView,
    PartState,
    Role,
)
from pylog_broker.metadata.records import FRAMED, KAFKA, Listener
from pylog_broker.node.metrics import SLICE, BrokerParts
from pylog_broker.node.software import this_software

if TYPE_CHECKING:
    from pylog_broker.node.coordinators import CoordinatorShell
    from pylog_broker.replication.partition import Partition

_COUNTED_AS: Final = {FRAMED: "streams", KAFKA: "replication"}
"""The names under which the connections of a protocol's listener are counted. gRPC counts none."""


async def describe(parts: BrokerParts) -> BrokerDescribed:
    """The broker as its parts are now."""
    membership = parts.membership
    replicas = await _replicas(parts)
    return BrokerDescribed(
        BrokerId(parts.broker_id),
        membership.broker_epoch if membership is not None else BrokerEpoch(-1),
        parts.registered_ms,
        parts.rack,
        this_software().version,
        [_listener(parts, each) for each in parts.listeners],
        [
            _lifecycle(parts),
            _metadata(parts),
            _logs(parts),
            _cleaner(parts),
            _replica_manager(parts, replicas),
            _request_handlers(parts),
            _coordinator("group coordinator", parts.groups),
            _coordinator("transaction coordinator", parts.transactions),
            _coordinator("share coordinator", parts.shares),
        ],
        replicas,
    )


def role_of(partition: Partition) -> Role:
    """The replica's role at the moment."""
    if partition.offline:
        return Role.OFFLINE
    if partition.leading is not None:
        return Role.LEADER
    return Role.LEADERLESS if partition.following is None else Role.FOLLOWER


async def _replicas(parts: BrokerParts) -> list[HostedReplica]:
    if parts.engine is None:
        return []
    partitions = sorted(
        parts.engine.manager.partitions(), key=lambda partition: partition.topic_partition
    )
    found: list[HostedReplica] = []
    for first in range(0, len(partitions), SLICE):
        if first:
            await asyncio.sleep(0)
        found += [
            HostedReplica(role_of(partition), partition.describe())
            for partition in partitions[first : first + SLICE]
        ]
    return found


def _listener(parts: BrokerParts, listener: Listener) -> ListenerView:
    counted = parts.gate.quotas.by_listener if parts.gate is not None else {}
    connections = counted.get(_COUNTED_AS.get(listener.protocol, ""), -1)
    return ListenerView(listener, not parts.stopping, connections)


def _lifecycle(parts: BrokerParts) -> BrokerPart:
    membership = parts.membership
    if parts.stopping:
        return BrokerPart("lifecycle", PartState.STOPPING, parts.stopping)
    if membership is None or membership.broker_epoch < 0:
        return BrokerPart("lifecycle", PartState.STARTING, "not registered")
    if membership.fenced:
        return BrokerPart("lifecycle", PartState.STARTING, "fenced by the controller")
    return BrokerPart("lifecycle", PartState.RUNNING, f"epoch {membership.broker_epoch}")


def _metadata(parts: BrokerParts) -> BrokerPart:
    membership = parts.membership
    if membership is None or membership.image.offset < 0:
        return BrokerPart("metadata", PartState.STARTING)
    image = membership.image
    detail = f"offset {image.offset}, controller epoch {image.controller_epoch}"
    return BrokerPart("metadata", PartState.RUNNING, detail)


def _logs(parts: BrokerParts) -> BrokerPart:
    logs = parts.logs
    if logs is None:
        return BrokerPart("logs", PartState.STARTING)
    offline = len(logs.offline)
    detail = f"log directories {len(logs.live)}, offline {offline}"
    return BrokerPart("logs", PartState.DEGRADED if offline else PartState.RUNNING, detail)


def _cleaner(parts: BrokerParts) -> BrokerPart:
    logs = parts.logs
    if logs is None:
        return BrokerPart("log cleaner", PartState.STARTING)
    if not logs.config.log_cleaner_enable:
        return BrokerPart("log cleaner", PartState.OFF, "log.cleaner.enable=false")
    cleaners = [manager.cleaner for manager in logs.live]
    set_aside = sum(len(cleaner.uncleanable) for cleaner in cleaners)
    passes = sum(cleaner.passes for cleaner in cleaners)
    state = PartState.DEGRADED if set_aside else PartState.RUNNING
    return BrokerPart("log cleaner", state, f"passes {passes}, logs set aside {set_aside}")


def _replica_manager(parts: BrokerParts, replicas: list[HostedReplica]) -> BrokerPart:
    name = "replica manager"
    if parts.engine is None:
        return BrokerPart(name, PartState.STARTING)
    leaders = sum(each.role is Role.LEADER for each in replicas)
    offline = sum(each.role is Role.OFFLINE for each in replicas)
    waiting = sum(parts.engine.manager.waiting_by_type.values())
    detail = (
        f"replicas {len(replicas)}, leaders {leaders}, offline {offline}, "
        f"waiting requests {waiting}"
    )
    return BrokerPart(name, PartState.DEGRADED if offline else PartState.RUNNING, detail)


def _request_handlers(parts: BrokerParts) -> BrokerPart:
    name = "request handlers"
    if parts.data is None:
        return BrokerPart(name, PartState.STARTING)
    requests, answers = parts.data.produce.memory.used, parts.data.fetch.answers.unsent
    detail = f"request bytes in work {requests}, answer bytes not taken {answers}"
    return BrokerPart(name, PartState.STOPPING if parts.stopping else PartState.RUNNING, detail)


def _coordinator(name: str, owner: Any) -> BrokerPart:
    if owner is None:
        return BrokerPart(name, PartState.STARTING)
    shell: CoordinatorShell[Any] = owner.shell
    loading = len(shell.runtime.loading)
    led = len(shell.runtime.coordinators())
    detail = f"{shell.runtime.topic}: partitions {led}, loading {loading}"
    return BrokerPart(name, PartState.STARTING if loading else PartState.RUNNING, detail)
