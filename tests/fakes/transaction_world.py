"""A transactional sender in a world of its own: what the tests of transactions share."""

from __future__ import annotations

from collections.abc import Sequence

from pylog import errors
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import Effect
from pylog.client.sending.send_settings import SenderSettings
from pylog.client.sending.transaction_events import (
    CoordinatorFound,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    Operation,
    OperationDone,
    ProducerBegun,
    TransactionAnswer,
    TransactionEnded,
    TransactionRequest,
)
from pylog.client.sending.transactions import Transactions, TransactionSettings
from pylog.model import TopicPartition
from tests.fakes.sender_world import OK, T0, World

TXN = "a-name"
FIND = FindCoordinator(TXN)
INIT = InitProducer(2, TXN, 60_000)
FOUND = CoordinatorFound(2)


def ends(epoch: int, *, committed: bool) -> EndTransaction:
    """The request to the coordinator at the end of the transaction of that epoch."""
    return EndTransaction(2, TXN, 7, epoch, committed)


class TransactionWorld(World):
    """A sender with a transactional id, whose coordinator is broker 2 and gives it producer id 7.
    Requests are answered by the test.
    """

    def __init__(self, *, two_phase: bool = False, leaders: Sequence[int] = (1, 2, 1)) -> None:
        sending = SenderSettings()
        settings = TransactionSettings(TXN, two_phase=two_phase)
        self.transactions = Transactions(settings, sending, lambda: 0.5)
        super().__init__(settings=sending, transactions=self.transactions, leaders=leaders)

    def answer(self, request: Effect, answer: TransactionAnswer) -> list[Effect]:
        """The coordinator answers what the sender wants asked."""
        assert isinstance(request, TransactionRequest)
        return self.sender.on_transaction_answer(self.now_ms, request, answer)

    def no_answer(self, request: Effect) -> list[Effect]:
        """Nobody answers it."""
        assert isinstance(request, TransactionRequest)
        fault = errors.BrokerUnreachable("by the test")
        return self.sender.on_no_transaction_answer(self.now_ms, request, fault)

    def only(self, effects: list[Effect]) -> Effect:
        """The one thing that is wanted."""
        (effect,) = effects
        return effect

    def begun(self) -> TransactionWorld:
        """Initialized, with an open transaction."""
        operation = self.transactions.init()
        find = self.only(self.poll())
        init = self.only(self.answer(find, FOUND))
        assert (find, init) == (FIND, INIT)
        assert self.answer(init, ProducerBegun(7, 0)) == [OperationDone(operation)]
        self.transactions.collected(operation)
        self.transactions.begin()
        return self

    def ended(self, operation: Operation, epoch: int) -> None:
        """The transaction of that epoch ends well: the operation that asked for it is collected."""
        end = self.only(self.poll())
        assert isinstance(end, EndTransaction)
        assert self.answer(end, TransactionEnded(7, epoch + 1)) == [OperationDone(operation)]
        self.transactions.collected(operation)

    def stored(self, tp: TopicPartition = T0, count: int = 1) -> Batch:
        """A batch that is sent and acknowledged."""
        batch = self.add(tp, count)
        request = self.only(self.poll())
        self.acks(request.broker, request.correlation, OK)  # type: ignore[union-attr]
        return batch
