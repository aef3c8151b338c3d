"""The transaction coordinator: one shard's transactional ids. Pure.

A `Coordinator` of the runtime. Each operation takes a request as a value and gives a `Decision`
whose reply is the answer as a value; a PylogError that it raises is the answer, too.

    EMPTY -> ONGOING -> PREPARE_COMMIT -> COMPLETE_COMMIT -> ONGOING ...
                     -> PREPARE_ABORT  -> COMPLETE_ABORT

A prepared transaction cannot end otherwise any more. Its markers are sent when that is committed,
until each partition has one; then it is complete. A request of its producer that comes meanwhile
waits here, for a while, in place of CONCURRENT_TRANSACTIONS and a back-off of the client.

Transaction version 2 (KIP-890): each end raises the producer's epoch, so that nothing of an ended
transaction can get into the next one. An answer that is asked for again is given by what was
decided. Where the epochs of a producer id run out, an end gives the producer another id.

A refusal that a newer coordinator might not give waits until the log shows that there is none: see
`refusals`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from pylog.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionTimeout,
    InvalidTxnState,
    ProducerFenced,
    PylogError,
    ThrottlingQuotaExceeded,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
)
from pylog.model import NO_TIMESTAMP, Offset, ProducerEpoch, ProducerId, TopicPartition
from pylog_broker.coordinator.expiry import BY_WALL_CLOCK, Expiry
from pylog_broker.coordinator.generated.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from pylog_broker.coordinator.runtime.decision import (
    DECISION_BYTES_MAX,
    CancelTimer,
    Decision,
    Record,
    Reply,
    RequestId,
    Send,
    SetTimer,
)
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.messages import (
    NO_OVERWRITE,
    AddPartitions,
    DescribedTransaction,
    EndTransaction,
    InitProducer,
    ListedTransaction,
    NeedsProducerId,
    Overwrite,
    PartitionsAdded,
    ProducerBegun,
    SendMarkers,
    TransactionEnded,
    TransactionFilter,
)
from pylog_broker.coordinator.transactions.refusals import NOBODY, proven
from pylog_broker.coordinator.transactions.sink_messages import (
    check_is_of_no_sink,
    is_of_a_sink,
)
from pylog_broker.coordinator.transactions.sinks import (
    SinkCounts,
    Sinks,
    TaskTimer,
    VisibleTimer,
)
from pylog_broker.coordinator.transactions.states import TransactionState, check_transition
from pylog_broker.coordinator.transactions.transaction import (
    LAST_EPOCH,
    NO_IDENTITY,
    NO_TIMEOUT_MS,
    Identity,
    Transaction,
    record_of,
    tombstone_of,
    transaction_of,
)

WAITING_MAX: Final = 8
"""Requests of one producer that wait for the end of its last transaction: it sends one at a time,
and each of its instances, and each leader of a partition, may have one."""
WAIT_MS_MAX: Final = 5_000
"""The time for which requests wait before CONCURRENT_TRANSACTIONS."""
PARTITION_BYTES: Final = 4
TOPIC_BYTES: Final = 16
"""The bytes of a topic in a record, beside its name."""
EXPIRY: Final = "expiry"
"""The timer of the pass that forgets ids that nobody has used for long."""

_S = TransactionState
_REFUSALS: Final = (InvalidProducerIdMapping, InvalidTxnState, ProducerFenced)
"""By what is known of the id here; the producer cannot go on after them."""


@dataclass(frozen=True, slots=True)
class TimeoutTimer:
    """A transaction has been open for as long as it may."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class WaitTimer:
    """Requests have waited for as long as they may."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class WakeTimer:
    """The transaction has ended: requests that wait for that go on."""

    transactional_id: str


@dataclass(slots=True)
class _Live:
    """The facts about an id that only the leader knows, and its successor does not.

    `untold`: partitions that have no marker yet. `waiting`: requests that wait for the end of the
    transaction. `renewed`: the identity that the instance had when it asked for another one.
    `timed_out`: the identity of an instance whose transaction was open for too long.
    """

    untold: set[TopicPartition] = field(default_factory=set)
    waiting: list[tuple[RequestId, Callable[[], Decision]]] = field(default_factory=list)
    renewed: Identity = NO_IDENTITY
    timed_out: Identity = NO_IDENTITY


@dataclass(slots=True)
class TransactionCounts:
    """The counts of all shards of a broker, since it started."""

    timed_out: int = 0
    sinks: SinkCounts = field(default_factory=SinkCounts)


class TransactionCoordinator:
    """Invariants: an id is in `_live` only while it is in `transactions`; requests wait only at a
    transaction that is prepared, or that this step has completed.
    """

    def __init__(
        self,
        config: TransactionConfig,
        counts: TransactionCounts | None = None,
        expiry: Expiry = BY_WALL_CLOCK,
    ) -> None:
        """`counts` go on beyond its own life."""
        self._config = config
        self._expiry = expiry
        self._counts = counts or TransactionCounts()
        self.transactions: dict[str, Transaction] = {}
        self.sinks = Sinks(config, self, self._counts.sinks, expiry)
        self._live: dict[str, _Live] = {}

    # ---- as any coordinator ----------------------------------------------------------------------

    def replay(self, record: Record, offset: Offset) -> None:
        """Takes in a record."""
        key, value, _ = record
        if not isinstance(key, TransactionLogKey):
            self.sinks.replay(key, value)
            return
        if value is None:
            self.transactions.pop(key.transactional_id, None)
            self._live.pop(key.transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue)
        self.transactions[key.transactional_id] = transaction_of(key, value)

    def on_loaded(self, now_ms: int, wall_ms: int) -> Decision:
        """Send the markers of decided transactions to their partitions again, and set a time-out
        for each open one."""
        decision = Decision(is_atomic=False)
        decision.effects.append(SetTimer(EXPIRY, self._config.expiration_interval_ms))
        for transaction in self.transactions.values():
            if transaction.state.is_prepared:
                overwrite = self.sinks.overwrite_of(transaction)
                self._tell(wall_ms, transaction, overwrite, decision)
            elif transaction.times_out:
                decision.effects.append(_timeout_of(transaction, wall_ms))
        self.sinks.on_loaded(wall_ms, decision)
        return decision

    def on_timer(self, now_ms: int, wall_ms: int, key: Hashable) -> Decision:
        """A transaction is open for too long, requests have waited, or ids are old."""
        match key:
            case TimeoutTimer(transactional_id):
                return self._time_out(wall_ms, transactional_id)
            case WakeTimer(transactional_id):
                return self._wake(transactional_id)
            case WaitTimer(transactional_id):
                return self._refuse_waiting(transactional_id)
            case TaskTimer():
                return self.sinks.on_timer(wall_ms, key)
            case VisibleTimer():
                return self.sinks.on_invisible(key)
            case _:
                assert key == EXPIRY, key
                return self._expire(wall_ms)

    # ---- producers begin -------------------------------------------------------------------------

    def init_producer(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: InitProducer,
        fresh: ProducerId | None = None,
    ) -> Decision:
        """`ProducerBegun`, behind the end of what an earlier instance left open; or
        `NeedsProducerId`.

        Raises InvalidTransactionTimeout, TransactionalIdAuthorizationFailed where two-phase commit
        is off, ProducerFenced, ConcurrentTransactions, and ThrottlingQuotaExceeded where there is
        no room for one more id.
        """
        self._check_init(request)
        try:
            return self._init_producer(wall_ms, request_id, request, fresh)
        except _REFUSALS as error:
            return self._refuse(request_id, request.transactional_id, request.expected, error)

    def _init_producer(
        self, wall_ms: int, request_id: RequestId, request: InitProducer, fresh: ProducerId | None
    ) -> Decision:
        transaction = self.transactions.get(request.transactional_id)
        if transaction is None:
            return self._first_instance(wall_ms, request_id, request, fresh)
        live = self._live_of(transaction)
        expected = request.expected
        is_known = expected in (NO_IDENTITY, transaction.owner)
        has_renewed = live.renewed == expected and transaction.came_after(expected)
        if not (is_known or has_renewed or transaction.ended(expected)):
            raise _fenced(transaction, expected)
        if transaction.state.is_prepared:
            decision = Decision()
            self._wait(
                request_id,
                transaction,
                lambda: self.init_producer(wall_ms, request_id, request, fresh),
                decision,
            )
            return decision
        if not is_known and transaction.owner.epoch <= LAST_EPOCH:
            # It asks again, or for what the end of its transaction gave it.
            return _begun(request_id, transaction)
        if transaction.state is not _S.ONGOING:
            return self._next_instance(wall_ms, request_id, request, transaction, fresh)
        if request.keeps_prepared:
            return self._keep_prepared(wall_ms, request_id, request, transaction, fresh)
        decision = Decision()
        self._wait(
            request_id,
            transaction,
            lambda: self.init_producer(wall_ms, request_id, request, fresh),
            decision,
        )
        self._abort(wall_ms, transaction, decision)
        live.renewed = expected
        return decision

    def _check_init(self, request: InitProducer) -> None:
        check_is_of_no_sink(request.transactional_id)
        if (request.two_phase or request.keeps_prepared) and not self._config.two_phase_commit:
            raise TransactionalIdAuthorizationFailed(
                f"{request.transactional_id!r}: two-phase commit is off; the brokers' setting "
                "transaction.two.phase.commit.enable turns it on"
            )
        most_ms = self._config.max_timeout_ms
        if not request.two_phase and not 0 < request.timeout_ms <= most_ms:
            raise InvalidTransactionTimeout(
                f"transaction.timeout.ms={request.timeout_ms}: it must be from 1 to {most_ms}, the "
                "brokers' transaction.max.timeout.ms"
            )

    def _first_instance(
        self, wall_ms: int, request_id: RequestId, request: InitProducer, fresh: ProducerId | None
    ) -> Decision:
        assert request.transactional_id != NOBODY
        self.check_has_room_for(request.transactional_id)
        if fresh is None:
            return _needs_id(request_id)
        identity = Identity(fresh, ProducerEpoch(0))
        return self._begin_empty(
            wall_ms,
            request_id,
            request,
            Transaction(request.transactional_id, identity, _S.EMPTY, _timeout_ms(request)),
        )

    def _next_instance(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: InitProducer,
        transaction: Transaction,
        fresh: ProducerId | None,
    ) -> Decision:
        check_transition(transaction.transactional_id, transaction.state, _S.EMPTY)
        owner = transaction.owner
        if owner.is_used_up:
            if fresh is None:
                return _needs_id(request_id)
            identity, previous = Identity(fresh, ProducerEpoch(0)), owner.producer_id
        else:
            identity, previous = owner.next, transaction.previous_producer_id
        self._live_of(transaction).renewed = request.expected
        return self._begin_empty(
            wall_ms,
            request_id,
            request,
            transaction._replace(
                identity=identity,
                previous_producer_id=previous,
                timeout_ms=_timeout_ms(request),
            ),
        )

    def _begin_empty(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: InitProducer,
        transaction: Transaction,
    ) -> Decision:
        begun = transaction._replace(
            state=_S.EMPTY,
            partitions=frozenset(),
            started_ms=NO_TIMESTAMP,
            updated_ms=wall_ms,
            following=NO_IDENTITY,
        )
        return Decision([record_of(begun)], [Reply(request_id, ProducerBegun(begun.identity))])

    def _keep_prepared(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: InitProducer,
        transaction: Transaction,
        fresh: ProducerId | None,
    ) -> Decision:
        """The open transaction stays as it is, and the new instance alone may end it."""
        owner = transaction.owner
        if owner.is_used_up:
            if fresh is None:
                return _needs_id(request_id)
            following = Identity(fresh, ProducerEpoch(0))
        else:
            following = owner.next
        kept = transaction._replace(
            following=following, timeout_ms=_timeout_ms(request), updated_ms=wall_ms
        )
        timer = _timeout_of(kept, wall_ms) if kept.times_out else CancelTimer(_timer_of(kept))
        begun = ProducerBegun(following, ongoing=transaction.identity)
        return Decision([record_of(kept)], [timer, Reply(request_id, begun)])

    # ---- partitions ------------------------------------------------------------------------------

    def add_partitions(
        self, wall_ms: int, request_id: RequestId, request: AddPartitions
    ) -> Decision:
        """`PartitionsAdded`. Raises InvalidProducerIdMapping, ProducerFenced, InvalidTxnState for a
        kept transaction and for one of a sink that nobody writes, and TransactionAbortable for one
        that was open for too long, or that has as many partitions as it may have.
        """
        try:
            return self._add_partitions(wall_ms, request_id, request)
        except _REFUSALS as error:
            return self._refuse(request_id, request.transactional_id, request.identity, error)

    def _add_partitions(
        self, wall_ms: int, request_id: RequestId, request: AddPartitions
    ) -> Decision:
        transaction = self._of(request.transactional_id, request.identity)
        if request.identity != transaction.owner:
            self._check_timed_out(transaction, request.identity)
            raise _fenced(transaction, request.identity)
        if transaction.state.is_prepared:
            decision = Decision()
            self._wait(
                request_id,
                transaction,
                lambda: self.add_partitions(wall_ms, request_id, request),
                decision,
            )
            return decision
        if request.verify_only:
            return Decision(effects=[Reply(request_id, _verified(transaction, request))])
        if transaction.following != NO_IDENTITY:
            raise InvalidTxnState(
                f"{request.transactional_id!r} keeps a prepared transaction: it can be committed "
                "or aborted, and nothing else"
            )
        added = PartitionsAdded(dict.fromkeys(request.partitions))
        is_ongoing = transaction.state is _S.ONGOING
        partitions = transaction.partitions.union(request.partitions)
        if is_ongoing and partitions == transaction.partitions:
            return Decision(effects=[Reply(request_id, added)])
        if is_of_a_sink(request.transactional_id):
            self.sinks.check_writes(request.transactional_id)
        self._check_partitions(request.transactional_id, partitions)
        check_transition(request.transactional_id, transaction.state, _S.ONGOING)
        ongoing = transaction._replace(
            state=_S.ONGOING,
            partitions=partitions,
            started_ms=transaction.started_ms if is_ongoing else wall_ms,
            updated_ms=wall_ms,
            version=request.version,
        )
        decision = Decision([record_of(ongoing)])
        if not is_ongoing and ongoing.times_out:
            decision.effects.append(_timeout_of(ongoing, wall_ms))
        decision.effects.append(Reply(request_id, added))
        return decision

    def _check_partitions(
        self, transactional_id: str, partitions: frozenset[TopicPartition]
    ) -> None:
        most = self._config.partitions_max
        topics = {each.topic for each in partitions}
        size = PARTITION_BYTES * len(partitions) + sum(len(each) + TOPIC_BYTES for each in topics)
        if len(partitions) > most or size > DECISION_BYTES_MAX:
            raise TransactionAbortable(
                f"the transaction of {transactional_id!r} would have {len(partitions)} partitions; "
                f"the limit is {most}, and {DECISION_BYTES_MAX} bytes of names: commit more often"
            )

    # ---- ends ------------------------------------------------------------------------------------

    def end(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: EndTransaction,
        fresh: ProducerId | None = None,
    ) -> Decision:
        """`TransactionEnded` when the decision is committed, or `NeedsProducerId`. Markers follow.

        Raises InvalidProducerIdMapping, ProducerFenced, and InvalidTxnState where the transaction
        has ended otherwise, or there is none.
        """
        check_is_of_no_sink(request.transactional_id)
        try:
            return self._end(wall_ms, request_id, request, fresh)
        except _REFUSALS as error:
            return self._refuse(request_id, request.transactional_id, request.identity, error)

    def _end(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: EndTransaction,
        fresh: ProducerId | None,
    ) -> Decision:
        transaction = self._of(request.transactional_id, request.identity)
        if transaction.ended(request.identity):
            return self._end_again(wall_ms, request_id, request, transaction, fresh)
        if request.identity != transaction.owner:
            raise _fenced(transaction, request.identity)
        state = transaction.state
        if request.version >= 2 and state.is_prepared:
            # Of the next transaction, whose first batch may be waiting here, too.
            decision = Decision()
            self._wait(
                request_id,
                transaction,
                lambda: self.end(wall_ms, request_id, request, fresh),
                decision,
            )
            return decision
        if state is _S.ONGOING or (request.version >= 2 and not request.commits):
            return self._end_ongoing(wall_ms, request_id, request, transaction, fresh)
        if request.version < 2 and state is not _S.EMPTY and state.commits == request.commits:
            return Decision(effects=[Reply(request_id, TransactionEnded(transaction.owner))])
        raise self._not_open(transaction, request)

    def _end_ongoing(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: EndTransaction,
        transaction: Transaction,
        fresh: ProducerId | None,
    ) -> Decision:
        owner = transaction.owner
        if request.version < 2 and transaction.following == NO_IDENTITY:
            identity, following = transaction.identity, NO_IDENTITY
        elif owner.is_used_up:
            if fresh is None:
                return _needs_id(request_id)
            identity, following = transaction.identity.next, Identity(fresh, ProducerEpoch(0))
        else:
            identity, following = transaction.identity.next, owner.next
        if following == identity:
            following = NO_IDENTITY
        state = _S.PREPARE_COMMIT if request.commits else _S.PREPARE_ABORT
        check_transition(transaction.transactional_id, transaction.state, state)
        is_ongoing = transaction.state is _S.ONGOING
        prepared = transaction._replace(
            identity=identity,
            following=following,
            state=state,
            started_ms=transaction.started_ms if is_ongoing else wall_ms,
            updated_ms=wall_ms,
            version=request.version,
        )
        decision = Decision()
        self._prepare(wall_ms, prepared, NO_OVERWRITE, decision)
        decision.effects.append(Reply(request_id, TransactionEnded(prepared.owner)))
        return decision

    def _end_again(
        self,
        wall_ms: int,
        request_id: RequestId,
        request: EndTransaction,
        transaction: Transaction,
        fresh: ProducerId | None,
    ) -> Decision:
        """The end was decided before: by this request, which comes again, or by the coordinator."""
        if transaction.state.commits != request.commits:
            raise self._not_open(transaction, request)
        if transaction.owner.epoch <= LAST_EPOCH:
            ended = TransactionEnded(transaction.owner)
            return Decision(effects=[Reply(request_id, ended)])
        # The coordinator aborted it without another id at hand.
        decision = Decision()
        if transaction.state.is_prepared:
            self._wait(
                request_id,
                transaction,
                lambda: self.end(wall_ms, request_id, request, fresh),
                decision,
            )
            return decision
        if fresh is None:
            return _needs_id(request_id)
        check_transition(transaction.transactional_id, transaction.state, transaction.state)
        renewed = transaction._replace(
            identity=Identity(fresh, ProducerEpoch(0)),
            previous_producer_id=transaction.identity.producer_id,
            updated_ms=wall_ms,
        )
        reply = Reply(request_id, TransactionEnded(renewed.identity))
        return Decision([record_of(renewed)], [reply])

    def _not_open(self, transaction: Transaction, request: EndTransaction) -> PylogError:
        live = self._live.get(transaction.transactional_id)
        if live is not None and live.timed_out == request.identity:
            return _timed_out(transaction)
        asked = "commit" if request.commits else "abort"
        return InvalidTxnState(
            f"the transaction of {transaction.transactional_id!r} is {transaction.state.shown}: "
            f"there is nothing to {asked}"
        )

    def _abort(self, wall_ms: int, transaction: Transaction, decision: Decision) -> None:
        """An open transaction is aborted without its producer, which is fenced by that."""
        check_transition(
            transaction.transactional_id,
            transaction.state,
            _S.PREPARE_EPOCH_FENCE,
            _S.PREPARE_ABORT,
        )
        identity, owner = transaction.identity.next, transaction.owner.next
        prepared = transaction._replace(
            identity=identity,
            following=NO_IDENTITY if owner == identity else owner,
            state=_S.PREPARE_ABORT,
            updated_ms=wall_ms,
        )
        self._prepare(wall_ms, prepared, NO_OVERWRITE, decision)

    def _prepare(
        self, wall_ms: int, prepared: Transaction, overwrite: Overwrite, decision: Decision
    ) -> None:
        decision.records.append(record_of(prepared))
        decision.effects.append(CancelTimer(_timer_of(prepared)))
        self._tell(wall_ms, prepared, overwrite, decision)

    def _tell(
        self, wall_ms: int, prepared: Transaction, overwrite: Overwrite, decision: Decision
    ) -> None:
        """Have markers written to the partitions of a prepared transaction."""
        live = self._live_of(prepared)
        live.untold = set(prepared.partitions)
        if not live.untold:
            self._complete(wall_ms, prepared, decision)
            return
        decision.effects.append(
            Send(
                SendMarkers(
                    prepared.transactional_id,
                    prepared.identity,
                    prepared.state.commits,
                    prepared.partitions,
                    prepared.version,
                    overwrite.starts_of(prepared.partitions),
                )
            )
        )

    def on_markers_written(
        self,
        wall_ms: int,
        transactional_id: str,
        identity: Identity,
        partitions: Iterable[TopicPartition],
    ) -> Decision:
        """These partitions have the marker of that identity, or are gone: the transaction is
        complete when that is so for all of them. News of another transaction change nothing.
        """
        decision = Decision()
        transaction = self.transactions.get(transactional_id)
        if (
            transaction is None
            or not transaction.state.is_prepared
            or transaction.identity != identity
        ):
            return decision
        live = self._live_of(transaction)
        live.untold.difference_update(partitions)
        if not live.untold:
            self._complete(wall_ms, transaction, decision)
        return decision

    def _complete(self, wall_ms: int, prepared: Transaction, decision: Decision) -> None:
        state = _S.COMPLETE_COMMIT if prepared.state.commits else _S.COMPLETE_ABORT
        check_transition(prepared.transactional_id, prepared.state, state)
        after, before = prepared.owner, prepared.identity
        complete = prepared._replace(
            identity=after,
            following=NO_IDENTITY,
            previous_producer_id=prepared.previous_producer_id
            if after.producer_id == before.producer_id
            else before.producer_id,
            state=state,
            partitions=frozenset(),
            updated_ms=wall_ms,
        )
        decision.records.append(record_of(complete))
        if self._live_of(prepared).waiting:
            decision.effects.append(SetTimer(WakeTimer(prepared.transactional_id), 0))
        self.sinks.on_complete(prepared.transactional_id, decision)

    def _time_out(self, wall_ms: int, transactional_id: str) -> Decision:
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not transaction.times_out:
            return Decision()
        left_ms = transaction.started_ms + transaction.timeout_ms - wall_ms
        if left_ms > 0:  # the wall clock was set back
            return Decision(effects=[SetTimer(TimeoutTimer(transactional_id), left_ms)])
        self._counts.timed_out += 1
        self._live_of(transaction).timed_out = transaction.owner
        decision = Decision()
        self._abort(wall_ms, transaction, decision)
        return decision

    # ---- requests that wait ----------------------------------------------------------------------

    def _wait(
        self,
        request_id: RequestId,
        transaction: Transaction,
        again: Callable[[], Decision],
        decision: Decision,
    ) -> None:
        live = self._live_of(transaction)
        if len(live.waiting) >= WAITING_MAX:
            refusal = _concurrent(transaction.transactional_id)
            decision.effects.append(Reply(request_id, refusal))
            return
        if not live.waiting:
            timer = WaitTimer(transaction.transactional_id)
            decision.effects.append(SetTimer(timer, WAIT_MS_MAX))
        live.waiting.append((request_id, again))

    def _wake(self, transactional_id: str) -> Decision:
        """One after the other: each is decided on what the one before it has decided."""
        live = self._live.get(transactional_id)
        if live is None or not live.waiting:
            return Decision()
        if self.transactions[transactional_id].state.is_prepared:
            return Decision()  # one of them has aborted the transaction of another
        request_id, again = live.waiting.pop(0)
        try:
            decision = again()
        except PylogError as error:
            decision = Decision(effects=[Reply(request_id, error)])
        if live.waiting:
            decision.effects.append(SetTimer(WakeTimer(transactional_id), 0))
        else:
            decision.effects.append(CancelTimer(WaitTimer(transactional_id)))
        return decision

    def _refuse_waiting(self, transactional_id: str) -> Decision:
        live = self._live.get(transactional_id)
        if live is None:
            return Decision()
        waiting, live.waiting = live.waiting, []
        refusal = _concurrent(transactional_id)
        return Decision(effects=[Reply(request_id, refusal) for request_id, _ in waiting])

    # ---- looking ---------------------------------------------------------------------------------

    def describe(self, request_id: RequestId, transactional_id: str) -> Decision:
        """`DescribedTransaction`. Raises TransactionalIdNotFound."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id!r}")
        described = DescribedTransaction(
            transactional_id,
            transaction.state.shown,
            0 if transaction.timeout_ms == NO_TIMEOUT_MS else transaction.timeout_ms,
            NO_TIMESTAMP if not transaction.partitions else transaction.started_ms,
            transaction.identity,
            tuple(sorted(transaction.partitions)),
        )
        return Decision(effects=[Reply(request_id, described)])

    def list_transactions(
        self, wall_ms: int, request_id: RequestId, wanted: TransactionFilter
    ) -> Decision:
        """A list of `ListedTransaction`."""
        listed = [
            ListedTransaction(each.transactional_id, each.identity.producer_id, each.state.shown)
            for each in self.transactions.values()
            if (not wanted.states or each.state.shown in wanted.states)
            and (not wanted.producer_ids or each.identity.producer_id in wanted.producer_ids)
            and (
                wanted.duration_ms < 0
                or (each.partitions and wall_ms - each.started_ms > wanted.duration_ms)
            )
        ]
        return Decision(effects=[Reply(request_id, listed)])

    # ---- what nobody asked for -------------------------------------------------------------------

    def _expire(self, wall_ms: int) -> Decision:
        """Ids without a transaction that nobody has used for so long are forgotten."""
        kept_ms = self._config.id_expiration_ms
        decision = Decision(is_atomic=False)
        decision.effects.append(SetTimer(EXPIRY, self._config.expiration_interval_ms))
        for transaction in self.transactions.values():
            is_idle = transaction.state is _S.EMPTY or transaction.state.is_complete
            expires_ms = transaction.updated_ms + kept_ms
            if not is_idle or not self._expiry.has_come(wall_ms, expires_ms, kept_ms):
                continue
            if not self.sinks.is_in_use(transaction.transactional_id):
                check_transition(transaction.transactional_id, transaction.state, _S.DEAD)
                decision.records.append(tombstone_of(transaction.transactional_id))
        self.sinks.expire(wall_ms, decision)
        return decision

    # ---- what sinks have their members do --------------------------------------------------------

    def check_has_room_for(self, transactional_id: str) -> None:
        """See `Members`."""
        if len(self.transactions) >= self._config.ids_max:
            raise ThrottlingQuotaExceeded(
                f"{len(self.transactions)} transactional ids are known beside "
                f"{transactional_id!r}, as many as may be; they are forgotten "
                "transactional.id.expiration.ms after their last use"
            )

    def open_member(
        self, wall_ms: int, transactional_id: str, fresh: ProducerId | None, decision: Decision
    ) -> Identity:
        """See `Members`."""
        transaction = self.transactions.get(transactional_id)
        if transaction is not None:
            return transaction.owner
        assert fresh is not None, transactional_id
        identity = Identity(fresh, ProducerEpoch(0))
        begun = Transaction(
            transactional_id, identity, _S.EMPTY, NO_TIMEOUT_MS, updated_ms=wall_ms, version=2
        )
        decision.records.append(record_of(begun))
        return identity

    def end_member(
        self,
        wall_ms: int,
        transaction: Transaction,
        commits: bool,
        overwrite: Overwrite,
        decision: Decision,
    ) -> None:
        """See `Members`."""
        state = _S.PREPARE_COMMIT if commits else _S.PREPARE_ABORT
        is_ongoing = transaction.state is _S.ONGOING
        begins = (_S.ONGOING,) if commits and not is_ongoing else ()  # with the partitions it gets
        check_transition(transaction.transactional_id, transaction.state, *begins, state)
        prepared = transaction._replace(
            identity=transaction.identity.next,
            state=state,
            started_ms=transaction.started_ms if is_ongoing else wall_ms,
            updated_ms=wall_ms,
            version=2,
        )
        self._prepare(wall_ms, prepared, overwrite, decision)

    # ---- helpers ---------------------------------------------------------------------------------

    def _of(self, transactional_id: str, asked: Identity) -> Transaction:
        """The transaction of an id. Raises InvalidProducerIdMapping where the id is not known, or
        another producer's.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping(
                f"transactional id {transactional_id!r} is not known here: it expired, or no "
                "producer has begun with it"
            )
        its = transaction.owner.producer_id, transaction.identity.producer_id
        if asked.producer_id not in its and not transaction.ended(asked):
            raise InvalidProducerIdMapping(
                f"transactional id {transactional_id!r} belongs to producer id {its[0]}, not to "
                f"{asked.producer_id}"
            )
        return transaction

    def _refuse(
        self, request_id: RequestId, transactional_id: str, asked: Identity, refusal: PylogError
    ) -> Decision:
        """The refusal, which ends a producer. Raises it where `asked` is certainly from before the
        owner; else a newer coordinator may have told the producer more than is known here, so the
        refusal waits until this one has shown that it leads.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is not None and transaction.is_past(asked):
            raise refusal
        return proven(request_id, refusal)

    def _live_of(self, transaction: Transaction) -> _Live:
        return self._live.setdefault(transaction.transactional_id, _Live())

    def _check_timed_out(self, transaction: Transaction, asked: Identity) -> None:
        """A producer whose transaction was open for too long gets that as its error: no other has
        fenced it."""
        live = self._live.get(transaction.transactional_id)
        if live is not None and live.timed_out == asked and transaction.ended(asked):
            raise TransactionAbortable(str(_timed_out(transaction)))


