"""The admin client's calls about moving replicas to other brokers (KIP-455)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from pylog import errors
from pylog.client.admin import admin_wire
from pylog.client.arguments import mapping
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.outcomes import Answers, raise_passing
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.client.topics_and_partitions import one_partition, some_partitions
from pylog.model import PartitionReassignment, TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import admin_pb2

K = TypeVar("K")
M = TypeVar("M")
T = TypeVar("T")
V = TypeVar("V")


class ReassignmentUse(ABC):
    """A part of `AdminClient`, whose means of asking it uses."""

    _cluster: Cluster

    @abstractmethod
    def _milliseconds(self, timeout: float | None) -> int: ...

    @abstractmethod
    def _retry(self, attempt: Callable[[float], Awaitable[T]], timeout_ms: int, what: str) -> T: ...

    @abstractmethod
    async def _gateway(self) -> Server: ...

    @abstractmethod
    def _each(
        self,
        wanted: list[tuple[K, M]],
        attempt: Callable[[list[M], float], Awaitable[Answers[K, V]]],
        timeout: float | None,
        what: str,
    ) -> dict[K, V]: ...

    def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Iterable[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Move partitions to other brokers: the new replicas of each, its preferred leader first;
        None cancels the move that goes on. Returns when the moves have begun; a partition has moved
        when `list_partition_reassignments` names it no more.

        Raises UnknownTopicOrPartition, InvalidReplicaAssignment (an empty list, a broker that is
        named twice, not registered, or fenced; or nobody would be left that holds all committed
        records), InvalidReplicationFactor, and NoReassignmentInProgress for what does not move.
        """
        wanted = [
            (tp, admin_wire.new_replicas_message(tp, replicas))
            for tp, replicas in _reassignments(reassignments).items()
        ]

        async def attempt(
            items: list[admin_pb2.NewReplicas], left_s: float
        ) -> Answers[TopicPartition, None]:
            request = admin_pb2.AlterPartitionReassignmentsRequest(
                partitions=items, allow_replication_factor_change=allow_replication_factor_change
            )
            server = await self._gateway()
            response = await server.call(apis.ALTER_PARTITION_REASSIGNMENTS, request, left_s)
            whole = error_of(response.error)
            raise_passing(self._cluster, whole)
            if whole is not None:
                named = (TopicPartition(item.topic, item.partition) for item in items)
                return [(tp, whole, None) for tp in named]
            told = [(TopicPartition(i.topic, i.partition), i.error) for i in response.partitions]
            return [(tp, error_of(error, str(tp)), None) for tp, error in told]

        if wanted:
            self._each(wanted, attempt, timeout, "alter reassignments")

    def list_partition_reassignments(
        self,
        partitions: TopicPartition | Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves that go on, of these partitions; None given: all."""
        request = admin_pb2.ListPartitionReassignmentsRequest(all_partitions=partitions is None)
        for tp in () if partitions is None else some_partitions((partitions,)):
            request.partitions.add(topic=tp.topic, partition=tp.partition)

        async def attempt(left_s: float) -> admin_pb2.ListPartitionReassignmentsResponse:
            server = await self._gateway()
            return await server.call(apis.LIST_PARTITION_REASSIGNMENTS, request, left_s)

        response = self._retry(attempt, self._milliseconds(timeout), "list reassignments")
        return {
            TopicPartition(each.topic, each.partition): PartitionReassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for each in response.partitions
        }


def _reassignments(given: object) -> dict[TopicPartition, object]:
    wanted = "{TopicPartition: [broker, ...] or None}"
    pairs = mapping(given, "reassignments", wanted, errors.InvalidRequest)
    return {one_partition(tp): replicas for tp, replicas in pairs.items()}
