"""The invariants of sinks, by a plain twin over the committed log of their coordinators.

S1: a decision is of the newest run, later than the one before it, and names prepared attempts of
its batch, those that its driver has named; a task has one. S2: what it names is committed, and no
other attempt is; what is committed stays. S3: one transactional id and one identity belong to one
attempt. S4: who is told of a decision is told what the log says. S5: an overwritten partition
begins at its new start before its readers see the batch, and at no new start that is not decided.
S6: of each attempt that counts, readers of committed records see each record once; of any other
none. S7: nobody is told that an attempt has ended which is open by the log, or that attempts do not
count which may, or do. I14: the memory of a coordinator is what its log says. `sink_progress` has
those of queries that commit what they have read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pylog.client.sinks.sink_types import SinkBatch, SinkDecision, SinkMember
from pylog.client.sinks.sink_types import SinkKey as ClientKey
from pylog.errors import InvalidTxnState, PylogError
from pylog.model import Offset, TopicId, TopicPartition, topic_id_from_bytes
from pylog_broker.api.transactions.sinks import TaskBegun
from pylog_broker.coordinator.generated.sink_decision import SinkDecisionKey, SinkDecisionValue
from pylog_broker.coordinator.generated.sink_runs import SinkRunsKey, SinkRunsValue
from pylog_broker.coordinator.generated.sink_task import SinkTaskKey, SinkTaskValue
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.coordinator.transactions.coordinator import TransactionCoordinator
from pylog_broker.coordinator.transactions.sink_messages import (
    AbortBatch,
    AlreadyDecided,
    BeginTask,
    DecidedBatch,
    Member,
    SinkKey,
    sink_of,
)
from pylog_broker.coordinator.transactions.sink_records import FREE, OPEN, PREPARED
from pylog_broker.coordinator.transactions.transaction import Transaction
from tests.sim.partition_transactions import COMMITTED
from tests.sim.sink_progress import Positions, ProgressGhost
from tests.sim.sink_workers import WrittenAttempt
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.transaction_ghost import TransactionGhost

_Identity = tuple[int, int]
_Task = tuple[str, int, int, int]
"""Run, batch, task and attempt."""


@dataclass(slots=True)
class _Open:
    """An attempt that has a transactional id."""

    of: _Task
    identity: _Identity
    group: str = ""
    """The one to which it commits positions, in place of rows."""
    is_prepared: bool = False

    def is_ready_for(self, of: tuple[str, int]) -> bool:
        """Whether a decision about that batch of that run may name it."""
        return self.is_prepared and self.of[:2] == of


@dataclass(slots=True)
class _Sink:
    """One sink, as its records say."""

    first_number: int = 0
    run_ids: tuple[str, ...] = ()
    has_ended: bool = False
    open: dict[str, _Open] = field(default_factory=dict)
    decision: SinkDecisionValue | None = None
    counted: dict[str, _Open] = field(default_factory=dict)
    """The attempts that the decision commits, by their transactional ids."""

    def run_id(self, number: int) -> str:
        """The run of that number; empty where it is forgotten."""
        index = number - self.first_number
        return self.run_ids[index] if 0 <= index < len(self.run_ids) else ""


class SinkGhost:
    """The ghost state of all sinks of a run. The log is read by that of transactions."""

    def __init__(self, cluster: Cluster, transactions: TransactionGhost) -> None:
        self._cluster = cluster
        self._sometimes = cluster.sometimes
        self._transactions = transactions
        transactions.sinks = self
        self._sinks: dict[SinkKey, _Sink] = {}
        self._asked: dict[SinkKey, list[SinkBatch]] = {}
        self._may_forget: set[SinkKey] = set()
        self._made: dict[SinkKey, list[SinkDecisionValue]] = {}
        self._given: dict[_Identity, tuple[str, SinkKey, _Task]] = {}
        self._prepared: set[_Identity] = set()
        self._counted: set[tuple[SinkKey, _Task]] = set()
        self._commits: dict[_Identity, SinkDecisionValue] = {}
        """The decisions by which transactions commit, by the identities of their markers."""
        self._replayed: dict[int, TransactionCoordinator] = {}
        self.progress = ProgressGhost(cluster)
        self.attempts: list[WrittenAttempt] = []

    def _fail(self, invariant: str, text: str) -> None:
        raise Violation(invariant, text)

    # ---- the log

    def take(self, number: int, record: Record) -> None:
        """The next record of a sink in that partition."""
        match record.key, record.value:
            case SinkRunsKey(), value:
                assert value is None or isinstance(value, SinkRunsValue)
                self._take_runs(SinkKey(*record.key), value)
            case SinkDecisionKey(), value:
                assert value is None or isinstance(value, SinkDecisionValue)
                self._take_decision(SinkKey(*record.key), value)
            case SinkTaskKey(transactional_id), value:
                assert value is None or isinstance(value, SinkTaskValue)
                self._take_task(transactional_id, value)
            case _:
                raise AssertionError(record)

    def replay(self, number: int, record: Record) -> None:
        """The memory that a coordinator has of the log, whatever it decided by itself."""
        known = self._replayed.get(number)
        if known is None:
            assert self._cluster.transactions is not None
            config = self._cluster.transactions.config
            known = self._replayed[number] = TransactionCoordinator(config)
        known.replay(record, Offset(0))

    def _sink(self, key: SinkKey) -> _Sink:
        return self._sinks.setdefault(key, _Sink())

    def _take_runs(self, key: SinkKey, value: SinkRunsValue | None) -> None:
        sink = self._sink(key)
        if value is None:
            sink.run_ids, sink.first_number, sink.has_ended = (), 0, False
            return
        if sink.run_ids and value.run_ids[-1] != sink.run_ids[-1]:
            self._sometimes["sinks: run superseded"] += 1
            if value.run_ids[: len(sink.run_ids)] != sink.run_ids:
                self._fail("S1", f"{key}: runs {value.run_ids} follow {sink.run_ids}")
        sink.run_ids, sink.first_number = value.run_ids, value.first_number
        sink.has_ended = value.ended_ms >= 0
        self._sometimes["sinks: run ended in the log"] += sink.has_ended

    def _take_task(self, transactional_id: str, value: SinkTaskValue | None) -> None:
        key = sink_of(transactional_id)
        sink = self._sink(key)
        known = sink.open.get(transactional_id)
        if value is None:
            if known is not None and key not in self._may_forget:
                self._fail("S3", f"{transactional_id} is forgotten in the middle of {known}")
            sink.open.pop(transactional_id, None)
            return
        of = (sink.run_id(value.run_number), value.batch_id, value.task, value.attempt)
        if value.state == OPEN:
            self._begin(key, sink, transactional_id, value, of)
            return
        if known is None or known.of != of:
            self._fail("S3", f"{transactional_id}: {of} is {value.state}; it is of {known}")
            return
        if value.state == PREPARED:
            known.is_prepared = True
            self._prepared.add(known.identity)
            self._sometimes["sinks: attempt prepared in the log"] += 1
        else:
            assert value.state == FREE
            del sink.open[transactional_id]

    def _begin(
        self, key: SinkKey, sink: _Sink, transactional_id: str, value: SinkTaskValue, of: _Task
    ) -> None:
        if transactional_id in sink.open:
            self._fail("S3", f"{of} gets {transactional_id} of {sink.open[transactional_id]}")
        newest = sink.first_number + len(sink.run_ids) - 1
        if value.run_number != newest or sink.has_ended:
            self._fail("S1", f"{of} begins in run {value.run_number}; the newest is {newest}")
        if sink.decision is not None and value.batch_id <= sink.decision.batch_id:
            self._fail("S1", f"{of} begins, and decided is {sink.decision}")
        older = {each.of[0] for each in sink.open.values()} - {of[0]}
        if older:
            self._fail("S1", f"{of} begins, and attempts of {older} are open")
        identity = self._transactions.owner(transactional_id)
        given = (transactional_id, key, of)
        if self._given.setdefault(identity, given) != given:
            self._fail("S3", f"{identity} is given to {given} and to {self._given[identity]}")
        sink.open[transactional_id] = _Open(of, identity, value.group)
        self._sometimes["sinks: attempt in the log"] += 1

    def _take_decision(self, key: SinkKey, value: SinkDecisionValue | None) -> None:
        sink = self._sink(key)
        before, sink.decision = sink.decision, value
        if value is None:
            if before is not None:
                may_expire = before.expires_ms >= 0
                if not may_expire and key not in self._may_forget:
                    self._fail("S2", f"{key}: {before} is forgotten, and nobody has asked for it")
                self._sometimes["sinks: decision forgotten"] += 1
            sink.counted = {}
            return
        newest = sink.first_number + len(sink.run_ids) - 1
        if value.run_number != newest or sink.has_ended:
            self._fail("S1", f"{key}: {value} is of no run that may decide: {sink.run_ids}")
        if before is not None and value.batch_id <= before.batch_id:
            self._fail("S1", f"{key}: {value} follows {before}")
        sink.counted = {}
        for number in value.members:
            name = key.transactional_id(number)
            known = sink.open.get(name)
            if known is None or not known.is_prepared:
                self._fail("S1", f"{key}: {value} names {name}, which is {known}")
                return
            if known.of[:2] != (sink.run_id(value.run_number), value.batch_id):
                self._fail("S1", f"{key}: {value} names {name} of {known.of}")
            sink.counted[name] = known
        self._check_asked(key, sink, value)
        sources = [(each.group, each.identity) for each in sink.counted.values() if each.group]
        run_id = sink.run_id(value.run_number)
        self.progress.decides(ClientKey(*key), run_id, value.batch_id, sources)
        self._made.setdefault(key, []).append(value)
        self._counted.update((key, each.of) for each in sink.counted.values())
        self._sometimes["sinks: decision in the log"] += 1
        others = [name for name in sink.open if name not in sink.counted]
        self._sometimes["sinks: decision leaves others out"] += bool(others)
        self._overwrite(value)

    def _check_asked(self, key: SinkKey, sink: _Sink, value: SinkDecisionValue) -> None:
        run_id = sink.run_id(value.run_number)
        counted = [each for each in sink.counted.values() if not each.group]
        identities = {each.identity for each in counted}
        tasks = [each.of[2] for each in counted]
        if len(set(tasks)) < len(tasks):
            self._fail("S1", f"{key}: {value} names two attempts of one task")
        for asked in self._asked.get(key, ()):
            named = {(each.producer_id, each.producer_epoch) for each in asked.members}
            if (asked.run_id, asked.batch_id) == (run_id, value.batch_id) and named == identities:
                return
        self._fail("S1", f"{key}: {value} names {sink.counted}, which nobody has asked for")

    # ---- overwriting

    def _overwrite(self, value: SinkDecisionValue) -> None:
        """From now on the partitions may begin there."""
        for topic_id, number, start in _starts(value):
            ghost = self._cluster.shadows.ghost(topic_id, number)
            ghost.deleted_to = max(ghost.deleted_to, start)
            self._sometimes["sinks: partition overwritten"] += 1

    def deletes(self, broker: str, topic_id: TopicId, number: int, offset: int) -> None:
        """S5: a leader is about to move a log start for an overwrite."""
        self._transactions.catch_up()
        if offset > self._cluster.shadows.ghost(topic_id, number).deleted_to:
            self._fail("S5", f"{broker} moves the start of {number} to {offset}: not decided")

    def marks(self, broker: str, partition: TopicPartition, identity: _Identity) -> None:
        """S5: a leader is about to append the marker of a commit."""
        decided = self._commits.get(identity)
        topic = self._cluster.image.topics_by_name.get(partition.topic)
        if decided is None or topic is None:
            return
        ghost = self._cluster.shadows.ghost(topic.topic_id, partition.partition)
        for topic_id, number, start in _starts(decided):
            if (topic_id, number) != ghost.key:
                continue
            process = next(
                node.process for node in self._cluster.brokers.values() if _is_named(node, broker)
            )
            assert process is not None
            begins = ghost.shadow(process.broker_id).log_start
            if begins < start:
                self._fail("S5", f"{broker} commits in {partition}, which begins at {begins}")

    def completed(self, before: Transaction) -> None:
        """S5: all partitions have the marker: from now on their leaders begin at the new starts."""
        self.progress.completed((before.identity.producer_id, before.identity.epoch))
        decided = self._commits.get(tuple(before.identity))
        if decided is None:
            return
        for topic_id, number, start in _starts(decided):
            ghost = self._cluster.shadows.ghost(topic_id, number)
            if any(each == (self._cluster.TOPIC, number) for each in before.partitions):
                ghost.acknowledged_start = max(ghost.acknowledged_start, start)

    # ---- transactions

    def ended(self, now: Transaction) -> None:
        """S2: the transaction of an attempt is prepared to end."""
        name = now.transactional_id
        key, identity = sink_of(name), (now.identity.producer_id, now.identity.epoch)
        of = self._given.get((identity[0], identity[1] - 1))
        sink = self._sink(key)
        counted = sink.counted.get(name)
        is_counted = counted is not None and counted.identity == (identity[0], identity[1] - 1)
        if is_counted and not now.partitions:
            self._sometimes["sinks: attempt that counts, and has nothing"] += 1
            return
        if of is None and name in sink.open and not (now.state.commits or now.partitions):
            # its end was in the log, and that the id is free was not
            self._sometimes["sinks: attempt ended again"] += 1
            return
        if of is None or now.state.commits != is_counted:
            self._fail("S2", f"{now} of {of} ends so; {sink.decision} names {sink.counted}")
        if not now.state.commits:
            self._sometimes["sinks: attempt aborted in the log"] += 1
            return
        assert sink.decision is not None
        self._commits[identity] = sink.decision
        self._sometimes["sinks: attempt committed in the log"] += 1
        if sink.decision.overwritten and name == key.transactional_id(min(sink.decision.members)):
            topics = {each.topic: len(each.starts) for each in sink.decision.overwritten}
            wanted = {
                TopicPartition(topic, number)
                for topic, count in topics.items()
                for number in range(count)
            }
            if not wanted <= now.partitions:
                self._fail("S5", f"{now} is to overwrite {wanted}")
            self._sometimes["sinks: nothing written where it overwrites"] += len(wanted) > len(
                sink.decision.receipt
            )

    def may_begin_with_its_end(self, transactional_id: str) -> bool:
        """Whether a commit may come without an open transaction: it overwrites partitions."""
        decision = self._sink(sink_of(transactional_id)).decision
        return decision is not None and bool(decision.overwritten)

    # ---- answers

    def asked_to_decide(self, wanted: SinkBatch) -> None:
        """A driver asks for a decision."""
        self._asked.setdefault(SinkKey(*wanted.sink), []).append(wanted)

    def asked_to_forget(self, sink: ClientKey) -> None:
        """An operator wants the sink forgotten."""
        self._may_forget.add(SinkKey(*sink))

    def told_decision(self, name: str, sink: ClientKey, told: SinkDecision) -> None:
        """S4: a driver, or a task, has heard of a decision."""
        self._transactions.catch_up()
        for made in self._made.get(SinkKey(*sink), ()):
            known = (made.batch_id, made.run_number, made.row_count, made.decided_ms)
            if known == (told.batch_id, told.run_number, told.row_count, told.decided_ms):
                return
        self._fail("S4", f"{name} is told of {told}, which was not decided")

    def told_refusal(self, name: str, wanted: SinkBatch, refusal: PylogError) -> None:
        """S7: a driver has heard that its decision is refused."""
        if not isinstance(refusal, InvalidTxnState):
            return
        self._transactions.catch_up()
        sink = self._sink(SinkKey(*wanted.sink))
        named = {(each.producer_id, each.producer_epoch) for each in wanted.members}
        counted = {each.identity for each in sink.counted.values() if not each.group}
        decided = sink.decision
        if decided is not None and wanted.batch_id <= decided.batch_id:
            run_id = sink.run_id(decided.run_number)
            is_wrong = (run_id, decided.batch_id) == (wanted.run_id, wanted.batch_id)
            is_wrong = is_wrong and named == counted
        else:
            of = (wanted.run_id, wanted.batch_id)
            ready = {each.identity for each in sink.open.values() if each.is_ready_for(of)}
            goes_on = sink.run_ids[-1:] == (wanted.run_id,) and not sink.has_ended
            groups = {each.group for each in sink.open.values() if each.is_ready_for(of)}
            is_wrong = goes_on and named <= ready and groups.issuperset(wanted.progress_groups)
        if is_wrong:
            self._fail("S7", f"{name} is told of {wanted}: {refusal}; the log has {sink}")
        self._sometimes["sinks: decision refused, and rightly so"] += 1

    def told_positions(self, name: str, sink: ClientKey, since: int, positions: Positions) -> None:
        """S8: a query that has no checkpoint has heard where its group has come to."""
        self._transactions.catch_up()
        self.progress.told(name, sink.sink_id, since, positions)

    def told_taken(self, name: str, sink: ClientKey) -> None:
        """S10: a task has heard that another query writes with the sink's id."""
        self._transactions.catch_up()
        self.progress.refused(name, sink)

    def told_ended(self, name: str, member: SinkMember, refusal: PylogError) -> None:
        """S7: a task has heard that its attempt is refused."""
        if not isinstance(refusal, InvalidTxnState):
            return
        self._transactions.catch_up()
        known = self._sink(sink_of(member.transactional_id)).open.get(member.transactional_id)
        if known is not None and known.identity == (member.producer_id, member.producer_epoch):
            self._fail("S7", f"{name} is told of {member}: {refusal}; the log has {known}")
        self._sometimes["sinks: attempt refused, and rightly so"] += 1

    def answered_begun(self, broker: str, request: BeginTask, given: TaskBegun) -> None:
        """I10: a coordinator has given a transaction to an attempt, or told of a decision."""
        self._transactions.catch_up()
        match given.given:
            case Member(name, identity):
                known = self._given.get((identity.producer_id, identity.epoch))
                of = (request.run_id, request.batch_id, request.task, request.attempt)
                if known != (name, request.sink, of):
                    self._fail("I10", f"{broker} gives {given.given} to {of}; it is of {known}")
            case AlreadyDecided(batch):
                self.answered_decided(broker, request.sink, batch)

    def answered_prepared(self, broker: str, member: Member) -> None:
        """I10: it has told that an attempt is prepared."""
        self._transactions.catch_up()
        if tuple(member.identity) not in self._prepared:
            self._fail("I10", f"{broker} has not committed that {member} is prepared")

    def answered_decided(self, broker: str, key: SinkKey, batch: DecidedBatch) -> None:
        """I10: it has told that a batch is decided."""
        self._transactions.catch_up()
        for made in self._made.get(key, ()):
            known = (made.batch_id, made.run_number, made.row_count, made.decided_ms)
            if known == (batch.batch_id, batch.run_number, batch.row_count, batch.decided_ms):
                return
        self._fail("I10", f"{broker} says that {batch} is decided, which is not committed")

    def knows_run(self, request: AbortBatch) -> bool:
        """Whether the log has the run."""
        self._transactions.catch_up()
        return request.run_id in self._sink(request.sink).run_ids

    def answered_aborted(self, broker: str, request: AbortBatch) -> None:
        """I10: it has told that a run writes nothing more, which the log had when it was asked. One
        that begins behind the abort of a run that nobody knew goes on.
        """
        self._transactions.catch_up()
        sink = self._sink(request.sink)
        is_newest = sink.run_ids[-1:] == (request.run_id,)
        if request.ends_run and is_newest and not sink.has_ended:
            self._fail("I10", f"{broker} has not ended {request}")

    # ---- memory

    def check_memory(self, broker: str, number: int, coordinator: TransactionCoordinator) -> None:
        """I14. Numbers that were given are forgotten with their records, and left out here."""
        replayed = self._replayed.get(number)
        said = {} if replayed is None else replayed.sinks._sinks
        known = coordinator.sinks._sinks
        wanted = {key: replace(each, made=0) for key, each in said.items()}
        shown = {key: replace(each, made=0) for key, each in known.items()}
        if shown != wanted:
            self._fail("I14", f"{broker} has {shown}, the log says {wanted}")
        for key in known:
            self._check_ended(key)
        self._sometimes["sinks: memory compared with the log"] += bool(known)

    def _check_ended(self, key: SinkKey) -> None:
        """S2: a decision, and the end of a run, have ended the other attempts with them."""
        sink = self._sink(key)
        last = -1 if sink.decision is None else sink.decision.batch_id
        for name, each in sink.open.items():
            run_id, batch_id, _, _ = each.of
            if batch_id <= last or run_id != sink.run_ids[-1] or sink.has_ended:
                self._fail("S2", f"{name} is open for {each}; decided is {sink.decision}")

    # ---- the end

    @property
    def waits_for(self) -> list[str]:
        """L1: no attempt is open, and what is overwritten begins anew."""
        return [
            f"{name} to end: {each}"
            for sink in self._sinks.values()
            for name, each in sink.open.items()
        ]

    def check_history(self) -> None:
        """S6, by what stands in the topic at the end."""
        seen: dict[bytes, int] = {}
        topic = self._cluster.topic()
        assert topic is not None
        for number in topic.partitions:
            ghost = self._cluster.shadows.ghost(topic.topic_id, number)
            for batch in ghost.committed:
                if ghost.transactions.status(batch.base) != COMMITTED:
                    continue
                for value in ghost.contents.of(batch.mark).values:
                    assert value is not None
                    seen[value] = seen.get(value, 0) + 1
        for each in self.attempts:
            attempt = each.attempt
            of = (attempt.run_id, attempt.batch_id, attempt.task, attempt.attempt)
            counts = (SinkKey(*attempt.sink), of) in self._counted
            times = {seen.get(value, 0) for value in each.values}
            if times - {int(counts)}:
                self._fail("S6", f"{each}: counts is {counts}, readers see it {times} times")
            if counts and attempt.progress_group:
                self._sometimes["sinks: attempt with positions counts"] += 1
            what = "counts" if counts else "was prepared in vain" if each.is_prepared else "fails"
            self._sometimes[f"sinks: attempt {what}"] += 1
        self.progress.check_history(self.attempts, seen)


def _starts(value: SinkDecisionValue) -> Iterator[tuple[TopicId, int, int]]:
    for each in value.overwritten:
        topic_id = topic_id_from_bytes(each.topic_id)
        for number, start in enumerate(each.starts):
            yield topic_id, number, start


def _is_named(node: object, broker: str) -> bool:
    process = getattr(node, "process", None)
    return process is not None and process.name == broker
