"""The drivers of queries and jobs: one run each, which has tasks write its batches and asks for one
decision about each of them, by the rules of the product's `deciding`.

A query goes on from its checkpoint: the batch that it planned last, if that is not committed there,
or else the next one. A job has one batch, and no checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pylog import errors
from pylog.client.sinks import sink_wire
from pylog.client.sinks.sink_types import (
    KEEP_FOREVER,
    OverwrittenTopic,
    SinkAttempt,
    SinkBatch,
    SinkKey,
    merged,
)
from pylog.model import LATEST_TIMESTAMP, BrokerId, LeaderEpoch, TopicPartition
from pylog.rpc import apis
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery
from pylog_connector.errors import SinkTaken
from pylog_connector.options import sink_options
from tests.sim.rpc import Actor, Machine, unary
from tests.sim.sink_calls import SinkCaller
from tests.sim.sink_progress import Number, Positions
from tests.sim.sink_starts import Start
from tests.sim.sink_workers import Order, SinkWorker, TaskReport

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.sink_apps import SinkApps

DECIDE_MS = 8_000
ABORT_MS_MAX = 3_000
OFFSETS_MS = 1_000
LOOKS_MAX = 5
ROWS_MAX = 6
THINK_MS = 60
DYING = ("before the decision", "with the decision", "behind the decision")
MESSAGE_MS = 4
LOST_MS = 300
READ_MAX = 4
SOURCE = -1
"""In place of a task's number: the one that commits what is read."""


class Plan(NamedTuple):
    """The range of a batch: what its source gives out."""

    begin: Positions
    end: Positions

    @property
    def numbers(self) -> list[Number]:
        """All of them."""
        return [
            (partition, offset)
            for partition, end in sorted(self.end.items())
            for offset in range(self.begin.get(partition, 0), end)
        ]


@dataclass(slots=True)
class Checkpoint:
    """The offset log and the commit log of a query."""

    planned: int = -1
    committed: int = -1
    plans: dict[int, Plan] = field(default_factory=dict)
    """The ranges of batches, where the query commits what it has read."""


@dataclass(frozen=True, slots=True)
class Work:
    """The sink that a driver writes to. `checkpoint`: None for a job. `is_keyed`: it has an
    `idempotencyKey`.
    """

    sink: SinkKey
    checkpoint: Checkpoint | None = None
    keep_ms: int = KEEP_FOREVER
    is_keyed: bool = False
    reads: bool = False
    """Whether what it has read is committed to the group that has the name of the sink's id."""
    takes_over: bool = False
    """Whether it is meant to go on in the place of another query."""


@dataclass(eq=False, slots=True)
class _Batch:
    """The batch that is written now."""

    number: int
    rows: list[tuple[int, ...]]
    """The partitions of each task's rows."""
    numbers: list[tuple[Number, ...]] = field(default_factory=list)
    """The numbers that each task's rows are made of, of a query that commits what it has read."""
    ends: Positions | None = None
    """To where it has read then."""
    overwrites: bool = False
    dies: str = ""
    reports: dict[int, TaskReport] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    running: dict[int, tuple[int, SinkWorker]] = field(default_factory=dict)
    is_decided: bool = False
    has_failed: bool = False

    @property
    def is_reported(self) -> bool:
        """Whether all tasks have reported."""
        return len(self.reports) == len(self.rows) + (self.ends is not None)


