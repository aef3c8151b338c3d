"""ListGroups, DescribeGroups, ConsumerGroupDescribe and DeleteGroups."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from pylog.errors import InvalidRequest, PylogError
from pylog.model import TopicId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import GroupCoordinators, GroupOperation, ShareGroupStates
from pylog_broker.api.groups.members import topics_in
from pylog_broker.api.groups.names import check_group_id
from pylog_broker.api.limits import check_items
from pylog_broker.coordinator.groups.consumer.messages import DescribedConsumerGroup
from pylog_broker.coordinator.groups.consumer.topics import NO_PARTITIONS, Partitions
from pylog_broker.coordinator.groups.group import GroupType
from pylog_broker.coordinator.groups.messages import (
    DeleteGroups,
    DescribedGroup,
    GroupsDeleted,
    ListedGroup,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, failure_of

AnswerT = TypeVar("AnswerT")

STATES: Final = (
    "Assigning",
    "CompletingRebalance",
    "Dead",
    "Empty",
    "NotReady",
    "PreparingRebalance",
    "Reconciling",
    "Stable",
)
"""The states of groups of all types, by Kafka's names."""
TYPES: Final = tuple(sorted(each.value for each in GroupType))
FILTERS_MAX: Final = 100
AT_A_TIME: Final = 500
"""Groups of one request that are asked for together; the others wait for these."""


class ListGroups(NamedTuple):
    """Groups in one of these states, and of one of these types, in any case; empty: all."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class DescribedClassic(NamedTuple):
    """A group by its name, or why it is not described."""

    group_id: str
    failure: Failure | None = None
    described: DescribedGroup | None = None


class DescribedModern(NamedTuple):
    """Likewise, of the consumer protocol. `topics`: names of the topics that its members read,
    where this broker knows them.
    """

    group_id: str
    failure: Failure | None = None
    described: DescribedConsumerGroup | None = None
    topics: Mapping[TopicId, str] = MappingProxyType({})


class DeletedGroup(NamedTuple):
    """The outcome of the deletion of a group."""

    group_id: str
    failure: Failure | None = None


class GroupAdminHandler:
    """Lives on the broker's loop. All raise InvalidRequest for too many groups. A group that is
    named more than once is in the answer once.
    """

    def __init__(
        self,
        coordinators: GroupCoordinators,
        image: Callable[[], MetadataImage],
        share_states: ShareGroupStates | None = None,
        *,
        commit_timeout_ms: int,
    ) -> None:
        self._share_states = share_states
        self._coordinators = coordinators
        self._image = image
        self._commit_timeout_ms = commit_timeout_ms

    async def list_groups(self, _context: RequestContext, request: ListGroups) -> list[ListedGroup]:
        """The groups that this broker coordinates. Raises InvalidRequest for a state or type that
        no group has, and CoordinatorLoadInProgress.
        """
        states = _among("state", request.states, STATES)
        types = _among("type", request.types, TYPES)
        listed: list[list[ListedGroup]] = await self._coordinators.call_all(
            lambda shard, number, _wall_ms: shard.list_groups(number)
        )
        return [
            group
            for group in chain.from_iterable(listed)
            if group.state in states and group.type.value in types
        ]

    async def describe(
        self, _context: RequestContext, group_ids: Sequence[str]
    ) -> list[DescribedClassic]:
        """Groups of the classic protocol; each with its own failure, GROUP_ID_NOT_FOUND where there
        is none of that protocol.
        """

        async def one(group_id: str) -> DescribedClassic:
            try:
                check_group_id(group_id, may_be_empty=True)
                described = await self._call(
                    group_id, lambda shard, number, _: shard.describe_classic(number, group_id)
                )
            except PylogError as error:
                return DescribedClassic(group_id, failure_of(error))
            return DescribedClassic(group_id, None, described)

        return await each_of(group_ids, one)

    async def describe_consumer(
        self, _context: RequestContext, group_ids: Sequence[str]
    ) -> list[DescribedModern]:
        """Groups of the consumer protocol; each with its own failure, GROUP_ID_NOT_FOUND where
        there is none of that protocol.
        """

        async def one(group_id: str) -> DescribedModern:
            try:
                check_group_id(group_id)
                found: DescribedConsumerGroup = await self._call(
                    group_id, lambda shard, number, _: shard.describe_consumer(number, group_id)
                )
            except PylogError as error:
                return DescribedModern(group_id, failure_of(error))
            read = chain.from_iterable((*each.assigned, *each.target) for each in found.members)
            return DescribedModern(group_id, None, found, topics_in(self._image(), read))

        return await each_of(group_ids, one)

    async def delete_groups(
        self, _context: RequestContext, group_ids: Sequence[str]
    ) -> list[DeletedGroup]:
        """The outcome of each group."""

        async def one(group_id: str) -> DeletedGroup:
            try:
                check_group_id(group_id, may_be_empty=True)
                gone = await self._delete_state(group_id)
                deleted: GroupsDeleted = await self._call(
                    group_id,
                    lambda shard, number, _: shard.delete_groups(number, DeleteGroups((group_id,))),
                )
            except PylogError as error:
                return DeletedGroup(group_id, failure_of(error))
            failure = failure_of(deleted.groups[group_id])
            if failure is not None and gone:
                await self._state_lost(group_id, gone)
            return DeletedGroup(group_id, failure)

        return await each_of(group_ids, one)

    async def _delete_state(self, group_id: str) -> Partitions:
        """A share group has state elsewhere, which goes first; of these partitions."""
        if self._share_states is None:
            return NO_PARTITIONS
        partitions: Partitions = await self._call(
            group_id, lambda shard, number, _: shard.share_state_to_delete(number, group_id)
        )
        if partitions:
            await self._share_states.delete(group_id, partitions)
        return partitions

    async def _state_lost(self, group_id: str, partitions: Partitions) -> None:
        """The group is there yet: somebody has joined it meanwhile."""
        with contextlib.suppress(PylogError):
            await self._call(
                group_id,
                lambda shard, number, _: shard.share.state_lost(number, group_id, partitions),
            )

    async def _call(self, group_id: str, operation: GroupOperation) -> Any:
        timeout_ms = self._commit_timeout_ms
        return await self._coordinators.call(group_id, operation, timeout_ms=timeout_ms)


async def each_of(
    group_ids: Iterable[str], one: Callable[[str], Awaitable[AnswerT]]
) -> list[AnswerT]:
    """The answer of `one` for each group, a few at a time; a group that is named twice is asked for
    once. Raises InvalidRequest for too many.
    """
    wanted = [*dict.fromkeys(group_ids)]
    check_items(len(wanted), "groups")
    answers: list[AnswerT] = []
    for begin in range(0, len(wanted), AT_A_TIME):
        answers += await asyncio.gather(*map(one, wanted[begin : begin + AT_A_TIME]))
    return answers


def _among(what: str, asked: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    if not asked:
        return frozenset(known)
    if len(asked) > FILTERS_MAX:
        raise InvalidRequest(f"{len(asked)} {what}s in one request; the limit is {FILTERS_MAX}")
    by_lower = {name.lower(): name for name in known}
    for name in asked:
        if name.lower() not in by_lower:
            raise InvalidRequest(
                f"no group has the {what} {name[:80]!r}; it is one of {', '.join(known)}"
            )
    return frozenset(by_lower[name.lower()] for name in asked)
