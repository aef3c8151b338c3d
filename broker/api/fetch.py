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
from pylog_broker.replication.effects import Effect
from pylog_broker.replication.fetch_messages import Fetch, PartitionData

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

Found = Callable[[Sequence[PartitionData]], None]


class _Fetching:
    """The replica manager's token of a fetch, called with the answers."""

    __slots__ = ("_context", "_counters", "_done", "_stands", "timed")

    def __init__(
        self,
        counters: RequestCounters,
        context: RequestContext,
        done: Found,
        stands: Found | None,
        came: float | None,
    ) -> None:
        self.timed = RequestTimes(came)
        self._counters = counters
        self._context = context
        self._done = done
        self._stands = stands

    def __call__(self, partitions: Sequence[PartitionData]) -> None:
        """The last answer."""
        self._answer(partitions, self._done)

    def stands(self, partitions: Sequence[PartitionData]) -> None:
        """An answer that others follow."""
        assert self._stands is not None
        answered = self._answer(partitions, self._stands)
        self.timed.go_on_from(answered)

    def _answer(self, partitions: Sequence[PartitionData], take: Found) -> float:
        counters, timed = self._counters, self.timed
        answered = timed.count(counters, "Fetch")
        for item in partitions:
            if item.failure is not None:
                counters.failed("Fetch", item.failure.code)
            elif item.records:
                counters.bytes_out.add(item.topic_partition.topic, len(item.records))
        take(partitions)
        counters.sent("Fetch", ticks() - answered)
        if request_log.is_on():
            failed = [item.failure.code for item in partitions if item.failure is not None]
            error = errors.from_code(failed[0]).name if failed else ""
            timed.tell("Fetch", self._context, answered, error)
        return answered


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

        Gives a token for `cancel`. `came`: when its last byte was there. Raises InvalidRequest when
        it asks for too much.
        """
        if len(request.partitions) > PARTITIONS_PER_REQUEST_MAX:
            check_partitions(len(request.partitions))
        token = _Fetching(self._counters, context, done, stands, came)
        request = fetch_by_name(request, self._topic_name)
        effects = self._manager.fetch(self._clock.monotonic_ms(), request, token)
        token.timed.handed_over = ticks()
        self._perform(effects)
        return token

    def cancel(self, token: object) -> None:
        """Nobody waits for that long poll any more: its place is free. `done` is not called."""
        self._manager.cancel(token)
