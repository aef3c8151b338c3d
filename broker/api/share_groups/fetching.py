"""ShareFetch and ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from pylog.errors import InvalidRequest
from pylog_broker.api.context import RequestContext
from pylog_broker.api.groups.names import check_group_id, check_names
from pylog_broker.api.limits import check_partitions, named_twice
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.share.requests import (
    ShareAcknowledge,
    ShareAcknowledged,
    ShareFetch,
    ShareFetched,
    SharePartitionFetch,
)
from pylog_broker.share.sessions import LAST_EPOCH

ACKNOWLEDGEMENTS_MAX: Final = 100_000
"""Batches of acknowledgements in one request."""


class ShareLeader(Protocol):
    """The partitions that this broker leads, as share groups read them."""

    async def fetch(self, connection: str, request: ShareFetch) -> ShareFetched:
        """The records that a member has acquired."""

    async def acknowledge(self, connection: str, request: ShareAcknowledge) -> ShareAcknowledged:
        """The outcome of its acknowledgements."""


class ShareFetchingHandler:
    """Lives on the broker's loop."""

    def __init__(
        self,
        leader: ShareLeader,
        image: Callable[[], MetadataImage],
        counters: RequestCounters,
    ) -> None:
        self._leader = leader
        self._image = image
        self._counters = counters

    async def fetch(self, context: RequestContext, request: ShareFetch) -> ShareFetched:
        """The records that the member has acquired, and the outcome of its acknowledgements. Raises
        InvalidGroupId, InvalidRequest, ShareSessionNotFound, InvalidShareSessionEpoch and
        ShareSessionLimitReached.
        """
        _check(request.group_id, request.member_id, request.partitions)
        wanted = request.wanted
        acquires = request.session_epoch != LAST_EPOCH and not request.is_renew_ack
        if acquires and (wanted.max_records < 1 or wanted.batch_size < 1 or request.max_bytes < 1):
            raise InvalidRequest(
                f"max_records={wanted.max_records}, batch_size={wanted.batch_size}, "
                f"max_bytes={request.max_bytes}: a fetch that acquires has at least 1 of each"
            )
        check_partitions(len(request.forgotten))
        fetched = await self._leader.fetch(context.place, request)
        for item in fetched.partitions:
            if item.records:
                name = self._image().topic_name(item.topic_id) or ""
                self._counters.bytes_out.add(name, len(item.records))
        return fetched

    async def acknowledge(
        self, context: RequestContext, request: ShareAcknowledge
    ) -> ShareAcknowledged:
        """The outcome of the member's acknowledgements. Raises InvalidGroupId, InvalidRequest,
        ShareSessionNotFound and InvalidShareSessionEpoch.
        """
        _check(request.group_id, request.member_id, request.partitions)
        return await self._leader.acknowledge(context.place, request)


def _check(group_id: str, member_id: str, partitions: Iterable[SharePartitionFetch]) -> None:
    check_group_id(group_id)
    check_names(member_id=member_id)
    if not member_id:
        raise InvalidRequest("member_id is empty")
    named = [*partitions]
    check_partitions(len(named))
    twice = named_twice((each.topic_id, each.partition) for each in named)
    if twice is not None:
        raise InvalidRequest(twice.message)
    batches = sum(len(each.acknowledgements) for each in named)
    if batches > ACKNOWLEDGEMENTS_MAX:
        raise InvalidRequest(
            f"{batches} batches of acknowledgements in one request; the limit is "
            f"{ACKNOWLEDGEMENTS_MAX}"
        )
