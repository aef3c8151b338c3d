"""The states of a transactional producer, and the transitions between them. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final


class TransactionState(Enum):
    """Kafka's states (`TransactionManager.State`)."""

    UNINITIALIZED = "init_transactions() was not called"
    INITIALIZING = "the coordinator is asked for a producer id and an epoch"
    READY = "no transaction is open"
    IN_TRANSACTION = "records and offsets go into the open transaction"
    PREPARED = "all of the transaction is stored; somebody else's decision is awaited"
    COMMITTING = "what is left is sent, and then the transaction is committed"
    ABORTING = "what is left is dropped, and then the transaction is aborted"
    ABORTABLE_ERROR = "something of the transaction failed: it can only be aborted"
    FATAL_ERROR = "this producer cannot go on"


_S = TransactionState
NEXT_STATES: Final = {
    _S.UNINITIALIZED: {_S.INITIALIZING, _S.IN_TRANSACTION, _S.FATAL_ERROR},
    _S.INITIALIZING: {_S.READY, _S.PREPARED, _S.FATAL_ERROR},
    _S.READY: {_S.IN_TRANSACTION, _S.FATAL_ERROR},
    _S.IN_TRANSACTION: {
        _S.PREPARED,
        _S.COMMITTING,
        _S.ABORTING,
        _S.ABORTABLE_ERROR,
        _S.FATAL_ERROR,
    },
    _S.PREPARED: {
        _S.COMMITTING,
        _S.ABORTING,
        _S.IN_TRANSACTION,
        _S.ABORTABLE_ERROR,
        _S.FATAL_ERROR,
    },
    _S.COMMITTING: {_S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR},
    _S.ABORTING: {_S.READY, _S.FATAL_ERROR},
    _S.ABORTABLE_ERROR: {_S.ABORTING, _S.FATAL_ERROR},
    _S.FATAL_ERROR: set[TransactionState](),
}
"""A commit turns into an abortable error while something of it may still fail; once an abort was
asked for, nothing but its end or a fatal error comes. A producer that adopts transactions is not
initialized, and goes from one that is prepared to the next.
"""
