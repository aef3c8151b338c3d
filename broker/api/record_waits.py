"""AwaitRecords: an answer when so many records have come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.clock import Clock
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_partitions, named_twice
from pylog_broker.api.offsets import Perform, answered
from pylog_broker.replication.range_messages import RecordWait, WaitEnd

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

WAIT_MS_MAX: Final = 60_000
"""A client that wants to wait longer asks again: a lost connection would else be noticed late."""


class RecordWaitHandler:
    """Waits for records. Lives on the broker's loop."""

    def __init__(self, manager: ReplicaManager, perform: Perform, clock: Clock) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock

    async def handle(self, _context: RequestContext, request: RecordWait) -> Sequence[WaitEnd]:
        """The ends of the partitions once there are enough records, or the wait is over. A call
        that is cancelled ends its wait. Raises InvalidRequest for too many partitions, and for
        `min_records` or `max_wait_ms` out of bounds.
        """
        check_partitions(len(request.partitions))
        if request.min_records < 1:
            raise errors.InvalidRequest(
                f"min_records is {request.min_records}; it must be 1 at least"
            )
        if not 0 <= request.max_wait_ms <= WAIT_MS_MAX:
            raise errors.InvalidRequest(
                f"max_wait_ms is {request.max_wait_ms}; it must be 0 to {WAIT_MS_MAX}"
            )
        twice = named_twice(item.topic_partition for item in request.partitions)
        if twice is not None:
            return [WaitEnd(item.topic_partition, twice) for item in request.partitions]
        manager, now_ms = self._manager, self._clock.monotonic_ms()
        return await answered(
            manager, lambda done: self._perform(manager.await_records(now_ms, request, done))
        )
