"""Offsets of share groups: the group's knowledge of a topic, and the state that is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from pylog.errors import CoordinatorNotAvailable, NonEmptyGroup, NotCoordinator
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
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """It happens after the next state is there."""

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
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()

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


JOINS = ShareHeartbeat(G, "m", 0, subscribed_names=("t",), client_id="m", client_host="/127.0.0.1")
LEAVES = JOINS._replace(member_epoch=-1, subscribed_names=None)


def left(coordinators: FakeCoordinators, *, is_initialized: bool = True) -> None:
    """A share group of the topic t whose member has gone; there is state of the partitions, if the
    share coordinator has made it in time.
    """
    shard = coordinators.shard
    shard.topics["t"] = SubscribedTopic("t", T_ID, T_PARTITIONS)
    made = shard.answer(lambda c, r: c.share_heartbeat(r, JOINS)).to_initialize
    if is_initialized:
        shard.answer(lambda c, r: c.share.state_initialized(r, G, made))
    else:
        shard.answer(lambda c, r: c.share.state_not_initialized(r, G, made))
    shard.answer(lambda c, r: c.share_heartbeat(r, LEAVES))


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


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("is_initialized", [False, True])
def test_offsets_are_not_said_to_be_altered_when_a_member_joins_meanwhile(
    coordinators: FakeCoordinators, image: MetadataImage, is_initialized: bool, stays: bool
) -> None:
    """The member has a partition without state begin anew, after the alteration has set it."""
    left(coordinators, is_initialized=is_initialized)
    shard, at = coordinators.shard, TopicIdPartition(T_ID, 1)

    async def main() -> None:
        of_groups = OfGroups()
        handler = ShareOffsetsHandler(
            coordinators, of_groups, lambda: image, commit_timeout_ms=5_000
        )

        async def a_member_joins() -> None:
            joined = shard.answer(lambda c, r: c.share_heartbeat(r, JOINS))
            if joined.to_initialize:
                await of_groups.initialize(G, joined.to_initialize, joined.member_epoch)
            if not stays:
                shard.answer(lambda c, r: c.share_heartbeat(r, LEAVES))

        of_groups.meanwhile = a_member_joins
        request = AlterOffsets(G, ((TopicPartition("t", 1), 42),))
        with pytest.raises(NonEmptyGroup):
            await handler.alter(CONTEXT, request)
        if stays:
            shard.answer(lambda c, r: c.share_heartbeat(r, LEAVES))
        (answer,) = await handler.alter(CONTEXT, request)
        assert answer.failure is None
        assert (await of_groups.summary(G, at)).start_offset == 42

    asyncio.run(main())


@pytest.mark.parametrize("is_initialized", [False, True])
def test_an_alteration_that_broke_off_is_made_whole_by_the_next_one(
    coordinators: FakeCoordinators, image: MetadataImage, is_initialized: bool
) -> None:
    """Wherever it broke off: each of its steps is made once more, in a later state epoch."""
    left(coordinators, is_initialized=is_initialized)
    offsets = tuple((TopicPartition("t", number), 42 + number) for number in range(T_PARTITIONS))

    async def main() -> None:
        of_groups = OfGroups()
        handler = ShareOffsetsHandler(
            coordinators, of_groups, lambda: image, commit_timeout_ms=5_000
        )

        async def the_coordinator_moves() -> None:
            coordinators.fault = NotCoordinator()

        of_groups.states.fault = CoordinatorNotAvailable()
        first, second = await handler.alter(CONTEXT, AlterOffsets(G, offsets))
        assert (first.failure is None, second.failure) == (False, None)
        of_groups.meanwhile = the_coordinator_moves
        with pytest.raises(NotCoordinator):
            await handler.alter(CONTEXT, AlterOffsets(G, offsets))
        coordinators.fault = None
        answers = await handler.alter(CONTEXT, AlterOffsets(G, offsets))
        assert [each.failure for each in answers] == [None] * T_PARTITIONS
        for number in range(T_PARTITIONS):
            summary = await of_groups.summary(G, TopicIdPartition(T_ID, number))
            assert summary.start_offset == 42 + number
        joined = coordinators.shard.answer(lambda c, r: c.share_heartbeat(r, JOINS))
        assert not joined.to_initialize

    asyncio.run(main())
