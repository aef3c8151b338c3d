"""LeaseReads: ranges that readers hold while they read them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.clock import Clock
from pylog.config import INT_MAX, LONG_MAX
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_partitions, named_twice
from pylog_broker.replication.range_messages import LeaseReads, PartitionLease, ReadsLeased

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

HOLDER_CHARS_MAX: Final = 128
LEASES_AT_ONCE: Final = 200
"""The broker's loop does other work between so many, which take it a millisecond or two."""


class LeasedReadsHandler:
    """Read leases. Lives on the broker's loop."""

    def __init__(self, manager: ReplicaManager, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock

    async def handle(self, context: RequestContext, request: LeaseReads) -> ReadsLeased:
        """The leases' time, and those that are refused. Raises InvalidRequest for a request that
        is none.
        """
        check_partitions(len(request.partitions))
        if not 0 < len(request.holder) <= HOLDER_CHARS_MAX:
            raise errors.InvalidRequest(
                f"holder has {len(request.holder)} characters; it must have 1 to {HOLDER_CHARS_MAX}"
            )
        if not 0 <= request.timeout_ms <= INT_MAX:
            raise errors.InvalidRequest(
                f"timeout_ms is {request.timeout_ms}; it must be 0 (as long as the broker gives) "
                "or more"
            )
        twice = named_twice(each.topic_partition for each in request.partitions)
        if twice is not None:
            raise errors.InvalidRequest(twice.message)
        for each in request.partitions:
            _check_range(each)
        answer = self._some(context, request, 0)
        for begin in range(LEASES_AT_ONCE, len(request.partitions), LEASES_AT_ONCE):
            await asyncio.sleep(0)
            more = self._some(context, request, begin)
            answer = ReadsLeased(more.timeout_ms, (*answer.refused, *more.refused))
        return answer

    def _some(self, context: RequestContext, request: LeaseReads, begin: int) -> ReadsLeased:
        """The first ones take the place of what the holder has, if they are to; the others come
        beside them.
        """
        some = LeaseReads(
            request.holder,
            context.address,
            request.partitions[begin : begin + LEASES_AT_ONCE],
            request.timeout_ms,
            request.renews or begin > 0,
        )
        return self._manager.lease_reads(self._clock.monotonic_ms(), some)


def _check_range(wanted: PartitionLease) -> None:
    if not 0 <= wanted.start <= wanted.end <= LONG_MAX:
        raise errors.InvalidRequest(
            f"{wanted.topic_partition}: a range from offset {wanted.start} to {wanted.end} cannot "
            "be held; it must begin at 0 or later, and not behind its end"
        )
