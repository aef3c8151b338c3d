"""Batches that open a transaction: the coordinator is asked before they are appended (KIP-890)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    PylogError,
    TransactionAbortable,
)
from pylog.model import TopicPartition
from pylog_broker.coordinator.transactions.messages import AddPartitions
from pylog_broker.coordinator.transactions.transaction import Identity
from pylog_broker.metadata.messages import failure_of
from pylog_broker.replication.produce_messages import Produce, TransactionGuard
from pylog_broker.replication.transactions import Unverified

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager


class AskCoordinator(Protocol):
    """Reaches the coordinator of a transactional id, wherever it is."""

    async def add(self, request: AddPartitions) -> Mapping[TopicPartition, PylogError | None]:
        """The outcome of each partition. Raises a retriable PylogError when the coordinator cannot
        be reached.
        """


class BatchVerification:
    """Lives on the broker's loop. `verifies_version_1`: else what a client of that version says is
    believed.
    """

    def __init__(
        self, manager: ReplicaManager, coordinator: AskCoordinator, *, verifies_version_1: bool
    ) -> None:
        self._transactions = manager.transactions
        self._coordinator = coordinator
        self._verifies_version_1 = verifies_version_1

    def unverified(self, request: Produce) -> list[Unverified]:
        """The batches to ask about, if any: `verify` them, and `release` them at last."""
        return self._transactions.unverified(request) if request.transactional_id else []

    def release(self, unverified: Sequence[Unverified]) -> None:
        """The batches were appended, or will not be."""
        self._transactions.release(unverified)

    async def verify(self, request: Produce, unverified: Sequence[Unverified]) -> Produce:
        """The request, whose batches may now open their transactions, or are refused."""
        by_producer: dict[Identity, list[Unverified]] = {}
        for each in unverified:
            owner = Identity(each.producer_id, each.producer_epoch)
            by_producer.setdefault(owner, []).append(each)
        batches = list(request.batches)
        for owner, group in by_producer.items():
            faults = await self._ask(request, owner, [each.topic_partition for each in group])
            for each in group:
                guard: TransactionGuard = each.guard
                guard.refusal = failure_of(faults[each.topic_partition])
                batches[each.place] = batches[each.place]._replace(guard=guard)
        return request._replace(batches=tuple(batches))

    async def _ask(
        self, request: Produce, owner: Identity, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, PylogError | None]:
        version = request.transaction_version
        if version < 2 and not self._verifies_version_1:
            return dict.fromkeys(partitions)
        asked = AddPartitions(
            request.transactional_id, owner, tuple(partitions), version, verify_only=version < 2
        )
        try:
            given = await self._coordinator.add(asked)
        except PylogError as error:
            return dict.fromkeys(partitions, as_producers_know(error, version))
        return {
            each: None if fault is None else as_producers_know(fault, version)
            for each, fault in given.items()
        }


def as_producers_know(fault: PylogError, version: int) -> PylogError:
    """The error as an answer to a batch tells it."""
    if isinstance(fault, ProducerFenced):
        return InvalidProducerEpoch(str(fault))
    if isinstance(fault, TransactionAbortable) and version < 2:
        return InvalidTxnState(str(fault))
    return fault
