"""Refusals of a sink's coordinator: by one that knows a part of the log, and by one that knows all.

A coordinator that was deposed and has not heard of it is one that knows a part.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from pylog.errors import (
    InvalidRequest,
    InvalidTxnState,
    PylogError,
    SinkBatchDecided,
    SinkRunSuperseded,
)
from pylog.model import Offset, ProducerId
from pylog_broker.coordinator.runtime.decision import (
    Decision,
    Record,
    Reply,
    Send,
    SetTimer,
)
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.coordinator import TransactionCoordinator
from pylog_broker.coordinator.transactions.messages import AddPartitions, NeedsProducerId
from pylog_broker.coordinator.transactions.refusals import PROOF
from pylog_broker.coordinator.transactions.sink_messages import (
    AbortBatch,
    BatchAborted,
    BatchDecided,
    BeginTask,
    DecideBatch,
    ForgetSink,
    Member,
    PrepareTask,
    RenewTask,
    SinkKey,
)
from pylog_broker.coordinator.transactions.sinks import TaskTimer
from tests.fakes.transaction_shard import WALL_MS, A, identity

SINK = SinkKey("8f3b", "topic/orders")
RUN, NEXT_RUN = "run-1", "run-2"
ID = 7
"""The number of each request."""
FIRST = Member(SINK.transactional_id(0), identity(1000, 0))
STRANGER = Member(SINK.transactional_id(0), identity(4711, 0))

Request = BeginTask | RenewTask | PrepareTask | DecideBatch | AbortBatch | ForgetSink


class Knowing:
    """A coordinator that knows these records, and what it decides."""

    def __init__(self, *records: Record) -> None:
        self.coordinator = TransactionCoordinator(TransactionConfig())
        self.records: list[Record] = []
        self._next_id = 1000
        self._replay(*records)

    def _replay(self, *records: Record) -> None:
        for record in records:
            self.coordinator.replay(record, Offset(len(self.records)))
            self.records.append(record)

    def decides(self, request: Request) -> Decision:
        """The decision, of which nothing is replayed; an error that is raised is its answer."""
        try:
            return self._decides(request)
        except PylogError as error:
            return Decision(effects=[Reply(ID, error)])

    def _decides(self, request: Request) -> Decision:
        sinks = self.coordinator.sinks
        match request:
            case BeginTask():
                decision = sinks.begin(WALL_MS, ID, request)
                if decision.effects == [Reply(ID, NeedsProducerId())]:
                    return sinks.begin(WALL_MS, ID, request, ProducerId(self._next_id))
                return decision
            case RenewTask():
                return sinks.renew(WALL_MS, ID, request)
            case PrepareTask():
                return sinks.prepare(WALL_MS, ID, request)
            case DecideBatch():
                return sinks.decide(WALL_MS, ID, request)
            case AbortBatch():
                return sinks.abort(WALL_MS, ID, request)
            case ForgetSink():
                return sinks.forget(WALL_MS, ID, request)

    def asked(self, request: Request) -> Any:
        """The answer, behind its records."""
        decision = self.decides(request)
        self._next_id += 1
        self._replay(*decision.records)
        for effect in decision.effects:
            if isinstance(effect, Send):
                sent = effect.message
                name, marked = sent.transactional_id, sent.identity  # type: ignore[attr-defined]
                written = self.coordinator.on_markers_written(WALL_MS, name, marked, [A])
                self._replay(*written.records)
        return response_of(decision)

    def writes(self, member: Member) -> None:
        """The attempt has written a batch."""
        request = AddPartitions(member.transactional_id, member.identity, (A,))
        try:
            self._replay(*self.coordinator.add_partitions(WALL_MS, ID, request).records)
        except PylogError:
            return


def response_of(decision: Decision) -> Any:
    (answer,) = [each for each in decision.effects if isinstance(each, Reply)]
    assert answer.request_id == ID
    return answer.response


def begin(task: int = 0, batch: int = 0, run: str = RUN, *, group: str = "") -> BeginTask:
    return BeginTask(SINK, run, batch, task, 0, group, "at 5" if group else "")


def prepare(member: Member = FIRST) -> PrepareTask:
    return PrepareTask(SINK, member)


def renew(member: Member = FIRST) -> RenewTask:
    return RenewTask(SINK, member)


def decide(
    *members: Member, batch: int = 0, run: str = RUN, rows: int = 11, groups: tuple[str, ...] = ()
) -> DecideBatch:
    return DecideBatch(SINK, run, batch, members, rows, 77, "", (), progress_groups=groups)


def abort(run: str = RUN, *, ends_run: bool = False, batch: int = 0) -> AbortBatch:
    return AbortBatch(SINK, run, batch, ends_run=ends_run)


def abort_attempt(member: Member = FIRST) -> AbortBatch:
    return AbortBatch(SINK, "", 0, member=member)


ABORT_SINK = AbortBatch(SINK, "", 0, whole_sink=True)
OPEN = (begin(),)
STAGED = (*OPEN, prepare())
COUNTED = (*STAGED, decide(FIRST))
ENDED = (*STAGED, abort(ends_run=True))
SUPERSEDED = (*STAGED, begin(run=NEXT_RUN))
POSITIONS = (begin(group="g"),)


def after(*requests: Request) -> Knowing:
    known = Knowing()
    for request in requests:
        known.asked(request)
    return known


# ---- refusals that a newer coordinator might not give --------------------------------------------


@pytest.mark.parametrize(
    ("known", "more", "asked", "refusal"),
    [
        ((), STAGED, decide(FIRST), InvalidTxnState),
        ((), OPEN, prepare(), InvalidTxnState),
        ((), OPEN, renew(), InvalidTxnState),
        (OPEN, STAGED, decide(FIRST), InvalidTxnState),
        (POSITIONS, (*POSITIONS, prepare()), decide(groups=("g",)), InvalidTxnState),
        ((), (*POSITIONS, prepare()), decide(groups=("g",)), InvalidRequest),
        (
            (*POSITIONS, prepare()),
            (*POSITIONS, prepare(), decide(groups=("g",))),
            begin(batch=1, group="g"),
            InvalidRequest,
        ),
        (STAGED, COUNTED, decide(run=NEXT_RUN, groups=("g",)), InvalidRequest),
        (
            COUNTED,
            (*COUNTED, decide(batch=1)),
            decide(FIRST, run=NEXT_RUN, batch=1),
            InvalidTxnState,
        ),
        ((), OPEN, ForgetSink(SINK), InvalidRequest),
    ],
    ids=[
        "an attempt is not known yet",
        "it prepares",
        "it is renewed",
        "it is not known to be prepared",
        "positions are not known to be prepared",
        "positions are not known yet",
        "the batch before is not known to be decided",
        "the batch is not known to be decided",
        "nor is it where attempts are named that have ended",
        "the sink is not known yet",
    ],
)
def test_a_refusal_that_a_newer_coordinator_might_not_give_waits(
    known: tuple[Request, ...],
    more: tuple[Request, ...],
    asked: Request,
    refusal: type[PylogError],
) -> None:
    decision = after(*known).decides(asked)
    refused = response_of(decision)
    assert isinstance(refused, refusal)
    assert decision == Decision([PROOF], [Reply(ID, refused)])
    newer = after(*more)
    assert newer.records[: len(after(*known).records)] == after(*known).records
    assert not isinstance(newer.asked(asked), PylogError)


def test_the_attempt_that_gets_an_id_anew_is_not_known_yet() -> None:
    known = after(*COUNTED)
    newer = Knowing(*known.records)
    member = newer.asked(begin(batch=1))
    assert member == Member(FIRST.transactional_id, identity(1000, 1))
    decision = known.decides(prepare(member))
    assert decision == Decision([PROOF], [Reply(ID, response_of(decision))])
    assert newer.asked(prepare(member)) == member


def test_a_proof_changes_nothing() -> None:
    known = after(*STAGED)
    transactions = dict(known.coordinator.transactions)
    described = list(known.coordinator.sinks.described())
    assert isinstance(known.asked(renew(STRANGER)), InvalidTxnState)
    assert known.records[-1] == PROOF
    assert known.coordinator.transactions == transactions
    assert list(known.coordinator.sinks.described()) == described


# ---- refusals that stay true ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "asked", "refusal"),
    [
        (SUPERSEDED, begin(1), SinkRunSuperseded),
        (SUPERSEDED, decide(FIRST), SinkRunSuperseded),
        (SUPERSEDED, prepare(), InvalidTxnState),
        (SUPERSEDED, renew(), InvalidTxnState),
        (COUNTED, begin(1), SinkBatchDecided),
        (COUNTED, decide(FIRST, rows=12), SinkBatchDecided),
        (COUNTED, prepare(), InvalidTxnState),
        (ENDED, begin(1), InvalidTxnState),
        (ENDED, decide(FIRST), InvalidTxnState),
        (POSITIONS, begin(1, group="g")._replace(progress_digest="at 6"), InvalidRequest),
    ],
)
def test_a_refusal_that_stays_true_leaves_at_once(
    known: tuple[Request, ...], asked: Request, refusal: type[PylogError]
) -> None:
    decision = after(*known).decides(asked)
    refused = response_of(decision)
    assert isinstance(refused, refusal)
    assert decision == Decision(effects=[Reply(ID, refused)])


# ---- aborts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        ((), abort()),
        ((), abort_attempt()),
        ((), ABORT_SINK),
        (OPEN, abort(NEXT_RUN)),
        (OPEN, abort(NEXT_RUN, ends_run=True)),
        (OPEN, abort(batch=1)),
        (COUNTED, abort_attempt(Member(FIRST.transactional_id, identity(1000, 1)))),
        (COUNTED, ABORT_SINK),
    ],
)
def test_an_abort_that_finds_nothing_is_answered_by_a_coordinator_that_leads(
    known: tuple[Request, ...], asked: Request
) -> None:
    decision = after(*known).decides(asked)
    assert decision == Decision([PROOF], [Reply(ID, BatchAborted(0))], is_atomic=False)


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        (COUNTED, abort()),
        (COUNTED, abort_attempt()),
        (ENDED, abort(ends_run=True)),
        (ENDED, abort(batch=1)),
        (SUPERSEDED, abort(ends_run=True)),
        (SUPERSEDED, abort_attempt()),
    ],
)
def test_an_abort_of_what_has_ended_is_answered_at_once(
    known: tuple[Request, ...], asked: Request
) -> None:
    decision = after(*known).decides(asked)
    assert decision == Decision(effects=[Reply(ID, BatchAborted(0))], is_atomic=False)


# ---- all of it, at random ------------------------------------------------------------------------


class History:
    """Requests of some runs that follow one another, and the records that a leader made of them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.leader = Knowing()
        self.members = [STRANGER]
        self.runs = [RUN]
        self.batch = 0

    def request(self) -> Request:
        """Of any run and any attempt, mostly of the newest ones."""
        rng = self.rng
        member = rng.choice((self.members[-1], rng.choice(self.members)))
        members = tuple(rng.sample(self.members, min(rng.randrange(3), len(self.members))))
        run = rng.choice((self.runs[-1], rng.choice(self.runs)))
        batch = max(self.batch - rng.choice((0, 0, 1)), 0)
        group = rng.choice(("", "", "g"))
        groups = rng.choice(((), ("g",)))
        made: list[Callable[[], Request]] = [
            lambda: begin(rng.randrange(9), batch, run, group=group),
            lambda: prepare(member),
            lambda: renew(member),
            lambda: decide(*(members or (member,)), batch=batch, run=run, groups=groups),
            lambda: abort_attempt(member),
            lambda: abort(run, ends_run=rng.random() < 0.2, batch=batch),
        ]
        return rng.choices(made, (5, 5, 1, 5, 1, 1))[0]()

    def step(self) -> None:
        request = self.request()
        answer = self.leader.asked(request)
        if isinstance(answer, Member) and isinstance(request, BeginTask):
            self.members.append(answer)
            self.leader.writes(answer)
        elif isinstance(answer, BatchDecided):
            self.batch = max(self.batch, answer.batch.batch_id + 1)
        if self.rng.random() < 0.03:
            self.runs.append(f"run-{len(self.runs) + 1}")


