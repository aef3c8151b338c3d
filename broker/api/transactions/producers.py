"""InitProducerId of transactional producers, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from pylog.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    InvalidTopic,
    OperationNotAttempted,
    PylogError,
    UnknownTopicOrPartition,
)
from pylog.model import CONSUMER_OFFSETS, ProducerId, TopicPartition, is_internal
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import TransactionCoordinators
from pylog_broker.api.groups.find_coordinator import Ensure
from pylog_broker.api.groups.names import check_group_id
from pylog_broker.api.limits import check_partitions
from pylog_broker.api.transactional_ids import check_id_of_producer
from pylog_broker.coordinator.runtime.decision import Decision, RequestId
from pylog_broker.coordinator.runtime.runtime import partition_for
from pylog_broker.coordinator.transactions.coordinator import TransactionCoordinator
from pylog_broker.coordinator.transactions.messages import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    NeedsProducerId,
    PartitionsAdded,
    ProducerBegun,
    TransactionEnded,
)
from pylog_broker.coordinator.transactions.transaction import Identity
from pylog_broker.metadata.image import MetadataImage

COMMIT_TIMEOUT_MS: Final = 20_000
"""The time for which an answer may wait for the end of the last transaction and for other
replicas."""
VERSIONS: Final = (1, 2)
"""The versions of transactions that a request may name."""

Take = Callable[[], Awaitable[ProducerId]]
WithId = Callable[[TransactionCoordinator, RequestId, int, ProducerId | None], Decision]


class AddOffsets(NamedTuple):
    """A group's offsets are about to be committed in the transaction."""

    transactional_id: str
    identity: Identity
    group_id: str


class TransactionsHandler:
    """Lives on the broker's loop. `take`: a producer id that was never given. `ensure`: has an
    internal topic made.

    All raise InvalidRequest for a transactional id that is empty or too long; all but `add`, which
    other brokers ask, for one that belongs to a sink; NotCoordinator where another broker
    coordinates it, CoordinatorLoadInProgress, and CoordinatorNotAvailable, also where nothing is
    committed in time; and
    what the operation of the coordinator raises.
    """

    def __init__(
        self,
        coordinators: TransactionCoordinators,
        image: Callable[[], MetadataImage],
        take: Take,
        ensure: Ensure,
    ) -> None:
        self._coordinators = coordinators
        self._image = image
        self._take = take
        self._ensure = ensure

    async def init(self, request: InitProducer) -> ProducerBegun:
        """See `TransactionCoordinator.init_producer`."""
        check_id_of_producer(request.transactional_id)
        if (request.expected.producer_id < 0) != (request.expected.epoch < 0):
            raise InvalidRequest(
                f"producer_id={request.expected.producer_id} and "
                f"producer_epoch={request.expected.epoch}: give both, or -1 for both"
            )
        begun: ProducerBegun = await call_with_id(
            self._coordinators,
            self._take,
            request.transactional_id,
            lambda shard, number, wall_ms, fresh: shard.init_producer(
                wall_ms, number, request, fresh
            ),
        )
        return begun

    async def add_partitions(
        self, _context: RequestContext, request: AddPartitions
    ) -> PartitionsAdded:
        """All are added, or none: beside one that is not there the others have
        OPERATION_NOT_ATTEMPTED.
        """
        check_id_of_producer(request.transactional_id)
        check_partitions(len(request.partitions))
        faults = {each: self._fault(each) for each in request.partitions}
        if any(faults.values()):
            skipped = OperationNotAttempted("another partition of the request was refused")
            return PartitionsAdded({each: fault or skipped for each, fault in faults.items()})
        return await self.add(request)

    async def add(self, request: AddPartitions) -> PartitionsAdded:
        """The same, of partitions that somebody has seen: a broker that leads them asks."""
        added: PartitionsAdded = await self._coordinators.call(
            request.transactional_id,
            lambda shard, number, wall_ms: shard.add_partitions(wall_ms, number, request),
            timeout_ms=COMMIT_TIMEOUT_MS,
        )
        return added

    async def add_offsets(self, _context: RequestContext, request: AddOffsets) -> None:
        """The group's partition of the internal topic is one of the transaction's."""
        check_id_of_producer(request.transactional_id)
        partition = await self._offsets_partition(request.group_id)
        added = await self.add(
            AddPartitions(request.transactional_id, request.identity, (partition,), version=1)
        )
        fault = added.partitions[partition]
        if fault is not None:
            raise fault

    async def end(self, _context: RequestContext, request: EndTransaction) -> TransactionEnded:
        """See `TransactionCoordinator.end`."""
        check_id_of_producer(request.transactional_id)
        if request.version not in VERSIONS:
            raise InvalidRequest(f"transaction_version={request.version}: there are 1 and 2")
        ended: TransactionEnded = await call_with_id(
            self._coordinators,
            self._take,
            request.transactional_id,
            lambda shard, number, wall_ms, fresh: shard.end(wall_ms, number, request, fresh),
        )
        return ended

    async def _offsets_partition(self, group_id: str) -> TopicPartition:
        """The partition that has the group's offsets. Raises InvalidGroupId, and
        CoordinatorNotAvailable where there is none yet: it is being made then.
        """
        check_group_id(group_id)
        topic = self._image().topics_by_name.get(CONSUMER_OFFSETS)
        if topic is None:
            await self._ensure(CONSUMER_OFFSETS)
            topic = self._image().topics_by_name.get(CONSUMER_OFFSETS)
        if topic is None:
            raise CoordinatorNotAvailable(f"there is no {CONSUMER_OFFSETS} yet; ask again")
        return TopicPartition(CONSUMER_OFFSETS, partition_for(group_id, len(topic.partitions)))

    def _fault(self, partition: TopicPartition) -> PylogError | None:
        topic, number = partition
        found = self._image().topics_by_name.get(topic)
        if found is None or number not in found.partitions:
            return UnknownTopicOrPartition(f"there is no partition {topic}-{number}")
        if is_internal(topic):
            return InvalidTopic(f"topic {topic} is internal; only coordinators write to it")
        return None


async def call_with_id(
    coordinators: TransactionCoordinators, take: Take, transactional_id: str, operation: WithId
) -> Any:
    """The coordinator's answer, with a fresh producer id where it needs one."""
    fresh: ProducerId | None = None
    for _ in range(3):
        given = fresh
        answer = await coordinators.call(
            transactional_id,
            lambda shard, number, wall_ms, given=given: operation(  # type: ignore[misc]
                shard, number, wall_ms, given
            ),
            timeout_ms=COMMIT_TIMEOUT_MS,
        )
        if not isinstance(answer, NeedsProducerId):
            return answer
        fresh = await take()
    raise CoordinatorNotAvailable(f"{transactional_id!r} needs one producer id after another")
