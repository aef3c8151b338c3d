"""A producer that writes for transactions which somebody else opens and ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pylog import errors
from pylog.client.sending.receipt import Receipt
from pylog.client.sending.send_events import Ack, BatchDone, BatchFailed, SendRequest
from pylog.client.sending.transaction_events import (
    CommitOffsets,
    CoordinatorFound,
    FindCoordinator,
    OffsetsKept,
    OperationDone,
)
from pylog.client.sending.transactions import Transactions
from pylog.model import ConsumerGroupMetadata, OffsetAndMetadata, PreparedTransaction
from tests.fakes.sender_world import T0, T1, refused
from tests.fakes.transaction_world import TransactionWorld


def adopting(producer_id: int = 40, epoch: int = 3) -> TransactionWorld:
    world = TransactionWorld()
    world.sender.adopt("__sink/q/s/0", producer_id, epoch)
    return world


def at(offset: int) -> Ack:
    return Ack(0, base_offset=offset)


def prepared(world: TransactionWorld) -> None:
    operation = world.transactions.prepare()
    assert world.poll() == [OperationDone(operation)]
    world.transactions.collected(operation)


def test_an_adopted_transaction_asks_no_coordinator() -> None:
    world = adopting()
    batch = world.add(count=3)
    assert world.poll() == [SendRequest(1, 1, (batch,))]
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (40, 3, 0)
    operation = world.transactions.prepare()
    assert world.poll() == []  # it is not stored yet
    assert world.acks(1, 1, at(10)) == [BatchDone(batch, 10, -1), OperationDone(operation)]
    world.transactions.collected(operation)
    assert world.transactions.receipt.ranges() == {T0: (10, 12)}
    assert world.transactions.prepared == PreparedTransaction(40, 3)


def test_the_next_one_begins_with_its_own_identity_and_receipt() -> None:
    world = adopting()
    first = world.add(count=2)
    world.poll()
    world.acks(1, 1, at(10))
    prepared(world)
    world.sender.adopt("__sink/q/s/1", 41, 0)
    assert world.transactions.receipt.ranges() == {}
    assert world.transactions.prepared == PreparedTransaction()
    second, other = world.add(count=4), world.add(T1)
    assert world.poll() == [SendRequest(1, 2, (second,)), SendRequest(2, 3, (other,))]
    assert (first.producer_id, first.base_sequence) == (40, 0)
    assert [(b.producer_id, b.producer_epoch, b.base_sequence) for b in (second, other)] == [
        (41, 0, 0),
        (41, 0, 0),
    ]
    world.acks(1, 2, at(20))
    world.acks(2, 3, at(5))
    prepared(world)
    assert world.transactions.receipt.ranges() == {T0: (20, 23), T1: (5, 5)}


def test_one_without_records_is_prepared_at_once() -> None:
    world = adopting()
    prepared(world)
    assert world.transactions.receipt.ranges() == {}


CALLS: dict[str, Callable[[Transactions], object]] = {
    "init": lambda t: t.init(),
    "begin": lambda t: t.begin(),
    "offsets": lambda t: t.send_offsets(
        ConsumerGroupMetadata("g", 3, "m", "i"), {T0: OffsetAndMetadata(5)}
    ),
    "commit": lambda t: t.commit(),
    "abort": lambda t: t.abort(),
    "complete": lambda t: t.complete(PreparedTransaction(40, 3)),
    "adopt": lambda t: t.adopt("__sink/q/s/2", 42, 0),
}


def test_positions_are_committed_under_its_identity() -> None:
    world = adopting()
    group, at_five = ConsumerGroupMetadata("g"), {T0: OffsetAndMetadata(5)}
    operation = world.transactions.send_offsets(group, at_five)
    find = world.only(world.poll())
    assert find == FindCoordinator("g", is_group=True)
    commit = world.only(world.answer(find, CoordinatorFound(2)))
    assert commit == CommitOffsets(2, "__sink/q/s/0", 40, 3, group, tuple(at_five.items()))
    assert world.answer(commit, OffsetsKept()) == [OperationDone(operation)]
    world.transactions.collected(operation)
    prepared(world)


@pytest.mark.parametrize("call", [call for call in CALLS if call != "offsets"])
def test_an_open_one_is_neither_ended_nor_left(call: str) -> None:
    world = adopting()
    world.add()
    with pytest.raises(errors.InvalidTxnState, match="__sink/q/s/0"):
        CALLS[call](world.transactions)
    assert not world.transactions.is_open  # for `close`, which would abort it


@pytest.mark.parametrize("call", [call for call in CALLS if call != "adopt"])
def test_a_prepared_one_can_only_be_left(call: str) -> None:
    world = adopting()
    prepared(world)
    with pytest.raises(errors.InvalidTxnState, match="__sink/q/s/0"):
        CALLS[call](world.transactions)
    with pytest.raises(errors.InvalidTxnState):
        world.transactions.check_open()


def test_a_producer_that_ends_its_own_transactions_adopts_none() -> None:
    world = TransactionWorld().begun()
    with pytest.raises(errors.InvalidTxnState, match="adopt"):
        world.sender.adopt("__sink/q/s/0", 40, 3)
    assert world.transactions.is_open


def test_one_that_its_coordinator_has_aborted_fails_by_name() -> None:
    world = adopting()
    batch = world.add()
    world.poll()
    operation = world.transactions.prepare()
    effects = world.acks(1, 1, refused(errors.ProducerFenced))
    failed, done = effects
    assert isinstance(failed, BatchFailed)
    assert isinstance(done, OperationDone)
    assert (failed.batch, done.operation) == (batch, operation)
    assert type(failed.error) is errors.ProducerFenced
    assert type(done.error) is errors.ProducerFenced
    with pytest.raises(errors.ProducerFenced):
        world.sender.adopt("__sink/q/s/1", 41, 0)


def test_one_of_which_something_is_lost_cannot_be_prepared() -> None:
    world = adopting()
    world.add()
    world.poll()
    world.acks(1, 1, refused(errors.InvalidRecord))
    with pytest.raises(errors.TransactionAbortable, match="INVALID_RECORD"):
        world.transactions.prepare()
    with pytest.raises(errors.TransactionAbortable):
        world.sender.adopt("__sink/q/s/1", 41, 0)


def test_a_receipt_spans_what_came_in_any_order() -> None:
    receipt = Receipt()
    for tp, offset, count in ((T1, 7, 1), (T0, 20, 5), (T0, 10, 2), (T0, -1, 9)):
        receipt.stored(tp, offset, count)
    assert list(receipt.ranges().items()) == [(T0, (10, 24)), (T1, (7, 7))]
