"""The sinks of one shard of the transaction coordinator: batches of queries that count once. Pure.

A query writes a batch by many tasks, each of which may be attempted more than once. Each attempt
has a transaction of its own, whose transactional id comes from the sink's pool. One record says
which attempts count. The prepared commits of these follow it, and the prepared aborts of all
others; where they are cut off, the next coordinator goes on by that record. A shard has all
transactional ids of its sinks, so no other coordinator has a say.

- A decision that is asked for again gives the same answer, and a batch that an earlier run has
  decided is written by nobody again.
- Runs are numbered as they are first seen. A newer one puts the older ones out, and aborts what
  they left open. A run that has failed is ended, as some of its tasks may not know it yet.
- An attempt holds back committed readers while it is open, so it ends by itself: when it is not
  renewed, or when it has been prepared for too long.
- A decision may overwrite topics. It says where their partitions begin with the batch, and the
  markers of its commits carry that to the leaders. Until each partition has its marker, it is the
  sink's last decision.
- An attempt may commit positions of a source to a group in place of rows: each batch counts with
  the positions that were committed for it, or fails. See `sink_progress`.
- A transactional id goes back to the pool with its decision. A batch that an attempt sends after
  that is refused, as each end raises the epoch, also where nothing was written.
- A refusal ends the attempt, or the query. One that a newer coordinator might not give waits until
  this one has shown that it leads, and so does the answer to an abort that finds nothing to end:
  see `refusals`. Answers about runs that are over and batches that are decided leave at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from pylog.errors import (
    ConcurrentTransactions,
    InvalidRequest,
    InvalidTxnState,
    SinkBatchDecided,
    SinkRunSuperseded,
    ThrottlingQuotaExceeded,
)
from pylog.model import (
    NO_TIMESTAMP,
    ProducerId,
)
from pylog_broker.coordinator.expiry import Expiry
from pylog_broker.coordinator.generated.sink_decision import (
    SinkDecisionKey,
    SinkDecisionValue,
)
from pylog_broker.coordinator.generated.sink_runs import SinkRunsKey, SinkRunsValue
from pylog_broker.coordinator.generated.sink_task import SinkTaskKey, SinkTaskValue
from pylog_broker.coordinator.runtime.decision import (
    CancelTimer,
    Decision,
    Record,
    Reply,
    RequestId,
    Send,
    SetTimer,
)
from pylog_broker.coordinator.transactions import sink_progress
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.messages import (
    NO_OVERWRITE,
    NeedsProducerId,
    Overwrite,
    SendMarkers,
)
from pylog_broker.coordinator.transactions.refusals import PROOF, Unproven, decided, proven
from pylog_broker.coordinator.transactions.sink_messages import (
    KEEP_FOREVER,
    AbortBatch,
    AlreadyDecided,
    BatchAborted,
    BatchDecided,
    BeginTask,
    DecideBatch,
    DecidedBatch,
    DescribedSink,
    ForgetSink,
    Member,
    PrepareTask,
    RenewTask,
    SinkForgotten,
    SinkKey,
    check_names,
    is_of_a_sink,
    sink_of,
)
from pylog_broker.coordinator.transactions.sink_records import (
    FREE,
    PREPARED,
    attempt_of,
    decision_of,
    record_of,
    value_of,
)
from pylog_broker.coordinator.transactions.sink_state import (
    Attempt,
    SinkState,
    TaskState,
    number_of,
    overwrite_of,
)
from pylog_broker.coordinator.transactions.states import TransactionState
from pylog_broker.coordinator.transactions.transaction import (
    LAST_EPOCH,
    Identity,
    Transaction,
)

RUNS_MAX: Final = 200
"""Runs of a query that are remembered. One that is older than so many others is not put out."""

VISIBLE_MS_MAX: Final = 10_000
"""So long an answer waits at most for markers, whatever is asked for."""
ANSWERS_MAX: Final = 100
"""So many answers of a sink wait at most; others are given at once."""

SinkRecordKey = SinkRunsKey | SinkDecisionKey | SinkTaskKey


@dataclass(frozen=True, slots=True)
class TaskTimer:
    """An attempt was not renewed, or has waited too long for its decision."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class VisibleTimer:
    """The markers of a decision take too long for its answer to wait for them."""

    sink: SinkKey


