"""Known bugs of sinks, put in on purpose: of the coordinator, of the leaders that overwrite, and of
tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pylog.client.admin.sink_types import SinkListing
from pylog.client.sending.transactions import PREPARE, Transactions
from pylog.errors import PylogError
from pylog_broker.api.transactions.markers import MarkersHandler
from pylog_broker.coordinator.generated.sink_decision import SinkDecisionKey
from pylog_broker.coordinator.groups.messages import OffsetFetch
from pylog_broker.coordinator.groups.offsets import GroupOffsets
from pylog_broker.coordinator.runtime.decision import (
    Decision,
    Record,
    Reply,
    RequestId,
    Send,
    SetTimer,
)
from pylog_broker.coordinator.runtime.shard import Shard
from pylog_broker.coordinator.transactions import sink_progress
from pylog_broker.coordinator.transactions import sinks as sinks_module
from pylog_broker.coordinator.transactions.coordinator import TransactionCoordinator
from pylog_broker.coordinator.transactions.messages import NewStart, Overwrite
from pylog_broker.coordinator.transactions.sink_messages import (
    AbortBatch,
    BatchDecided,
    BeginTask,
    DecideBatch,
    DecidedBatch,
    Member,
    SinkKey,
)
from pylog_broker.coordinator.transactions.sink_state import SinkState
from pylog_broker.coordinator.transactions.sinks import Sinks, TaskTimer
from pylog_broker.coordinator.transactions.transaction import Transaction
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.produce_messages import WriteMarker
from pylog_connector import succession
from pylog_connector.options import SinkOptions
from pylog_connector.sink_identity import SinkBatchId
from tests.sim.swarm import Swarm
from tests.sim.transaction_variants import LEADERS_CHANGE, among_faults, leave_at_once
from tests.sim.variant import Variant

# ---- the coordinator -----------------------------------------------------------------------------

_production_abort = Sinks.abort
_production_begin = Sinks.begin
_production_decided = Sinks._decided
_production_end = Sinks._end
_production_end_member = TransactionCoordinator.end_member
_production_loaded = Sinks.on_loaded
_production_overwrite_of = sinks_module.overwrite_of
_production_write_runs = Sinks._write_runs


def _without_waiting(
    _self: Sinks,
    _request: DecideBatch,
    _sink: SinkState,
    answer: Reply,
    _ending: set[str],
    decision: Decision,
) -> None:
    decision.effects.append(answer)


def _only_those_that_count(
    self: Sinks, wall_ms: int, key: SinkKey, sink: SinkState, name: str, by: Any, decision: Decision
) -> None:
    if by is not None or not any(
        isinstance(each.key, SinkDecisionKey) for each in decision.records
    ):
        _production_end(self, wall_ms, key, sink, name, by, decision)
    else:
        decision.effects = [
            each
            for each in decision.effects
            if not (isinstance(each, SetTimer) and each.key == TaskTimer(name))
        ]


def _decided_for(*, same_run: bool, newer_run: bool) -> Callable[..., DecidedBatch | None]:
    """A batch that is decided may be begun once more."""

    def decided(
        self: Sinks, sink: SinkState, run_number: int, batch_id: int, *, is_read: bool
    ) -> DecidedBatch | None:
        last = sink.decision
        if last is not None and last.batch_id == batch_id:
            is_same = run_number == last.run_number
            if same_run if is_same else newer_run:
                return None
        return _production_decided(self, sink, run_number, batch_id, is_read=is_read)

    return decided


def _any_run(_self: Sinks, _key: SinkKey, sink: SinkState, run_id: str) -> int:
    if run_id not in sink.run_ids:
        return sink.run_number + 1
    return sink.first_number + sink.run_ids.index(run_id)


def _never_mind_what_became_of_them(_self: Sinks, _request: DecideBatch, _run_number: int) -> None:
    return None


def _also_what_is_decided(
    self: Sinks, wall_ms: int, request_id: Any, request: AbortBatch
) -> Decision:
    decision = _production_abort(self, wall_ms, request_id, request)
    sink = self._sinks.get(request.sink)
    if sink is not None and sink.decision is not None and sink.last_batch == request.batch_id:
        decision.records.append(Record(SinkDecisionKey(*request.sink), None))
    return decision


def _one_for_each_task(
    self: Sinks, wall_ms: int, request_id: Any, request: BeginTask, fresh: Any = None
) -> Decision:
    sink = self._sinks.get(request.sink)
    for name, task in sink.tasks.items() if sink is not None else ():
        assert sink is not None
        of = task.attempt
        is_newest = sink.run_ids[-1:] == (request.run_id,)
        if is_newest and (of.batch_id, of.task) == (request.batch_id, request.task):
            identity = self._members.transactions[name].owner
            return Decision(effects=[Reply(request_id, Member(name, identity))])
    return _production_begin(self, wall_ms, request_id, request, fresh)


def _same_epoch_without_records(
    self: TransactionCoordinator,
    wall_ms: int,
    transaction: Transaction,
    commits: bool,
    overwrite: Overwrite,
    decision: Decision,
) -> None:
    if transaction.partitions:
        _production_end_member(self, wall_ms, transaction, commits, overwrite, decision)


def _run_goes_on(*_: object) -> None:
    return None


def _older_runs_stay(
    self: Sinks, _wall_ms: int, key: SinkKey, sink: SinkState, run_id: str, decision: Decision
) -> None:
    if run_id not in sink.run_ids:
        decision.is_atomic = False
        _production_write_runs(self, key, sink, run_id, decision)


def _after_a_while(_self: Sinks, _wall_ms: int, sink: SinkState) -> bool:
    return not sink.tasks


def _without_timers(self: Sinks, wall_ms: int, decision: Decision) -> None:
    before = len(decision.effects)
    _production_loaded(self, wall_ms, decision)
    late = decision.effects[before:]
    decision.effects[before:] = [each for each in late if not isinstance(each, SetTimer)]


# ---- a coordinator that was deposed --------------------------------------------------------------

_production_resign = Shard.resign


def _decisions_are_answered(self: Shard[Any], error: PylogError) -> list[Reply]:
    late = [effect for _, effect in self._machine._held]
    if isinstance(self.coordinator, TransactionCoordinator):
        for answers in self.coordinator.sinks._answers.values():
            late += answers.replies
    answered = [
        answer
        for each in late
        if isinstance(each, Reply) and isinstance(each.response, BatchDecided)
        for answer in self._answer(each)
    ]
    return answered + _production_resign(self, error)


def _at_once(refusal: PylogError) -> PylogError:
    return refusal


# ---- what a query has read, and another one that goes on in its place ----------------------------

_production_fetch = GroupOffsets.fetch
_production_counted = sink_progress.counted
_production_predecessor = succession.predecessor
_production_replay = GroupOffsets.replay
_production_replay_end = GroupOffsets.replay_end


def _none_of_sources(*args: Any) -> list[str]:
    _production_counted(*args)
    return []


def _seen_at_once(self: GroupOffsets, key: Any, value: Any, _producer_id: int = -1) -> None:
    _production_replay(self, key, value)


def _seen_after_an_abort(self: GroupOffsets, end: Any) -> set[str]:
    return _production_replay_end(self, end._replace(commits=True))


def _also_while_open(self: GroupOffsets, request_id: RequestId, request: OffsetFetch) -> Decision:
    return _production_fetch(self, request_id, request._replace(require_stable=False))


def _anybody_may(_before: SinkListing, _options: SinkOptions) -> str:
    return ""


def _unless_it_has_written(
    batch: SinkBatchId, options: SinkOptions, listed: Iterable[SinkListing]
) -> SinkListing | None:
    sinks = [*listed]
    if any(each.query_id == batch.sink.query_id and each.last is not None for each in sinks):
        return None
    return _production_predecessor(batch, options, sinks)


# ---- overwriting ---------------------------------------------------------------------------------


def _a_little_more(made: DecidedBatch | None, committed: Iterable[int]) -> Overwrite:
    found = _production_overwrite_of(made, committed)
    starts = {
        each: NewStart(start.topic_id, type(start.offset)(start.offset + 1))
        for each, start in found.starts.items()
    }
    return found._replace(starts=starts)


def _only_where_it_wrote(
    self: Sinks, wall_ms: int, key: SinkKey, sink: SinkState, name: str, by: Any, decision: Decision
) -> None:
    by = None if by is None else by._replace(first=-1)
    _production_end(self, wall_ms, key, sink, name, by, decision)


async def _marker_first(self: MarkersHandler, marker: WriteMarker) -> Failure | None:
    failure = await self._mark(marker)
    if failure is None and marker.new_start is not None:
        await self._begin_anew(marker)
    return failure


# ---- tasks ---------------------------------------------------------------------------------------

_production_poll = Transactions.poll


def _prepared_while_batches_are_sent(
    self: Transactions, now_ms: int, *, is_idle: bool, has_records: bool, effects: list[Any]
) -> None:
    pending = self.pending
    is_idle = is_idle or (pending is not None and pending.call == PREPARE)
    _production_poll(self, now_ms, is_idle=is_idle, has_records=has_records, effects=effects)


# ---- what more it takes --------------------------------------------------------------------------


def _with(*faults: str, **more: Any) -> Callable[[Swarm], Swarm]:
    """Two places of queries or jobs, to which this happens often."""

    def leaning(swarm: Swarm) -> Swarm:
        sinks = swarm.sinks
        assert sinks is not None
        changes = {"faults": faults or sinks.faults, "interval_ms": 500.0, **more}
        return replace(swarm, sinks=replace(sinks, **changes))

    return leaning


def _reading(*faults: str, **more: Any) -> Callable[[Swarm], Swarm]:
    """One query that commits what it has read, to which this happens often."""
    calm = {"queries": 1, "jobs": 0, "slow_ms": 5.0, "away_ms": 100.0, **more}

    def leaning(swarm: Swarm) -> Swarm:
        return replace(_with(*faults, **calm)(swarm), fault_interval_ms=4_000.0)

    return leaning


def _slowly(then: Callable[[Swarm], Swarm]) -> Callable[[Swarm], Swarm]:
    """The same, where many messages take long: decisions and markers are on their way."""

    def leaning(swarm: Swarm) -> Swarm:
        swarm = then(swarm)
        return replace(swarm, net=replace(swarm.net, tail_share=0.1, tail_ms=(100, 1_500)))

    return leaning


def _deposing(then: Callable[[Swarm], Swarm]) -> Callable[[Swarm], Swarm]:
    """The same, where brokers that clients can reach do not hear that others lead."""

    def leaning(swarm: Swarm) -> Swarm:
        swarm = replace(then(swarm), brokers=3, replication_factor=3, min_insync=2)
        swarm = replace(swarm, faults=("cut_controller",), fault_interval_ms=1_500.0)
        return replace(swarm, away_ms=4_000, session_timeout_ms=1_000, log_dirs=1)

    return leaning


SINK_VARIANTS: dict[str, Variant] = {
    "sink_deposed_coordinator_answers": Variant(
        "I10: a coordinator that was deposed answers decisions that its log may not have",
        ((Shard, "resign", _decisions_are_answered),),
        leaning=among_faults("isolate", "kill", "stop", then=_with(slow_ms=5.0)),
        caught_by=11,
        sinks=True,
    ),
    "sink_deposed_coordinator_refuses": Variant(
        "A coordinator that was deposed refuses attempts and decisions that its successor knows",
        ((sinks_module, "Unproven", _at_once),),
        leaning=_deposing(_with("worker", slow_ms=5.0, queries=2, prepared_ms=6_000)),
        caught_by=28,
        sinks=True,
    ),
    "sink_decision_leaves_positions_out": Variant(
        "A decision counts without the positions that its batch has read",
        ((sink_progress, "counted", _none_of_sources),),
        leaning=_reading("crash"),
        sinks=True,
        progress=True,
    ),
    "sink_positions_seen_early": Variant(
        "The positions of an attempt are seen before the decision",
        ((GroupOffsets, "replay", _seen_at_once),),
        leaning=_reading("lost"),
        sinks=True,
        progress=True,
    ),
    "sink_positions_of_attempts_that_fail": Variant(
        "The positions of an attempt count though it was aborted",
        ((GroupOffsets, "replay_end", _seen_after_an_abort),),
        leaning=_reading("crash", "lost"),
        sinks=True,
        progress=True,
    ),
    "sink_positions_told_while_open": Variant(
        "A new query begins at positions that a decision is about to move",
        ((GroupOffsets, "fetch", _also_while_open),),
        leaning=_slowly(_reading("lost", dying_share=0.8, away_ms=5.0)),
        caught_by=18,
        sinks=True,
        progress=True,
    ),
    "sink_id_of_any_query": Variant(
        "A new query writes with the sink id of another one, and nobody has said that it may",
        ((succession, "check_may_follow", _anybody_may),),
        leaning=_reading("lost"),
        caught_by=6,
        sinks=True,
        progress=True,
    ),
    "sink_old_query_goes_on": Variant(
        "An old query writes again, when another one has gone on in its place",
        ((succession, "predecessor", _unless_it_has_written),),
        leaning=_reading("lost", "back"),
        caught_by=2,
        sinks=True,
        progress=True,
    ),
    "sink_attempts_left_open": Variant(
        "A decision leaves attempts open that it does not name",
        ((Sinks, "_end", _only_those_that_count),),
        leaning=_with("worker_pause", speculative_share=0.8),
        caught_by=4,
        sinks=True,
    ),
    "sink_batch_begun_again": Variant(
        "A late attempt of a batch that its run has decided is taken",
        ((Sinks, "_decided", _decided_for(same_run=True, newer_run=False)),),
        leaning=_with("worker_pause", speculative_share=0.8),
        caught_by=4,
        sinks=True,
    ),
    "sink_batch_replayed": Variant(
        "A run writes a batch again that an earlier run has decided",
        ((Sinks, "_decided", _decided_for(same_run=False, newer_run=True)),),
        leaning=_with("lonely", "crash", dying_share=0.5),
        sinks=True,
    ),
    "sink_superseded_run_goes_on": Variant(
        "A run that a newer one has put out goes on",
        ((Sinks, "_number", _any_run),),
        leaning=_with("double"),
        sinks=True,
    ),
    "sink_markers_before_the_decision": Variant(
        "Markers of a batch are sent before its decision is committed",
        ((Shard, "flush", leave_at_once(Send)),),
        sinks=True,
    ),
    "sink_decision_answered_early": Variant(
        "I10: a driver hears of a decision before it is committed",
        (
            (Shard, "flush", leave_at_once(BatchDecided)),
            (Sinks, "_answer_when_visible", _without_waiting),
        ),
        sinks=True,
    ),
    "sink_member_given_early": Variant(
        "I10: an attempt begins before the log knows of it",
        ((Shard, "flush", leave_at_once(Member)),),
        sinks=True,
    ),
    "sink_ended_attempts_count": Variant(
        "A decision names attempts that were aborted, by their time-out or by a newer run",
        ((Sinks, "_check_counted", _never_mind_what_became_of_them),),
        leaning=_with("operator", "worker_pause", prepared_ms=300),
        caught_by=2,
        sinks=True,
    ),
    "sink_abort_undoes_a_decision": Variant(
        "An abort takes back what is decided",
        ((Sinks, "abort", _also_what_is_decided),),
        leaning=_with("operator", "double", speculative_share=0.8, dying_share=0.3),
        caught_by=4,
        sinks=True,
    ),
    "sink_id_of_two_attempts": Variant(
        "Two attempts of one task get one transaction",
        ((Sinks, "begin", _one_for_each_task),),
        leaning=_with(speculative_share=0.8),
        sinks=True,
    ),
    "sink_epoch_stays": Variant(
        "The end of an attempt that has written nothing does not raise the epoch",
        ((TransactionCoordinator, "end_member", _same_epoch_without_records),),
        leaning=_with("worker", "worker_pause"),
        sinks=True,
    ),
    "sink_aborted_run_goes_on": Variant(
        "I10: a run that its driver has ended begins further attempts",
        ((Sinks, "_end_run", _run_goes_on),),
        leaning=_with("worker"),
        caught_by=3,
        sinks=True,
    ),
    "sink_older_runs_stay": Variant(
        "A newer run leaves the attempts of older ones open",
        ((Sinks, "_begin_run", _older_runs_stay),),
        leaning=_with("double", "lonely"),
        sinks=True,
    ),
    "sink_decisions_expire": Variant(
        "A decision that is to be kept is forgotten",
        ((Sinks, "_is_old", _after_a_while),),
        caught_by=2,
        sinks=True,
    ),
    "sink_no_leases_after_a_load": Variant(
        "A coordinator that begins sets no time for attempts that it finds open",
        ((Sinks, "on_loaded", _without_timers),),
        leaning=among_faults(*LEADERS_CHANGE, then=_with("crash", "lonely", "worker")),
        caught_by=4,
        sinks=True,
    ),
    "sink_overwrites_too_much": Variant(
        "An overwrite deletes records that its decision does not name",
        ((sinks_module, "overwrite_of", _a_little_more),),
        leaning=_with(overwriting_share=0.7),
        caught_by=4,
        sinks=True,
    ),
    "sink_overwrites_where_it_wrote": Variant(
        "An overwrite forgets the partitions to which the batch has written nothing",
        ((Sinks, "_end", _only_where_it_wrote),),
        leaning=lambda swarm: replace(_with(overwriting_share=0.7)(swarm), partitions=3),
        sinks=True,
    ),
    "sink_overwrites_behind_the_marker": Variant(
        "Readers see the batch and what it overwrites, as the marker is written first",
        ((MarkersHandler, "_write", _marker_first),),
        leaning=_with(overwriting_share=0.7),
        caught_by=4,
        sinks=True,
    ),
    "sink_prepared_before_it_is_stored": Variant(
        "A task reports an attempt whose last batches are not acknowledged",
        ((Transactions, "poll", _prepared_while_batches_are_sent),),
        caught_by=4,
        sinks=True,
    ),
}
