"""The messages between a transactional producer and its coordinators: plain values.

A request that is answered comes back with its answer, as the very object that was sent: what is not
in flight any more is passed over. The producer speaks transaction version 2 (KIP-890): the first
batch of a partition, and the first offsets of a group, add themselves to the transaction, and each
end of a transaction gives the epoch of the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pylog import errors
from pylog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
)

# ---- requests ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Ask any broker who coordinates the transactional id, or the group."""

    key: str
    is_group: bool = False


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Give the transactional id a producer id and an epoch of which earlier instances are fenced;
    their open transaction is aborted, unless it is `keep_prepared`.
    """

    coordinator: int
    transactional_id: str
    timeout_ms: int
    two_phase: bool = False
    keep_prepared: bool = False


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Keep these positions of the group, as a part of the transaction."""

    coordinator: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group: ConsumerGroupMetadata
    offsets: tuple[tuple[TopicPartition, OffsetAndMetadata], ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Decide: all of it counts, or nothing."""

    coordinator: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


TransactionRequest = FindCoordinator | InitProducer | CommitOffsets | EndTransaction

# ---- answers -----------------------------------------------------------------------------------


class CoordinatorFound(NamedTuple):
    """The coordinator; a code says why nobody is named."""

    broker: int = -1
    code: int = 0
    message: str = ""


class ProducerBegun(NamedTuple):
    """The id and epoch to write under, and those of a transaction that is prepared still."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    ongoing_id: int = NO_PRODUCER_ID
    ongoing_epoch: int = NO_PRODUCER_EPOCH
    code: int = 0
    message: str = ""


class OffsetsKept(NamedTuple):
    """The outcome of an offset commit: a code is about all offsets, `faults` name single
    partitions."""

    faults: tuple[tuple[TopicPartition, int, str], ...] = ()
    code: int = 0
    message: str = ""


class TransactionEnded(NamedTuple):
    """It is decided; the id and epoch of the next transaction."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    code: int = 0
    message: str = ""


TransactionAnswer = CoordinatorFound | ProducerBegun | OffsetsKept | TransactionEnded

# ---- what a user's call waits for --------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Operation:
    """One call of the user's that takes more than a step. `waiter` belongs to the shell."""

    call: str
    waiter: Any = field(repr=False, default=None)
    done: bool = False


@dataclass(frozen=True, slots=True)
class OperationDone:
    """An effect: the call can return, or raise the error."""

    operation: Operation
    error: errors.PylogError | None = None
