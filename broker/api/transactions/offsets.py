"""TxnOffsetCommit: a group's offsets, committed by a producer's transaction (KIP-447)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pylog.errors import InvalidRequest, InvalidTxnState, PylogError
from pylog.model import TopicPartition
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import GroupCoordinators
from pylog_broker.api.groups.committed_offsets import CommitOffsets, CommittedOffsetsHandler
from pylog_broker.api.transactional_ids import check_transactional_id
from pylog_broker.api.transactions.producers import VERSIONS
from pylog_broker.api.transactions.verification import AskCoordinator
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.groups.messages import OffsetCommit, OffsetsCommitted
from pylog_broker.coordinator.runtime.decision import Decision, Producer, RequestId
from pylog_broker.coordinator.transactions.messages import AddPartitions
from pylog_broker.coordinator.transactions.transaction import Identity
from pylog_broker.replication.produce_messages import TransactionGuard

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager


class TxnCommit(NamedTuple):
    """A commit of a group's offsets in the transaction of a producer."""

    transactional_id: str
    identity: Identity
    commit: OffsetCommit
    version: int = 2


class TxnOffsetsHandler:
    """Lives on the broker's loop."""

    def __init__(
        self,
        offsets: CommittedOffsetsHandler,
        groups: GroupCoordinators,
        manager: ReplicaManager,
        coordinator: AskCoordinator,
    ) -> None:
        self._offsets = offsets
        self._groups = groups
        self._transactions = manager.transactions
        self._coordinator = coordinator

    async def commit(self, context: RequestContext, request: TxnCommit) -> OffsetsCommitted:
        """The outcome of each partition, in the order of the request: its position is pending, and
        counts when the transaction commits.

        Raises InvalidRequest, what `CommittedOffsetsHandler.commit` raises, and what the
        transaction's coordinator refuses with.
        """
        check_transactional_id(request.transactional_id)
        if request.version not in VERSIONS:
            raise InvalidRequest(f"transaction_version={request.version}: there are 1 and 2")
        identity = request.identity
        partition = self._groups.partition_of(request.commit.group_id)
        unverified = self._transactions.guarded(partition, *identity)
        guard = unverified.guard
        try:
            if not self._transactions.is_open(partition, *identity):
                await self._add(request, partition)

            def decide(
                shard: GroupCoordinator, number: RequestId, wall_ms: int, asked: OffsetCommit
            ) -> Decision:
                self._check(guard, partition, identity)
                return shard.commit_offsets(wall_ms, number, asked, Producer(*identity))

            return await self._offsets.commit_by(context, CommitOffsets(request.commit), decide)
        finally:
            self._transactions.release((unverified,))

    async def _add(self, request: TxnCommit, partition: TopicPartition) -> None:
        version = request.version
        asked = AddPartitions(
            request.transactional_id,
            request.identity,
            (partition,),
            version,
            verify_only=version < 2,
        )
        fault: PylogError | None = (await self._coordinator.add(asked))[partition]
        if fault is not None:
            raise fault

    def _check(
        self, guard: TransactionGuard, partition: TopicPartition, identity: Identity
    ) -> None:
        """The transaction has not ended since it was asked about."""
        if not self._transactions.still_holds(guard, partition):
            raise InvalidTxnState(
                f"the transaction of producer id {identity.producer_id} epoch {identity.epoch} "
                "ended before the offsets were written"
            )
