"""The heartbeat of a share group, its answer, and a share group's description. Plain values."""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog_broker.coordinator.groups.consumer.topics import NO_PARTITIONS, Partitions

JOINING: Final = 0
LEAVING: Final = -1


class ShareHeartbeat(NamedTuple):
    """A member lives, wants to become one, or goes. A field that is None has not changed since its
    last request; a member that joins gives its subscription.
    """

    group_id: str
    member_id: str
    """Made by the member itself. One that joins may leave it empty."""
    member_epoch: int
    rack_id: str | None = None
    subscribed_names: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""
    new_member_id: str = ""
    """The id for a member that joins without one: unique, made by the broker that took the request.
    """
    standing_ms: int = 0
    """So long the answer may wait for news; 0: it comes at once."""


class ShareHeartbeatAnswer(NamedTuple):
    """The member's identity, epoch and assignment from now on."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Partitions | None = None
    """The partitions that the member is to read; None: as before."""
    to_initialize: Partitions = NO_PARTITIONS
    """Not for the member: the broker that took the request has the share coordinator initialize the
    state of these, and then calls `state_initialized`, or `state_not_initialized`.
    """


class DescribedShareMember(NamedTuple):
    """A member of a share group."""

    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_names: tuple[str, ...]
    assigned: Partitions


class DescribedShareGroup(NamedTuple):
    """A share group."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedShareMember, ...]
