"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pylog.errors import InvalidRequest, PylogError, UnknownTopicOrPartition
from pylog.model import TopicId, TopicPartition
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import GroupCoordinators, GroupOperation, ShareGroupStates
from pylog_broker.api.groups.group_admin import each_of
from pylog_broker.api.groups.names import check_group_id
from pylog_broker.api.limits import check_items, check_partitions, named_twice
from pylog_broker.coordinator.groups.consumer.topics import Partitions, TopicIdPartition
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, failure_of

UNKNOWN: Final = -1
AT_A_TIME: Final = 100
"""Partitions of one group that are asked for together."""


class DescribeOffsets(NamedTuple):
    """`partitions`: None: all of which the group has state."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None


class ShareOffset(NamedTuple):
    """The progress of a group in a partition. `start_offset`: all before it is done; -1: not known
    yet. `lag`: records that are to be delivered or acknowledged yet; -1: not known.
    """

    topic_partition: TopicPartition
    failure: Failure | None = None
    topic_id: TopicId | None = None
    start_offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    lag: int = UNKNOWN


class ShareOffsets(NamedTuple):
    """The offsets of a group, or why they are not told."""

    group_id: str
    failure: Failure | None = None
    offsets: tuple[ShareOffset, ...] = ()


class AlterOffsets(NamedTuple):
    """The offsets at which a group shall begin anew."""

    group_id: str
    offsets: tuple[tuple[TopicPartition, int], ...]


class DeleteOffsets(NamedTuple):
    """The topics of which a group is to have no state."""

    group_id: str
    topics: tuple[str, ...]


class DeletedOffsets(NamedTuple):
    """The outcome for a topic."""

    topic: str
    failure: Failure | None = None
    topic_id: TopicId | None = None


class ShareOffsetsHandler:
    """Lives on the broker's loop."""

    def __init__(
        self,
        coordinators: GroupCoordinators,
        states: ShareGroupStates,
        image: Callable[[], MetadataImage],
        *,
        commit_timeout_ms: int,
    ) -> None:
        self._coordinators = coordinators
        self._states = states
        self._image = image
        self._commit_timeout_ms = commit_timeout_ms

    async def describe(
        self, _context: RequestContext, request: Sequence[DescribeOffsets]
    ) -> list[ShareOffsets]:
        """The progress of groups; each with its own failure. Raises InvalidRequest for too many."""
        by_group = {each.group_id: each for each in request}
        check_partitions(sum(len(each.partitions or ()) for each in by_group.values()))

        async def one(group_id: str) -> ShareOffsets:
            try:
                check_group_id(group_id)
                offsets = await self._offsets(by_group[group_id])
            except PylogError as error:
                return ShareOffsets(group_id, failure_of(error))
            return ShareOffsets(group_id, None, tuple(offsets))

        return await each_of([each.group_id for each in request], one)

    async def _offsets(self, request: DescribeOffsets) -> list[ShareOffset]:
        group_id = request.group_id
        known: Partitions = await self._call(
            group_id, lambda shard, number, _: shard.share.state_of(number, group_id)
        )
        names = request.partitions
        if names is None:
            found = ((self._image().topic_name(each.topic_id), each) for each in sorted(known))
            names = tuple(
                TopicPartition(name, each.partition) for name, each in found if name is not None
            )
        offsets: list[ShareOffset] = []
        for begin in range(0, len(names), AT_A_TIME):
            asked = (self._one(group_id, name, known) for name in names[begin : begin + AT_A_TIME])
            offsets += await asyncio.gather(*asked)
        return offsets

    async def _one(self, group_id: str, name: TopicPartition, known: Partitions) -> ShareOffset:
        try:
            found = self._found(name)
        except PylogError as error:
            return ShareOffset(name, failure_of(error))
        offset = ShareOffset(name, None, found.topic_id)
        if found not in known:
            return offset
        try:
            summary = await self._states.summary(group_id, found)
        except PylogError as error:
            return offset._replace(failure=failure_of(error))
        offset = offset._replace(
            start_offset=summary.start_offset, leader_epoch=summary.leader_epoch
        )
        if min(summary.start_offset, summary.delivery_complete_count) < 0:
            return offset
        try:
            end = await self._states.log_end(found)
        except PylogError:
            return offset  # the lag is not known while the partition has no leader
        lag = end - summary.start_offset - summary.delivery_complete_count
        # Below 0 the leader is so new that it does not know yet how far the log is committed.
        return offset._replace(lag=lag if lag >= 0 else UNKNOWN)

    async def alter(self, _context: RequestContext, request: AlterOffsets) -> list[ShareOffset]:
        """The outcome of each, in order. Raises InvalidGroupId, InvalidRequest, GroupIdNotFound,
        and NonEmptyGroup while the group has members, or where one has come meanwhile.

        A request that broke off may have altered some of them. The next one alters all, as it has
        a later state epoch.
        """
        group_id = request.group_id
        check_group_id(group_id)
        check_partitions(len(request.offsets))
        twice = named_twice(name for name, _ in request.offsets)
        if twice is not None:
            raise InvalidRequest(twice.message)
        answers: dict[TopicPartition, ShareOffset] = {}
        wanted: dict[TopicIdPartition, tuple[TopicPartition, int]] = {}
        for name, start in request.offsets:
            try:
                if start < 0:
                    raise InvalidRequest(f"{name}: start_offset={start} is below 0")
                wanted[self._found(name)] = name, start
            except PylogError as error:
                answers[name] = ShareOffset(name, failure_of(error))
        topics = {each: name.topic for each, (name, _) in wanted.items()}
        epoch: int = await self._call(
            group_id, lambda shard, number, _: shard.share.begin_anew(number, group_id, topics)
        )
        done: list[TopicIdPartition] = []
        for found, (name, start) in wanted.items():
            answers[name] = ShareOffset(name, None, found.topic_id, start)
            try:
                await self._states.initialize(group_id, (found,), epoch, start)
            except PylogError as error:
                answers[name] = ShareOffset(name, failure_of(error), found.topic_id)
            else:
                done.append(found)
        if done:
            made = frozenset(done)
            await self._call(
                group_id,
                lambda shard, number, _: shard.share.begun_anew(number, group_id, made, epoch),
            )
        return [answers[name] for name, _ in request.offsets]

    async def delete(
        self, _context: RequestContext, request: DeleteOffsets
    ) -> list[DeletedOffsets]:
        """The outcome of each topic, in order. Raises InvalidGroupId, InvalidRequest,
        GroupIdNotFound, and NonEmptyGroup while the group has members.

        All partitions of the topic lose their state, also those of which the group knows none: a
        request that broke off in the middle may have left it.
        """
        group_id = request.group_id
        check_group_id(group_id)
        check_items(len(request.topics), "topics")
        topics = self._image().topics_by_name
        ids = {name: topics[name].topic_id for name in request.topics if name in topics}
        known: Partitions = await self._call(
            group_id, lambda shard, number, _: shard.share.state_of(number, group_id)
        )
        wanted = frozenset(ids.values())
        there = {
            ids[name]: {TopicIdPartition(ids[name], each) for each in topics[name].partitions}
            for name in ids
        }
        for each in known:
            if each.topic_id in wanted:
                there[each.topic_id].add(each)
        await self._call(
            group_id, lambda shard, number, _: shard.share.forget_topics(number, group_id, wanted)
        )
        answers = []
        for name in request.topics:
            topic_id = ids.get(name)
            if topic_id is None:
                error = UnknownTopicOrPartition(f"there is no topic {name!r}")
                answers.append(DeletedOffsets(name, failure_of(error)))
                continue
            try:
                await self._states.delete(group_id, there[topic_id])
            except PylogError as error:
                answers.append(DeletedOffsets(name, failure_of(error), topic_id))
            else:
                answers.append(DeletedOffsets(name, None, topic_id))
        # Somebody may have joined before the state was gone.
        lost = frozenset().union(*there.values())
        await self._call(
            group_id, lambda shard, number, _: shard.share.state_lost(number, group_id, lost)
        )
        return answers

    def _found(self, name: TopicPartition) -> TopicIdPartition:
        topic = self._image().topics_by_name.get(name.topic)
        if topic is None or name.partition not in topic.partitions:
            raise UnknownTopicOrPartition(f"there is no {name}")
        return TopicIdPartition(topic.topic_id, name.partition)

    async def _call(self, group_id: str, operation: GroupOperation) -> Any:
        timeout_ms = self._commit_timeout_ms
        return await self._coordinators.call(group_id, operation, timeout_ms=timeout_ms)
