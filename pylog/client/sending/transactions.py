"""The transactions of one producer: the calls that the user may make now, and the requests to
coordinators.

Pure: events in, effects out; Kafka's `TransactionManager`. Owned by the sender, under the
producer's lock. Not here: records and their batches, which the sender sends, and fails where `doom`
says so; it tells whether any are left when it polls.

One request is in flight at a time. A request that failed with a retriable error is sent again until
it is answered, for as long as it takes: the user's call waits for `max.block.ms`, and is made again
after that. Other errors are of two kinds (KIP-1050). After an abortable one the transaction can
only be aborted, and the producer then goes on; after a fatal one, such as that of a newer producer
under the same transactional id, nothing goes on but `close`.

A producer may instead adopt one transaction after another, which their coordinator has opened and
somebody else ends: it sends records, prepares, and asks no coordinator anything.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pylog import errors
from pylog.client.sending.producer_id import ProducerId
from pylog.client.sending.receipt import Receipt
from pylog.client.sending.send_events import Effect
from pylog.client.sending.send_settings import SenderSettings
from pylog.client.sending.transaction_events import (
    CommitOffsets,
    CoordinatorFound,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OffsetsKept,
    Operation,
    OperationDone,
    ProducerBegun,
    TransactionAnswer,
    TransactionEnded,
    TransactionRequest,
)
from pylog.client.sending.transaction_state import NEXT_STATES, TransactionState
from pylog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
    TopicPartition,
)

INIT: Final = "init_transactions()"
ADOPT: Final = "adopt()"
SEND_OFFSETS: Final = "send_offsets_to_transaction()"
PREPARE: Final = "prepare_transaction()"
COMMIT: Final = "commit_transaction()"
ABORT: Final = "abort_transaction()"

_S = TransactionState
_OUSTED: Final = (errors.NotCoordinator, errors.CoordinatorNotAvailable)
_FENCED: Final = (errors.InvalidProducerEpoch, errors.ProducerFenced)
_ENDS_ALL: Final = (
    errors.ClusterAuthorizationFailed,
    errors.InvalidProducerIdMapping,
    errors.TransactionalIdAuthorizationFailed,
    errors.UnknownProducerId,
    errors.UnsupportedVersion,
)
"""Errors of coordinators after which this producer is of no use, though they are not `fatal` for
each client that may meet them.
"""
_OF_BATCHES: Final = tuple(one for one in _ENDS_ALL if one is not errors.UnknownProducerId)
"""The same for batches: a leader that has lost what it knew of a producer concerns one transaction.
"""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """The producer's settings for its transactions."""

    transactional_id: str
    timeout_ms: int = 60_000
    two_phase: bool = False


class TransactionalId(ProducerId):
    """The producer id that the coordinator gave to the transactional id, for one epoch. A sequence
    that broke cannot begin anew before the next one, so that the transaction has to be aborted.
    """

    def __init__(self, on_used_up: Callable[[], None]) -> None:
        super().__init__()
        self._on_used_up = on_used_up

    def have(self, now_ms: int, effects: list[Effect]) -> bool:
        """Whether there is one; it comes with a transaction, and is not asked for here."""
        return self.number != NO_PRODUCER_ID

    def used_up(self, number: int) -> None:
        """A lane cannot go on under this id."""
        if number == self.number != NO_PRODUCER_ID:
            self.number = NO_PRODUCER_ID
            self._on_used_up()


