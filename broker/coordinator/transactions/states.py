"""The states of a transactional id, and which may follow which. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import pairwise
from typing import Final


class TransactionState(Enum):
    """Values are those of Kafka's records."""

    EMPTY = 0
    """No transaction since its producer came."""
    ONGOING = 1
    """Partitions were added, and the transaction is open."""
    PREPARE_COMMIT = 2
    """It is decided that it commits; its partitions are being told."""
    PREPARE_ABORT = 3
    """Likewise that it aborts."""
    COMPLETE_COMMIT = 4
    """All partitions know of the commit."""
    COMPLETE_ABORT = 5
    """All partitions know of the abort."""
    DEAD = 6
    """The id is being forgotten."""
    PREPARE_EPOCH_FENCE = 7
    """The producer's epoch is raised so that the open transaction can be aborted without it. No
    record has this state: the same decision goes on to PREPARE_ABORT.
    """

    @property
    def shown(self) -> str:
        """Kafka's name."""
        return _SHOWN[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and partitions are being told."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether the last transaction has ended."""
        return self in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    @property
    def commits(self) -> bool:
        """Whether the decision was to commit."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


_SHOWN: Final[Mapping[TransactionState, str]] = {
    state: "".join(part.capitalize() for part in state.name.split("_"))
    for state in TransactionState
}

_ENDED: Final = frozenset(
    {
        TransactionState.EMPTY,
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
)
FROM: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _ENDED,
    TransactionState.ONGOING: _ENDED | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # Under version 2 a producer that does not know whether its partitions were added may abort.
    TransactionState.PREPARE_ABORT: _ENDED
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    # From itself, when a producer id is used up behind an abort.
    TransactionState.COMPLETE_ABORT: frozenset(
        {TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.DEAD: _ENDED,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""The states from which each one may be reached."""


class IllegalTransition(Exception):
    """A decision that no transaction may take: a defect."""


def check_transition(transactional_id: str, *states: TransactionState) -> None:
    """Raises IllegalTransition when one of these states may not follow the one before it."""
    for before, after in pairwise(states):
        if before not in FROM[after]:
            story = " -> ".join(state.shown for state in states)
            raise IllegalTransition(
                f"{transactional_id!r}: {after.shown} does not follow {before.shown} ({story})"
            )
