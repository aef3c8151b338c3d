"""DescribeBroker: a broker tells where it listens, how its parts are, and which replicas it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.api.context import RequestContext
from pylog_broker.metadata.records import Listener
from pylog_broker.replication.partition_state import PartitionState


class PartState(Enum):
    """The state of a part of a broker. An administrator reads the value."""

    STARTING = "starting"
    """It is not of use yet."""
    RUNNING = "running"
    """It does what it is there for."""
    DEGRADED = "degraded"
    """It works, and a part of it does not."""
    STOPPING = "stopping"
    """It takes nothing new."""
    OFF = "off"
    """It was not asked for."""


class BrokerPart(NamedTuple):
    """A part of a broker and how it is; `detail` says it in figures."""

    name: str
    state: PartState
    detail: str = ""


class ListenerView(NamedTuple):
    """A listener and its connections; -1 where they are not counted."""

    listener: Listener
    is_open: bool
    connections: int = -1


class Role(Enum):
    """The role of a replica on its broker."""

    LEADER = "leader"
    FOLLOWER = "follower"
    LEADERLESS = "leaderless"
    """No broker leads the partition."""
    OFFLINE = "offline"
    """Its log does not work."""


class HostedReplica(NamedTuple):
    """A replica on the broker."""

    role: Role
    state: PartitionState


@dataclass(frozen=True, slots=True)
class BrokerDescribed:
    """A broker as it sees itself. `registered_ms`: the time of day at which it registered under
    this epoch; 0 when it has not registered yet, and its epoch is -1 then.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    registered_ms: int
    rack: str | None
    version: str
    listeners: Sequence[ListenerView]
    parts: Sequence[BrokerPart]
    replicas: Sequence[HostedReplica]


class DescribeBrokerHandler:
    """Lives on the broker's loop. `describe` gives the loop turns while it looks at replicas."""

    def __init__(self, describe: Callable[[], Awaitable[BrokerDescribed]]) -> None:
        self._describe = describe

    async def handle(self, _context: RequestContext, _request: None) -> BrokerDescribed:
        """The broker as it is now."""
        return await self._describe()
