"""Produce and fetch, shaped as calls with an answer later: what both edges for clients share.

Counts, bounds and hands over to the replica manager, in the order of arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.clock import Clock, ticks
from pylog.rpc.produce_wire import Request
from pylog.rpc.v1 import log_pb2
from pylog_broker.clients import wire
from pylog_broker.clients.answer_memory import AnswerMemory
from pylog_broker.clients.batch_checks import BatchChecks
from pylog_broker.clients.request_memory import RequestMemory
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.replication.messages import Effect, PartitionAck, PartitionData, Produce

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

PRODUCE_PIPELINE_MAX: Final = 64
"""Messages of one produce stream that wait for their answer; then its reading pauses."""
FOLLOWING_MAX: Final = 64
"""Requests behind the first one of a message."""
PARTITIONS_PER_REQUEST_MAX: Final = 20_000

_BATCH: Final = attrgetter("batch")

Perform = Callable[[Sequence[Effect]], None]
Produced = Callable[[bytes], None]
"""Takes a `ProduceResponse`."""
Unheard = Callable[[errors.PylogError], None]
"""Takes what a batch was refused with of which nobody awaits an answer (acks=0). As in Kafka its
connection ends then: else its producer would go on for ever to send to a broker that does not lead.
"""
Found = Callable[[Sequence[PartitionData]], None]
Acked = Callable[[Sequence[PartitionAck]], None]
Taken = list[tuple[Produce, Acked]]


class _Answers:
    """The answers to one message's requests; `done` gets them when the last one is there, and
    `unheard` the first refusal in each request that nobody hears of.
    """

    __slots__ = ("_answers", "_done", "_due", "_unheard")

    def __init__(self, count: int, done: Produced, unheard: Unheard) -> None:
        self._answers: list[bytes | None] = [None] * count
        self._due = count
        self._done = done
        self._unheard = unheard

    def put(self, index: int, request: Request, acks: Sequence[PartitionAck]) -> None:
        """Answer the request at `index`, once."""
        if request.acks:
            self._put(index, wire.produced(request.correlation, acks))
            return
        self._put(index, wire.produced(request.correlation, ()))
        for ack in acks:
            if ack.failure is not None:
                self._unheard(_unheard_error(ack.failure))
                return

    def _put(self, index: int, answer: bytes) -> None:
        if len(self._answers) == 1:
            self._done(answer)
            return
        assert self._answers[index] is None
        self._answers[index] = answer
        self._due -= 1
        if self._due:
            return
        self._done(wire.together([answer for answer in self._answers if answer is not None]))


class _Fetching:
    """Who waits for a fetch's answers: the replica manager's token."""

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


class ClientRequests:
    """Lives on the broker's loop. `memory` counts the batches whose answer is still due, so that
    slow replication refuses new ones instead of filling the memory; both memories are those of all
    connections together.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        perform: Perform,
        clock: Clock,
        *,
        checks: BatchChecks,
        memory: RequestMemory,
        answers: AnswerMemory,
        counters: RequestCounters,
    ) -> None:
        self._manager = manager
        self._perform = perform
        self._clock = clock
        self._checks = checks
        self.memory = memory
        self.answers = answers
        self.counters = counters

    @property
    def in_flight_bytes(self) -> int:
        """Of the batches whose answer is still due."""
        return self.memory.in_flight

    # ---- produce -------------------------------------------------------------------------------

    def produce(
        self, requests: Sequence[Request], done: Produced, unheard: Unheard
    ) -> asyncio.Task[None] | None:
        """Hand a message's requests over; `done` gets the answer, maybe before this returns, and
        `unheard` each refusal that no answer tells.

        Gives a task when their batches must be looked at in the pool first: until it is over
        nothing that came behind may be handed over. Cancelled, it hands nothing over and answers
        nothing. Raises InvalidRequest for a message that is no use.
        """
        _check_message(requests)
        answers = _Answers(len(requests), done, unheard)
        memory = self.memory
        taken: Taken = []
        taken_bytes = 0
        unchecked = False
        try:
            for index, request in enumerate(requests):
                produce = wire.produce_from(request)
                sizes = [*map(len, map(_BATCH, produce.batches))]
                size = sum(sizes)
                if memory.in_flight + size > memory.bytes_max and memory.in_flight:
                    answers.put(index, request, self._throttled(produce))
                    continue
                memory.handed_over(size)
                taken_bytes += size
                if self._checks.needed(produce):
                    looked = self._checks.at_once(produce)
                    unchecked = unchecked or looked is None
                    produce = looked or produce
                taken.append((produce, self._when_done(answers, index, request, sizes, size)))
        except BaseException:
            memory.answered(taken_bytes)
            raise
        if not unchecked:
            self._hand_over(taken)
            return None
        checking = asyncio.ensure_future(self._check_first(taken))

        def on_end(_: object) -> None:
            if taken:  # nobody waits any more, and nothing was appended
                memory.answered(taken_bytes)

        checking.add_done_callback(on_end)  # not in the task: cancelled early, it never runs
        return checking

    async def _check_first(self, taken: Taken) -> None:
        """Checks, hands over and empties `taken`."""
        for index, (produce, acked) in enumerate(taken):
            if self._checks.needed(produce) and not _is_checked(produce):
                taken[index] = (await self._checks.in_pool(produce), acked)
        checked = taken[:]
        taken.clear()
        self._hand_over(checked)

    def _hand_over(self, taken: Taken) -> None:
        if taken:
            clock = self._clock
            self._perform(self._manager.produce_all(clock.monotonic_ms(), clock.wall_ms(), taken))

    def _when_done(
        self, answers: _Answers, index: int, request: Request, sizes: list[int], size: int
    ) -> Acked:
        began = ticks()

        def done(acks: Sequence[PartitionAck]) -> None:
            self.memory.answered(size)
            self._count_produce(acks, sizes, ticks() - began)
            answers.put(index, request, acks)

        return done

    def _count_produce(
        self, acks: Sequence[PartitionAck], sizes: Sequence[int], seconds: float
    ) -> None:
        counters = self.counters
        counters.answered("Produce", seconds)
        for ack, size in zip(acks, sizes, strict=True):
            if ack.failure is None:
                counters.bytes_in.add(ack.topic_partition.topic, size)
            else:
                counters.failed("Produce", ack.failure.code)

    def _throttled(self, produce: Produce) -> Sequence[PartitionAck]:
        self.counters.failed("Produce", errors.ThrottlingQuotaExceeded.code)
        failure = Failure(
            errors.ThrottlingQuotaExceeded.code,
            f"{self.in_flight_bytes} bytes of batches wait for their acknowledgement on this "
            f"broker; the limit is {self.memory.bytes_max} (queued.max.request.bytes); retry",
        )
        return [PartitionAck(item.topic_partition, failure) for item in produce.batches]

    # ---- fetch ---------------------------------------------------------------------------------

    def fetch(
        self, request: log_pb2.FetchRequest, done: Found, stands: Found | None = None
    ) -> object:
        """Begin a long poll; `done` gets what it finds, maybe before this returns. `stands` gets
        each answer after which the fetch goes on; None: it is answered once.

        Gives a token for `cancel`. Raises InvalidRequest when it asks for too much.
        """
        if len(request.partitions) > PARTITIONS_PER_REQUEST_MAX:
            bound(len(request.partitions))
        token = _Fetching(self._count_fetch, done, stands)
        now_ms = self._clock.monotonic_ms()
        fetch = wire.fetch_from(request, may_stand=stands is not None)
        self._perform(self._manager.fetch(now_ms, fetch, token))
        return token

    def cancel(self, token: object) -> None:
        """Nobody waits for that long poll any more: its place is free. `done` is not called."""
        self._manager.cancel(token)

    def _count_fetch(self, partitions: Sequence[PartitionData], seconds: float) -> None:
        counters = self.counters
        counters.answered("Fetch", seconds)
        for item in partitions:
            if item.failure is not None:
                counters.failed("Fetch", item.failure.code)
            elif item.records:
                counters.bytes_out.add(item.topic_partition.topic, len(item.records))


def _unheard_error(failure: Failure) -> errors.PylogError:
    return errors.from_code(
        failure.code,
        f"{failure.message}; the batch is lost, as it was sent with acks=0, and so is what was on "
        f"its way behind it",
    )


def _is_checked(produce: Produce) -> bool:
    return any(item.checked is not None for item in produce.batches)


def _check_message(requests: Sequence[Request]) -> None:
    if len(requests) > 1 + FOLLOWING_MAX:
        raise errors.InvalidRequest(
            f"{len(requests) - 1} following requests in one message; the limit is {FOLLOWING_MAX}"
        )
    for request in requests:
        if len(request.items) > PARTITIONS_PER_REQUEST_MAX:
            bound(len(request.items))


def bound(partitions: int) -> None:
    """InvalidRequest when one request names more partitions than that."""
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{partitions} partitions in one request; the limit is {PARTITIONS_PER_REQUEST_MAX}"
        )
