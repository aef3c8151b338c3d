"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup and ConsumerGroupHeartbeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pylog.errors import InvalidRequest
from pylog.model import TopicId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import GroupCoordinators, GroupOperation
from pylog_broker.api.groups.names import (
    ASSIGNMENTS_BYTES_MAX,
    METADATA_BYTES_MAX,
    REASON_CHARS_MAX,
    STANDING_MS_MAX,
    STRATEGIES_MAX,
    check_group_id,
    check_names,
    check_size,
    check_topics,
)
from pylog_broker.api.limits import TOPICS_PER_REQUEST_MAX, check_items, check_partitions
from pylog_broker.coordinator.groups.classic.messages import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Left,
    Synced,
    SyncGroup,
)
from pylog_broker.coordinator.groups.consumer.messages import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
)
from pylog_broker.coordinator.groups.consumer.topics import TopicIdPartition
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, failure_of


class MemberLeft(NamedTuple):
    """The outcome of a member's departure. `instance_id`: as the request names it."""

    member_id: str
    instance_id: str | None
    failure: Failure | None = None


class HeartbeatAnswered(NamedTuple):
    """`topics`: names of the topics in it, where this broker knows them."""

    answer: ConsumerHeartbeatAnswer
    topics: Mapping[TopicId, str]


class MembersHandler:
    """Lives on the broker's loop. `new_id`: a text that nobody else has.

    A join and a sync wait as long as the other members of the group let them; all else is answered
    within `commit_timeout_ms`, or has REQUEST_TIMED_OUT.
    """

    def __init__(
        self,
        coordinators: GroupCoordinators,
        image: Callable[[], MetadataImage],
        new_id: Callable[[], str],
        *,
        commit_timeout_ms: int,
    ) -> None:
        self._coordinators = coordinators
        self._image = image
        self._new_id = new_id
        self._commit_timeout_ms = commit_timeout_ms

    async def join(self, context: RequestContext, request: JoinGroup) -> Joined:
        """The group's next generation, when it begins; or, with MEMBER_ID_REQUIRED, the id to join
        with. Raises InvalidGroupId, InvalidRequest, and what `ClassicProtocol.join` raises.
        """
        check_group_id(request.group_id)
        check_names(
            member_id=request.member_id,
            instance_id=request.instance_id,
            protocol_type=request.protocol_type,
        )
        if request.instance_id == "":  # all members that gave it would be one another's successors
            raise InvalidRequest("instance_id is empty: leave it out, or give each member its own")
        if len(request.protocols) > STRATEGIES_MAX:
            raise InvalidRequest(
                f"{len(request.protocols)} protocols; the limit is {STRATEGIES_MAX}"
            )
        for protocol in request.protocols:
            check_names(protocol=protocol.name)
        size = sum(len(protocol.metadata) for protocol in request.protocols)
        check_size("metadata of a member", size, METADATA_BYTES_MAX)
        client_id = context.client_id
        wanted = request._replace(
            client_id=client_id,
            client_host=context.address,
            # Kafka's form: an operator who lists a group sees the client of each member.
            new_member_id=f"{request.instance_id or client_id}-{self._new_id()}",
            reason=request.reason[:REASON_CHARS_MAX],
        )
        joined: Joined = await self._coordinators.call(
            request.group_id, lambda shard, number, wall_ms: shard.join(wall_ms, number, wanted)
        )
        return joined

    async def sync(self, _context: RequestContext, request: SyncGroup) -> Synced:
        """The member's assignment, when the leader has brought it. Raises InvalidGroupId,
        InvalidRequest, and what `ClassicProtocol.sync` raises.
        """
        check_group_id(request.group_id)
        check_names(
            member_id=request.member_id,
            instance_id=request.instance_id,
            protocol_type=request.protocol_type,
            protocol=request.protocol,
        )
        size = sum(len(each) for each in request.assignments.values())
        check_size("assignments", size, ASSIGNMENTS_BYTES_MAX)
        synced: Synced = await self._coordinators.call(
            request.group_id, lambda shard, number, wall_ms: shard.sync(wall_ms, number, request)
        )
        return synced

    async def heartbeat(self, _context: RequestContext, request: Heartbeat) -> None:
        """Returns when the member goes on as it is. Raises InvalidGroupId, InvalidRequest, and what
        `ClassicProtocol.heartbeat` raises.
        """
        check_group_id(request.group_id)
        check_names(member_id=request.member_id, instance_id=request.instance_id)
        await self._call(
            request.group_id,
            lambda shard, number, _wall_ms: shard.heartbeat(number, request),
            request.standing_ms,
        )

    async def leave(self, _context: RequestContext, request: LeaveGroup) -> list[MemberLeft]:
        """The outcome of each member, in the order of the request. Raises InvalidGroupId and
        InvalidRequest.
        """
        check_group_id(request.group_id)
        check_items(len(request.members), "members")
        for member in request.members:
            check_names(member_id=member.member_id, instance_id=member.instance_id)
        left: Left = await self._call(
            request.group_id, lambda shard, number, wall_ms: shard.leave(wall_ms, number, request)
        )
        return [
            MemberLeft(member.member_id, member.instance_id, failure_of(error))
            for member, error in left.members
        ]

    async def consumer_heartbeat(
        self, context: RequestContext, request: ConsumerHeartbeat
    ) -> HeartbeatAnswered:
        """The member's identity, epoch and assignment from now on. Raises InvalidGroupId,
        InvalidRequest, InvalidTopic, and what `ConsumerProtocol.heartbeat` raises.
        """
        self._check(request)
        wanted = request._replace(
            client_id=context.client_id,
            client_host=context.address,
            new_member_id="" if request.member_id else self._new_id(),
        )
        answer: ConsumerHeartbeatAnswer = await self._call(
            request.group_id,
            lambda shard, number, _wall_ms: shard.consumer_heartbeat(number, wanted),
            request.standing_ms,
        )
        return HeartbeatAnswered(answer, topics_in(self._image(), answer.assigned or ()))

    def _check(self, request: ConsumerHeartbeat) -> None:
        if not request.group_id:
            raise InvalidRequest("group_id is empty")  # Kafka's code for it in this request
        check_group_id(request.group_id)
        check_names(
            member_id=request.member_id,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            server_assignor=request.server_assignor,
            subscribed_topic_regex=request.subscribed_regex,
        )
        names = request.subscribed_names or ()
        if len(names) > TOPICS_PER_REQUEST_MAX:
            raise InvalidRequest(
                f"{len(names)} topics in one request; the limit is {TOPICS_PER_REQUEST_MAX}"
            )
        check_topics(names)
        check_partitions(len(request.owned or ()))

    async def _call(self, group_id: str, operation: GroupOperation, standing_ms: int = 0) -> Any:
        timeout_ms = self._commit_timeout_ms + min(max(standing_ms, 0), STANDING_MS_MAX)
        return await self._coordinators.call(group_id, operation, timeout_ms=timeout_ms)


def topics_in(image: MetadataImage, partitions: Iterable[TopicIdPartition]) -> dict[TopicId, str]:
    """The names of their topics, of those that exist."""
    found = {each.topic_id for each in partitions}
    return {topic_id: name for topic_id in found if (name := image.topic_name(topic_id))}
