"""WriteTxnMarkers: the ends of transactions, written to the partitions that this broker leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from pylog.clock import Clock
from pylog.errors import InvalidRequest, InvalidTopic, PylogError, RequestTimedOut
from pylog.model import CONSUMER_OFFSETS, Offset, is_internal
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_partitions
from pylog_broker.metadata.messages import Failure, failure_of
from pylog_broker.replication.effects import Effect
from pylog_broker.replication.offset_messages import DeleteRecords, LowWatermark
from pylog_broker.replication.produce_messages import (
    PartitionAck,
    PartitionBatch,
    Produce,
    WriteMarker,
)

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

TIMEOUT_MS: Final = 20_000
"""The time for which a marker may wait for other replicas; its sender sends it again."""

NEW_START_TIMEOUT_MS: Final = 2_000
"""The time for which a marker waits for live replicas to begin where the leader does. One that is
not in sync hears of it before it gets the marker.
"""

ForGroups = Callable[[WriteMarker], Awaitable[None]]
"""Writes a marker by way of the group coordinator; raises a PylogError."""


class MarkersHandler:
    """Lives on the broker's loop. Partitions of the groups' topic have a coordinator that writes to
    them, and by which their markers go.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        perform: Callable[[Sequence[Effect]], None],
        clock: Clock,
        for_groups: ForGroups,
    ) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock
        self._for_groups = for_groups

    async def write(self, markers: Sequence[WriteMarker]) -> list[Failure | None]:
        """The outcome of each marker: None when it is committed, or the log is beyond it."""
        return list(await asyncio.gather(*map(self._write, markers)))

    async def write_for_admin(
        self, _context: RequestContext, markers: Sequence[WriteMarker]
    ) -> list[Failure | None]:
        """The same, for an administrator, who may abort and not commit. Raises InvalidRequest."""
        check_partitions(len(markers))
        for marker in markers:
            if marker.commits:
                raise InvalidRequest(
                    f"{marker.topic_partition}: producer {marker.producer_id} is to commit; an "
                    "administrator can only abort"
                )
            if marker.producer_id < 0 or marker.producer_epoch < 0:
                raise InvalidRequest(f"{marker.topic_partition}: name a producer and its epoch")
        return await self.write(markers)

    async def _write(self, marker: WriteMarker) -> Failure | None:
        topic = marker.topic_partition.topic
        if topic == CONSUMER_OFFSETS:
            try:
                await self._for_groups(marker)
            except PylogError as error:
                return failure_of(error)
            return None
        if is_internal(topic):
            return Failure(InvalidTopic.code, f"topic {topic} has no transactions")
        if marker.new_start is None:
            return await self._mark(marker)
        with self._manager.transactions.overwriting(marker.topic_partition):
            return await self._begin_anew(marker) or await self._mark(marker)

    async def _mark(self, marker: WriteMarker) -> Failure | None:
        batch = self._manager.transactions.batch_of(self._clock.wall_ms(), marker)
        return await self._append(batch) if isinstance(batch, PartitionBatch) else batch

    async def _begin_anew(self, marker: WriteMarker) -> Failure | None:
        """Delete what the transaction overwrites, before its own records can be read: whichever
        replica has the marker begins there, also after a crash. None when that is so.
        """
        start = self._manager.transactions.new_start(marker)
        if start is None or isinstance(start, Failure):
            return start
        failure = await self._delete_below(marker, start)
        if failure is not None and failure.code != RequestTimedOut.code:
            return failure
        start = self._manager.transactions.new_start(marker)
        return failure if isinstance(start, int) else start

    async def _delete_below(self, marker: WriteMarker, start: Offset) -> Failure | None:
        answer: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()

        def done(deleted: Sequence[LowWatermark]) -> None:
            if not answer.done():
                answer.set_result(deleted[0].failure)

        request = DeleteRecords(((marker.topic_partition, start),), NEW_START_TIMEOUT_MS)
        now_ms = self._clock.monotonic_ms()
        self._perform(self._manager.delete_records(now_ms, request, done))
        return await answer

    async def _append(self, batch: PartitionBatch) -> Failure | None:
        answer: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()

        def done(acks: Sequence[PartitionAck]) -> None:
            if not answer.done():
                answer.set_result(acks[0].failure)

        request = Produce(-1, TIMEOUT_MS, (batch,), internal=True)
        clock = self._clock
        self._perform(self._manager.produce(clock.monotonic_ms(), clock.wall_ms(), request, done))
        return await answer
