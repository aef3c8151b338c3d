"""Produce: counted, bounded, checked where it is compressed, and handed over in the order of
arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.clock import Clock, ticks
from pylog_broker.api import request_log
from pylog_broker.api.batch_checks import BatchChecks
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import PARTITIONS_PER_REQUEST_MAX, check_partitions
from pylog_broker.api.request_log import RequestTimes
from pylog_broker.api.request_memory import RequestMemory
from pylog_broker.api.topic_ids import TopicName, produce_by_name
from pylog_broker.api.transactions.verification import BatchVerification
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.replication.effects import Effect
from pylog_broker.replication.produce_messages import PartitionAck, Produce
from pylog_broker.replication.transactions import Unverified

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

PRODUCE_PIPELINE_MAX: Final = 64
"""Messages of one connection that wait for their answer; then its reading pauses."""
FOLLOWING_MAX: Final = 64
"""Requests behind the first one of a message."""

_BATCH: Final = attrgetter("batch")

Answers = Sequence[Sequence[PartitionAck]]
"""The answers to the requests of one message, in their order; empty for one that wants no acks."""
Produced = Callable[[Answers], None]
Unheard = Callable[[errors.PylogError], None]
"""Takes what a batch was refused with of which nobody awaits an answer (acks=0). As in Kafka its
connection ends then: else its producer would go on for ever to send to a broker that does not lead.
"""
Acked = Callable[[Sequence[PartitionAck]], None]
Taken = list[tuple[Produce, Acked]]

_NO_ACKS: Final[Sequence[PartitionAck]] = ()


class _Answers:
    """The answers to one message's requests; `done` gets them when the last one is there, and
    `unheard` the first refusal in each request that nobody hears of.
    """

    __slots__ = ("_answers", "_done", "_due", "_unheard")

    def __init__(self, count: int, done: Produced, unheard: Unheard) -> None:
        self._answers: list[Sequence[PartitionAck]] = [_NO_ACKS] * count
        self._due = count
        self._done = done
        self._unheard = unheard

    def put(self, index: int, request: Produce, acks: Sequence[PartitionAck]) -> None:
        """Answer the request at `index`, once."""
        self._due -= 1
        if request.acks:
            self._answers[index] = acks
        if not self._due:
            self._done(self._answers)
        if request.acks:
            return
        for ack in acks:
            if ack.failure is not None:
                self._unheard(_unheard_error(ack.failure))
                return


class ProduceHandler:
    """Lives on the broker's loop. `memory` counts the batches whose answer is still due, over all
    connections, so that slow replication refuses new ones instead of filling the memory.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        perform: Callable[[Sequence[Effect]], None],
        clock: Clock,
        *,
        checks: BatchChecks,
        memory: RequestMemory,
        counters: RequestCounters,
        topic_name: TopicName,
        verification: BatchVerification | None = None,
    ) -> None:
        """`verification`: of what opens a transaction; without it nothing may."""
        self._manager = manager
        self._perform = perform
        self._clock = clock
        self._checks = checks
        self.memory = memory
        self._counters = counters
        self._topic_name = topic_name
        self._verification = verification

    @property
    def in_flight_bytes(self) -> int:
        """The bytes of the batches whose answer is still due."""
        return self.memory.in_flight

    def handle(
        self,
        context: RequestContext,
        requests: Sequence[Produce],
        done: Produced,
        unheard: Unheard,
        came: float | None = None,
    ) -> asyncio.Task[None] | None:
        """Hand a message's requests over; `done` gets the answers, maybe before this returns, and
        `unheard` each refusal that no answer tells. `came`: when its last byte was there.

        Gives a task when their batches must be looked at in the pool first, or open a transaction
        that its coordinator is to be asked about: until it is over nothing
        that came behind may be handed over. Cancelled, it hands nothing over and answers
        nothing. Raises InvalidRequest for a message that is no use.
        """
        _check_message(requests)
        timed = RequestTimes(came)
        answers = _Answers(len(requests), self._sends(timed, context, done), unheard)
        memory = self.memory
        taken: Taken = []
        taken_bytes = 0
        unchecked = False
        try:
            for index, produce in enumerate(requests):
                produce = produce_by_name(produce, self._topic_name)
                sizes = [*map(len, map(_BATCH, produce.batches))]
                size = sum(sizes)
                if memory.in_flight + size > memory.bytes_max and memory.in_flight:
                    answers.put(index, produce, self._throttled(produce))
                    continue
                memory.handed_over(size)
                taken_bytes += size
                done_with = self._when_done(timed, answers, index, produce, sizes)
                if self._checks.needed(produce):
                    looked = self._checks.at_once(produce)
                    unchecked = unchecked or looked is None
                    produce = looked or produce
                unchecked = unchecked or self._opens(produce)
                taken.append((produce, done_with))
        except BaseException:
            memory.answered(taken_bytes)
            raise
        if not unchecked:
            self._hand_over(taken, timed)
            return None
        checking = asyncio.ensure_future(self._check_first(taken, timed))

        def on_end(_: object) -> None:
            if taken:  # nobody waits any more, and nothing was appended
                memory.answered(taken_bytes)

        checking.add_done_callback(on_end)  # not in the task: cancelled early, it never runs
        return checking

    async def _check_first(self, taken: Taken, timed: RequestTimes) -> None:
        """Checks, hands over and empties `taken`."""
        for index, (produce, acked) in enumerate(taken):
            if self._checks.needed(produce) and not _is_checked(produce):
                taken[index] = (await self._checks.in_pool(produce), acked)
        asked: list[Unverified] = []
        try:
            await self._verify_first(taken, asked)
            checked = taken[:]
            taken.clear()
            self._hand_over(checked, timed)
        finally:
            if asked and self._verification is not None:
                self._verification.release(asked)

    def _opens(self, produce: Produce) -> bool:
        """Whether a batch of the request opens a transaction."""
        if self._verification is None or not produce.transactional_id:
            return False
        unverified = self._verification.unverified(produce)
        self._verification.release(unverified)
        return bool(unverified)

    async def _verify_first(self, taken: Taken, asked: list[Unverified]) -> None:
        """Asks coordinators about batches that open a transaction, all of them at once. The
        verifications under way go into `asked`.
        """
        verification = self._verification
        if verification is None:
            return

        async def verify(index: int, unverified: Sequence[Unverified]) -> None:
            produce, acked = taken[index]
            taken[index] = (await verification.verify(produce, unverified), acked)

        waiting = []
        for index, (produce, _) in enumerate(taken):
            unverified = verification.unverified(produce)
            if unverified:
                asked += unverified
                waiting.append(verify(index, unverified))
        if waiting:
            await asyncio.gather(*waiting)

    def _hand_over(self, taken: Taken, timed: RequestTimes) -> None:
        if taken:
            clock = self._clock
            effects = self._manager.produce_all(clock.monotonic_ms(), clock.wall_ms(), taken)
            timed.handed_over = ticks()
            self._perform(effects)

    def _when_done(
        self,
        timed: RequestTimes,
        answers: _Answers,
        index: int,
        request: Produce,
        sizes: Sequence[int],
    ) -> Acked:
        size = sum(sizes)

        def done(acks: Sequence[PartitionAck]) -> None:
            self.memory.answered(size)
            timed.count(self._counters, "Produce")
            self._count(acks, sizes)
            answers.put(index, request, acks)

        return done

    def _sends(self, timed: RequestTimes, context: RequestContext, done: Produced) -> Produced:
        """`done`, which is timed; and a line about the message where somebody wants one."""

        def sends(answers: Answers) -> None:
            answered = ticks()
            done(answers)
            # each of its requests waits for all of them to be written
            self._counters.sent("Produce", len(answers) * (ticks() - answered))
            if request_log.is_on():
                timed.tell("Produce", context, answered, _first_error(answers))

        return sends

    def _count(self, acks: Sequence[PartitionAck], sizes: Sequence[int]) -> None:
        counters = self._counters
        for ack, size in zip(acks, sizes, strict=True):
            if ack.failure is None:
                counters.bytes_in.add(ack.topic_partition.topic, size)
            else:
                counters.failed("Produce", ack.failure.code)

    def _throttled(self, produce: Produce) -> Sequence[PartitionAck]:
        self._counters.failed("Produce", errors.ThrottlingQuotaExceeded.code)
        failure = Failure(
            errors.ThrottlingQuotaExceeded.code,
            f"{self.in_flight_bytes} bytes of batches wait for their acknowledgement on this "
            f"broker; the limit is {self.memory.bytes_max} (queued.max.request.bytes); retry",
        )
        return [PartitionAck(item.topic_partition, failure) for item in produce.batches]


def _first_error(answers: Answers) -> str:
    failed = [ack.failure.code for acks in answers for ack in acks if ack.failure is not None]
    return errors.from_code(failed[0]).name if failed else ""


def _unheard_error(failure: Failure) -> errors.PylogError:
    return errors.from_code(
        failure.code,
        f"{failure.message}; the batch is lost, as it was sent with acks=0, and so is what was on "
        f"its way behind it",
    )


def _is_checked(produce: Produce) -> bool:
    return any(item.checked is not None for item in produce.batches)


def _check_message(requests: Sequence[Produce]) -> None:
    if len(requests) > 1 + FOLLOWING_MAX:
        raise errors.InvalidRequest(
            f"{len(requests) - 1} following requests in one message; the limit is {FOLLOWING_MAX}"
        )
    for request in requests:
        if len(request.batches) > PARTITIONS_PER_REQUEST_MAX:
            check_partitions(len(request.batches))
