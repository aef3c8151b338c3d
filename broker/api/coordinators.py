"""The interfaces by which handlers reach the coordinators of this broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pylog.model import Offset, TopicPartition
from pylog_broker.coordinator.groups.consumer.topics import TopicIdPartition
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.runtime.decision import Decision, RequestId
from pylog_broker.coordinator.transactions.coordinator import TransactionCoordinator
from pylog_broker.share.persisted import UNINITIALIZED_START, StateSummary

GroupOperation = Callable[[GroupCoordinator, RequestId, int], Decision]
"""Decides on a shard, for the request of that id, at that time of day (ms)."""


TransactionOperation = Callable[[TransactionCoordinator, RequestId, int], Decision]
"""Likewise, of transactions."""


class TransactionCoordinators(Protocol):
    """The transactional ids that this broker coordinates, by the partitions of
    `__transaction_state` that it leads. Lives on the broker's loop; as `GroupCoordinators`.
    """

    async def call(
        self,
        transactional_id: str,
        operation: TransactionOperation,
        *,
        timeout_ms: int | None = None,
    ) -> Any:
        """The reply, when all that it rests on is committed."""

    async def call_all(self, operation: TransactionOperation) -> list[Any]:
        """The replies of all shards here."""


class GroupCoordinators(Protocol):
    """The groups that this broker coordinates, by the partitions of `__consumer_offsets` that it
    leads. Lives on the broker's loop.
    """

    def partition_of(self, group_id: str) -> TopicPartition:
        """The partition that the group belongs to. Raises NotCoordinator where there is none."""

    async def call(
        self, group_id: str, operation: GroupOperation, *, timeout_ms: int | None = None
    ) -> Any:
        """The reply, when all that it rests on is committed.

        Raises what the operation raises; NotCoordinator where another broker coordinates the group,
        CoordinatorLoadInProgress, and CoordinatorNotAvailable, also after `timeout_ms`.
        A caller that is cancelled leaves the decision as it is.
        """

    async def call_all(self, operation: GroupOperation) -> list[Any]:
        """The replies of all shards here. Raises CoordinatorLoadInProgress while one is being
        read.
        """


class ShareGroupStates(Protocol):
    """The state of share groups in their partitions, at whichever brokers have it. Each raises
    CoordinatorNotAvailable where those cannot be reached, and what `ShareCoordinator` raises.
    """

    async def initialize(
        self,
        group_id: str,
        partitions: Iterable[TopicIdPartition],
        state_epoch: int,
        start_offset: int = UNINITIALIZED_START,
    ) -> None:
        """There is state of all of them."""

    async def delete(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """There is none of any of them."""

    async def summary(self, group_id: str, partition: TopicIdPartition) -> StateSummary:
        """The progress of the group in a partition."""

    async def log_end(self, partition: TopicIdPartition) -> Offset:
        """The offset behind the last record that a consumer can read, from the partition's
        leader."""