class Members(Protocol):
    """The transactions of the shard."""

    transactions: dict[str, Transaction]

    def check_has_room_for(self, transactional_id: str) -> None:
        """Raises ThrottlingQuotaExceeded where it would be one id too many."""

    def open_member(
        self, wall_ms: int, transactional_id: str, fresh: ProducerId | None, decision: Decision
    ) -> Identity:
        """Under which the next transaction of that id is written. `fresh` is for a new id."""

    def end_member(
        self,
        wall_ms: int,
        transaction: Transaction,
        commits: bool,
        overwrite: Overwrite,
        decision: Decision,
    ) -> None:
        """Its transaction is prepared to end so, and its producer is fenced, whether it has written
        anything or not. `transaction` has the partitions that are to have its marker.
        """


@dataclass(slots=True)
class SinkCounts:
    """The counts about sinks of all shards of a broker, since it started. `producer_ids`: given to
    sinks whose pools had none left. `batches`: decided. `expired`: attempts that were aborted
    because they were not renewed, or not decided about.
    """

    producer_ids: int = 0
    batches: int = 0
    expired: int = 0


@dataclass(slots=True)
class _Answers:
    """Answers to decisions of a sink, which wait until no transaction of it holds back readers."""

    held_by: set[str] = field(default_factory=set)
    replies: list[Reply] = field(default_factory=list)


