"""SplitRanges: how many bytes ranges of offsets have, and their pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.clock import Clock
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_partitions, named_twice
from pylog_broker.api.offsets import Perform, answered
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.range_messages import RangeAnswer, RangeQuery

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

PIECES_MAX: Final = 25
"""The most pieces of one range and request. A piece costs a read of some headers, and as many may
be cold."""
RANGES_AT_ONCE: Final = 32
"""The broker's loop does other work between so many: with all their pieces they take some
milliseconds."""


class RangesHandler:
    """Bytes of ranges. Lives on the broker's loop."""

    def __init__(self, manager: ReplicaManager, perform: Perform, clock: Clock) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock

    async def handle(
        self, _context: RequestContext, queries: Sequence[RangeQuery]
    ) -> Sequence[RangeAnswer]:
        """The answers, in the order of the queries; cancelled, nobody waits for them. Raises
        InvalidRequest for too many.
        """
        check_partitions(len(queries))
        twice = named_twice(query.topic_partition for query in queries)
        if twice is not None:
            return [RangeAnswer(query.topic_partition, twice) for query in queries]
        answers: list[RangeAnswer] = []
        for begin in range(0, len(queries), RANGES_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            answers += await self._some(queries[begin : begin + RANGES_AT_ONCE])
        return answers

    async def _some(self, queries: Sequence[RangeQuery]) -> list[RangeAnswer]:
        faults = {query.topic_partition: _fault(query) for query in queries}
        sound = [query for query in queries if faults[query.topic_partition] is None]
        manager, now_ms = self._manager, self._clock.monotonic_ms()
        found = await answered(
            manager, lambda done: self._perform(manager.split_ranges(now_ms, sound, done))
        )
        by_name = {answer.topic_partition: answer for answer in found}
        return [by_name.get(name) or RangeAnswer(name, fault) for name, fault in faults.items()]


def _fault(query: RangeQuery) -> Failure | None:
    if query.piece_bytes < 0:
        wrong = f"piece_bytes is {query.piece_bytes}; it must be 0 (no pieces) or more"
    elif not 0 <= query.pieces_max <= PIECES_MAX:
        wrong = f"pieces_max is {query.pieces_max}; it must be 0 to {PIECES_MAX}"
    else:
        return None
    return Failure(errors.InvalidRequest.code, f"{query.topic_partition}: {wrong}")
