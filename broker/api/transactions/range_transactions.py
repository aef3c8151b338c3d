"""DescribeTransactionsInRange: the transactions that have records in ranges of offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.clock import Clock
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_partitions, named_twice
from pylog_broker.api.offsets import Perform, answered
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.range_messages import RangeTransactionsAnswer, RangeTransactionsQuery

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

NAMED_MAX: Final = 10_000
"""The most transactions that one request may name."""
SPANS_MAX: Final = 20_000
"""Transactions that an answer tells of, about, all partitions together: half a megabyte. A
partition has its share, but 10 at least. Open ones come on top: a partition has at most
`max.producer.ids.per.partition`."""
HEADERS_MAX: Final = 2_000
"""Batches whose headers are read for one request, about: 50 ms. A partition has its share, but 50
at least, and 250 at most."""
HEADERS_AT_ONCE: Final = 500
"""The broker's loop does other work between so many, which take 10 ms."""


class RangeTransactionsHandler:
    """Transactions of ranges. Lives on the broker's loop."""

    def __init__(self, manager: ReplicaManager, perform: Perform, clock: Clock) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock

    async def handle(
        self, _context: RequestContext, queries: Sequence[RangeTransactionsQuery]
    ) -> Sequence[RangeTransactionsAnswer]:
        """The answers, in the order of the queries; cancelled, nobody waits for them. Raises
        InvalidRequest for too many partitions or names.
        """
        check_partitions(len(queries))
        named = queries[0].named if queries else None
        if named is not None and len(named) > NAMED_MAX:
            raise errors.InvalidRequest(
                f"{len(named)} transactions are named in one request; the limit is {NAMED_MAX}"
            )
        twice = named_twice(query.topic_partition for query in queries)
        if twice is not None:
            return [RangeTransactionsAnswer(query.topic_partition, twice) for query in queries]
        count = max(1, len(queries))
        spans_max = min(1_000, max(10, SPANS_MAX // count))
        headers_max = min(250, max(50, HEADERS_MAX // count))
        at_once = HEADERS_AT_ONCE // headers_max
        answers: list[RangeTransactionsAnswer] = []
        for begin in range(0, len(queries), at_once):
            if begin:
                await asyncio.sleep(0)
            answers += await self._some(
                [
                    replace(query, spans_max=spans_max, headers_max=headers_max)
                    for query in queries[begin : begin + at_once]
                ]
            )
        return answers

    async def _some(
        self, queries: Sequence[RangeTransactionsQuery]
    ) -> list[RangeTransactionsAnswer]:
        faults = {query.topic_partition: _fault(query) for query in queries}
        sound = [query for query in queries if faults[query.topic_partition] is None]
        manager, now_ms = self._manager, self._clock.monotonic_ms()
        found = await answered(
            manager, lambda done: self._perform(manager.describe_transactions(now_ms, sound, done))
        )
        by_name = {answer.topic_partition: answer for answer in found}
        return [
            by_name.get(name) or RangeTransactionsAnswer(name, fault)
            for name, fault in faults.items()
        ]


def _fault(query: RangeTransactionsQuery) -> Failure | None:
    if query.start < 0:
        wrong = f"start_offset is {query.start}; it must be 0 or more"
    elif query.end < -1:
        wrong = f"end_offset is {query.end}; it must be 0 or more, or -1 for the end of the log"
    else:
        return None
    return Failure(errors.InvalidRequest.code, f"{query.topic_partition}: {wrong}")