def _timeout_ms(request: InitProducer) -> int:
    return NO_TIMEOUT_MS if request.two_phase else request.timeout_ms


def _timer_of(transaction: Transaction) -> TimeoutTimer:
    return TimeoutTimer(transaction.transactional_id)


def _timeout_of(transaction: Transaction, wall_ms: int) -> SetTimer:
    left_ms = transaction.started_ms + transaction.timeout_ms - wall_ms
    return SetTimer(_timer_of(transaction), max(left_ms, 0))


def _needs_id(request_id: RequestId) -> Decision:
    return Decision(effects=[Reply(request_id, NeedsProducerId())])


def _begun(request_id: RequestId, transaction: Transaction) -> Decision:
    return Decision(effects=[Reply(request_id, ProducerBegun(transaction.owner))])


def _verified(transaction: Transaction, request: AddPartitions) -> PartitionsAdded:
    missing = TransactionAbortable(
        f"the partition was not added to the transaction of {request.transactional_id!r}"
    )
    known = transaction.partitions
    return PartitionsAdded(
        {each: None if each in known else missing for each in request.partitions}
    )


def _fenced(transaction: Transaction, asked: Identity) -> ProducerFenced:
    return ProducerFenced(
        f"{transaction.transactional_id!r}: producer id {asked.producer_id} epoch {asked.epoch} "
        f"is not its producer any more: a newer instance has taken its place, or its transaction "
        f"has ended (now epoch {transaction.owner.epoch})"
    )


def _timed_out(transaction: Transaction) -> InvalidTxnState:
    return InvalidTxnState(
        f"the transaction of {transaction.transactional_id!r} was open for longer than its "
        f"time-out of {transaction.timeout_ms} ms and was aborted: abort it here, too, and begin "
        "another"
    )


def _concurrent(transactional_id: str) -> ConcurrentTransactions:
    return ConcurrentTransactions(
        f"the last transaction of {transactional_id!r} has not ended on all its partitions yet"
    )
