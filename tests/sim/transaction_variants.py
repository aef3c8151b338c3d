"""Known bugs of transactions, put in on purpose: of the coordinator, of leaders and their logs, of
groups, and of the client.

The rows cited (B-T..) are those of the reference of known bugs, each once in a real system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from pylog import errors
from pylog.client.fetching import fetcher
from pylog.client.sending.dispatcher import Dispatcher
from pylog.client.sending.send_events import Effect
from pylog.client.sending.transactions import Transactions
from pylog.model import TopicPartition
from pylog_broker.api.transactions.verification import BatchVerification
from pylog_broker.coordinator.groups.offsets import GroupOffsets
from pylog_broker.coordinator.runtime.decision import (
    Decision,
    Producer,
    Reply,
    Send,
    TransactionEnd,
)
from pylog_broker.coordinator.runtime.shard import Leaving, Shard
from pylog_broker.coordinator.transactions.coordinator import TransactionCoordinator
from pylog_broker.coordinator.transactions.messages import (
    AddPartitions,
    EndTransaction,
    PartitionsAdded,
    TransactionEnded,
)
from pylog_broker.coordinator.transactions.states import TransactionState
from pylog_broker.coordinator.transactions.transaction import Identity, Transaction
from pylog_broker.node.transaction_coordinators import MarkerSenders
from pylog_broker.replication.produce_messages import TransactionGuard, WriteMarker
from pylog_broker.storage.indexes.txn_index import TxnIndex
from pylog_broker.storage.producers.producer_state import ProducerStates
from pylog_broker.storage.recovery.segment_scan import SegmentScan
from tests.sim.swarm import Swarm
from tests.sim.variant import Variant

# ---- the coordinator -----------------------------------------------------------------------------

_production_flush = Shard.flush
_production_add = TransactionCoordinator.add_partitions
_production_written = TransactionCoordinator.on_markers_written
_production_loaded = TransactionCoordinator.on_loaded


def leave_at_once(*kinds: type[Any]) -> Callable[..., list[Leaving]]:
    """Answers, or messages, of these kinds leave before what they rest on is committed."""

    def flush(
        self: Shard[Any], producer: Producer | None = None, end: TransactionEnd | None = None
    ) -> list[Leaving]:
        early: list[Reply | Send] = []
        late: list[Reply | Send] = []
        for each in self._replies:
            what = each.message if isinstance(each, Send) else each.response
            is_early = isinstance(each, kinds) or isinstance(what, kinds)
            (early if is_early else late).append(each)
        self._replies = late
        out = _production_flush(self, producer, end)
        for each in early:
            out += self._leaves(each)
        return out

    return flush


def _whoever_asks(
    self: TransactionCoordinator, wall_ms: int, request_id: int, request: AddPartitions
) -> Decision:
    transaction = self.transactions.get(request.transactional_id)
    if transaction is not None and request.identity < transaction.owner:
        request = request._replace(identity=transaction.owner)
    return _production_add(self, wall_ms, request_id, request)


def _either_way(
    self: TransactionCoordinator,
    wall_ms: int,
    request_id: int,
    request: EndTransaction,
    transaction: Transaction,
    fresh: Any,
) -> Decision:
    return Decision(effects=[Reply(request_id, TransactionEnded(transaction.owner))])


def _committed_when_late(
    self: TransactionCoordinator, wall_ms: int, transaction: Transaction, decision: Decision
) -> None:
    prepared = transaction._replace(
        identity=transaction.identity.next,
        state=TransactionState.PREPARE_COMMIT,
        updated_ms=wall_ms,
    )
    self._prepare(wall_ms, prepared, decision)


def _by_the_first_marker(
    self: TransactionCoordinator,
    wall_ms: int,
    transactional_id: str,
    identity: Identity,
    partitions: Iterable[TopicPartition],
) -> Decision:
    transaction = self.transactions.get(transactional_id)
    if transaction is not None and transaction.identity == identity:
        partitions = transaction.partitions
    return _production_written(self, wall_ms, transactional_id, identity, partitions)


def _without_the_prepared(self: TransactionCoordinator, now_ms: int, wall_ms: int) -> Decision:
    decision = _production_loaded(self, now_ms, wall_ms)
    decision.effects = [each for each in decision.effects if not isinstance(each, Send)]
    return decision


def _refused_at_once(
    _self: TransactionCoordinator,
    _request_id: int,
    _transactional_id: str,
    _asked: Identity,
    refusal: errors.PylogError,
) -> Decision:
    raise refusal


_production_write = MarkerSenders._write


async def _written_or_not(
    self: MarkerSenders, leader: Any, markers: Sequence[WriteMarker]
) -> dict[TopicPartition, None]:
    await _production_write(self, leader, markers)
    return dict.fromkeys(each.topic_partition for each in markers)


# ---- leaders, and their logs ---------------------------------------------------------------------

_production_check = ProducerStates.check


def _any_epoch(self: ProducerStates, header: Any, *, log_start_offset: int) -> Any:
    try:
        return _production_check(self, header, log_start_offset=log_start_offset)
    except (errors.InvalidProducerEpoch, errors.InvalidTxnState):
        return None


def _guard_stays(_self: TransactionGuard, _epoch: int, _version: int) -> None:
    return None


def _all_is_stable(_self: ProducerStates, high_watermark: int) -> int:
    return high_watermark


def _up_to_what_is_open(self: ProducerStates, high_watermark: int) -> int:
    return min((*self._open, high_watermark))


async def _nobody_asked(
    _self: BatchVerification, _request: object, _owner: object, partitions: Sequence[Any]
) -> dict[Any, None]:
    return dict.fromkeys(partitions)


_production_overlapping = TxnIndex.overlapping


def _of_one_segment(self: TxnIndex, offset: int, upper_bound: int) -> tuple[list[Any], bool]:
    return _production_overlapping(self, offset, upper_bound)[0], True


def _as_it_was_found(_self: SegmentScan) -> None:
    return None


# ---- groups --------------------------------------------------------------------------------------

_production_replay = GroupOffsets.replay
_production_replay_end = GroupOffsets.replay_end


def _visible_at_once(self: GroupOffsets, key: Any, value: Any, _producer_id: int = -1) -> None:
    _production_replay(self, key, value)


def _kept_whatever_came(self: GroupOffsets, end: TransactionEnd) -> set[str]:
    return _production_replay_end(self, end._replace(commits=True))


# ---- the client ----------------------------------------------------------------------------------

_production_poll = Transactions.poll


def _epoch_goes_on(_self: Dispatcher) -> None:
    return None


def _never_mind_batches(
    self: Transactions, now_ms: int, *, is_idle: bool, has_records: bool, effects: list[Effect]
) -> None:
    _production_poll(self, now_ms, is_idle=True, has_records=has_records, effects=effects)


def _aborted_as_well(batches: Any, _aborted: object) -> Any:
    return batches


# ---- what more it takes --------------------------------------------------------------------------


def _with_producers(*faults: str, **more: Any) -> Callable[[Swarm], Swarm]:
    """Two producers, to whom this happens often."""

    def leaning(swarm: Swarm) -> Swarm:
        transactions = swarm.transactions
        if transactions is None:
            return swarm
        transactions = replace(
            transactions,
            producers=2,
            faults=faults or transactions.faults,
            interval_ms=700.0,
            **more,
        )
        return replace(swarm, transactions=transactions, produce_interval_ms=60.0)

    return leaning


def among_faults(*faults: str, then: Callable[[Swarm], Swarm]) -> Callable[[Swarm], Swarm]:
    """The same, with these faults of brokers."""

    def leaning(swarm: Swarm) -> Swarm:
        return replace(then(swarm), faults=faults, fault_interval_ms=900.0, log_dirs=1)

    return leaning


LEADERS_CHANGE = ("kill", "isolate", "stop", "kill_all")
TRANSACTION_VARIANTS: dict[str, Variant] = {
    "marker_before_the_decision": Variant(
        "Markers are sent before the decision is committed",
        ((Shard, "flush", leave_at_once(Send)),),
        caught_by=3,
        transactions=True,
    ),
    "added_before_it_is_committed": Variant(
        "A leader hears that a partition is in the transaction before the log has it",
        ((Shard, "flush", leave_at_once(PartitionsAdded)),),
        transactions=True,
    ),
    "end_answered_early": Variant(
        "I10: a producer hears that its transaction has ended before the log has it",
        ((Shard, "flush", leave_at_once(TransactionEnded)),),
        transactions=True,
    ),
    "old_epoch_is_heard": Variant(
        "A coordinator adds partitions for an instance that has been fenced",
        ((TransactionCoordinator, "add_partitions", _whoever_asks),),
        leaning=_with_producers("zombie", "pause", timeout_ms=700),
        caught_by=3,
        transactions=True,
    ),
    "ended_either_way": Variant(
        "An end that is asked for again is answered whatever was decided",
        ((TransactionCoordinator, "_end_again", _either_way),),
        leaning=_with_producers("stall", "pause", timeout_ms=700),
        caught_by=4,
        transactions=True,
    ),
    "committed_when_late": Variant(
        "A transaction that is open for too long is committed",
        ((TransactionCoordinator, "_abort", _committed_when_late),),
        leaning=_with_producers("stall", "crash", timeout_ms=700),
        caught_by=3,
        transactions=True,
    ),
    "complete_by_the_first_marker": Variant(
        "A transaction is complete when one of its partitions has a marker",
        ((TransactionCoordinator, "on_markers_written", _by_the_first_marker),),
        leaning=_with_producers(),
        caught_by=3,
        transactions=True,
    ),
    "prepared_is_forgotten": Variant(
        "A coordinator that finds a decision in its log sends no markers",
        ((TransactionCoordinator, "on_loaded", _without_the_prepared),),
        leaning=among_faults(*LEADERS_CHANGE, then=_with_producers()),
        caught_by=3,
        transactions=True,
    ),
    "refused_by_a_deposed_coordinator": Variant(
        "A coordinator that was deposed refuses a producer whose epoch its successor has given",
        ((TransactionCoordinator, "_refuse", _refused_at_once),),
        leaning=among_faults("isolate", "kill", then=_with_producers("pause")),
        caught_by=113,
        transactions=True,
    ),
    "marker_sent_once": Variant(
        "A marker that was not answered counts as written",
        ((MarkerSenders, "_write", _written_or_not),),
        leaning=among_faults(*LEADERS_CHANGE, then=_with_producers()),
        caught_by=3,
        transactions=True,
    ),
    "old_epoch_in_the_log": Variant(
        "B-T2: a batch that has waited for its coordinator is appended behind the marker",
        (
            (TransactionGuard, "on_marker", _guard_stays),
            (ProducerStates, "check", _any_epoch),
        ),
        leaning=_with_producers("stall", "pause", "zombie", timeout_ms=700),
        caught_by=4,
        transactions=True,
    ),
    "stable_up_to_the_end": Variant(
        "B-T22: readers of committed records get those of open transactions",
        ((ProducerStates, "last_stable_offset", _all_is_stable),),
        transactions=True,
    ),
    "stable_before_the_marker_is_committed": Variant(
        "I7: a transaction counts as ended while its marker may be lost",
        ((ProducerStates, "last_stable_offset", _up_to_what_is_open),),
        transactions=True,
    ),
    "nobody_is_asked": Variant(
        "B-T1: a batch opens a transaction in a partition that its coordinator does not know",
        ((BatchVerification, "_ask", _nobody_asked),),
        transactions=True,
    ),
    "aborted_in_the_next_segment": Variant(
        "B-T24: a transaction whose marker is in a later segment counts as committed",
        ((TxnIndex, "overlapping", _of_one_segment),),
        leaning=_with_producers("crash", "stall", timeout_ms=700),
        transactions=True,
    ),
    "aborted_index_not_mended": Variant(
        "B-T23: an index of aborted transactions that a crash has cut stays as it is",
        ((SegmentScan, "_settle_aborted", _as_it_was_found),),
        leaning=among_faults("power", "kill", then=_with_producers("crash", timeout_ms=700)),
        caught_by=6,
        transactions=True,
    ),
    "positions_seen_early": Variant(
        "A position that a transaction has written counts before it commits",
        ((GroupOffsets, "replay", _visible_at_once),),
        groups=True,
        transactions=True,
    ),
    "positions_kept_after_an_abort": Variant(
        "A position that a transaction has written counts though it was aborted",
        ((GroupOffsets, "replay_end", _kept_whatever_came),),
        caught_by=0,
        groups=True,
        transactions=True,
    ),
    "epoch_goes_on": Variant(
        "A producer sends the records of its next transaction under the epoch of the last one",
        ((Dispatcher, "begin_epoch", _epoch_goes_on),),
        caught_by=3,
        transactions=True,
    ),
    "end_before_the_last_batch": Variant(
        "A producer asks for the end while batches are on their way",
        ((Transactions, "poll", _never_mind_batches),),
        caught_by=3,
        transactions=True,
    ),
    "reads_what_was_aborted": Variant(
        "A consumer gives out the records of aborted transactions",
        ((fetcher, "without_aborted", _aborted_as_well),),
        caught_by=3,
        transactions=True,
    ),
}
