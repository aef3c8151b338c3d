"""Offsets of share groups: the group's knowledge of a topic, and the state that is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from pylog.errors import CoordinatorNotAvailable
from pylog.model import Offset, TopicPartition
from pylog_broker.api.context import RequestContext
from pylog_broker.api.share_groups.offsets import AlterOffsets, DeleteOffsets, ShareOffsetsHandler
from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic, TopicIdPartition
from pylog_broker.coordinator.groups.share.messages import ShareHeartbeat
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.share.persisted import UNINITIALIZED_START, InitializeState, StateSummary
from pylog_broker.share.sessions import SharePartitionKey
from tests.fakes.group_coordinators import FakeCoordinators
from tests.fakes.share_states import FakeShareStates
from tests.unit.broker.api.groups.conftest import TOPICS

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5", "me")
G = "g"
T_ID, T_PARTITIONS = TOPICS["t"]


class OfGroups:
    """The states of groups, in one share coordinator."""

    def __init__(self) -> None:
        self.states = FakeShareStates()

    async def initialize(
        self,
        group_id: str,
        partitions: Iterable[TopicIdPartition],
        state_epoch: int,
        start_offset: int = UNINITIALIZED_START,
    ) -> None:
        for each in partitions:
            key = SharePartitionKey(group_id, *each)
            await self.states.initialize(InitializeState(key, state_epoch, start_offset))

    async def delete(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        for each in partitions:
            await self.states.delete(SharePartitionKey(group_id, *each))

    async def summary(self, group_id: str, partition: TopicIdPartition) -> StateSummary:
        return await self.states.summary(SharePartitionKey(group_id, *partition))

    async def log_end(self, partition: TopicIdPartition) -> Offset:
        return Offset(0)

    @property
    def kept(self) -> list[tuple[str, int]]:
        """Groups and partitions of which there is state."""
        return sorted((key.group_id, key.partition) for key in self.states.coordinator.partitions)


def left(coordinators: FakeCoordinators) -> None:
    """A share group of the topic t whose member has gone."""
    shard = coordinators.shard
    shard.topics["t"] = SubscribedTopic("t", T_ID, T_PARTITIONS)
    joins = ShareHeartbeat(
        G, "m", 0, subscribed_names=("t",), client_id="m", client_host="/127.0.0.1"
    )
    joined = shard.answer(lambda c, r: c.share_heartbeat(r, joins))
    made = joined.to_initialize
    shard.answer(lambda c, r: c.share.state_initialized(r, G, made))
    leaves = joins._replace(member_epoch=-1, subscribed_names=None)
    shard.answer(lambda c, r: c.share_heartbeat(r, leaves))


@pytest.mark.parametrize("breaks", [False, True])
def test_a_topic_whose_deletion_broke_off_is_deleted_by_the_next_one(
    coordinators: FakeCoordinators, image: MetadataImage, breaks: bool
) -> None:
    """The group forgets the topic first, and so does not know the state that is left."""
    left(coordinators)

    async def main() -> None:
        of_groups = OfGroups()
        handler = ShareOffsetsHandler(
            coordinators, of_groups, lambda: image, commit_timeout_ms=5_000
        )
        await of_groups.initialize(
            G, [TopicIdPartition(T_ID, number) for number in range(T_PARTITIONS)], 1, 7
        )
        await of_groups.initialize("other", [TopicIdPartition(T_ID, 0)], 1, 7)
        if breaks:
            of_groups.states.fault = CoordinatorNotAvailable()
            (answer,) = await handler.delete(CONTEXT, DeleteOffsets(G, ("t",)))
            assert answer.failure is not None
            assert of_groups.kept != [("other", 0)]
        (answer,) = await handler.delete(CONTEXT, DeleteOffsets(G, ("t",)))
        assert answer.failure is None
        assert of_groups.kept == [("other", 0)]

    asyncio.run(main())


def test_altered_offsets_begin_where_they_are_told(
    coordinators: FakeCoordinators, image: MetadataImage
) -> None:
    left(coordinators)

    async def main() -> None:
        of_groups = OfGroups()
        handler = ShareOffsetsHandler(
            coordinators, of_groups, lambda: image, commit_timeout_ms=5_000
        )
        at = TopicIdPartition(T_ID, 1)
        (answer,) = await handler.alter(CONTEXT, AlterOffsets(G, ((TopicPartition("t", 1), 42),)))
        assert answer.failure is None
        assert (await of_groups.summary(G, at)).start_offset == 42

    asyncio.run(main())
