"""DescribeTransactions, ListTransactions and DescribeProducers (KIP-664)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from pylog.errors import PylogError
from pylog.model import TopicPartition
from pylog.topic_patterns import topic_pattern
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import TransactionCoordinators
from pylog_broker.api.limits import check_items, check_partitions
from pylog_broker.api.transactional_ids import check_transactional_id
from pylog_broker.api.transactions.producers import COMMIT_TIMEOUT_MS
from pylog_broker.coordinator.transactions.messages import (
    DescribedTransaction,
    ListedTransaction,
    TransactionFilter,
)
from pylog_broker.coordinator.transactions.states import TransactionState
from pylog_broker.metadata.messages import Failure, failure_of
from pylog_broker.replication.produce_messages import ProducerState

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

STATES: Final = frozenset(state.shown for state in TransactionState)


class Described(NamedTuple):
    """A transactional id by its name, or why it is not described."""

    transactional_id: str
    failure: Failure | None = None
    described: DescribedTransaction | None = None


class ListTransactions(NamedTuple):
    """Transactions that pass all filters. `pattern`: of the whole id; empty: any."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = -1
    pattern: str = ""


class TransactionsListed(NamedTuple):
    """`unknown_states`: names in the filter that no state has."""

    unknown_states: tuple[str, ...]
    transactions: list[ListedTransaction]


class DescribedProducers(NamedTuple):
    """The producers of a partition, or why this broker cannot tell."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    producers: Sequence[ProducerState] = ()


class TransactionAdminHandler:
    """Lives on the broker's loop. All raise InvalidRequest for too much in one request."""

    def __init__(self, coordinators: TransactionCoordinators, manager: ReplicaManager) -> None:
        self._coordinators = coordinators
        self._manager = manager

    async def describe(
        self, _context: RequestContext, transactional_ids: Sequence[str]
    ) -> list[Described]:
        """Each with its own failure, TRANSACTIONAL_ID_NOT_FOUND where there is none."""
        check_items(len(transactional_ids), "transactional ids")
        return list(await asyncio.gather(*map(self._describe, transactional_ids)))

    async def _describe(self, transactional_id: str) -> Described:
        try:
            check_transactional_id(transactional_id)
            described: DescribedTransaction = await self._coordinators.call(
                transactional_id,
                lambda shard, number, _wall_ms: shard.describe(number, transactional_id),
                timeout_ms=COMMIT_TIMEOUT_MS,
            )
        except PylogError as error:
            return Described(transactional_id, failure_of(error))
        return Described(transactional_id, None, described)

    async def list_transactions(
        self, _context: RequestContext, request: ListTransactions
    ) -> TransactionsListed:
        """The transactions that this broker coordinates. Raises InvalidRegularExpression, and
        CoordinatorLoadInProgress.
        """
        check_items(len(request.producer_ids) + len(request.states), "filters")
        pattern = topic_pattern(request.pattern) if request.pattern else None
        known = {name.lower(): name for name in STATES}
        unknown = tuple(name for name in request.states if name.lower() not in known)
        states = frozenset(known[name.lower()] for name in request.states if name.lower() in known)
        if request.states and not states:
            return TransactionsListed(unknown, [])
        wanted = TransactionFilter(states, frozenset(request.producer_ids), request.duration_ms)
        listed: list[list[ListedTransaction]] = await self._coordinators.call_all(
            lambda shard, number, wall_ms: shard.list_transactions(wall_ms, number, wanted)
        )
        found = [
            each
            for each in chain.from_iterable(listed)
            if pattern is None or pattern.matches(each.transactional_id)
        ]
        return TransactionsListed(unknown, found)

    async def describe_producers(
        self, _context: RequestContext, partitions: Sequence[TopicPartition]
    ) -> list[DescribedProducers]:
        """Each partition that this broker leads; NOT_LEADER_OR_FOLLOWER for others."""
        check_partitions(len(partitions))
        answers = []
        for partition in partitions:
            found = self._manager.transactions.producers(partition)
            if isinstance(found, Failure):
                answers.append(DescribedProducers(partition, found))
            else:
                answers.append(DescribedProducers(partition, None, found))
        return answers
