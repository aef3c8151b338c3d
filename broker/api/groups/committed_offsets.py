"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pylog.errors import (
    InvalidCommitOffsetSize,
    PylogError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pylog.model import ZERO_TOPIC_ID, TopicPartition
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import GroupCoordinators, GroupOperation
from pylog_broker.api.groups.names import check_group_id, check_names
from pylog_broker.api.limits import check_partitions
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsFetched,
)
from pylog_broker.coordinator.runtime.decision import Decision, RequestId
from pylog_broker.metadata.image import MetadataImage

Commit = Callable[[GroupCoordinator, RequestId, int, OffsetCommit], Decision]
"""Decides a commit on a shard, at that time of day (ms)."""


class CommitOffsets(NamedTuple):
    """A commit, and how long it may wait for other replicas; 0: as long as the broker allows."""

    commit: OffsetCommit
    timeout_ms: int = 0


class CommittedOffsetsHandler:
    """Lives on the broker's loop. `commit_timeout_ms`: the longest that anything waits for other
    replicas.
    """

    def __init__(
        self,
        coordinators: GroupCoordinators,
        image: Callable[[], MetadataImage],
        *,
        commit_timeout_ms: int,
    ) -> None:
        self._coordinators = coordinators
        self._image = image
        self._commit_timeout_ms = commit_timeout_ms

    async def commit(self, _context: RequestContext, request: CommitOffsets) -> OffsetsCommitted:
        """The outcome of each partition, in the order of the request. No position of a topic that
        does not exist is stored.

        Raises InvalidGroupId, InvalidRequest, and what `GroupCoordinator.commit_offsets` raises.
        """
        return await self.commit_by(_context, request, _plain)

    async def commit_by(
        self, _context: RequestContext, request: CommitOffsets, decide: Commit
    ) -> OffsetsCommitted:
        """The same, as `decide` has it."""
        wanted = request.commit
        check_group_id(wanted.group_id)
        _check_caller(wanted.caller)
        check_partitions(len(wanted.offsets))
        faults: dict[TopicPartition, PylogError | None] = {}
        offsets = {}
        for partition, committed in wanted.offsets.items():
            faults[partition] = fault = self._fault(partition, committed)
            if fault is None:
                offsets[partition] = committed
        if faults and not offsets:
            return OffsetsCommitted(faults)
        asked = wanted._replace(offsets=offsets)
        most_ms = self._commit_timeout_ms
        given: OffsetsCommitted = await self._coordinators.call(
            asked.group_id,
            lambda shard, number, wall_ms: decide(shard, number, wall_ms, asked),
            timeout_ms=min(request.timeout_ms, most_ms) if request.timeout_ms > 0 else most_ms,
        )
        return OffsetsCommitted(faults | given.partitions)

    def _fault(self, partition: TopicPartition, committed: CommittedOffset) -> PylogError | None:
        topic = self._image().topics_by_name.get(partition.topic)
        if topic is None:
            return UnknownTopicOrPartition(f"topic {partition.topic} does not exist")
        if partition.partition not in topic.partitions:
            return UnknownTopicOrPartition(
                f"topic {partition.topic} has {len(topic.partitions)} partitions, and none with "
                f"the number {partition.partition}"
            )
        if committed.topic_id not in (ZERO_TOPIC_ID, topic.topic_id):
            return UnknownTopicId(
                f"topic {partition.topic} has the id {topic.topic_id}: one with another id is gone"
            )
        if committed.offset < 0:
            return InvalidCommitOffsetSize(
                f"{partition}: offset={committed.offset} is below 0; a position is the offset of "
                "the next record to read"
            )
        return None

    async def fetch(self, _context: RequestContext, request: OffsetFetch) -> OffsetsFetched:
        """Each partition's position. One in a topic that was made anew since is none: its group may
        have had no coordinator that could forget it when the topic went.

        Raises InvalidGroupId, InvalidRequest, and what `GroupCoordinator.fetch_offsets` raises.
        """
        check_group_id(request.group_id, may_be_empty=True)
        _check_caller(request.caller)
        check_partitions(len(request.partitions or ()))
        fetched: OffsetsFetched = await self._call(
            request.group_id, lambda shard, number, _wall_ms: shard.fetch_offsets(number, request)
        )
        found = fetched.partitions
        outdated = [tp for tp, committed in found.items() if self._is_outdated(tp, committed)]
        if not outdated:
            return fetched
        if request.partitions is None:
            gone = set(outdated)
            return OffsetsFetched({tp: one for tp, one in found.items() if tp not in gone})
        return OffsetsFetched(found | dict.fromkeys(outdated))

    def _is_outdated(
        self, partition: TopicPartition, committed: CommittedOffset | PylogError | None
    ) -> bool:
        if not isinstance(committed, CommittedOffset) or committed.topic_id == ZERO_TOPIC_ID:
            return False
        topic = self._image().topics_by_name.get(partition.topic)
        return topic is not None and topic.topic_id != committed.topic_id

    async def delete(self, _context: RequestContext, request: OffsetDelete) -> OffsetsDeleted:
        """The outcome of each partition, in the order of the request. Raises InvalidGroupId,
        InvalidRequest, and what `GroupCoordinator.delete_offsets` raises.
        """
        check_group_id(request.group_id)
        check_partitions(len(request.partitions))
        topics = self._image().topics_by_name
        faults: dict[TopicPartition, PylogError | None] = {
            partition: None
            if partition.topic in topics
            else UnknownTopicOrPartition(f"topic {partition.topic} does not exist")
            for partition in request.partitions
        }
        there = tuple(partition for partition, fault in faults.items() if fault is None)
        asked = request._replace(partitions=there)
        deleted: OffsetsDeleted = await self._call(
            request.group_id, lambda shard, number, _wall_ms: shard.delete_offsets(number, asked)
        )
        return OffsetsDeleted(faults | deleted.partitions)

    async def _call(self, group_id: str, operation: GroupOperation) -> Any:
        timeout_ms = self._commit_timeout_ms
        return await self._coordinators.call(group_id, operation, timeout_ms=timeout_ms)


def _plain(
    shard: GroupCoordinator, number: RequestId, wall_ms: int, asked: OffsetCommit
) -> Decision:
    return shard.commit_offsets(wall_ms, number, asked)


def _check_caller(caller: Caller) -> None:
    check_names(member_id=caller.member_id, instance_id=caller.instance_id)