class Sinks:
    """Invariant: all its state is made by `replay` of records, but for the answers that wait."""

    def __init__(
        self, config: TransactionConfig, members: Members, counts: SinkCounts, expiry: Expiry
    ) -> None:
        """`counts` go on beyond its own life."""
        self._config = config
        self._expiry = expiry
        self._members = members
        self._counts = counts
        self._sinks: dict[SinkKey, SinkState] = {}
        self._answers: dict[SinkKey, _Answers] = {}

    # ---- as a part of a coordinator --------------------------------------------------------------

    def replay(self, key: SinkRecordKey, value: object) -> None:
        """Takes in a record of a sink."""
        match key, value:
            case SinkRunsKey(), SinkRunsValue() | None:
                sink = self._known(SinkKey(*key))
                sink.first_number = 0 if value is None else value.first_number
                sink.run_ids = () if value is None else value.run_ids
                sink.ended_ms = NO_TIMESTAMP if value is None else value.ended_ms
                self._drop_if_empty(SinkKey(*key))
            case SinkDecisionKey(), SinkDecisionValue() | None:
                sink = self._known(SinkKey(*key))
                sink.decision = None if value is None else decision_of(value)
                sink.committed = frozenset() if value is None else frozenset(value.members)
                sink.overwrite = overwrite_of(sink.decision, sink.committed)
                self._drop_if_empty(SinkKey(*key))
            case SinkTaskKey(transactional_id), SinkTaskValue() | None:
                self._replay_task(transactional_id, value)
            case _:
                raise AssertionError(f"{key} with {value}")

    def _replay_task(self, transactional_id: str, value: SinkTaskValue | None) -> None:
        key = sink_of(transactional_id)
        sink = self._known(key)
        before = sink.tasks.pop(transactional_id, None)
        if before is not None:
            del sink.attempts[before.attempt]
        sink.free.pop(transactional_id, None)
        sink.unheld.pop(transactional_id, None)
        if value is not None:
            sink.made = max(sink.made, number_of(transactional_id) + 1)
            attempt = attempt_of(value)
            if value.state == FREE:
                sink.free[transactional_id] = None
                if attempt.group:
                    sink.unheld[transactional_id] = attempt
            else:
                is_prepared = value.state == PREPARED
                task = TaskState(attempt, is_prepared, value.since_ms, value.timeout_ms)
                sink.tasks[transactional_id] = task
                sink.attempts[attempt] = transactional_id
        self._drop_if_empty(key)

    def on_loaded(self, wall_ms: int, decision: Decision) -> None:
        """Ends that the last coordinator decided and did not write are written; so is that an id is
        free, where the end of its transaction is all that was written of an abort. Attempts that
        write have their time again: nobody knows how much of it has passed.
        """
        for key, sink in self._sinks.items():
            for transactional_id, task in sink.tasks.items():
                if sink.is_over(task.attempt) or self._is_prepared(transactional_id):
                    by = sink.overwrite if sink.counts(transactional_id) else None
                    self._end(wall_ms, key, sink, transactional_id, by, decision)
                else:
                    decision.effects.append(self._timer(wall_ms, transactional_id, task))

    def on_timer(self, wall_ms: int, timer: TaskTimer) -> Decision:
        """The attempt is aborted."""
        decision = Decision()
        key = sink_of(timer.transactional_id)
        sink = self._sinks.get(key)
        if sink is not None and timer.transactional_id in sink.tasks:
            self._counts.expired += 1
            self._end(wall_ms, key, sink, timer.transactional_id, None, decision)
        return decision

    def expire(self, wall_ms: int, decision: Decision) -> None:
        """Decisions that need not be kept any longer go, with all of their sinks; so do sinks that
        have decided nothing, when no late task of the run that ended is to be expected, or all
        that they have is the ids of runs; and free transactional ids that the coordinator has
        forgotten.
        """
        for key, sink in self._sinks.items():
            if self._is_old(wall_ms, sink) and not self._still_overwrites(key, sink):
                self._forget(key, sink, decision)
                continue
            for transactional_id in sink.free:
                if transactional_id not in self._members.transactions:
                    decision.records.append(Record(SinkTaskKey(transactional_id), None))

    def _is_old(self, wall_ms: int, sink: SinkState) -> bool:
        if sink.tasks:
            return False
        if sink.decision is not None:
            expires_ms = sink.decision.expires_ms
            kept_ms = expires_ms - sink.decision.decided_ms
            return expires_ms >= 0 and self._expiry.has_come(wall_ms, expires_ms, kept_ms)
        if sink.has_ended:
            kept_ms = self._config.max_timeout_ms
            return self._expiry.has_come(wall_ms, sink.ended_ms + kept_ms, kept_ms)
        return not sink.free

    def is_in_use(self, transactional_id: str) -> bool:
        """Whether an attempt has the id, which may not have written yet."""
        if not is_of_a_sink(transactional_id):
            return False
        sink = self._sinks.get(sink_of(transactional_id))
        return sink is not None and transactional_id in sink.tasks

    # ---- attempts --------------------------------------------------------------------------------

    def begin(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: BeginTask,
        fresh: ProducerId | None = None,
    ) -> Decision:
        """`Member`, `AlreadyDecided`, or `NeedsProducerId`.

        Refused by SinkRunSuperseded, SinkBatchDecided for an earlier batch and for one that this
        run has decided, InvalidTxnState where the run has ended, InvalidRequest for a name that is
        too long and as `check_begins`, and ThrottlingQuotaExceeded where there is no room for one
        more.
        """
        return decided(request_id, lambda: self._begin(wall_ms, request_id, request, fresh))

    def _begin(
        self, wall_ms: int, request_id: RequestId, request: BeginTask, fresh: ProducerId | None
    ) -> Decision:
        key = request.sink
        check_names(key, request.run_id)
        sink = self._sinks.get(key) or SinkState()
        run_number = self._number(key, sink, request.run_id)
        group = request.progress_group
        made = self._decided(sink, run_number, request.batch_id, is_read=bool(group))
        if made is not None:
            return Decision(effects=[Reply(request_id, AlreadyDecided(made))])
        self._check_goes_on(key, sink, run_number)
        attempt = Attempt(run_number, *request[2:])
        if group:
            sink_progress.check_begins(key, sink, attempt)
        if (known := sink.attempts.get(attempt)) is not None:  # it asks again
            identity = self._members.transactions[known].owner
            return Decision(effects=[Reply(request_id, Member(known, identity))])
        self._check_room(key, sink)
        transactional_id = self._unused(key, sink, group)
        if transactional_id not in self._members.transactions:
            self._members.check_has_room_for(transactional_id)
            if fresh is None:
                return Decision(effects=[Reply(request_id, NeedsProducerId())])
            self._counts.producer_ids += 1
        decision = Decision()
        self._begin_run(wall_ms, key, sink, request.run_id, decision)
        identity = self._members.open_member(wall_ms, transactional_id, fresh, decision)
        task = TaskState(attempt, since_ms=wall_ms)
        decision.records.append(record_of(key, transactional_id, task))
        decision.effects += [
            self._timer(wall_ms, transactional_id, task),
            Reply(request_id, Member(transactional_id, identity)),
        ]
        return decision

    def renew(self, wall_ms: int, request_id: RequestId, request: RenewTask) -> Decision:
        """An attempt that writes has its time again. Refused by InvalidTxnState where it has
        ended.
        """
        return decided(request_id, lambda: self._renew(wall_ms, request_id, request))

    def _renew(self, wall_ms: int, request_id: RequestId, request: RenewTask) -> Decision:
        task = self._task(request.sink, request.member)
        transactional_id = request.member.transactional_id
        effects = [Reply(request_id, request.member)]
        if task.is_prepared:
            return Decision(effects=[*effects])
        return Decision(effects=[self._timer(wall_ms, transactional_id, task), *effects])

    def prepare(self, wall_ms: int, request_id: RequestId, request: PrepareTask) -> Decision:
        """The attempt waits for its decision. Refused by InvalidTxnState where it has ended."""
        return decided(request_id, lambda: self._prepare(wall_ms, request_id, request))

    def _prepare(self, wall_ms: int, request_id: RequestId, request: PrepareTask) -> Decision:
        task = self._task(request.sink, request.member)
        transactional_id = request.member.transactional_id
        reply = Reply(request_id, request.member)
        if task.is_prepared:
            return Decision(effects=[reply])
        most_ms = self._config.max_timeout_ms
        wait_ms = min(request.timeout_ms, most_ms) if request.timeout_ms > 0 else most_ms
        prepared = TaskState(task.attempt, True, wall_ms, wait_ms)
        record = record_of(request.sink, transactional_id, prepared)
        return Decision([record], [self._timer(wall_ms, transactional_id, prepared), reply])

    def check_writes(self, transactional_id: str) -> None:
        """Raises InvalidTxnState where no attempt has the id: nothing would end its transaction; or
        where that is prepared, whose driver knows all that it has written.
        """
        sink = self._sinks.get(sink_of(transactional_id))
        task = None if sink is None else sink.tasks.get(transactional_id)
        if task is None or task.is_prepared:
            what = "belongs to no attempt" if task is None else "is prepared"
            raise InvalidTxnState(f"{transactional_id!r} {what}: it writes nothing")

    # ---- batches ---------------------------------------------------------------------------------

    def decide(self, wall_ms: int, request_id: RequestId, request: DecideBatch) -> Decision:
        """`BatchDecided`, when the decision is committed, and all transactions of the sink that
        have ended have their markers; for the latter it waits up to `visible_timeout_ms`.

        Refused by SinkRunSuperseded, SinkBatchDecided for an earlier batch and for one that this
        run has decided otherwise, InvalidTxnState where an attempt or the run has ended, or an
        attempt is not prepared, ConcurrentTransactions while the last batch has not overwritten all
        partitions, InvalidRequest for an overwrite without an attempt, or of too many partitions,
        and as `sink_progress.counted`.
        """
        return decided(request_id, lambda: self._decide(wall_ms, request_id, request))

    def _decide(self, wall_ms: int, request_id: RequestId, request: DecideBatch) -> Decision:
        check_names(request.sink, request.run_id)
        sink = self._sinks.get(request.sink) or SinkState()
        run_number = self._number(request.sink, sink, request.run_id)
        last = sink.decision
        if last is not None and request.batch_id <= last.batch_id:
            if request.batch_id == last.batch_id and (
                run_number > last.run_number or _is_repeated(last, request)
            ):
                known = Decision()
                self._answer_when_visible(
                    request, sink, Reply(request_id, BatchDecided(last, False)), set(), known
                )
                return known
            raise _refusal(last, request.batch_id, run_number)
        self._check_goes_on(request.sink, sink, run_number)
        if sink.is_empty:
            self._check_room(request.sink, sink)
        try:
            counted = self._counted(request, sink, run_number)
        except (InvalidTxnState, InvalidRequest) as refusal:
            # A newer coordinator may know more of the attempts, or that the batch is decided.
            raise Unproven(refusal) from None
        self._check_has_overwritten(request.sink, sink)
        made = DecidedBatch(
            request.batch_id,
            run_number,
            request.row_count,
            request.checksum,
            request.digest,
            wall_ms,
            KEEP_FOREVER if request.keep_ms < 0 else wall_ms + request.keep_ms,
            request.receipt,
            request.overwritten,
        )
        numbers = sorted(map(number_of, counted))
        overwrite = overwrite_of(made, numbers)
        self._check_overwrites(request, overwrite)
        decision = Decision(is_atomic=False)
        self._write_runs(request.sink, sink, request.run_id, decision)
        value = value_of(made, tuple(numbers))
        decision.records.append(Record(SinkDecisionKey(*request.sink), value))
        for transactional_id, task in sink.tasks.items():
            ended = task.attempt
            if ended.run_number < run_number or ended.batch_id <= request.batch_id:
                by = overwrite if transactional_id in counted else None
                self._end(wall_ms, request.sink, sink, transactional_id, by, decision)
        self._counts.batches += 1
        ending = {
            effect.message.transactional_id
            for effect in decision.effects
            if isinstance(effect, Send) and isinstance(effect.message, SendMarkers)
        }
        answer = Reply(request_id, BatchDecided(made, True))
        self._answer_when_visible(request, sink, answer, ending, decision)
        return decision

    def _answer_when_visible(
        self,
        request: DecideBatch,
        sink: SinkState,
        answer: Reply,
        ending: set[str],
        decision: Decision,
    ) -> None:
        """`ending`: the transactions that this decision ends, whose markers are written next."""
        held_by = ending.union(filter(self._is_prepared, (*sink.tasks, *sink.free)))
        answers = self._answers.get(request.sink) or _Answers()
        is_full = len(answers.replies) >= ANSWERS_MAX
        if not held_by or request.visible_timeout_ms <= 0 or is_full:
            decision.effects.append(answer)
            return
        answers.held_by |= held_by
        answers.replies.append(answer)
        self._answers[request.sink] = answers
        wait_ms = min(request.visible_timeout_ms, VISIBLE_MS_MAX)
        decision.effects.append(SetTimer(VisibleTimer(request.sink), wait_ms))

    def _is_prepared(self, transactional_id: str) -> bool:
        known = self._members.transactions.get(transactional_id)
        return known is not None and known.state.is_prepared

    def on_complete(self, transactional_id: str, decision: Decision) -> None:
        """All partitions of the transaction have its marker."""
        if not is_of_a_sink(transactional_id):
            return
        key = sink_of(transactional_id)
        answers = self._answers.get(key)
        if answers is None:
            return
        answers.held_by.discard(transactional_id)
        if not answers.held_by:
            decision.effects.append(CancelTimer(VisibleTimer(key)))
            decision.effects += self._answers.pop(key).replies

    def on_invisible(self, timer: VisibleTimer) -> Decision:
        """The batch counts all the same: its markers are written until they are there."""
        answers = self._answers.pop(timer.sink, None)
        return Decision(effects=[] if answers is None else [*answers.replies])

    def _counted(self, request: DecideBatch, sink: SinkState, run_number: int) -> set[str]:
        """The transactional ids of the attempts that count."""
        self._check_counted(request, run_number)
        batch_id, groups = request.batch_id, request.progress_groups
        of_sources = sink_progress.counted(request.sink, sink, run_number, batch_id, groups)
        return {member.transactional_id for member in request.members}.union(of_sources)

    def _check_counted(self, request: DecideBatch, run_number: int) -> None:
        for member in request.members:
            task = self._task(request.sink, member)
            of_run, of_batch = task.attempt.run_number, task.attempt.batch_id
            if (of_run, of_batch) != (run_number, request.batch_id):
                raise InvalidTxnState(
                    f"{member.transactional_id!r} writes batch {of_batch} of run {of_run}, not "
                    f"batch {request.batch_id} of run {run_number}"
                )
            if not task.is_prepared:
                raise InvalidTxnState(f"{member.transactional_id!r} is not prepared")

    def _check_overwrites(self, request: DecideBatch, overwrite: Overwrite) -> None:
        if not request.overwritten:
            return
        if not request.members:
            raise InvalidRequest(
                f"batch {request.batch_id} is to overwrite topics without an attempt: begin one, "
                "which may be without rows"
            )
        most, first = self._config.partitions_max, request.sink.transactional_id(overwrite.first)
        partitions = self._members.transactions[first].partitions.union(overwrite.starts)
        if len(partitions) > most:
            raise InvalidRequest(
                f"batch {request.batch_id} would overwrite {len(overwrite.starts)} partitions in "
                f"a transaction of {len(partitions)}; the limit is {most}"
            )

    def _check_has_overwritten(self, key: SinkKey, sink: SinkState) -> None:
        """The decision says where partitions begin whose markers are not written yet."""
        if self._still_overwrites(key, sink):
            assert sink.decision is not None
            raise ConcurrentTransactions(
                f"batch {sink.decision.batch_id} of sink {key.sink_id!r} of query "
                f"{key.query_id!r} has not overwritten all partitions yet"
            )

    def _still_overwrites(self, key: SinkKey, sink: SinkState) -> bool:
        if not sink.overwrite.starts:
            return False
        known = map(self._members.transactions.get, map(key.transactional_id, sink.committed))
        return any(
            each is not None and each.state is TransactionState.PREPARE_COMMIT for each in known
        )

    def overwrite_of(self, transaction: Transaction) -> Overwrite:
        """The partitions that a prepared transaction overwrites with its commit."""
        transactional_id = transaction.transactional_id
        if not transaction.state.commits or not is_of_a_sink(transactional_id):
            return NO_OVERWRITE
        sink = self._sinks.get(sink_of(transactional_id))
        if sink is None or number_of(transactional_id) not in sink.committed:
            return NO_OVERWRITE
        return sink.overwrite

    def abort(self, wall_ms: int, request_id: RequestId, request: AbortBatch) -> Decision:
        """`BatchAborted`: the open attempts of that batch of that run, of the whole run, of the
        whole sink, or the one that is named. A decision stands, no matter which run asks.
        """
        decision = Decision(is_atomic=False)
        sink = self._sinks.get(request.sink) or SinkState()
        ended = self._to_abort(sink, request)
        if request.ends_run:
            self._end_run(wall_ms, request.sink, sink, request.run_id, decision)
        for transactional_id in ended:
            self._end(wall_ms, request.sink, sink, transactional_id, None, decision)
        if not (decision.records or self._is_over(sink, request)):
            decision.records.append(PROOF)
        decision.effects.append(Reply(request_id, BatchAborted(len(ended))))
        return decision

    def _is_over(self, sink: SinkState, request: AbortBatch) -> bool:
        """Whether nothing that it asks to end is open in any log that goes on from here."""
        if request.whole_sink:
            return False
        if request.member is not None:
            transaction = self._members.transactions.get(request.member.transactional_id)
            return transaction is not None and transaction.is_past(request.member.identity)
        if request.run_id not in sink.run_ids:
            return False
        is_newest = sink.run_ids[-1] == request.run_id
        is_decided = request.batch_id <= sink.last_batch and not request.ends_run
        return not is_newest or sink.has_ended or is_decided

    def _to_abort(self, sink: SinkState, request: AbortBatch) -> list[str]:
        """The transactional ids of attempts."""
        if request.whole_sink:
            return list(sink.tasks)
        if request.member is not None:
            transactional_id, identity = request.member
            if transactional_id not in sink.tasks:
                return []
            is_his = self._members.transactions[transactional_id].owner == identity
            return [transactional_id] if is_his else []
        if request.run_id not in sink.run_ids:
            return []
        of_run = sink.first_number + sink.run_ids.index(request.run_id)
        return [
            transactional_id
            for transactional_id, task in sink.tasks.items()
            if task.attempt.run_number == of_run
            and (request.ends_run or task.attempt.batch_id == request.batch_id)
        ]

    def _end_run(
        self, wall_ms: int, key: SinkKey, sink: SinkState, run_id: str, decision: Decision
    ) -> None:
        """Records the end of the run, if it is the newest and has not ended, or the sink's first
        one. Any other run was put out by a newer one already, or would put out the newest.
        """
        is_newest = sink.run_ids[-1:] == (run_id,)
        is_first = sink.is_empty and len(self._sinks) < self._config.sinks_max
        if (is_newest and not sink.has_ended) or is_first:
            first = sink.first_number
            value = SinkRunsValue(first, sink.run_ids or (run_id,), ended_ms=wall_ms)
            decision.records.append(Record(SinkRunsKey(*key), value))

    # ---- looking after them ----------------------------------------------------------------------

    def described(self) -> Iterator[DescribedSink]:
        """All sinks."""
        for key, sink in self._sinks.items():
            yield self._described(key, sink)

    def _described(self, key: SinkKey, sink: SinkState) -> DescribedSink:
        prepared = [task.since_ms for task in sink.tasks.values() if task.is_prepared]
        transactions = map(self._members.transactions.__getitem__, sink.tasks)
        began = [each.started_ms for each in transactions if each.partitions]
        return DescribedSink(
            key,
            sink.run_ids[-1] if sink.run_ids else "",
            sink.decision,
            len(sink.tasks),
            len(prepared),
            min(began, default=NO_TIMESTAMP),
            min(prepared, default=NO_TIMESTAMP),
            tuple(sorted({task.attempt.group for task in sink.tasks.values()} - {""})),
        )

    def listed(self, request_id: RequestId, query_id: str, sink_id: str) -> Decision:
        """A list of `DescribedSink`: of that query, and of that name, as far as they are given."""
        found = [
            self._described(key, sink)
            for key, sink in self._sinks.items()
            if query_id in ("", key.query_id) and sink_id in ("", key.sink_id)
        ]
        return Decision(effects=[Reply(request_id, found)])

    def forget(self, wall_ms: int, request_id: RequestId, request: ForgetSink) -> Decision:
        """`SinkForgotten`. Open attempts are aborted; a batch that is written again counts again.
        Refused by InvalidRequest where there is no such sink, and ConcurrentTransactions while its
        last batch has not overwritten all partitions.
        """
        sink = self._sinks.get(request.sink)
        if sink is None:
            query_id, sink_id = request.sink
            refusal = InvalidRequest(f"query {query_id!r} has no sink {sink_id!r} here")
            return proven(request_id, refusal)
        self._check_has_overwritten(request.sink, sink)
        decision = Decision(is_atomic=False)
        for transactional_id in sink.tasks:
            self._end(wall_ms, request.sink, sink, transactional_id, None, decision)
        self._forget(request.sink, sink, decision)
        decision.effects.append(Reply(request_id, SinkForgotten()))
        return decision

    # ---- helpers ---------------------------------------------------------------------------------

    def _known(self, key: SinkKey) -> SinkState:
        return self._sinks.setdefault(key, SinkState())

    def _drop_if_empty(self, key: SinkKey) -> None:
        if self._sinks[key].is_empty:
            del self._sinks[key]

    def _number(self, key: SinkKey, sink: SinkState, run_id: str) -> int:
        """The number of the run, which may be a new one."""
        if run_id not in sink.run_ids:
            return sink.run_number + 1
        number = sink.first_number + sink.run_ids.index(run_id)
        if number != sink.run_number:
            raise SinkRunSuperseded(
                f"run {run_id} of query {key.query_id} is not its newest one any more: run "
                f"{sink.run_ids[-1]} writes to sink {key.sink_id!r} now. If two queries were "
                "started from one checkpoint, give each a checkpoint of its own"
            )
        return number

    def _check_goes_on(self, key: SinkKey, sink: SinkState, run_number: int) -> None:
        if sink.has_ended and run_number == sink.run_number:
            raise InvalidTxnState(
                f"run {sink.run_ids[-1]} of query {key.query_id} was aborted: it writes nothing "
                f"more to sink {key.sink_id!r}"
            )

    def _decided(
        self, sink: SinkState, run_number: int, batch_id: int, *, is_read: bool
    ) -> DecidedBatch | None:
        """The decision about the batch. `is_read`: by a source, which may read it once more in the
        run that wrote it, as where `foreachBatch` looks at its frame.
        """
        last = sink.decision
        if last is None or batch_id > last.batch_id:
            return None
        if batch_id == last.batch_id and (run_number > last.run_number or is_read):
            return last
        raise _refusal(last, batch_id, run_number)

    def _check_room(self, key: SinkKey, sink: SinkState) -> None:
        most = self._config.sinks_max
        if sink.is_empty and len(self._sinks) >= most:
            raise ThrottlingQuotaExceeded(
                f"sink {key.sink_id!r} of query {key.query_id!r} would be one of "
                f"{len(self._sinks) + 1} of this coordinator; the limit is {most} (sinks.max): "
                "forget sinks of queries that do not come back (pylog sinks forget)"
            )
        most = self._config.sink_attempts_max
        if len(sink.tasks) >= most:
            raise ThrottlingQuotaExceeded(
                f"sink {key.sink_id!r} of query {key.query_id!r} has {len(sink.tasks)} open "
                f"attempts; the limit is {most} (sink.attempts.max): write with fewer partitions "
                "(coalesce)"
            )

    def _unused(self, key: SinkKey, sink: SinkState, group: str) -> str:
        """A transactional id that nobody has, for an attempt with that group. One whose last
        transaction has not ended on all of its partitions, or whose epochs run out, is left alone,
        and so is one whose record says that positions for another group are missing.
        """
        for transactional_id in sink.free:
            unheld = sink.unheld.get(transactional_id)
            if unheld is not None and unheld.batch_id > sink.last_batch and unheld.group != group:
                continue
            known = self._members.transactions.get(transactional_id)
            if known is None:  # the coordinator has forgotten it: it begins anew
                return transactional_id
            if not known.state.is_prepared and known.owner.epoch < LAST_EPOCH - 1:
                return transactional_id
        number = sink.made
        while key.transactional_id(number) in self._members.transactions:
            number += 1  # of a sink that was forgotten
        return key.transactional_id(number)

    def _begin_run(
        self, wall_ms: int, key: SinkKey, sink: SinkState, run_id: str, decision: Decision
    ) -> None:
        """A run that was not seen before puts out the one before it."""
        if run_id in sink.run_ids:
            return
        decision.is_atomic = False
        self._write_runs(key, sink, run_id, decision)
        for transactional_id in sink.tasks:
            self._end(wall_ms, key, sink, transactional_id, None, decision)

    def _write_runs(self, key: SinkKey, sink: SinkState, run_id: str, decision: Decision) -> None:
        if run_id in sink.run_ids:
            return
        run_ids = (*sink.run_ids, run_id)
        dropped = max(len(run_ids) - RUNS_MAX, 0)
        value = SinkRunsValue(sink.first_number + dropped, run_ids[dropped:])
        decision.records.append(Record(SinkRunsKey(*key), value))

    def _task(self, key: SinkKey, member: Member) -> TaskState:
        sink = self._sinks.get(key)
        task = None if sink is None else sink.tasks.get(member.transactional_id)
        transaction = self._members.transactions.get(member.transactional_id)
        if task is None or transaction is None or transaction.owner != member.identity:
            refusal = InvalidTxnState(
                f"{member.transactional_id!r} in epoch {member.identity.epoch} was aborted: a "
                "newer run has begun, the attempt did not report for too long, or its prepared "
                "transaction waited for too long for the batch to be committed"
            )
            if transaction is not None and transaction.is_past(member.identity):
                raise refusal
            raise Unproven(refusal)
        return task

    def _end(
        self,
        wall_ms: int,
        key: SinkKey,
        sink: SinkState,
        transactional_id: str,
        commits_by: Overwrite | None,
        decision: Decision,
    ) -> None:
        """Two records, of which the log may have the first one only: a transaction that has ended
        then does not end again. `commits_by`: None where it aborts.
        """
        transaction = self._members.transactions[transactional_id]
        if not transaction.state.is_prepared:
            overwrite = commits_by or NO_OVERWRITE
            if overwrite.starts and number_of(transactional_id) == overwrite.first:
                partitions = transaction.partitions.union(overwrite.starts)
                transaction = transaction._replace(partitions=partitions)
            commits = commits_by is not None and bool(transaction.partitions)
            self._members.end_member(wall_ms, transaction, commits, overwrite, decision)
        task = sink.tasks[transactional_id]._replace(since_ms=wall_ms, timeout_ms=0)
        decision.records.append(record_of(key, transactional_id, task, is_free=True))
        decision.effects.append(CancelTimer(TaskTimer(transactional_id)))

    def _forget(self, key: SinkKey, sink: SinkState, decision: Decision) -> None:
        decision.records.append(Record(SinkDecisionKey(*key), None))
        decision.records.append(Record(SinkRunsKey(*key), None))
        for transactional_id in (*sink.tasks, *sink.free):
            decision.records.append(Record(SinkTaskKey(transactional_id), None))

    def _timer(self, wall_ms: int, transactional_id: str, task: TaskState) -> SetTimer:
        delay_ms = self._config.sink_lease_ms
        if task.is_prepared:
            left_ms = task.since_ms + task.timeout_ms - wall_ms
            delay_ms = min(max(left_ms, 0), task.timeout_ms)
        return SetTimer(TaskTimer(transactional_id), delay_ms)


def _is_repeated(last: DecidedBatch, request: DecideBatch) -> bool:
    """Whether the request is the one that made the decision."""
    return (last.row_count, last.checksum, last.digest, last.receipt, last.overwritten) == (
        request.row_count,
        request.checksum,
        request.digest,
        request.receipt,
        request.overwritten,
    )


def _refusal(last: DecidedBatch, batch_id: int, run_number: int) -> SinkBatchDecided:
    if batch_id == last.batch_id:
        return SinkBatchDecided(
            f"batch {batch_id} was written by this run already: two writes of one batch need a "
            "sinkId each"
        )
    return SinkBatchDecided(
        f"batch {batch_id} comes behind batch {last.batch_id}, which counts since run "
        f"{last.run_number} (this is run {run_number}): the checkpoint is older than the sink. "
        "Go on from the newer checkpoint, or write with another sinkId"
    )
