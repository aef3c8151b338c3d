"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pylog import errors
from pylog.clock import Clock
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_partitions, named_twice
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import Effect
from pylog_broker.replication.offset_messages import (
    DeleteRecords,
    LowWatermark,
    OffsetAnswer,
    OffsetQuery,
)
from pylog_broker.replication.replica_fetch_messages import EpochEndQuery, ReplicaEpochQuery

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

CONSUMER: Final = BrokerId(-1)
"""Kafka's replica id of a client that is no broker."""

Perform = Callable[[Sequence[Effect]], None]


class ListOffsetsHandler:
    """Offsets by time, or by name. Lives on the broker's loop."""

    def __init__(self, manager: ReplicaManager, perform: Perform, clock: Clock) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock

    async def handle(
        self, _context: RequestContext, queries: Sequence[OffsetQuery]
    ) -> Sequence[OffsetAnswer]:
        """The answers, in the order of the queries, when what they need of the logs was read;
        cancelled, nobody waits for them. Raises InvalidRequest for too many.
        """
        check_partitions(len(queries))
        twice = named_twice(query.topic_partition for query in queries)
        if twice is not None:
            return [OffsetAnswer(query.topic_partition, twice) for query in queries]
        manager, now_ms = self._manager, self._clock.monotonic_ms()
        return await answered(
            manager, lambda done: self._perform(manager.list_offsets(now_ms, queries, done))
        )


class DeleteRecordsHandler:
    """New log start offsets. Lives on the broker's loop."""

    def __init__(self, manager: ReplicaManager, perform: Perform, clock: Clock) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock

    async def handle(
        self, _context: RequestContext, request: DeleteRecords
    ) -> Sequence[LowWatermark]:
        """The low watermarks, when every live replica begins there or the time is over; cancelled,
        nobody waits for them. Raises InvalidRequest for too many partitions.
        """
        check_partitions(len(request.offsets))
        manager, now_ms = self._manager, self._clock.monotonic_ms()
        return await answered(
            manager, lambda done: self._perform(manager.delete_records(now_ms, request, done))
        )


async def answered(
    manager: ReplicaManager, ask: Callable[[Callable[[Sequence[Any]], None]], None]
) -> Sequence[Any]:
    """The answer to the token that `ask` hands the manager; cancelled, it forgets the token."""
    future: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()

    def done(answers: Sequence[Any]) -> None:
        if not future.done():
            future.set_result(answers)

    ask(done)
    try:
        return await future
    finally:
        if future.cancelled():
            manager.cancel(done)


class EpochQuery(NamedTuple):
    """A question for the end of `leader_epoch`. -1: `current_leader_epoch` is not checked."""

    topic_partition: TopicPartition
    current_leader_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch


class EpochAnswer(NamedTuple):
    """Epoch and offset are -1 with a failure, and when the leader knows no epoch that old."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    end_offset: Offset = Offset(-1)


class OffsetForLeaderEpochHandler:
    """The ends of leader epochs (KIP-101, KIP-320). Lives on the broker's loop."""

    def __init__(self, manager: ReplicaManager, image: Callable[[], MetadataImage]) -> None:
        self._manager = manager
        self._image = image

    async def handle(
        self, _context: RequestContext, queries: Sequence[EpochQuery]
    ) -> list[EpochAnswer]:
        """The answers, in the order of the queries. Raises InvalidRequest for too many."""
        check_partitions(len(queries))
        twice = named_twice(query.topic_partition for query in queries)
        if twice is not None:
            return [EpochAnswer(query.topic_partition, twice) for query in queries]
        return [*map(self._answer, queries)]

    def _answer(self, query: EpochQuery) -> EpochAnswer:
        name, number = query.topic_partition
        topic = self._image().topics_by_name.get(name)
        if topic is None:
            failure = Failure(errors.UnknownTopicOrPartition.code, f"topic {name} does not exist")
            return EpochAnswer(query.topic_partition, failure)
        asked = ReplicaEpochQuery(
            topic.topic_id, number, query.current_leader_epoch, query.leader_epoch
        )
        (end,) = self._manager.epoch_ends(EpochEndQuery(CONSUMER, (asked,))).ends
        return EpochAnswer(query.topic_partition, end.failure, end.leader_epoch, end.end_offset)
