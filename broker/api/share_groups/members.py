"""ShareGroupHeartbeat and ShareGroupDescribe."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pylog.errors import InvalidRequest, PylogError
from pylog.model import TopicId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import GroupCoordinators, GroupOperation, ShareGroupStates
from pylog_broker.api.groups.group_admin import each_of
from pylog_broker.api.groups.members import topics_in
from pylog_broker.api.groups.names import (
    STANDING_MS_MAX,
    check_group_id,
    check_names,
    check_topics,
)
from pylog_broker.api.limits import TOPICS_PER_REQUEST_MAX
from pylog_broker.coordinator.groups.consumer.topics import Partitions
from pylog_broker.coordinator.groups.share.messages import (
    DescribedShareGroup,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, failure_of

INITIALIZE_SECONDS_MAX: Final = 5.0
"""So long a heartbeat waits for the state of partitions; it is made all the same."""

_log = logging.getLogger("pylog.share")


class ShareHeartbeatAnswered(NamedTuple):
    """`topics`: names of the topics in it, where this broker knows them."""

    answer: ShareHeartbeatAnswer
    topics: Mapping[TopicId, str]


class DescribedShare(NamedTuple):
    """A group by its name, or why it is not described."""

    group_id: str
    failure: Failure | None = None
    described: DescribedShareGroup | None = None
    topics: Mapping[TopicId, str] = MappingProxyType({})


class ShareMembersHandler:
    """Lives on the broker's loop. `new_id`: a text that nobody else has."""

    def __init__(
        self,
        coordinators: GroupCoordinators,
        states: ShareGroupStates,
        image: Callable[[], MetadataImage],
        new_id: Callable[[], str],
        *,
        commit_timeout_ms: int,
    ) -> None:
        self._coordinators = coordinators
        self._states = states
        self._image = image
        self._new_id = new_id
        self._commit_timeout_ms = commit_timeout_ms
        self._initializing: set[asyncio.Task[None]] = set()

    async def heartbeat(
        self, context: RequestContext, request: ShareHeartbeat
    ) -> ShareHeartbeatAnswered:
        """The member's identity, epoch and assignment from now on. Where the member subscribes to
        partitions of which the group has no state yet, that is made first. Raises InvalidGroupId,
        InvalidRequest, InvalidTopic, and what `ShareProtocol.heartbeat` raises.
        """
        _check(request)
        wanted = request._replace(
            client_id=context.client_id,
            client_host=context.address,
            new_member_id="" if request.member_id else self._new_id(),
        )
        answer = await self._heartbeat(wanted)
        if answer.to_initialize and await self._initialized(request.group_id, answer):
            # That has changed the group: the member hears of it with this answer.
            again = wanted._replace(
                member_id=answer.member_id,
                member_epoch=answer.member_epoch,
                subscribed_names=None,
                new_member_id="",
                standing_ms=0,
            )
            later = await self._heartbeat(again)
            answer = later if later.assigned is not None else answer
        return ShareHeartbeatAnswered(answer, topics_in(self._image(), answer.assigned or ()))

    async def _heartbeat(self, request: ShareHeartbeat) -> ShareHeartbeatAnswer:
        answer: ShareHeartbeatAnswer = await self._call(
            request.group_id,
            lambda shard, number, _wall_ms: shard.share_heartbeat(number, request),
            request.standing_ms,
        )
        return answer

    async def _initialized(self, group_id: str, answer: ShareHeartbeatAnswer) -> bool:
        """Whether there is state of those partitions soon."""
        work = self._initialize(group_id, answer.to_initialize, answer.member_epoch)
        task = asyncio.get_running_loop().create_task(work)
        self._initializing.add(task)
        task.add_done_callback(self._initializing.discard)
        done, _ = await asyncio.wait((task,), timeout=INITIALIZE_SECONDS_MAX)
        return bool(done)

    async def _initialize(self, group_id: str, partitions: Partitions, state_epoch: int) -> None:
        """Have the state made, and tell the group; or, that it was not. The next heartbeat asks for
        it again then.
        """
        try:
            await self._states.initialize(group_id, partitions, state_epoch)
        except PylogError as error:
            _log.warning("share group %s: its state cannot be made yet: %s", group_id, error)
            made = False
        else:
            made = True
        try:
            await self._call(
                group_id,
                lambda shard, number, _wall_ms: (
                    shard.share.state_initialized(number, group_id, partitions)
                    if made
                    else shard.share.state_not_initialized(number, group_id, partitions)
                ),
            )
        except PylogError as error:
            _log.info("share group %s: %s", group_id, error)

    async def describe(
        self, _context: RequestContext, group_ids: Sequence[str]
    ) -> list[DescribedShare]:
        """Share groups; each with its own failure, GROUP_ID_NOT_FOUND where there is none of that
        type.
        """

        async def one(group_id: str) -> DescribedShare:
            try:
                check_group_id(group_id)
                found: DescribedShareGroup = await self._call(
                    group_id, lambda shard, number, _: shard.describe_share(number, group_id)
                )
            except PylogError as error:
                return DescribedShare(group_id, failure_of(error))
            read = chain.from_iterable(each.assigned for each in found.members)
            return DescribedShare(group_id, None, found, topics_in(self._image(), read))

        return await each_of(group_ids, one)

    async def _call(self, group_id: str, operation: GroupOperation, standing_ms: int = 0) -> Any:
        timeout_ms = self._commit_timeout_ms + min(max(standing_ms, 0), STANDING_MS_MAX)
        return await self._coordinators.call(group_id, operation, timeout_ms=timeout_ms)

    def stop(self) -> None:
        """No state is made any more."""
        for task in self._initializing:
            task.cancel()


def _check(request: ShareHeartbeat) -> None:
    if not request.group_id:
        raise InvalidRequest("group_id is empty")  # Kafka's code for it in this request
    check_group_id(request.group_id)
    check_names(member_id=request.member_id, rack_id=request.rack_id)
    names = request.subscribed_names or ()
    if len(names) > TOPICS_PER_REQUEST_MAX:
        raise InvalidRequest(
            f"{len(names)} topics in one request; the limit is {TOPICS_PER_REQUEST_MAX}"
        )
    check_topics(names)