class Driver(Actor):
    """One run of a query, or one job."""

    def __init__(self, cluster: Cluster, apps: SinkApps, name: str, run_id: str, work: Work):
        super().__init__(Machine(name, cluster.scheduler, 0))
        swarm = cluster.swarm.sinks
        assert swarm is not None
        self.cluster = cluster
        self.work = work
        self.run_id = run_id
        self._apps = apps
        self._swarm = swarm
        self.rng = cluster.scheduler.rng(name)
        self._caller = SinkCaller(cluster, self, self.rng)
        self._batch: _Batch | None = None
        self._next = 0  # the batch that comes next, by this run's own memory
        self._is_last = False
        self._tries_max = self.rng.choice((1, 3))
        self.has_written_last = False
        self.says_last = False
        self.is_misled = False  # by an old checkpoint
        self.is_refused = False  # until it is meant to go on in the place of another query
        self._begin: Positions = {}
        self._plans: dict[int, Plan] = {}
        self._options = None
        if work.reads:
            takeover = {"pylog.sink.takeover": "true"} if work.takes_over else {}
            given = {"pylog.bootstrap.servers": "x:1", "topic": cluster.TOPIC, **takeover}
            self._options = sink_options({**given, "sinkId": work.sink.sink_id})

    # ---- the run

    def start(self, *, behind: int = 0, looks_up: bool = False) -> None:
        """Go on from the checkpoint; from an earlier state of it, where it is put back. It
        `looks_up` where its group has come to, where there is no checkpoint as yet.
        """
        checkpoint = self.work.checkpoint
        if checkpoint is None:
            self._plan()
            return
        if looks_up and not checkpoint.plans:
            self._look_up()
            return
        self._plans = dict(checkpoint.plans)
        self._next = checkpoint.committed + 1
        if behind and checkpoint.committed >= behind:
            self._next -= behind
            self.is_misled = True
        elif checkpoint.planned > checkpoint.committed:
            self._count("batch replayed")
        self._plan()

    def _look_up(self) -> None:
        sink, ghost = self.work.sink, self._apps.ghost.progress
        since = ghost.begins_to_look(sink.sink_id)

        def heard(told: Positions | errors.PylogError) -> None:
            if isinstance(told, errors.PylogError):
                self._count(f"query cannot begin: {type(told).__name__}")
                self.is_refused = isinstance(told, errors.RequestTimedOut)
                self._end()
                return
            self._apps.ghost.told_positions(self.name, sink, since, told)
            self._begin, self._next = told, 0
            self._plan()

        self._count(f"query looks up its group{', and takes over' * self.work.takes_over}")
        start = Start(self.cluster, self, self._caller, sink, heard)
        start.look(takes_over=self.work.takes_over)

    def _count(self, what: str) -> None:
        self.cluster.sometimes[f"sinks: {what}"] += 1

    def _plan(self) -> None:
        """The next batch: so many tasks, with their rows."""
        if not self.alive:
            return
        rng = self.rng
        topic = self.cluster.topic()
        assert topic is not None
        count = len(topic.partitions)
        self._is_last = self.says_last
        if self.work.reads:
            self._plan_what_is_read(count)
            return
        if self._is_last:
            rows = [tuple(range(count))]
        else:
            rows = [
                tuple(rng.choice((-1, -1, rng.randrange(count))) for _ in range(rng.randint(0, 6)))
                for _ in range(rng.randint(1, 3))
            ]
        self._run_batch(_Batch(self._next, rows))

    def _plan_what_is_read(self, count: int) -> None:
        """A batch of the source's numbers, which the offset log may have already."""
        rng, checkpoint = self.rng, self.work.checkpoint
        assert checkpoint is not None
        plan = self._plans.get(self._next)
        if plan is None:
            before = self._plans.get(self._next - 1)
            begin = self._begin if before is None else before.end
            more = [1 if self._is_last else rng.randint(0, READ_MAX) for _ in range(count)]
            end = {number: begin.get(number, 0) + each for number, each in enumerate(more)}
            plan = Plan(begin, {number: offset for number, offset in end.items() if offset})
            self._plans[self._next] = plan
        else:
            self._is_last = False
        if not self.is_misled:
            checkpoint.plans[self._next] = plan
        tasks = rng.randint(1, 3)
        numbers = [tuple(plan.numbers[task::tasks]) for task in range(tasks)]
        rows = [tuple(rng.choice((-1, rng.randrange(count))) for _ in each) for each in numbers]
        sink, run_id = self.work.sink, self.run_id
        self._apps.ghost.progress.plans(sink, run_id, self._next, plan.end)
        self._run_batch(_Batch(self._next, rows, numbers, plan.end))

    def _run_batch(self, batch: _Batch) -> None:
        rng, swarm, rows = self.rng, self._swarm, batch.rows
        if not self._is_last:
            batch.overwrites = rng.random() < swarm.overwriting_share
            if rng.random() < swarm.dying_share:
                batch.dies = rng.choice(DYING)
        checkpoint = self.work.checkpoint
        if checkpoint is not None and not self.is_misled:
            checkpoint.planned = max(checkpoint.planned, self._next)
        self._batch = batch
        self.cluster.scheduler.note("batch", self.name, batch.number, rows, batch.overwrites)
        for task in range(len(rows)):
            self._launch(batch, task)
        if batch.ends is not None:
            self._launch(batch, SOURCE)
        self._look_after(batch)

    # ---- tasks

    def _launch(self, batch: _Batch, task: int) -> None:
        if batch is not self._batch or batch.has_failed:
            return
        number = self._apps.next_attempt()
        slow_ms = self._swarm.slow_ms
        if not self._is_last and self.rng.random() < 0.1:
            slow_ms *= 10
        order = self._order(batch, task, number, slow_ms)
        worker = self._apps.worker()
        batch.running[number] = (task, worker)
        self._send(worker, worker.write, order, partial(self._send_back, batch, number))
        if not self._is_last and self.rng.random() < self._swarm.speculative_share:
            self.timer(self.rng.random() * 300, self._speculate, batch, task)

    def _order(self, batch: _Batch, task: int, number: int, slow_ms: float) -> Order:
        sink, ends, prepared_ms = self.work.sink, batch.ends, self._swarm.prepared_ms
        attempt = SinkAttempt(sink, self.run_id, batch.number, max(task, 0), number)
        if ends is None:
            return Order(attempt, batch.rows[task], slow_ms, prepared_ms)
        if task == SOURCE:
            digest = str(sorted(ends.items()))
            attempt = attempt._replace(progress_group=sink.sink_id, progress_digest=digest)
            return Order(attempt, (), slow_ms, prepared_ms, always_begins=True, positions=ends)
        return Order(
            attempt,
            batch.rows[task],
            slow_ms,
            prepared_ms,
            always_begins=task == 0,
            numbers=batch.numbers[task],
            options=self._options,
        )

    def _speculate(self, batch: _Batch, task: int) -> None:
        if batch is self._batch and task not in batch.reports and not batch.has_failed:
            self._count("second attempt while the first runs")
            self._launch(batch, task)

    def _send(self, worker: SinkWorker, fn: Any, *args: Any) -> None:
        wait_ms = self.rng.expovariate(1.0 / MESSAGE_MS)
        self.cluster.scheduler.after(int(wait_ms * 1_000), worker.hear, fn, *args)

    def _send_back(self, batch: _Batch, number: int, told: TaskReport | errors.PylogError) -> None:
        wait_ms = self._apps.rng.expovariate(1.0 / MESSAGE_MS)
        self.cluster.scheduler.after(
            int(wait_ms * 1_000), self.hear, self._heard, batch, number, told
        )

    def _look_after(self, batch: _Batch) -> None:
        """A process that is gone is missed after a while, with the attempt that it wrote."""
        if batch is not self._batch or batch.has_failed:
            return
        for number, (_, worker) in list(batch.running.items()):
            if not worker.alive or worker.is_dropped:
                self._heard(batch, number, errors.ClientClosed("the executor is lost"))
        self.timer(LOST_MS, self._look_after, batch)

    def _heard(self, batch: _Batch, number: int, told: TaskReport | errors.PylogError) -> None:
        """A task has reported, or failed."""
        task, worker = batch.running.pop(number, (-1, None))
        if batch is not self._batch or batch.has_failed or worker is None:
            if isinstance(told, TaskReport) and told.member is not None:
                self._count("report that comes late")
            return
        if task in batch.reports:
            if isinstance(told, TaskReport) and told.member is not None:
                self._count("report of a second attempt that is left out")
            return
        if isinstance(told, TaskReport):
            batch.reports[task] = told
            self._end_others(batch, task)
            if batch.is_reported:
                self._decide(batch)
            return
        if any(of == task for of, _ in batch.running.values()):
            return  # another attempt goes on
        batch.tries[task] = batch.tries.get(task, 0) + 1
        if batch.tries[task] >= self._tries_max:
            self._fail(batch, told)
        else:
            self._launch(batch, task)

    def _end_others(self, batch: _Batch, task: int) -> None:
        """Spark ends the other attempts of a task, sooner or later, or not before they are done."""
        for of, worker in batch.running.values():
            if of != task:
                continue
            kind = self.rng.choice(("drop", "drop", "late", "crash"))
            if kind == "drop":
                self._send(worker, worker.drop)
            elif kind == "crash":
                self._send(worker, worker.crash)

    # ---- the decision

    def _decide(self, batch: _Batch) -> None:
        reports = [batch.reports[task] for task in sorted(batch.reports) if task != SOURCE]
        staged = [each for each in reports if each.member is not None]
        known = next((each.decided for each in reports if each.decided is not None), None)
        if known is not None and staged:
            self._fail(batch, errors.InvalidTxnState("decided while its tasks wrote"))
            return
        if known is not None:
            self._count("batch that counts already")
            self._finish(batch)
            return
        if not staged and not self.work.is_keyed:
            self._count("batch without rows")
            self._finish(batch)
            return
        if batch.dies == DYING[0]:
            self._die(batch)
            return
        wanted = SinkBatch(
            self.work.sink,
            self.run_id,
            batch.number,
            tuple(each.member for each in staged if each.member is not None),
            sum(each.rows for each in reports),
            0,
            merged([each for one in staged for each in one.ranges]),
            keep_ms=self.work.keep_ms,
            progress_groups=(self.work.sink.sink_id,) if self.work.reads else (),
        )
        if batch.overwrites and staged:
            self._look_for_ends(batch, wanted)
        else:
            self._ask(batch, wanted)

    def _ask(self, batch: _Batch, wanted: SinkBatch) -> None:
        if batch is not self._batch or batch.has_failed:
            return
        self._apps.ghost.asked_to_decide(wanted)
        self._count("decision asked for")
        if batch.dies == DYING[1]:
            self.timer(self.rng.random() * 30, self._die, batch)
        self._caller.ask(
            self.work.sink,
            apis.DECIDE_SINK_BATCH,
            sink_wire.decide_request(wanted),
            partial(self._answered, batch, wanted),
            DECIDE_MS,
        )

    def _answered(self, batch: _Batch, wanted: SinkBatch, answer: Any) -> None:
        if isinstance(answer, errors.PylogError):
            self._apps.ghost.told_refusal(self.name, wanted, answer)
        if batch is not self._batch or batch.has_failed:
            return
        if isinstance(answer, errors.PylogError):
            self._fail(batch, answer)
            return
        decided = sink_wire.decision_of(answer.decision)
        self._apps.ghost.told_decision(self.name, self.work.sink, decided)
        self._count("decision is new" if answer.is_new else "decision was made before")
        if batch.dies == DYING[2]:
            self._die(batch)
            return
        self._finish(batch)

    def _finish(self, batch: _Batch) -> None:
        """The batch counts; Spark writes its commit log."""
        batch.is_decided = True
        self._batch = None
        checkpoint = self.work.checkpoint
        if checkpoint is None:
            self.has_written_last = self._is_last
            self._end()
            return
        if self.is_misled:
            self._end()  # somebody sees that it is the wrong one
            return
        checkpoint.committed = max(checkpoint.committed, batch.number)
        self._next = batch.number + 1
        if self._is_last:
            self.has_written_last = True
            return
        self.timer(self.rng.expovariate(1.0 / THINK_MS), self._plan)

    # ---- overwriting

    def _look_for_ends(self, batch: _Batch, wanted: SinkBatch, looks: int = 0) -> None:
        """Partitions to which the batch has written nothing begin at their ends."""
        topic = self.cluster.topic()
        assert topic is not None
        first = {each.partition: each.first_offset for each in wanted.receipt}
        rest = [number for number in sorted(topic.partitions) if number not in first]

        def look(looked: int) -> None:
            if batch is not self._batch or batch.has_failed:
                return
            missing = [number for number in rest if number not in first]
            if not missing:
                starts = tuple(first[number] for number in sorted(topic.partitions))
                overwritten = OverwrittenTopic(topic.name, str(topic.topic_id), starts)
                self._ask(batch, wanted._replace(overwritten=(overwritten,)))
            elif looked >= LOOKS_MAX:
                self._fail(batch, errors.RequestTimedOut("offsets"))
            else:
                self._list_offset(missing[0], lambda offset: heard(missing[0], offset, looked))

        def heard(number: int, offset: int | None, looked: int) -> None:
            if offset is None:
                self.timer(50 + self.rng.random() * 50, look, looked + 1)
            else:
                first[number] = offset
                look(looked)

        look(looks)

    def _list_offset(self, number: int, heard: Callable[[int | None], None]) -> None:
        topic = self.cluster.topic()
        assert topic is not None
        leader = topic.partitions[number].leader
        tp = TopicPartition(topic.name, number)

        def answered(answers: tuple[OffsetAnswer, ...] | None) -> None:
            told = None if answers is None else answers[0]
            heard(None if told is None or told.failure is not None else told.offset)

        unary(
            self.cluster.net,
            self,
            lambda: self.cluster.process(BrokerId(leader)),
            lambda process, value, answer: process.clients.serve_list_offsets(value, answer),
            (OffsetQuery(tp, LATEST_TIMESTAMP, LeaderEpoch(-1)),),
            answered,
            OFFSETS_MS,
        )

    # ---- ends

    def _fail(self, batch: _Batch, error: errors.PylogError) -> None:
        """The batch has failed: the other tasks are cancelled, late, and it is aborted, mostly."""
        batch.has_failed = True
        self.is_refused = isinstance(error, SinkTaken)
        self._count(f"batch fails with {type(error).__name__}")
        self.cluster.scheduler.note("batch fails", self.name, batch.number, type(error).__name__)
        for _, worker in batch.running.values():
            if self.rng.random() < 0.7:
                wait_ms = self.rng.random() * 500
                self.cluster.scheduler.after(int(wait_ms * 1_000), worker.hear, worker.drop)
        if self.rng.random() < 0.2:
            self._end()
            return
        goes_on = self.rng.random() < 0.2 and not self.work.is_keyed
        self._count("batch aborted, and its run goes on" if goes_on else "run ended by its driver")
        request = sink_wire.abort_request(
            self.work.sink, self.run_id, batch.number, ends_run=not goes_on
        )

        def aborted(_: object) -> None:
            if goes_on and not isinstance(error, errors.SinkRunSuperseded):
                self._batch = None  # `foreachBatch`, whose user writes the batch again
                self._plan()
            else:
                self._end()

        self._caller.ask(self.work.sink, apis.ABORT_SINK_BATCH, request, aborted, ABORT_MS_MAX)

    def _die(self, batch: _Batch) -> None:
        if batch is self._batch and self.alive:
            self._count(f"driver dies {batch.dies}")
            self.crash()
            self._apps.ended(self, dies=True)

    def _end(self) -> None:
        """The run is over; another one may come."""
        self.crash()
        self._apps.ended(self)

    def crash(self) -> None:
        """The process is gone; its executors are those of all."""
        self.alive = False
        self.cluster.net.break_all_of(self.name, seen_by_peer=self.rng.random() < 0.7)

    def workers(self) -> list[SinkWorker]:
        """Those that write for it now."""
        return [] if self._batch is None else [each for _, each in self._batch.running.values()]
