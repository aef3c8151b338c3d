"""Requests of the classic protocol, and their answers. Plain values."""

from __future__ import annotations

from typing import NamedTuple

from pylog.errors import PylogError

NO_GENERATION = -1


class MemberProtocol(NamedTuple):
    """An assignment strategy that a member supports, with what it says of itself for it: for
    consumers their subscription, in a form that only members read.
    """

    name: str
    metadata: bytes


class JoinGroup(NamedTuple):
    """A member wants to belong to the group's next generation."""

    group_id: str
    member_id: str
    """Empty: it has none yet."""
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    """The one that it likes most first."""
    new_member_id: str
    """The id of the member if it is new: unique, made by the broker that took the request."""
    requires_known_member_id: bool = True
    """Whether a new member first hears its id and then joins with it (KIP-394)."""
    reason: str = ""


class JoinedMember(NamedTuple):
    """A member, as the leader hears of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The answer to a join. With an `error` only the member id means something."""

    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    """For the leader all of them, for the others none."""
    skip_assignment: bool = False
    """The leader has nothing to assign: all is as it was (KIP-814)."""
    error: PylogError | None = None


class SyncGroup(NamedTuple):
    """A member asks for its assignment; the leader brings all of them."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    """None: an old client does not say."""
    protocol: str | None
    assignments: dict[str, bytes]
    """By member id; empty but for the leader."""


class Synced(NamedTuple):
    """The answer to a sync."""

    protocol_type: str
    protocol: str
    assignment: bytes


class Heartbeat(NamedTuple):
    """A member lives."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    standing_ms: int = 0
    """So long the answer may wait for a rebalance."""


class Leaving(NamedTuple):
    """A member that goes, or, with an empty member id, the one of that static instance."""

    member_id: str
    instance_id: str | None
    reason: str = ""


class LeaveGroup(NamedTuple):
    """Members go, or an operator removes them."""

    group_id: str
    members: tuple[Leaving, ...]


class Left(NamedTuple):
    """The outcome of each member, in the order of the request."""

    members: tuple[tuple[Leaving, PylogError | None], ...]
