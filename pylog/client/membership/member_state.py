"""The states of a member of a classic group, and the transitions between them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from pylog.model import TopicPartition


class MemberState(Enum):
    """Kafka's names (`AbstractCoordinator.MemberState`), with two more for the ways out."""

    UNJOINED = "it has no part in the group's generation"
    PREPARING_REBALANCE = "it gives up what it has to, and asks to join"
    COMPLETING_REBALANCE = "it has joined, and asks what it is to read"
    STABLE = "it has an assignment"
    LEAVING = "it gives up all it has, and leaves"
    FENCED = "another consumer has its instance id: it stays out"


_S = MemberState
NEXT_STATES: Final = {
    _S.UNJOINED: {_S.PREPARING_REBALANCE, _S.LEAVING, _S.FENCED},
    _S.PREPARING_REBALANCE: {_S.COMPLETING_REBALANCE, _S.UNJOINED, _S.LEAVING, _S.FENCED},
    _S.COMPLETING_REBALANCE: {_S.STABLE, _S.UNJOINED, _S.LEAVING, _S.FENCED},
    _S.STABLE: {_S.PREPARING_REBALANCE, _S.UNJOINED, _S.LEAVING, _S.FENCED},
    _S.LEAVING: {_S.UNJOINED},
    _S.FENCED: set[MemberState](),
}
"""A member that lost its part, or is to ask anew, is UNJOINED; from there it joins again."""


class RebalanceListener(Protocol):
    """The user's code around a rebalance; it runs on the user's thread."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These are read no more, and still the member's own: what was read can be committed."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These are new, and nothing of them is read yet."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These may be another member's by now: nothing can be committed."""
