"""The parts that all groups have in common, whatever protocol their members speak."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from pylog_broker.coordinator.generated.offset_commit import OffsetCommitValue


class GroupType(Enum):
    """By Kafka's names (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Caller(NamedTuple):
    """The one that commits, or asks, in a group's name. An admin client, or a consumer that assigns
    itself, has no member id and the generation -1.
    """

    member_id: str = ""
    instance_id: str | None = None
    epoch: int = -1
    """The classic protocol's generation, or the member's epoch of the new one."""

    @property
    def is_member(self) -> bool:
        """Whether it speaks for a member."""
        return self.epoch >= 0 or self.member_id != "" or self.instance_id is not None


class Group(Protocol):
    """One group. It alone knows its members."""

    @property
    def group_id(self) -> str:
        """Its name."""

    @property
    def type(self) -> GroupType:
        """The protocol that its members speak."""

    @property
    def state_name(self) -> str:
        """By Kafka's name."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    def is_unused(self) -> bool:
        """Whether it has none, and nobody is about to become one."""

    def check_commit(self, caller: Caller, *, transactional: bool = False) -> None:
        """Whether the caller may commit offsets. Raises UnknownMemberId, FencedInstanceId,
        IllegalGeneration, StaleMemberEpoch, RebalanceInProgress or CoordinatorNotAvailable.
        """

    def check_fetch(self, caller: Caller) -> None:
        """Whether the caller may ask for committed offsets. Raises UnknownMemberId and
        StaleMemberEpoch.
        """

    def subscribes_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as anybody knows."""

    def expires_at(self, commit: OffsetCommitValue, retention_ms: int) -> int | None:
        """The wall-clock ms from which that commit is worth nothing; None: not while things are as
        they are. Of topics that nobody subscribes to.
        """
