"""A producer's transactions: what is asked of coordinators, and what becomes of batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pylog import errors
from pylog.client.sending.send_events import (
    BatchDone,
    BatchFailed,
    Effect,
    RefreshMetadata,
    SendRequest,
)
from pylog.client.sending.transaction_events import (
    CommitOffsets,
    CoordinatorFound,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OffsetsKept,
    OperationDone,
    ProducerBegun,
    TransactionEnded,
)
from pylog.client.sending.transaction_state import NEXT_STATES, TransactionState
from pylog.client.sending.transactions import Transactions
from pylog.model import ConsumerGroupMetadata, OffsetAndMetadata, PreparedTransaction
from tests.fakes.sender_world import OK, T0, T1, refused
from tests.fakes.transaction_world import FIND, FOUND, INIT, TXN, TransactionWorld, ends

MEMBER = ConsumerGroupMetadata("g", 3, "m", "i")
AT_5 = {T0: OffsetAndMetadata(5)}


def kinds(effects: list[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def errors_of(effects: list[Effect]) -> list[type[errors.PylogError]]:
    """The errors of failed batches, and of ended calls."""
    return [
        type(e.error) for e in effects if isinstance(e, BatchFailed | OperationDone) and e.error
    ]


# ---- states ------------------------------------------------------------------------------------


def test_each_state_says_what_it_is_and_what_follows() -> None:
    assert set(NEXT_STATES) == set(TransactionState)
    assert {s for s in NEXT_STATES if not NEXT_STATES[s]} == {TransactionState.FATAL_ERROR}
    reached = set().union(*NEXT_STATES.values())
    assert reached == set(TransactionState) - {TransactionState.UNINITIALIZED}


CALLS: dict[str, Callable[[Transactions], object]] = {
    "init": lambda t: t.init(),
    "begin": lambda t: t.begin(),
    "send": lambda t: t.check_open(),
    "offsets": lambda t: t.send_offsets(MEMBER, AT_5),
    "prepare": lambda t: t.prepare(),
    "commit": lambda t: t.commit(),
    "abort": lambda t: t.abort(),
    "complete": lambda t: t.complete(PreparedTransaction()),
}


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        ("uninitialized", {"init"}),
        ("initializing", {"init"}),
        ("ready", {"begin"}),
        ("open", {"send", "offsets", "prepare", "commit", "abort"}),
        ("committing", {"commit"}),
        ("aborting", {"abort"}),
        ("broken", {"abort"}),
        ("dead", set()),
    ],
)
def test_calls_that_a_state_does_not_allow_are_refused_by_name(
    state: str, allowed: set[str]
) -> None:
    world = TransactionWorld(two_phase=True)
    transactions = world.transactions
    if state == "initializing":
        transactions.init()
    elif state != "uninitialized":
        operation = transactions.init()
        init = world.only(world.answer(world.only(world.poll()), FOUND))
        world.answer(init, ProducerBegun(7, 0))
        transactions.collected(operation)
    if state not in ("uninitialized", "initializing", "ready"):
        transactions.begin()
    if state == "committing":
        world.add()
        transactions.commit()
    elif state == "aborting":
        world.add()
        transactions.abort()
    elif state == "broken":
        transactions.on_refused(errors.MessageTooLarge("large"))
    elif state == "dead":
        transactions.on_batch_failed(errors.ProducerFenced(), [])
    for name in CALLS.keys() - allowed:
        with pytest.raises(errors.PylogError) as error:
            CALLS[name](transactions)
        if state == "broken":
            assert error.value.abortable
            assert "large" in str(error.value)
        elif state == "dead":
            assert type(error.value) is errors.ProducerFenced
        else:
            assert type(error.value) is errors.InvalidTxnState
            assert TXN in str(error.value)


# ---- the beginning -----------------------------------------------------------------------------


def test_init_finds_the_coordinator_and_asks_it_for_an_id() -> None:
    world = TransactionWorld()
    operation = world.transactions.init()
    find = world.only(world.poll())
    assert find == FIND
    assert world.poll() == []  # one at a time
    init = world.only(world.answer(find, FOUND))
    assert init == INIT
    assert world.answer(init, ProducerBegun(7, 3)) == [OperationDone(operation)]
    world.transactions.collected(operation)
    world.transactions.begin()
    batch = world.add()
    assert world.poll() == [SendRequest(1, 1, (batch,))]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 0)


def test_while_init_is_unanswered_nothing_is_sent() -> None:
    world = TransactionWorld()
    world.transactions.init()
    world.add()  # `Producer.send` would have refused it
    assert kinds(world.poll()) == ["FindCoordinator"]
    assert world.poll(50) == []


@pytest.mark.parametrize(
    "passing",
    [errors.CoordinatorLoadInProgress, errors.ConcurrentTransactions, errors.RequestTimedOut],
)
def test_what_passes_by_itself_is_asked_again_of_the_same_coordinator(
    passing: type[errors.PylogError],
) -> None:
    world = TransactionWorld()
    world.transactions.init()
    init = world.only(world.answer(world.only(world.poll()), FOUND))
    assert world.answer(init, ProducerBegun(code=passing.code)) == []
    assert world.sender.next_deadline_ms(world.now_ms) == world.now_ms + 100
    assert world.poll(99) == []
    assert world.poll(1) == [INIT]


@pytest.mark.parametrize("ousted", [errors.NotCoordinator, errors.CoordinatorNotAvailable])
def test_another_coordinator_is_looked_for(ousted: type[errors.PylogError]) -> None:
    world = TransactionWorld()
    world.transactions.init()
    init = world.only(world.answer(world.only(world.poll()), FOUND))
    world.answer(init, ProducerBegun(code=ousted.code))
    find = world.only(world.poll(100))
    assert find == FIND
    assert world.answer(find, CoordinatorFound(3)) == [InitProducer(3, TXN, 60_000)]


def test_a_coordinator_that_does_not_answer_is_looked_for_again() -> None:
    world = TransactionWorld()
    world.transactions.init()
    init = world.only(world.answer(world.only(world.poll()), FOUND))
    assert world.no_answer(init) == []
    assert world.poll(100) == [FIND]
    assert world.answer(init, ProducerBegun(9, 9)) == []  # too late: it was given up


@pytest.mark.parametrize(
    "lasting",
    [
        errors.TransactionalIdAuthorizationFailed,
        errors.InvalidTransactionTimeout,
        errors.ProducerFenced,
        errors.InvalidRequest,
    ],
)
def test_an_init_that_is_refused_for_good_ends_the_producer(
    lasting: type[errors.PylogError],
) -> None:
    world = TransactionWorld()
    operation = world.transactions.init()
    init = world.only(world.answer(world.only(world.poll()), FOUND))
    effects = world.answer(init, ProducerBegun(code=lasting.code, message="by the test"))
    assert errors_of(effects) == [lasting]
    world.transactions.collected(operation)
    with pytest.raises(lasting):
        world.transactions.begin()


# ---- commits -----------------------------------------------------------------------------------


def test_a_commit_waits_for_all_batches_and_then_asks() -> None:
    world = TransactionWorld().begun()
    first, second = world.add(T0), world.add(T1)
    operation = world.transactions.commit()
    assert world.poll() == [SendRequest(1, 1, (first,)), SendRequest(2, 2, (second,))]
    assert world.acks(1, 1, OK) == [BatchDone(first, 0, -1)]
    effects = world.acks(2, 2, OK)
    assert effects == [BatchDone(second, 0, -1), ends(0, committed=True)]
    assert world.answer(effects[1], TransactionEnded(7, 1)) == [OperationDone(operation)]


def test_each_transaction_has_its_epoch_and_sequences_begin_anew() -> None:
    world = TransactionWorld().begun()
    for epoch in range(3):
        batches = [world.stored(T0, 2), world.stored(T0), world.stored(T1)]
        assert [(b.producer_epoch, b.base_sequence) for b in batches] == [
            (epoch, 0), (epoch, 2), (epoch, 0)]  # fmt: skip
        world.ended(world.transactions.commit(), epoch)
        world.transactions.begin()


def test_the_coordinator_may_give_another_producer_id_for_the_next_transaction() -> None:
    world = TransactionWorld().begun()
    world.stored()
    world.transactions.commit()
    world.answer(world.only(world.poll()), TransactionEnded(8, 0))
    world.transactions.begin()
    batch = world.stored()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (8, 0, 0)
    world.transactions.commit()
    assert world.poll() == [EndTransaction(2, TXN, 8, 0, True)]


@pytest.mark.parametrize("end", [Transactions.commit, Transactions.abort])
def test_an_empty_transaction_ends_without_a_word(end: Callable[[Transactions], object]) -> None:
    world = TransactionWorld().begun()
    operation = end(world.transactions)
    assert world.poll() == [OperationDone(operation)]  # type: ignore[arg-type]
    world.transactions.begin()
    batch = world.stored()
    assert (batch.producer_epoch, batch.base_sequence) == (0, 0)


def test_a_commit_whose_answer_is_lost_is_asked_again_under_the_same_epoch() -> None:
    world = TransactionWorld().begun()
    world.stored()
    operation = world.transactions.commit()
    end = world.only(world.poll())
    assert world.no_answer(end) == []
    find = world.only(world.poll(100))
    again = world.only(world.answer(find, FOUND))
    assert again == end == ends(0, committed=True)
    assert world.answer(again, TransactionEnded(7, 1)) == [OperationDone(operation)]


def test_a_call_made_again_goes_on_with_the_one_before() -> None:
    world = TransactionWorld().begun()
    world.stored()
    operation = world.transactions.commit()
    end = world.only(world.poll())
    assert world.transactions.commit() is operation  # the first one's time was up
    with pytest.raises(errors.InvalidTxnState, match="has not ended yet"):
        world.transactions.abort()
    assert world.answer(end, TransactionEnded(7, 1)) == [OperationDone(operation)]
    assert world.transactions.commit() is operation  # it has ended meanwhile, and nobody heard
    world.transactions.collected(operation)
    with pytest.raises(errors.InvalidTxnState):
        world.transactions.commit()


def test_a_refused_batch_is_retried_while_the_commit_waits() -> None:
    world = TransactionWorld().begun()
    batch = world.add()
    world.poll()
    world.transactions.commit()
    assert world.acks(1, 1, refused(errors.ConcurrentTransactions)) == []
    assert world.poll(100) == [SendRequest(1, 2, (batch,))]
    assert world.acks(1, 2, OK) == [BatchDone(batch, 0, -1), ends(0, committed=True)]


# ---- aborts ------------------------------------------------------------------------------------


def test_an_abort_drops_what_is_unsent_and_awaits_what_is_in_flight() -> None:
    world = TransactionWorld().begun()
    sent, unsent = world.add(T0), world.add(T0)
    assert world.poll() == [SendRequest(1, 1, (sent,))]
    operation = world.transactions.abort()
    effects = world.poll()
    assert kinds(effects) == ["BatchFailed"]
    assert effects[0].batch is unsent  # type: ignore[union-attr]
    assert errors_of(effects) == [errors.TransactionAborted]
    effects = world.acks(1, 1, OK)
    assert effects == [BatchDone(sent, 0, -1), ends(0, committed=False)]
    assert world.answer(effects[1], TransactionEnded(7, 1)) == [OperationDone(operation)]


def test_a_batch_in_flight_is_not_sent_again_for_an_abort() -> None:
    world = TransactionWorld().begun()
    world.add()
    world.poll()
    world.transactions.abort()
    effects = world.acks(1, 1, refused(errors.NotEnoughReplicas))
    assert kinds(effects) == ["BatchFailed", "EndTransaction"]
    assert errors_of(effects) == [errors.TransactionAborted]


def test_an_abort_does_not_wait_for_a_broken_stream() -> None:
    world = TransactionWorld().begun()
    world.add()
    world.poll()
    world.transactions.abort()
    effects = world.sender.on_disconnected(world.now_ms, 1, "gone")
    assert kinds(effects) == ["RefreshMetadata", "BatchFailed", "EndTransaction"]


def test_after_an_abort_the_producer_goes_on() -> None:
    world = TransactionWorld().begun()
    world.add()
    operation = world.transactions.abort()
    effects = world.poll()
    assert kinds(effects) == ["BatchFailed", "OperationDone"]  # nothing was ever sent
    world.transactions.collected(operation)
    world.transactions.begin()
    world.stored()
    world.ended(world.transactions.abort(), 0)
    world.transactions.begin()
    batch = world.stored()
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


# ---- errors of batches -------------------------------------------------------------------------


def test_a_failed_batch_leaves_nothing_but_an_abort() -> None:
    world = TransactionWorld().begun()
    world.add(T0)
    waiting = world.add(T0)
    world.poll()
    operation = world.transactions.commit()
    effects = world.acks(1, 1, refused(errors.InvalidRecord))
    assert kinds(effects) == ["BatchFailed", "OperationDone", "BatchFailed"]
    assert effects[2].batch is waiting  # type: ignore[union-attr]
    assert errors_of(effects) == [
        errors.InvalidRecord, errors.TransactionAbortable, errors.TransactionAbortable]  # fmt: skip
    world.transactions.collected(operation)
    with pytest.raises(errors.TransactionAbortable, match="INVALID_RECORD"):
        world.transactions.commit()
    world.ended(world.transactions.abort(), 0)
    world.transactions.begin()


def test_a_sequence_that_broke_asks_for_an_abort_and_no_other_id() -> None:
    world = TransactionWorld().begun()
    world.add(T0)
    world.poll()
    effects = world.acks(1, 1, refused(errors.OutOfOrderSequenceNumber))
    assert "RequestProducerId" not in kinds(effects)
    assert errors_of(effects) == [errors.TransactionAbortable]
    world.ended(world.transactions.abort(), 0)
    world.transactions.begin()
    assert (world.stored(T0).producer_epoch, world.stored(T1).base_sequence) == (1, 0)


def test_a_topic_that_is_made_anew_in_a_transaction_asks_for_an_abort() -> None:
    world = TransactionWorld().begun()
    world.stored(T0)
    world.lead(1, 2, 1, epoch=0, topic_id="another")
    world.add(T0)
    effects = world.poll()
    assert kinds(effects) == ["BatchFailed"]
    assert errors_of(effects) == [errors.TransactionAbortable]
    world.transactions.abort()
    assert world.poll() == [ends(0, committed=False)]  # it holds what the old topic had


def test_between_transactions_a_topic_may_be_made_anew() -> None:
    world = TransactionWorld().begun()
    world.stored(T0)
    world.ended(world.transactions.commit(), 0)
    world.lead(1, 2, 1, epoch=0, topic_id="another")
    world.transactions.begin()
    assert (world.stored(T0).producer_epoch, world.transactions.is_open) == (1, True)


@pytest.mark.parametrize(
    "fatal",
    [
        errors.ProducerFenced,
        errors.TransactionalIdAuthorizationFailed,
        errors.InvalidProducerIdMapping,
        errors.ClusterAuthorizationFailed,
    ],
)
def test_a_fatal_error_of_a_batch_ends_the_producer(fatal: type[errors.PylogError]) -> None:
    world = TransactionWorld().begun()
    world.add(T0)
    world.add(T0)
    world.poll()
    effects = world.acks(1, 1, refused(fatal))
    assert kinds(effects) == ["BatchFailed", "BatchFailed"]
    assert errors_of(effects) == [fatal, fatal]
    for call in (Transactions.commit, Transactions.abort, Transactions.begin):
        with pytest.raises(fatal):
            call(world.transactions)


def test_an_old_epoch_is_fenced_for_good_when_the_coordinator_says_so() -> None:
    world = TransactionWorld().begun()
    world.add(T0)
    world.poll()
    world.acks(1, 1, refused(errors.InvalidProducerEpoch))
    with pytest.raises(errors.InvalidProducerEpoch) as error:
        world.transactions.commit()
    assert error.value.abortable
    world.transactions.abort()
    end = world.only(world.poll())
    effects = world.answer(end, TransactionEnded(code=errors.InvalidProducerEpoch.code))
    assert errors_of(effects) == [errors.ProducerFenced]


def test_a_record_that_send_refused_is_missing_in_the_transaction() -> None:
    world = TransactionWorld().begun()
    world.stored()
    world.transactions.on_refused(errors.BufferExhausted("full"))
    with pytest.raises(errors.TransactionAbortable, match="full"):
        world.transactions.commit()
    world.ended(world.transactions.abort(), 0)


def test_a_batch_whose_time_is_up_while_the_commit_waits_fails_the_commit() -> None:
    world = TransactionWorld(leaders=(-1, 2, 1)).begun()
    world.add(T0)
    operation = world.transactions.commit()
    assert world.poll() == [RefreshMetadata(("t",))]
    effects = world.poll(120_000)
    assert errors_of(effects) == [errors.DeliveryTimedOut, errors.TransactionAbortable]
    assert OperationDone in map(type, effects)
    world.transactions.collected(operation)
    world.transactions.abort()


def test_an_acknowledgement_of_a_transaction_before_changes_nothing() -> None:
    world = TransactionWorld(leaders=(-1, 2, 1)).begun()
    late = world.add(T0)
    world.poll()
    world.lead(1, 2, 1, epoch=1)
    assert world.poll(119_900) == [SendRequest(1, 1, (late,))]
    world.poll(100)  # its time is up, and nobody has answered yet
    world.transactions.abort()
    world.answer(world.only(world.poll()), TransactionEnded(7, 1))
    world.transactions.begin()
    batch = world.add(T0)
    assert world.poll() == [SendRequest(1, 2, (batch,))]
    world.acks(1, 1, OK)
    behind = world.add(T0)
    assert world.poll() == []  # the first of its epoch goes alone
    assert world.acks(1, 2, OK) == [BatchDone(batch, 0, -1), SendRequest(1, 3, (behind,))]


# ---- errors of the end -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (errors.ProducerFenced, errors.ProducerFenced),
        (errors.InvalidProducerEpoch, errors.ProducerFenced),
        (errors.InvalidProducerIdMapping, errors.InvalidProducerIdMapping),
        (errors.UnknownProducerId, errors.UnknownProducerId),
        (errors.TransactionalIdAuthorizationFailed, errors.TransactionalIdAuthorizationFailed),
    ],
)
def test_a_commit_that_is_refused_for_good_ends_the_producer(
    code: type[errors.PylogError], told: type[errors.PylogError]
) -> None:
    world = TransactionWorld().begun()
    world.stored()
    world.transactions.commit()
    effects = world.answer(world.only(world.poll()), TransactionEnded(code=code.code))
    assert errors_of(effects) == [told]
    with pytest.raises(told):
        world.transactions.abort()


@pytest.mark.parametrize("code", [errors.TransactionAbortable, errors.InvalidTxnState])
def test_a_commit_that_cannot_be_leaves_an_abort(code: type[errors.PylogError]) -> None:
    world = TransactionWorld().begun()
    world.stored()
    operation = world.transactions.commit()
    effects = world.answer(world.only(world.poll()), TransactionEnded(code=code.code))
    assert errors_of(effects) == [code]
    world.transactions.collected(operation)
    world.ended(world.transactions.abort(), 0)


# ---- offsets -----------------------------------------------------------------------------------


def offsets(epoch: int = 0, coordinator: int = 3) -> CommitOffsets:
    return CommitOffsets(coordinator, TXN, 7, epoch, MEMBER, tuple(AT_5.items()))


def test_offsets_go_to_the_coordinator_of_the_group() -> None:
    world = TransactionWorld().begun()
    operation = world.transactions.send_offsets(MEMBER, AT_5)
    find = world.only(world.poll())
    assert find == FindCoordinator("g", is_group=True)
    commit = world.only(world.answer(find, CoordinatorFound(3)))
    assert commit == offsets()
    assert world.answer(commit, OffsetsKept()) == [OperationDone(operation)]
    world.transactions.collected(operation)
    world.ended(world.transactions.commit(), 0)  # though no record was sent
    world.transactions.begin()
    operation = world.transactions.send_offsets(MEMBER, AT_5)
    assert world.poll() == [offsets(1)]  # the group's coordinator is known by now


def test_other_offsets_are_another_call() -> None:
    world = TransactionWorld().begun()
    operation = world.transactions.send_offsets(MEMBER, AT_5)
    assert world.transactions.send_offsets(MEMBER, AT_5) is operation
    at_6 = {T0: OffsetAndMetadata(6)}
    with pytest.raises(errors.InvalidTxnState, match="has not ended yet"):
        world.transactions.send_offsets(MEMBER, at_6)
    commit = world.only(world.answer(world.only(world.poll()), CoordinatorFound(3)))
    assert world.answer(commit, OffsetsKept()) == [OperationDone(operation)]  # and nobody heard
    assert world.transactions.send_offsets(MEMBER, AT_5) is operation
    world.transactions.send_offsets(MEMBER, at_6)
    assert world.poll() == [CommitOffsets(3, TXN, 7, 0, MEMBER, tuple(at_6.items()))]


def test_without_offsets_nothing_is_asked() -> None:
    world = TransactionWorld().begun()
    operation = world.transactions.send_offsets(MEMBER, {})
    assert world.poll() == [OperationDone(operation)]


def test_only_partitions_that_failed_in_passing_are_committed_again() -> None:
    world = TransactionWorld().begun()
    both = {T0: OffsetAndMetadata(5), T1: OffsetAndMetadata(6)}
    operation = world.transactions.send_offsets(MEMBER, both)
    commit = world.only(world.answer(world.only(world.poll()), CoordinatorFound(3)))
    busy = ((T1, errors.CoordinatorLoadInProgress.code, ""),)
    assert world.answer(commit, OffsetsKept(busy)) == []
    again = world.only(world.poll(100))
    assert again == CommitOffsets(3, TXN, 7, 0, MEMBER, ((T1, OffsetAndMetadata(6)),))
    assert world.answer(again, OffsetsKept()) == [OperationDone(operation)]


def test_a_group_that_moves_is_looked_for() -> None:
    world = TransactionWorld().begun()
    world.transactions.send_offsets(MEMBER, AT_5)
    commit = world.only(world.answer(world.only(world.poll()), CoordinatorFound(3)))
    world.answer(commit, OffsetsKept(code=errors.NotCoordinator.code))
    find = world.only(world.poll(100))
    assert find == FindCoordinator("g", is_group=True)
    assert world.answer(find, CoordinatorFound(1)) == [offsets(coordinator=1)]


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (errors.IllegalGeneration, "gone on without this member"),
        (errors.UnknownMemberId, "gone on without this member"),
        (errors.FencedMemberEpoch, "gone on without this member"),
        (errors.FencedInstanceId, "FENCED_INSTANCE_ID"),
        (errors.GroupAuthorizationFailed, "GROUP_AUTHORIZATION_FAILED"),
        (errors.UnknownTopicOrPartition, "UNKNOWN_TOPIC_OR_PARTITION"),
        (errors.InvalidProducerEpoch, ""),
    ],
)
def test_offsets_that_are_refused_leave_an_abort(code: type[errors.PylogError], cause: str) -> None:
    world = TransactionWorld().begun()
    operation = world.transactions.send_offsets(MEMBER, AT_5)
    commit = world.only(world.answer(world.only(world.poll()), CoordinatorFound(3)))
    (done,) = world.answer(commit, OffsetsKept(((T0, code.code, ""),)))
    assert isinstance(done, OperationDone)
    assert done.error is not None
    assert done.error.abortable
    assert cause in str(done.error)
    world.transactions.collected(operation)
    world.ended(world.transactions.abort(), 0)


def test_an_abort_does_not_wait_for_offsets() -> None:
    world = TransactionWorld().begun()
    waiting = world.transactions.send_offsets(MEMBER, AT_5)
    commit = world.only(world.answer(world.only(world.poll()), CoordinatorFound(3)))
    operation = world.transactions.abort()
    effects = world.poll()
    assert kinds(effects) == ["OperationDone", "EndTransaction"]
    assert effects[0].operation is waiting  # type: ignore[union-attr]
    assert errors_of(effects) == [errors.TransactionAborted]
    assert world.answer(commit, OffsetsKept()) == []  # too late
    assert world.answer(effects[1], TransactionEnded(7, 1)) == [OperationDone(operation)]


# ---- two phases --------------------------------------------------------------------------------


def test_a_prepared_transaction_is_stored_and_takes_nothing_more() -> None:
    world = TransactionWorld(two_phase=True)
    operation = world.transactions.init()
    init = world.only(world.answer(world.only(world.poll()), FOUND))
    assert init == InitProducer(2, TXN, 60_000, two_phase=True)
    world.answer(init, ProducerBegun(7, 0))
    world.transactions.collected(operation)
    world.transactions.begin()
    batch = world.add()
    operation = world.transactions.prepare()
    assert world.poll() == [SendRequest(1, 1, (batch,))]
    assert world.acks(1, 1, OK) == [BatchDone(batch, 0, -1), OperationDone(operation)]
    world.transactions.collected(operation)
    assert str(world.transactions.prepared) == "7:0"
    with pytest.raises(errors.InvalidTxnState, match="prepared"):
        world.transactions.check_open()
    world.transactions.complete(PreparedTransaction.of("7:0"))
    assert world.poll() == [ends(0, committed=True)]


def test_another_decision_than_that_about_this_transaction_aborts_it() -> None:
    world = TransactionWorld(two_phase=True)
    operation = world.transactions.init(keep_prepared=True)
    init = world.only(world.answer(world.only(world.poll()), FOUND))
    assert init == InitProducer(2, TXN, 60_000, two_phase=True, keep_prepared=True)
    assert world.answer(init, ProducerBegun(7, 5, 7, 4)) == [OperationDone(operation)]
    world.transactions.collected(operation)
    with pytest.raises(errors.InvalidTxnState):
        world.transactions.begin()
    assert world.transactions.prepared == PreparedTransaction(7, 4)
    world.transactions.complete(PreparedTransaction(7, 3))
    assert world.poll() == [ends(5, committed=False)]


def test_without_a_prepared_transaction_the_producer_is_ready() -> None:
    world = TransactionWorld(two_phase=True)
    operation = world.transactions.init(keep_prepared=True)
    init = world.only(world.answer(world.only(world.poll()), FOUND))
    assert world.answer(init, ProducerBegun(7, 5)) == [OperationDone(operation)]
    world.transactions.collected(operation)
    world.transactions.begin()


def test_preparing_needs_the_setting() -> None:
    world = TransactionWorld().begun()
    with pytest.raises(errors.InvalidTxnState, match="transaction_two_phase_commit_enable"):
        world.transactions.prepare()
    with pytest.raises(errors.InvalidTxnState, match="transaction_two_phase_commit_enable"):
        TransactionWorld().transactions.init(keep_prepared=True)


def test_what_is_prepared_as_text_comes_back() -> None:
    for state in (PreparedTransaction(), PreparedTransaction(7, 0), PreparedTransaction(2**40, 9)):
        assert PreparedTransaction.of(str(state)) == state
    for wrong in ("7", "7:", ":", "a:b", "-1:0", "7:-1"):
        with pytest.raises(ValueError):  # noqa: PT011  of int, or our own
            PreparedTransaction.of(wrong)


# ---- the end -----------------------------------------------------------------------------------


def test_a_closed_producer_answers_what_waits() -> None:
    world = TransactionWorld()
    operation = world.transactions.init()
    world.poll()
    effects: list[Effect] = []
    world.transactions.end(errors.ClientClosed(), effects)
    assert errors_of(effects) == [errors.ClientClosed]
    assert effects[0].operation is operation  # type: ignore[union-attr]
    assert world.poll() == []