def leaves_at_once(decision: Decision) -> bool:
    return not decision.records


@pytest.mark.parametrize("seed", range(40))
def test_what_leaves_a_deposed_coordinator_at_once_its_successor_would_have_said(seed: int) -> None:
    history = History(seed)
    records = history.leader.records
    at_once = waited = 0
    for _ in range(150):
        history.step()
        request = history.request()
        deposed = Knowing(*records[: history.rng.randrange(len(records) + 1)])
        by_both = [each.decides(request) for each in (deposed, Knowing(*records))]
        old, new = map(response_of, by_both)
        if isinstance(old, PylogError) and leaves_at_once(by_both[0]):
            at_once += 1
            assert isinstance(new, PylogError), (request, old, new)
        elif isinstance(old, BatchAborted) and leaves_at_once(by_both[0]):
            assert (new, leaves_at_once(by_both[1])) == (old, True), request
        waited += by_both[0].records == [PROOF]
    assert at_once > 5
    assert waited > 5


def test_a_prepared_attempt_is_renewed_without_a_record() -> None:
    assert after(*STAGED).decides(renew()) == Decision(effects=[Reply(ID, FIRST)])
    lease = SetTimer(TaskTimer(FIRST.transactional_id), TransactionConfig().sink_lease_ms)
    assert after(*OPEN).decides(renew()) == Decision(effects=[lease, Reply(ID, FIRST)])
