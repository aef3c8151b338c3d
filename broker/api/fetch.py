"""Fetch: a consumer's long poll."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pylog import errors
from pylog.clock import Clock, ticks
from pylog_broker.api import request_log
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import PARTITIONS_PER_REQUEST_MAX, check_partitions
from pylog_broker.api.request_log import RequestTimes
from pylog_broker.api.topic_ids import TopicName, fetch_by_name
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.replication.messages import Effect, Fetch, PartitionData

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

Found = Callable[[Sequence[PartitionData]], None]


class _Fetching:
    """The replica manager's token of a fetch, called with the answers."""

    __slots__ = ("_began", "_count", "_done", "_stands")

    def __init__(
        self,
        count: Callable[[Sequence[PartitionData], float], None],
        done: Found,
        stands: Found | None,
    ) -> None:
        self._began = ticks()
        self._count = count
        self._done = done
        self._stands = stands

    def __call__(self, partitions: Sequence[PartitionData]) -> None:
        """The last answer."""
        self._count(partitions, ticks() - self._began)
        self._done(partitions)

    def stands(self, partitions: Sequence[PartitionData]) -> None:
        """An answer that others follow."""
        assert self._stands is not None
        now = ticks()
        self._count(partitions, now - self._began)
        self._began = now
        self._stands(partitions)


def _told(timed: RequestTimes, context: RequestContext, done: Found) -> Found:
    """`done`, and a line about it."""

    def told(partitions: Sequence[PartitionData]) -> None:
        answered = ticks()
        failed = [item.failure.code for item in partitions if item.failure is not None]
        done(partitions)
        timed.tell("Fetch", context, answered, errors.from_code(failed[0]).name if failed else "")

    return told


class FetchHandler:
    """Lives on the broker's loop. `answers`: what was found and clients have not taken, over all
    connections.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        perform: Callable[[Sequence[Effect]], None],
        clock: Clock,
        answers: AnswerMemory,
        counters: RequestCounters,
        topic_name: TopicName,
    ) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock
        self.answers = answers
        self._counters = counters
        self._topic_name = topic_name

    def handle(
        self,
        context: RequestContext,
        request: Fetch,
        done: Found,
        stands: Found | None = None,
        came: float | None = None,
    ) -> object:
        """Begin a long poll; `done` gets what it finds, maybe before this returns. `stands` gets
        each answer after which the fetch goes on; it is needed when the request is `standing`.

        Gives a token for `cancel`. `came`: for the request log. Raises InvalidRequest when it asks
        for too much.
        """
        if len(request.partitions) > PARTITIONS_PER_REQUEST_MAX:
            check_partitions(len(request.partitions))
        timed = request_log.times(came)
        if timed is not None:
            done = _told(timed, context, done)
            stands = stands and _told(timed, context, stands)
        request = fetch_by_name(request, self._topic_name)
        token = _Fetching(self._count, done, stands)
        effects = self._manager.fetch(self._clock.monotonic_ms(), request, token)
        if timed is not None:
            timed.handed_over = ticks()
        self._perform(effects)
        return token

    def cancel(self, token: object) -> None:
        """Nobody waits for that long poll any more: its place is free. `done` is not called."""
        self._manager.cancel(token)

    def _count(self, partitions: Sequence[PartitionData], seconds: float) -> None:
        counters = self._counters
        counters.answered("Fetch", seconds)
        for item in partitions:
            if item.failure is not None:
                counters.failed("Fetch", item.failure.code)
            elif item.records:
                counters.bytes_out.add(item.topic_partition.topic, len(item.records))
