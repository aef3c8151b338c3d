"""Known bugs of share groups, put in on purpose: of leaders, of the coordinator of their state, and
of members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pylog.client.sharing.share_requests import ShareRequests
from pylog.config import LONG_MAX
from pylog.errors import InvalidRecordState, PylogError
from pylog.model import Offset
from pylog.records.batch import Buffer, iter_headers
from pylog_broker.coordinator.groups.share.protocol import ShareProtocol
from pylog_broker.coordinator.runtime.decision import Decision, Reply
from pylog_broker.coordinator.runtime.shard import Shard
from pylog_broker.coordinator.share_state.coordinator import ShareCoordinator
from pylog_broker.node.share import fetches
from pylog_broker.node.share.dead_letters import DeadLetterWriter
from pylog_broker.node.share.fetches import _Poll
from pylog_broker.node.share.led_partitions import LedSharePartition, LedSharePartitions
from pylog_broker.node.share.persister import Persister
from pylog_broker.replication.fetch_messages import Fetch
from pylog_broker.share import share_partition
from pylog_broker.share.log_batches import LogBatch, log_batches
from pylog_broker.share.persisted import InitializeState, ReadState, StateRead, WriteState
from pylog_broker.share.record_states import RecordState
from pylog_broker.share.share_partition import DeadLetters, SharePartition
from tests.sim import share_offsets
from tests.sim.group_variants import loaded_by_the_first_slice, replies_at_once
from tests.sim.swarm import Swarm
from tests.sim.variant import Variant

_Run = share_partition._Run

# ---- leaders -------------------------------------------------------------------------------------

_production_acknowledge = SharePartition.acknowledge
_production_settle = SharePartition._settle
_production_persist = Persister.write
_production_ask = _Poll._ask
_production_write_some = DeadLetterWriter._write_some


def _no_lock_ends(_self: SharePartition, _now_ms: int) -> int:
    return 0


def _whoever_has_it(self: SharePartition, _member: str, first: int, last: int) -> None:
    for offset in range(max(first, self._start), last + 1):
        held = [run for run in self._runs if run.first <= offset <= run.last]
        if not held or held[0].state is not RecordState.ACQUIRED:
            raise InvalidRecordState(f"offset {offset} is nobody's")


def _answered_at_once(self: SharePartition, *args: Any, **how: Any) -> int:
    _production_acknowledge(self, *args, **how)
    return 0


def _passed_over_at_once(
    self: SharePartition, now_ms: int, member: str, batches: Any, *, may_renew: bool
) -> int:
    is_passed_over = all(each.last_offset < self._start for each in batches)
    number = _production_acknowledge(self, now_ms, member, batches, may_renew=may_renew)
    return 0 if is_passed_over else number


def _past_what_was_released(self: SharePartition) -> None:
    _production_settle(self)
    runs = self._runs
    while runs and runs[0].state is RecordState.AVAILABLE and runs[0].delivery_count:
        self._start = runs.pop(0).last + 1
    _production_settle(self)


def _also_before_it_is_durable(self: Any) -> bool:
    return self.state is RecordState.AVAILABLE


def _always_for_others(self: SharePartition, run: Any) -> None:
    run.move(RecordState.AVAILABLE)
    self._changed(run)


def _as_it_was_loaded(_self: LedSharePartitions, _led: LedSharePartition) -> int:
    return 0


def _none_aborted(batches: Buffer, _aborted: object = ()) -> list[LogBatch]:
    return log_batches(batches)


def _aborted_for_good(batches: Buffer, aborted: Iterable[tuple[int, int]] = ()) -> list[LogBatch]:
    first = {producer: offset for producer, offset in sorted(aborted, reverse=True)}
    plain = log_batches(batches)
    headers = [header for _, header in iter_headers(batches)]
    return [
        each._replace(
            is_for_members=each.is_for_members
            and not (
                header.is_transactional
                and header.last_offset >= first.get(header.producer_id, LONG_MAX)
            )
        )
        for each, header in zip(plain, headers, strict=True)
    ]


def _of_any_transaction(self: _Poll, readings: Any, wait_ms: int) -> Fetch:
    return _production_ask(self, readings, wait_ms)._replace(read_committed=False)


async def _as_if_it_had_got_there(self: DeadLetterWriter, delivery: Any) -> None:
    try:
        await _production_write_some(self, delivery)
    except PylogError:
        delivery.done = len(delivery.offsets)


def _has_any(self: SharePartition) -> bool:
    return self.has_dead_letters and self._leaving is None


def _all_of_them(self: SharePartition, _records_max: int) -> list[DeadLetters]:
    found = [
        DeadLetters(run.first, run.last, run.delivery_count, run.is_rejected)
        for run in self._runs
        if run.state is RecordState.ARCHIVING
    ]
    self._leaving = [(each.first_offset, each.last_offset) for each in found]
    return found


async def _as_if_it_were_there(self: Persister, request: WriteState) -> None:
    try:
        await _production_persist(self, request)
    except PylogError:
        return


# ---- the coordinator of their state --------------------------------------------------------------

_production_read = ShareCoordinator.read
_production_write = ShareCoordinator.write
_production_initialize = ShareCoordinator.initialize


def _any_leader(_self: ShareCoordinator, *_args: object) -> None:
    return None


def _without_counts(
    self: ShareCoordinator, wall_ms: int, request_id: Any, request: ReadState
) -> Decision:
    decision = _production_read(self, wall_ms, request_id, request)
    (reply,) = decision.effects
    assert isinstance(reply, Reply)
    assert isinstance(reply.response, StateRead)
    found = reply.response
    forgotten = tuple(each._replace(delivery_count=0) for each in found.batches)
    decision.effects[:] = [Reply(request_id, found._replace(batches=forgotten))]
    return decision


def _unnoticed(
    self: ShareCoordinator, wall_ms: int, request_id: Any, request: ReadState
) -> Decision:
    decision = _production_read(self, wall_ms, request_id, request)
    decision.records.clear()
    return decision


def _all_is_redundant(self: ShareCoordinator) -> Offset:
    return self._next_offset


def _of_any_state(
    self: ShareCoordinator, wall_ms: int, request_id: Any, request: WriteState
) -> Decision:
    present = self.partitions.get(request.key)
    if present is not None:
        request = request._replace(state_epoch=present.state_epoch)
    return _production_write(self, wall_ms, request_id, request)


def _only_once(
    self: ShareCoordinator, wall_ms: int, request_id: Any, request: InitializeState
) -> Decision:
    if request.key in self.partitions:
        return Decision(effects=[Reply(request_id, None)])
    return _production_initialize(self, wall_ms, request_id, request)


# ---- the coordinator of groups -------------------------------------------------------------------


def _whoever_has_come(
    self: ShareProtocol, request_id: Any, group_id: str, partitions: Any, _state_epoch: int
) -> Decision:
    return self.state_initialized(request_id, group_id, partitions)


# ---- members -------------------------------------------------------------------------------------


def _always_mine(_self: ShareRequests, _now_ms: int, _acquired: object) -> bool:
    return True


# ---- what more it takes --------------------------------------------------------------------------

LEADERS_CHANGE = ("kill", "stop", "elect_preferred")
LEADERS_ARE_REPLACED = ("cut_controller", "cut_controller", "elect_preferred")
"""Without having heard of it."""


def _with(*faults: str, among: tuple[str, ...] = (), **more: Any) -> Callable[[Swarm], Swarm]:
    """Several members of one group, to whom this happens often, `among` faults of brokers."""

    def leaning(swarm: Swarm) -> Swarm:
        shares = swarm.shares
        assert shares is not None
        shares = replace(
            shares,
            groups=1,
            members=3,
            faults=faults or shares.faults,
            interval_ms=700.0,
            **{"failing_share": 0.2, "reset": "earliest", **more},
        )
        if among:
            swarm = replace(swarm, faults=among, fault_interval_ms=900.0, log_dirs=1)
        if among == LEADERS_ARE_REPLACED:
            swarm = replace(swarm, away_ms=4_000, session_timeout_ms=1_000)
        return replace(swarm, shares=shares)

    return leaning


SHARE_VARIANTS: dict[str, Variant] = {
    "lock_never_ends": Variant(
        "A record stays with a member that is gone or late",
        ((SharePartition, "on_time", _no_lock_ends),),
        leaning=_with("stall", "crash", lock_ms=500),
        caught_by=3,
        shares=True,
    ),
    "lock_taken_from_another": Variant(
        "A member acknowledges a record whose lock has moved on to another member",
        ((SharePartition, "_check_acquired", _whoever_has_it),),
        leaning=_with("stall", lock_ms=500),
        caught_by=23,
        shares=True,
    ),
    "accept_answered_early": Variant(
        "I10: an acknowledgement is answered before the state is written",
        ((SharePartition, "acknowledge", _answered_at_once),),
        shares=True,
    ),
    "passed_over_early": Variant(
        "I10: what a late member accepts is answered before another one's accept is written",
        ((SharePartition, "acknowledge", _passed_over_at_once),),
        leaning=_with("stall", among=LEADERS_ARE_REPLACED, lock_ms=500),
        caught_by=50,
        shares=True,
    ),
    "start_past_a_released_record": Variant(
        "The start offset moves past a record that was released",
        ((SharePartition, "_settle", _past_what_was_released),),
        leaning=_with("raise"),
        shares=True,
    ),
    "released_before_it_is_durable": Variant(
        "A record is delivered again before its last delivery is written",
        ((_Run, "may_be_acquired", property(_also_before_it_is_durable)),),
        leaning=_with("raise"),
        shares=True,
    ),
    "delivered_beyond_the_limit": Variant(
        "A record that was delivered as often as may be is given back for others",
        ((SharePartition, "_give_back", _always_for_others),),
        leaning=_with("raise", "stall", delivery_limit=2, failing_share=0.4),
        shares=True,
    ),
    "failed_write_ignored": Variant(
        "A leader goes on on top of a state that was not written",
        ((Persister, "write", _as_if_it_were_there),),
        leaning=_with("raise", among=LEADERS_ARE_REPLACED),
        caught_by=41,
        shares=True,
    ),
    "replaced_leader_writes": Variant(
        "The coordinator of the state does not check the leader's epoch",
        ((ShareCoordinator, "_check_leader", _any_leader),),
        leaning=_with("raise", among=LEADERS_ARE_REPLACED),
        caught_by=13,
        shares=True,
    ),
    "leader_reads_unnoticed": Variant(
        "A new leader has read the state, and the one before may write it yet",
        ((ShareCoordinator, "read", _unnoticed),),
        leaning=_with("raise", among=LEADERS_ARE_REPLACED),
        shares=True,
    ),
    "counts_lost_at_a_reload": Variant(
        "A leader that reads the state counts deliveries anew",
        ((ShareCoordinator, "read", _without_counts),),
        leaning=_with("raise", "stall", among=LEADERS_CHANGE, delivery_limit=5),
        caught_by=8,
        shares=True,
    ),
    "state_pruned_too_far": Variant(
        "The log of the state loses what no snapshot has",
        ((ShareCoordinator, "redundant_before", _all_is_redundant),),
        leaning=_with("raise", among=LEADERS_CHANGE, prune_ms=500, updates_per_snapshot=500),
        shares=True,
    ),
    "state_answered_early": Variant(
        "I10: the coordinator of the state answers before its record is committed",
        ((Shard, "flush", replies_at_once),),
        shares=True,
    ),
    "state_loaded_by_half": Variant(
        "The coordinator of the state decides before it has read its log to the end",
        ((Shard, "load", loaded_by_the_first_slice),),
        leaning=_with(among=LEADERS_CHANGE, slice_bytes=150),
        shares=True,
    ),
    "write_of_another_state": Variant(
        "The coordinator of the state lets a leader write that has read the state before",
        ((ShareCoordinator, "write", _of_any_state),),
        leaning=_with("crash", among=("session_breaks",), tells_of_connections=False),
        shares=True,
        offsets=True,
    ),
    "altered_behind_the_leader": Variant(
        "A leader gives members that come after an alteration what the state before had",
        ((LedSharePartitions, "confirm", _as_it_was_loaded),),
        leaning=_with("crash", among=("session_breaks",), tells_of_connections=False),
        shares=True,
        offsets=True,
    ),
    "altered_before_somebody_came": Variant(
        "I10: offsets are said to be altered, and a member that came has begun by the reset since",
        (
            (ShareProtocol, "begun_anew", _whoever_has_come),
            (share_offsets, "DELETING", 0.6),
            (share_offsets, "DELETED_AND_ALTERED", 0.9),
            (share_offsets, "TOO_EARLY", 0.7),
        ),
        leaning=_with("crash"),
        caught_by=36,
        shares=True,
        offsets=True,
    ),
    "altered_in_words": Variant(
        "I10: offsets of a group that has some are said to be altered, and are not",
        ((ShareCoordinator, "initialize", _only_once),),
        leaning=_with("crash", among=LEADERS_CHANGE),
        caught_by=4,
        shares=True,
        offsets=True,
    ),
    "aborted_ranges_ignored": Variant(
        "U: a leader gives a group that reads committed records those of aborted transactions",
        ((fetches, "log_batches", _none_aborted),),
        leaning=_with("crash", isolation=("read_committed",)),
        caught_by=3,
        shares=True,
        transactions=True,
    ),
    "delivered_beyond_what_is_stable": Variant(
        "U: a leader reads for a group of committed records beyond the last stable offset",
        ((_Poll, "_ask", _of_any_transaction),),
        leaning=_with("crash", isolation=("read_committed",)),
        caught_by=2,
        shares=True,
        transactions=True,
    ),
    "aborted_for_good": Variant(
        "A leader passes over what a producer commits behind what it has aborted",
        ((fetches, "log_batches", _aborted_for_good),),
        leaning=_with("crash", isolation=("read_committed",)),
        caught_by=4,
        shares=True,
        transactions=True,
    ),
    "dead_letters_lost_at_a_failure": Variant(
        "A leader takes dead letters that could not be written for written",
        ((DeadLetterWriter, "_write_some", _as_if_it_had_got_there),),
        leaning=_with("raise", among=LEADERS_CHANGE, failing_share=0.4),
        shares=True,
        dead_letters=True,
    ),
    "dead_letters_before_they_are_durable": Variant(
        "A leader writes dead letters of records that are not archiving by the log of their state",
        (
            (SharePartition, "may_give_dead_letters", property(_has_any)),
            (SharePartition, "take_dead_letters", _all_of_them),
        ),
        leaning=_with("raise", failing_share=0.4),
        shares=True,
        dead_letters=True,
    ),
    "handed_out_after_the_lock": Variant(
        "A member hands out records that lay in its buffer until their lock was over",
        ((ShareRequests, "holds", _always_mine),),
        leaning=_with("stall", lock_ms=500, max_poll_ms=4_000, max_poll_records=1),
        caught_by=11,
        shares=True,
    ),
}
