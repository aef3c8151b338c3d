"""The heartbeat of the consumer protocol, its answer, and a group's description. Plain values."""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog_broker.coordinator.groups.consumer.topics import Partitions

JOINING: Final = 0
LEAVING: Final = -1
LEAVING_FOR_A_WHILE: Final = -2
"""The epoch in the heartbeat of a static member that leaves and will come back."""


class ConsumerHeartbeat(NamedTuple):
    """A member lives, wants to become one, or goes. A field that is None has not changed since its
    last request; a member that joins gives all of them.
    """

    group_id: str
    member_id: str
    """Made by the member itself. One that joins may leave it empty (version 0 of the request)."""
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """The time that the member may take to give partitions up; -1: as before."""
    subscribed_names: tuple[str, ...] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    """The partitions that the member reads now; None: as before."""
    client_id: str = ""
    client_host: str = ""
    new_member_id: str = ""
    """The id for a member that joins without one: unique, made by the broker that took the request.
    """
    standing_ms: int = 0
    """So long the answer may wait for news; 0: it comes at once, as KIP-848 has it."""

    @property
    def is_full(self) -> bool:
        """Whether it says everything, as members do when they join and after an error."""
        return (
            self.rebalance_timeout_ms != -1
            and (self.subscribed_names is not None or self.subscribed_regex is not None)
            and self.owned is not None
        )


class ConsumerHeartbeatAnswer(NamedTuple):
    """The member's identity, epoch and assignment from now on."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Partitions | None = None
    """The partitions that the member is to read, and no others; None: as before."""


class DescribedConsumer(NamedTuple):
    """A member of a consumer group."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_names: tuple[str, ...]
    subscribed_regex: str | None
    assigned: Partitions
    target: Partitions
    speaks_classic: bool = False
    """Whether it has joined by the classic protocol."""


class DescribedConsumerGroup(NamedTuple):
    """A group of the consumer protocol."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]
