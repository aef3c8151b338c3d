"""The state of share groups in all of their partitions, wherever it is kept and led."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from pylog import errors
from pylog.model import BrokerId, Offset, TopicPartition
from pylog_broker.coordinator.groups.consumer.topics import TopicIdPartition
from pylog_broker.kafka.calls import BrokerCalls
from pylog_broker.kafka.share_state import ShareStates, remote_offset
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.node.share.led_partitions import LATEST, LedSharePartitions
from pylog_broker.replication.offset_messages import OffsetQuery
from pylog_broker.share.persisted import UNINITIALIZED_START, InitializeState, StateSummary
from pylog_broker.share.sessions import SharePartitionKey

AT_A_TIME: Final = 100
"""Partitions that are asked for together; the others wait for these."""
OFFSET_SECONDS_MAX: Final = 5.0


class GroupStates:
    """A `ShareGroupStates`. Lives on the broker's loop."""

    def __init__(
        self,
        states: ShareStates,
        led: LedSharePartitions,
        calls: BrokerCalls,
        image: Callable[[], MetadataImage],
        broker_id: BrokerId,
    ) -> None:
        self._states = states
        self._led = led
        self._calls = calls
        self._image = image
        self._broker_id = broker_id

    async def initialize(
        self,
        group_id: str,
        partitions: Iterable[TopicIdPartition],
        state_epoch: int,
        start_offset: int = UNINITIALIZED_START,
    ) -> None:
        """See `ShareGroupStates`."""
        await _all(
            self._states.initialize(
                InitializeState(SharePartitionKey(group_id, *each), state_epoch, start_offset)
            )
            for each in sorted(partitions)
        )

    async def delete(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """See `ShareGroupStates`."""
        await _all(
            self._states.delete(SharePartitionKey(group_id, *each)) for each in sorted(partitions)
        )

    async def summary(self, group_id: str, partition: TopicIdPartition) -> StateSummary:
        """See `ShareGroupStates`."""
        return await self._states.summary(SharePartitionKey(group_id, *partition))

    async def log_end(self, partition: TopicIdPartition) -> Offset:
        """See `ShareGroupStates`. Raises UnknownTopicId, LeaderNotAvailable, and what the leader
        refuses with.
        """
        topic = self._image().topics_by_id.get(partition.topic_id)
        record = None if topic is None else topic.partitions.get(partition.partition)
        if topic is None or record is None:
            raise errors.UnknownTopicId(f"there is no topic of id {partition.topic_id}")
        query = OffsetQuery(TopicPartition(topic.name, partition.partition), LATEST)
        if record.leader < 0:
            raise errors.LeaderNotAvailable(f"{query.topic_partition} has no leader")
        if record.leader != self._broker_id:
            ask = partial(self._calls.call, record.leader, timeout_seconds=OFFSET_SECONDS_MAX)
            return await remote_offset(ask, query)
        (answer,) = await self._led.offsets([query])
        if answer.failure is not None:
            raise errors.from_code(answer.failure.code, answer.failure.message)
        return answer.offset


async def _all(work: Iterable[Awaitable[None]]) -> None:
    """A few at a time; raises what the first one that fails raises."""
    due: list[Awaitable[None]] = []
    for each in work:
        due.append(each)
        if len(due) == AT_A_TIME:
            await asyncio.gather(*due)
            due.clear()
    await asyncio.gather(*due)
