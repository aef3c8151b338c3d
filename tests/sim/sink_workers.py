"""The workers of queries and jobs: each writes one attempt of a task after another, by the
product's producer core, into a transaction that the sink's coordinator opens and ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pylog import errors
from pylog.client.admin import sink_wire as admin_wire
from pylog.client.admin.sink_types import SinkListing
from pylog.client.sending.transaction_events import OperationDone
from pylog.client.sending.transaction_state import TransactionState
from pylog.client.sending.transactions import SEND_OFFSETS
from pylog.client.sinks import sink_wire
from pylog.client.sinks.sink_types import (
    SinkAttempt,
    SinkDecision,
    SinkKey,
    SinkMember,
    SinkRange,
)
from pylog.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import sink_pb2
from pylog_connector import succession
from pylog_connector.errors import SinkTaken
from pylog_connector.options import SinkOptions
from pylog_connector.sink_identity import SinkBatchId
from tests.sim.group_ghost import CommitRequest
from tests.sim.sink_calls import SinkCaller
from tests.sim.sink_progress import Number, Positions
from tests.sim.transaction_ghost import ClientTransaction
from tests.sim.transactional_producers import TransactionalApp

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.sink_apps import SinkApps

MAX_BLOCK_MS = 6_000
ABORT_MS_MAX = 1_500
RENEWALS = 3
NOBODY = "__sink"
TRANSACTION_TIMEOUT_MS = 60_000


@dataclass(eq=False, slots=True)
class WrittenAttempt:
    """An attempt, as its worker knows it. `counts`: by the log, a decision names it."""

    attempt: SinkAttempt
    values: list[bytes]
    identity: tuple[int, int]
    numbers: tuple[Number, ...] = ()
    """What the values were made of, where a source has given it out."""
    is_prepared: bool = False
    counts: bool = field(default=False)


class TaskReport(NamedTuple):
    """Likewise as its driver hears of it: stored, or decided already, or neither (no rows)."""

    rows: int
    member: SinkMember | None = None
    ranges: tuple[SinkRange, ...] = ()
    decided: SinkDecision | None = None


class Order(NamedTuple):
    """The rows that a worker is to write; `partitions`: of each row, -1 for any."""

    attempt: SinkAttempt
    partitions: tuple[int, ...]
    slow_ms: float
    prepared_ms: int
    always_begins: bool = False
    numbers: tuple[Number, ...] = ()  # of each row, where a source has given it out
    positions: Positions | None = None  # to commit in place of rows
    options: SinkOptions | None = None  # where queries may go on in each other's place


Told = Callable[[TaskReport | errors.PylogError], None]


class SinkWorker(TransactionalApp):
    """One process. After an error it is of no more use: it aborts its attempt and is gone."""

    may_fail = TransactionalApp.may_fail | {errors.InvalidProducerIdMapping}

    def __init__(self, cluster: Cluster, apps: SinkApps, name: str) -> None:
        assert cluster.transactions is not None
        super().__init__(cluster, cluster.transactions, name, NOBODY, TRANSACTION_TIMEOUT_MS)
        self._sinks = apps
        self._caller = SinkCaller(cluster, self, self.rng)
        self._order: Order | None = None
        self._told: Told = lambda _: None
        self._written: WrittenAttempt | None = None
        self._member: SinkMember | None = None
        self._life = 0  # timers of an earlier attempt are void
        self._known: set[tuple[SinkKey, str]] = set()
        """The runs that may write to their sinks, as it has seen."""
        self.is_dropped = False
        self.is_taken = False
        """Whether a driver counts on it."""

    @property
    def is_idle(self) -> bool:
        """Whether it may be given the next attempt."""
        return self.alive and not self.is_taken and not self.is_dropped

    def start(self) -> None:
        """Learn of the topic."""
        self._kept.refresh_soon(self.cluster.TOPIC)
        self._step(self.sender.poll(self.now_ms()))

    def say_last_words(self) -> None:
        """Drivers have it write the last batches."""

    @property
    def waits_for(self) -> list[str]:
        return []

    # ---- one attempt

    def write(self, order: Order, told: Told) -> None:
        """An attempt, from its begin to its report. Without rows nothing is begun."""
        if self.is_dropped:
            return
        self._order, self._told = order, told
        self._written = self._member = None
        self._life += 1
        self.cluster.scheduler.note("attempt", self.name, *order.attempt[1:5])
        if not order.partitions and not order.always_begins:
            self._report(TaskReport(0))
            return
        if order.options is None or order.attempt[:2] in self._known:
            self._begin_attempt()
        else:
            self._look_for_predecessor(order.options)

    def _look_for_predecessor(self, options: SinkOptions) -> None:
        """As `staging` of the product does it."""
        assert self._order is not None
        attempt, life = self._order.attempt, self._life

        def listed(found: list[SinkListing] | errors.PylogError) -> None:
            if not self._is_of(life):
                return
            if isinstance(found, errors.PylogError):
                self._fail(found)
                return
            batch = SinkBatchId(attempt.sink, attempt.run_id, attempt.batch_id)
            before = succession.predecessor(batch, options, found)
            if before is not None:
                try:
                    succession.check_may_follow(before, options)
                except SinkTaken as error:
                    self._sinks.ghost.told_taken(self.name, attempt.sink)
                    self._fail(error)
                    return
                self.cluster.sometimes["sinks: task of a query that goes on for another one"] += 1
            if before is not None and options.takeover and before.open_attempts:
                sink = SinkKey(before.query_id, before.sink_id)
                abort = sink_pb2.AbortSinkBatchRequest(
                    sink=admin_wire.key_message(*sink), whole_sink=True
                )
                self._caller.ask(sink, apis.ABORT_SINK_BATCH, abort, settled, MAX_BLOCK_MS)
            else:
                settled(None)

        def settled(answer: Any) -> None:
            if not self._is_of(life):
                return
            if isinstance(answer, errors.PylogError):
                self._fail(answer)
                return
            self._known.add((attempt.sink, attempt.run_id))
            self._begin_attempt()

        self._caller.list_sinks(attempt.sink.sink_id, listed, MAX_BLOCK_MS)

    def _begin_attempt(self) -> None:
        order, life = self._order, self._life
        assert order is not None
        request = sink_wire.begin_request(order.attempt)
        self._caller.ask(
            order.attempt.sink,
            apis.BEGIN_SINK_TASK,
            request,
            lambda answer: self._begun(life, answer),
            MAX_BLOCK_MS,
        )

    def _is_of(self, life: int) -> bool:
        return life == self._life and self._order is not None and not self.is_dropped

    def _begun(self, life: int, answer: Any) -> None:
        if not self._is_of(life):
            return
        assert self._order is not None
        if isinstance(answer, errors.PylogError):
            self._fail(answer)
            return
        if answer.HasField("decided"):
            self.cluster.sometimes["sinks: attempt of a batch that counts already"] += 1
            decided = sink_wire.decision_of(answer.decided)
            self._sinks.ghost.told_decision(self.name, self._order.attempt.sink, decided)
            self._report(TaskReport(len(self._order.partitions), decided=decided))
            return
        member = sink_wire.member_of(answer.member)
        self._member = member
        self.transactional_id = member.transactional_id
        identity = (member.producer_id, member.producer_epoch)
        self._now = ClientTransaction(self.name, identity)
        numbers = self._order.numbers
        self._written = WrittenAttempt(self._order.attempt, self._now.values, identity, numbers)
        self._sinks.ghost.attempts.append(self._written)
        self.sender.adopt(*member)
        self.cluster.sometimes["sinks: attempt begun"] += 1
        every_ms = max(answer.lease_ms // RENEWALS, 10)
        self.timer(every_ms, self._renew, life, every_ms)
        if self._order.positions is None:
            self._go_on_writing(life, 0)
        else:
            self._send_positions(self._order.attempt, self._order.positions)

    def _send_positions(self, attempt: SinkAttempt, positions: Positions) -> None:
        """As `progress_commits` of the product; the metadata tell the attempt."""
        assert self.cluster.groups is not None
        group, tag = attempt.progress_group, f"{self.name}/{attempt.attempt}"
        offsets = {
            TopicPartition(self.cluster.TOPIC, number): positions.get(number, 0)
            for number in range(self.cluster.swarm.partitions)
        }
        now_us = self.cluster.scheduler.now_us
        asked = CommitRequest(tag, self.name, group, "", -1, now_us, offsets, frozenset())
        self.cluster.groups.ghost.asks(asked)
        wanted = {tp: OffsetAndMetadata(offset, tag) for tp, offset in offsets.items()}
        self.transactions.send_offsets(ConsumerGroupMetadata(group), wanted)
        self.cluster.sometimes["sinks: positions sent"] += 1
        self.timer(MAX_BLOCK_MS, self._too_late, self._life)
        self._step(self.sender.poll(self.now_ms()))

    def _renew(self, life: int, every_ms: int) -> None:
        if not self._is_of(life) or self._written is None or self._written.is_prepared:
            return
        assert self._order is not None
        assert self._member is not None

        member = self._member

        def heard(answer: Any) -> None:
            if isinstance(answer, errors.PylogError):
                self._sinks.ghost.told_ended(self.name, member, answer)
            if not self._is_of(life):
                return
            if isinstance(answer, errors.PylogError) and not answer.retriable:
                self._fail(answer)
                return
            self.timer(every_ms, self._renew, life, every_ms)

        sink = self._order.attempt.sink
        request = sink_pb2.RenewSinkTaskRequest(
            sink=sink_wire.key_message(sink), member=sink_wire.member_message(member)
        )
        self._caller.ask(sink, apis.RENEW_SINK_TASK, request, heard, every_ms)

    def _go_on_writing(self, life: int, index: int) -> None:
        if not self._is_of(life):
            return
        assert self._order is not None
        if self.transactions.state is not TransactionState.IN_TRANSACTION:
            self._fail(self.transactions.doom or errors.TransactionAbortable("it broke"))
            return
        if index == len(self._order.partitions):
            self._prepare(life)
            return
        buffer = self._buffer()
        if buffer is not None:
            wanted = self._order.partitions[index]
            number = None if wanted < 0 else wanted % buffer.partitions
            key = b"%d" % self.rng.randrange(10)
            batch, wakes = self._add(buffer, key, number, is_deletion=False)
            index += batch is not None
            if wakes:
                self._step(self.sender.poll(self.now_ms()))
        wait_ms = self.rng.expovariate(1.0 / self._order.slow_ms)
        self.timer(wait_ms, self._go_on_writing, life, index)

    def _prepare(self, life: int) -> None:
        self.accumulator.mark_all_due()
        try:
            self.transactions.prepare()
        except errors.PylogError as error:
            self._fail(error)
            return
        self.timer(MAX_BLOCK_MS, self._too_late, life)
        self._step(self.sender.poll(self.now_ms()))

    def _too_late(self, life: int) -> None:
        if self._is_of(life):
            self._fail(errors.RequestTimedOut("prepare_transaction()"))

    def _operation_done(self, effect: OperationDone) -> None:
        self.timer(self.rng.random() * 2, self._stored, self._life, effect)

    def _stored(self, life: int, effect: OperationDone) -> None:
        self.transactions.collected(effect.operation)
        if not self._is_of(life):
            return
        if effect.error is not None:
            self._fail(effect.error)
            return
        if effect.operation.call == SEND_OFFSETS:
            self.cluster.sometimes["sinks: positions wait for the decision"] += 1
            self._prepare(self._life)
            return
        assert self._order is not None
        assert self._member is not None
        sink, member = self._order.attempt.sink, self._member
        request = sink_pb2.PrepareSinkTaskRequest(
            sink=sink_wire.key_message(sink),
            member=sink_wire.member_message(member),
            timeout_ms=self._order.prepared_ms,
        )

        def heard(answer: Any) -> None:
            if isinstance(answer, errors.PylogError):
                self._sinks.ghost.told_ended(self.name, member, answer)
            if self._is_of(life):
                self._prepared(answer)

        self._caller.ask(sink, apis.PREPARE_SINK_TASK, request, heard, MAX_BLOCK_MS)

    def _prepared(self, answer: Any) -> None:
        if isinstance(answer, errors.PylogError):
            self._fail(answer)
            return
        assert self._order is not None
        assert self._written is not None
        self._written.is_prepared = True
        self.cluster.sometimes["sinks: attempt prepared"] += 1
        receipt = self.transactions.receipt.ranges()
        ranges = tuple(
            SinkRange(tp.topic, tp.partition, first, last) for tp, (first, last) in receipt.items()
        )
        self._report(TaskReport(len(self._order.partitions), self._member, ranges))

    def _report(self, report: TaskReport) -> None:
        told, self._order = self._told, None
        self._life += 1
        self.is_taken = False
        told(report)

    # ---- errors

    def _fail(self, error: errors.PylogError) -> None:
        """The task raises; its producer aborts what it has written, and is closed."""
        self.cluster.sometimes[f"sinks: task fails with {type(error).__name__}"] += 1
        self.cluster.scheduler.note("task fails", self.name, type(error).__name__)
        told = self._told
        self.drop()
        told(error)

    def drop(self) -> None:
        """Abort the attempt, as far as it is not prepared, and be gone."""
        if self.is_dropped or not self.alive:
            return
        self.is_dropped = True
        order, member = self._order, self._member
        self._order = None
        if order is None or member is None:
            self.crash()
            return
        sink = order.attempt.sink
        request = sink_wire.abort_attempt_request(sink, member)
        self.cluster.sometimes["sinks: attempt aborted by its task"] += 1
        self._caller.ask(sink, apis.ABORT_SINK_BATCH, request, lambda _: self.crash(), ABORT_MS_MAX)