class Transactions:
    """Invariants: at most one operation is pending; while a transaction is ended no record is
    taken; `EndTransaction` goes out when no batch is unresolved.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        sending: SenderSettings,
        jitter: Callable[[], float],
        make_waiter: Callable[[], Any] = lambda: None,
    ) -> None:
        """`make_waiter` makes what a user's thread waits on."""
        self.settings = settings
        self.state = TransactionState.UNINITIALIZED
        self.id = TransactionalId(self._sequence_broke)
        self.is_adopted = False
        """Whether somebody else ends its transactions."""
        self.receipt = Receipt()
        """The receipt of the transaction that was adopted last."""
        self._sending = sending
        self._jitter = jitter
        self._make_waiter = make_waiter
        self._producer_id: int = NO_PRODUCER_ID
        self._epoch: int = NO_PRODUCER_EPOCH
        self._error: errors.PylogError | None = None
        self._coordinator: int | None = None
        self._group_coordinators: dict[str, int] = {}
        self._operation: Operation | None = None  # until the user has heard what became of it
        self._superseded: Operation | None = None  # by an abort
        self._offsets: CommitOffsets | None = None  # what is left to commit, to broker -1
        self._asked: tuple[ConsumerGroupMetadata, dict[TopicPartition, OffsetAndMetadata]] | None
        self._asked = None  # of the last call that sends offsets: the same one is made again
        self._keep_prepared = False
        self._prepared = PreparedTransaction()
        self._completing: PreparedTransaction | None = None
        self._holds_more = False
        """Whether the transaction may hold more than records of which the sender knows: offsets,
        records of a topic that is no more, and those of an earlier instance.
        """
        self._in_flight: TransactionRequest | None = None
        self._failures = 0
        self._retry_at_ms = 0
        self.last_fault = ""
        """The reason why the last request has to be sent again; empty: it has not."""

    # ---- what the user does -------------------------------------------------------------------

    def init(self, *, keep_prepared: bool = False) -> Operation:
        """Have the coordinator give an id and an epoch; once in a producer's life."""
        if (known := self._again(INIT)) is not None:
            return known
        if keep_prepared and not self.settings.two_phase:
            raise errors.InvalidTxnState(
                f"{self._who}: keep_prepared_txn=True needs transaction_two_phase_commit_enable="
                f"True"
            )
        if self.state is not _S.UNINITIALIZED:
            raise self._refusal(INIT, "it is called once, before the first transaction")
        self._become(_S.INITIALIZING)
        self._keep_prepared = keep_prepared
        return self._begin(INIT)

    def begin(self) -> None:
        """Open a transaction; no coordinator hears of it before it holds something."""
        self._nothing_pending("begin_transaction()")
        if self.state is not _S.READY:
            raise self._refusal("begin_transaction()", "commit or abort the open one first")
        self._become(_S.IN_TRANSACTION)

    def adopt(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Write for a transaction that its coordinator has opened under this identity: what is sent
        from now on belongs to it. The one adopted before is prepared, and left to its coordinator
        to end.
        """
        self._nothing_pending(ADOPT)
        if self.state is not _S.UNINITIALIZED and not (
            self.is_adopted and self.state is _S.PREPARED
        ):
            raise self._refusal(ADOPT, "prepare the one before first")
        self.settings = replace(self.settings, transactional_id=transactional_id)
        self.is_adopted = True
        self.receipt = Receipt()
        self._prepared = PreparedTransaction()
        self._holds_more = False
        self._go_on_under(producer_id, producer_epoch)
        self._become(_S.IN_TRANSACTION)

    def stored(self, tp: TopicPartition, base_offset: int, count: int) -> None:
        """A batch of the transaction was acknowledged."""
        if self.is_adopted:
            self.receipt.stored(tp, base_offset, count)

    def send_offsets(
        self, group: ConsumerGroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Operation:
        """Commit these positions of a group with the transaction."""
        asked = (group, dict(offsets))
        if asked == self._asked and (known := self._again(SEND_OFFSETS)) is not None:
            return known
        self._nothing_pending(SEND_OFFSETS)
        if self.state is not _S.IN_TRANSACTION:
            raise self._refusal(SEND_OFFSETS, "call begin_transaction() first")
        operation = self._begin(SEND_OFFSETS)
        self._asked = asked
        if offsets:
            wanted = tuple(sorted(offsets.items()))
            self._offsets = CommitOffsets(
                -1, self.settings.transactional_id, self._producer_id, self._epoch, group, wanted
            )
        return operation

    def prepare(self) -> Operation:
        """Have everything stored, so that somebody else may decide (KIP-939)."""
        if (known := self._again(PREPARE)) is not None:
            return known
        if not (self.settings.two_phase or self.is_adopted):
            raise errors.InvalidTxnState(
                f"{self._who}: prepare_transaction() needs transaction_two_phase_commit_enable=True"
            )
        if self.state is not _S.IN_TRANSACTION:
            raise self._refusal(PREPARE, "call begin_transaction() first")
        self._become(_S.PREPARED)
        self._prepared = PreparedTransaction(self._producer_id, self._epoch)
        return self._begin(PREPARE)

    def commit(self) -> Operation:
        """All of it counts. Records that were sent before are stored first."""
        if (known := self._again(COMMIT)) is not None:
            return known
        self._check_own(COMMIT)
        if self.state not in (_S.IN_TRANSACTION, _S.PREPARED):
            raise self._refusal(COMMIT, "call begin_transaction() first")
        self._become(_S.COMMITTING)
        return self._begin(COMMIT)

    def abort(self) -> Operation:
        """None of it counts. A call that still waits for offsets, or to prepare, ends with that."""
        pending = self._operation
        if pending is not None and pending.call in (SEND_OFFSETS, PREPARE) and not pending.done:
            self._superseded = pending
            self._operation = self._offsets = self._in_flight = None
        if (known := self._again(ABORT)) is not None:
            return known
        self._check_own(ABORT)
        if self.state not in (_S.IN_TRANSACTION, _S.PREPARED, _S.ABORTABLE_ERROR):
            raise self._refusal(ABORT, "call begin_transaction() first")
        self._become(_S.ABORTING)
        self._error = None
        self._retry_at_ms = self._failures = 0
        return self._begin(ABORT)

    def complete(self, decided: PreparedTransaction) -> Operation:
        """Commit the prepared transaction if it is the one that was decided, else abort it."""
        if self._operation is not None and self._completing == decided:
            return self._operation  # the same call, made again
        if self.state is not _S.PREPARED:
            raise self._refusal("complete_transaction()", "no transaction is prepared")
        operation = self.commit() if decided == self._prepared else self.abort()
        self._completing = decided
        return operation

    def collected(self, operation: Operation) -> None:
        """The user has heard what became of it."""
        if operation is self._operation and operation.done:
            self._operation = self._completing = None

    @property
    def prepared(self) -> PreparedTransaction:
        """The prepared transaction; the empty one where none is prepared."""
        return self._prepared

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open that was neither prepared nor is being ended, and is this
        producer's to end.
        """
        return not self.is_adopted and self.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR)

    @property
    def pending(self) -> Operation | None:
        """The operation that a user's call still waits for."""
        operation = self._operation
        return operation if operation is not None and not operation.done else None

    @property
    def has_work(self) -> bool:
        """Whether `poll` may have something to do."""
        return self.pending is not None or self._superseded is not None

    def check_open(self) -> None:
        """Raise what speaks against another batch now."""
        if self.state is not _S.IN_TRANSACTION:
            raise self._refusal("send()", "call begin_transaction() first")

    @property
    def doom(self) -> errors.PylogError | None:
        """The error of batches that are not in flight and have no use any more, or None."""
        if self.state is _S.ABORTING:
            return errors.TransactionAborted(
                f"{self._who}: the transaction was aborted; the record is not delivered"
            )
        return self._error

    def end(self, error: errors.PylogError, effects: list[Effect]) -> None:
        """The producer is closed: nothing is asked any more."""
        self._die(error, effects)

    # ---- what becomes of batches --------------------------------------------------------------

    def on_refused(self, error: errors.PylogError) -> None:
        """`send` could not take a record that belongs to the transaction: a commit without it would
        be one of a part.
        """
        if self.state is _S.IN_TRANSACTION:
            self._break(error)

    def on_batch_failed(self, error: errors.PylogError, effects: list[Effect]) -> None:
        """A batch of the transaction is given up."""
        if self.state in (_S.IN_TRANSACTION, _S.COMMITTING, _S.PREPARED, _S.ABORTABLE_ERROR):
            if error.fatal or isinstance(error, _OF_BATCHES):
                self._die(error, effects)
            elif self.state is not _S.ABORTABLE_ERROR:
                self._break(error, effects)

    def _sequence_broke(self) -> None:
        self._holds_more = True
        if self.state in (_S.IN_TRANSACTION, _S.COMMITTING, _S.PREPARED):
            self._break(
                errors.TransactionAbortable(
                    f"{self._who}: a partition's sequence broke, or its topic was made anew; abort "
                    f"the transaction"
                )
            )

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int, *, is_idle: bool, has_records: bool, effects: list[Effect]) -> None:
        """Ask what is to be asked now. `is_idle`: no batch is unresolved; `has_records`: some were
        sent since the transaction began.
        """
        if self._superseded is not None:
            self._superseded.done = True
            aborted = errors.TransactionAborted(f"{self._who}: the transaction was aborted")
            effects.append(OperationDone(self._superseded, aborted))
            self._superseded = None
        operation = self._operation
        if operation is None or operation.done or self._in_flight is not None:
            return
        if self._error is not None:  # it broke since the last poll
            self._finish(self._of_user(), effects)
            return
        if operation.call == SEND_OFFSETS and self._offsets is None:
            self._finish(None, effects)
            return
        if operation.call in (PREPARE, COMMIT, ABORT):
            if not is_idle:
                return
            if operation.call == PREPARE:
                self._finish(None, effects)
                return
            if not (has_records or self._holds_more):
                self._ended(effects)
                return
        if now_ms >= self._retry_at_ms:
            self._in_flight = self._request(operation)
            effects.append(self._in_flight)

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """The time at which a request is sent again; None: at no certain time."""
        waits = self.pending is not None and self._in_flight is None
        return self._retry_at_ms if waits and self._retry_at_ms > now_ms else None

    def _request(self, operation: Operation) -> TransactionRequest:
        """The request that the pending operation needs next."""
        own = self.settings.transactional_id
        if operation.call == SEND_OFFSETS:
            offsets = self._offsets
            assert offsets is not None
            group = offsets.group.group_id
            coordinator = self._group_coordinators.get(group)
            if coordinator is None:
                return FindCoordinator(group, is_group=True)
            self._holds_more = True
            return CommitOffsets(
                coordinator,
                own,
                offsets.producer_id,
                offsets.producer_epoch,
                offsets.group,
                offsets.offsets,
            )
        if self._coordinator is None:
            return FindCoordinator(own)
        if operation.call == INIT:
            settings = self.settings
            return InitProducer(
                self._coordinator,
                own,
                settings.timeout_ms,
                two_phase=settings.two_phase,
                keep_prepared=self._keep_prepared,
            )
        return EndTransaction(
            self._coordinator, own, self._producer_id, self._epoch, operation.call == COMMIT
        )

    # ---- answers ------------------------------------------------------------------------------

    def on_answer(
        self,
        now_ms: int,
        request: TransactionRequest,
        answer: TransactionAnswer,
        effects: list[Effect],
    ) -> bool:
        """A coordinator has answered; whether sequences begin anew with that."""
        if request is not self._in_flight:
            return False
        self._in_flight = None
        fault = errors.from_code(answer.code, answer.message) if answer.code else None
        match request, answer:
            case FindCoordinator(), CoordinatorFound():
                self._found(now_ms, request, answer.broker, fault, effects)
            case InitProducer(), ProducerBegun():
                return self._begun(now_ms, answer, fault, effects)
            case CommitOffsets(), OffsetsKept():
                self._kept(now_ms, request, answer, fault, effects)
            case EndTransaction(), TransactionEnded():
                return self._decided(now_ms, request, answer, fault, effects)
            case _:
                raise AssertionError(f"{answer} does not answer {request}")
        return False

    def on_no_answer(
        self, now_ms: int, request: TransactionRequest, error: errors.PylogError
    ) -> None:
        """Nobody has answered: whether the request was carried out is not known. All of them may be
        sent again.
        """
        if request is not self._in_flight:
            return
        self._in_flight = None
        self._forget_coordinator(request)
        self._later(now_ms, error)

    def _found(
        self,
        now_ms: int,
        request: FindCoordinator,
        broker: int,
        fault: errors.PylogError | None,
        effects: list[Effect],
    ) -> None:
        if fault is None:
            if request.is_group:
                self._group_coordinators[request.key] = broker
            else:
                self._coordinator = broker
        elif fault.retriable:
            self._later(now_ms, fault)
        elif request.is_group:
            self._break(fault, effects)
        else:
            self._die(fault, effects)

    def _begun(
        self,
        now_ms: int,
        answer: ProducerBegun,
        fault: errors.PylogError | None,
        effects: list[Effect],
    ) -> bool:
        if fault is not None:
            if self._passes(now_ms, fault):
                return False
            self._die(errors.ProducerFenced() if isinstance(fault, _FENCED) else fault, effects)
            return False
        self._go_on_under(answer.producer_id, answer.producer_epoch)
        is_prepared = self._keep_prepared and answer.ongoing_epoch != NO_PRODUCER_EPOCH
        if is_prepared:
            self._prepared = PreparedTransaction(answer.ongoing_id, answer.ongoing_epoch)
            self._holds_more = True
        self._become(_S.PREPARED if is_prepared else _S.READY)
        self._finish(None, effects)
        return True

    def _kept(
        self,
        now_ms: int,
        request: CommitOffsets,
        answer: OffsetsKept,
        fault: errors.PylogError | None,
        effects: list[Effect],
    ) -> None:
        faults = {
            tp: errors.from_code(code, f"{tp}: {message}") for tp, code, message in answer.faults
        }
        if fault is not None:
            faults = dict.fromkeys((tp for tp, _ in request.offsets), fault)
        lasting = next((one for one in faults.values() if _is_lasting(one)), None)
        if lasting is not None:
            is_of_member = isinstance(lasting, errors.FencedInstanceId)  # fatal for it alone
            if (lasting.fatal and not is_of_member) or isinstance(lasting, _ENDS_ALL):
                self._die(lasting, effects)
            else:
                self._break(_of_group(request.group, lasting), effects)
            return
        self._offsets = None
        if faults:
            left = tuple((tp, offset) for tp, offset in request.offsets if tp in faults)
            self._offsets = CommitOffsets(
                -1, request.transactional_id, self._producer_id, self._epoch, request.group, left
            )
            for one in faults.values():
                if isinstance(one, (*_OUSTED, errors.RequestTimedOut)):
                    self._forget_coordinator(request)
            self._later(now_ms, next(iter(faults.values())))
            return
        self._finish(None, effects)

    def _decided(
        self,
        now_ms: int,
        request: EndTransaction,
        answer: TransactionEnded,
        fault: errors.PylogError | None,
        effects: list[Effect],
    ) -> bool:
        if fault is None:
            self._go_on_under(answer.producer_id, answer.producer_epoch)
            self._ended(effects)
            return True
        if self._passes(now_ms, fault):
            return False
        if isinstance(fault, _FENCED):
            self._die(
                errors.ProducerFenced(
                    f"{self._who}: a newer producer has the same transactional id, or the "
                    f"coordinator has aborted the transaction after its time-out"
                ),
                effects,
            )
        elif request.committed and fault.abortable:
            self._break(fault, effects)
        else:
            self._die(fault, effects)
        return False

    def _passes(self, now_ms: int, fault: errors.PylogError) -> bool:
        """Whether the transaction's coordinator, or the next one, is asked again."""
        if not fault.retriable:
            return False
        if isinstance(fault, _OUSTED):
            self._coordinator = None
        self._later(now_ms, fault)
        return True

    def _forget_coordinator(self, request: TransactionRequest) -> None:
        if isinstance(request, CommitOffsets):
            self._group_coordinators.pop(request.group.group_id, None)
        elif not isinstance(request, FindCoordinator):
            self._coordinator = None

    def _later(self, now_ms: int, fault: errors.PylogError) -> None:
        self.last_fault = f"{fault.name}: {fault}"
        self._failures += 1
        wait_ms = self._sending.backoff_ms(self._failures, self._jitter())
        self._retry_at_ms = now_ms + wait_ms

    # ---- moves --------------------------------------------------------------------------------

    def _become(self, state: TransactionState) -> None:
        assert state in NEXT_STATES[self.state], (
            f"{self._who}: transactions that are {self.state.name} cannot become {state.name}"
        )
        self.state = state

    def _begin(self, call: str) -> Operation:
        self._operation = Operation(call, self._make_waiter())
        return self._operation

    def _again(self, call: str) -> Operation | None:
        """The operation of an earlier call whose end the user has not heard of: the same call goes
        on with it, another one is too early.
        """
        if self._operation is not None and self._operation.call == call:
            return self._operation
        self._nothing_pending(call)
        return None

    def _nothing_pending(self, call: str) -> None:
        pending = self._operation
        if pending is not None and not pending.done:
            raise errors.InvalidTxnState(
                f"{self._who}: {call} is too early: {pending.call} has not ended yet; call it again"
            )
        self._operation = None

    def _check_own(self, call: str) -> None:
        """InvalidTxnState where somebody else ends the transaction."""
        if self.is_adopted:
            raise self._refusal(call, "whoever opened the transaction ends it")

    def _refusal(self, call: str, advice: str) -> errors.PylogError:
        if self._error is not None:
            return self._of_user()
        if self.state is _S.UNINITIALIZED:
            advice = "call init_transactions() first"
        elif self.state is _S.PREPARED and not self.is_adopted:
            advice = "commit, abort or complete the prepared transaction first"
        return errors.InvalidTxnState(f"{self._who}: {call}: {self.state.value}; {advice}")

    def _of_user(self) -> errors.PylogError:
        """The error of the transaction, or of the producer, as each call raises its own."""
        assert self._error is not None
        error = copy.copy(self._error)
        error.__cause__ = self._error.__cause__
        return error

    def _break(self, error: errors.PylogError, effects: list[Effect] | None = None) -> None:
        """The transaction can only be aborted. A call that waits hears of it now, or at the next
        poll.
        """
        self._become(_S.ABORTABLE_ERROR)
        self._offsets = self._in_flight = None
        if error.abortable:
            self._error = error
        else:
            self._error = errors.TransactionAbortable(
                f"{self._who}: abort the transaction, of which something failed: {error.name}: "
                f"{error}"
            )
            self._error.__cause__ = error
        if effects is not None:
            self._finish(self._of_user(), effects)

    def _die(self, error: errors.PylogError, effects: list[Effect]) -> None:
        """Nothing goes on."""
        if self.state is _S.FATAL_ERROR:
            return
        self._become(_S.FATAL_ERROR)
        self._error = error
        self._offsets = self._in_flight = None
        self.id.number = NO_PRODUCER_ID
        self._finish(self._of_user(), effects)

    def _finish(self, error: errors.PylogError | None, effects: list[Effect]) -> None:
        """The pending call has its answer."""
        self._failures = self._retry_at_ms = 0
        self.last_fault = ""
        operation = self._operation
        if operation is not None and not operation.done:
            operation.done = True
            effects.append(OperationDone(operation, error))

    def _ended(self, effects: list[Effect]) -> None:
        self._become(_S.READY)
        self._error = None
        self._holds_more = False
        self._prepared = PreparedTransaction()
        if self.id.number == NO_PRODUCER_ID:  # used up by a transaction that came to nothing
            self.id.came(self._producer_id, self._epoch)
        self._finish(None, effects)

    def _go_on_under(self, producer_id: int, producer_epoch: int) -> None:
        self._producer_id, self._epoch = producer_id, producer_epoch
        self.id.came(producer_id, producer_epoch)

    @property
    def _who(self) -> str:
        return f"transactional id {self.settings.transactional_id!r}"


def _is_lasting(error: errors.PylogError) -> bool:
    """Whether it ends a commit of offsets. A topic that the broker does not know was read a moment
    ago, or its name is wrong.
    """
    return not error.retriable or isinstance(error, errors.UnknownTopicOrPartition)


def _of_group(group: ConsumerGroupMetadata, error: errors.PylogError) -> errors.PylogError:
    """As a consumer's commit tells it."""
    if isinstance(
        error, errors.IllegalGeneration | errors.UnknownMemberId | errors.FencedMemberEpoch
    ):
        return errors.CommitFailed(
            f"group {group.group_id!r} has gone on without this member, whose partitions may be "
            f"others' by now ({error.name}): abort, and read again from what is committed"
        )
    return error
