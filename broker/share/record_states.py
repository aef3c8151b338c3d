"""The states of a record in a share group, and the moves between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class RecordState(Enum):
    """Its value is Kafka's number, which stands in records of `__share_group_state`."""

    AVAILABLE = 0
    """The next member that fetches acquires it."""
    ACQUIRED = 1
    """A member has it, until its lock ends. This state is the leader's alone, and never written."""
    ACKNOWLEDGED = 2
    """It is done."""
    ARCHIVING = 3
    """It is delivered no more, and goes to the group's dead-letter topic (KIP-1191)."""
    ARCHIVED = 4
    """It is delivered no more: rejected, too often delivered, or the log has no such record."""

    @property
    def is_final(self) -> bool:
        """Whether nothing happens to the record any more."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


MOVES: Final[Mapping[RecordState, frozenset[RecordState]]] = {
    RecordState.AVAILABLE: frozenset(
        {RecordState.ACQUIRED, RecordState.ARCHIVING, RecordState.ARCHIVED}
    ),
    RecordState.ACQUIRED: frozenset(
        {
            RecordState.AVAILABLE,
            RecordState.ACKNOWLEDGED,
            RecordState.ARCHIVING,
            RecordState.ARCHIVED,
        }
    ),
    RecordState.ACKNOWLEDGED: frozenset(),
    RecordState.ARCHIVING: frozenset({RecordState.ARCHIVED}),
    RecordState.ARCHIVED: frozenset(),
}
"""From each state to which others. Whether a lock is renewed is no move."""


class IllegalMove(Exception):
    """A record was to move as none may: a fault of this program."""


class Acknowledgement(Enum):
    """By Kafka's numbers, as they stand in requests."""

    GAP = 0
    """The log has no such record."""
    ACCEPT = 1
    RELEASE = 2
    """Another delivery may do."""
    REJECT = 3
    """No delivery would."""
    RENEW = 4
    """The member goes on with it: its lock begins anew (KIP-1222)."""


class StateBatch(NamedTuple):
    """Records next to each other that have the same state; `last_offset` is the last one's."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int
