"""Applications that send in transactions: the product's producer core with its transactions, and a
user who begins, sends, and commits or aborts.

The outcome of each transaction, as the user heard it, is remembered, and compared with what readers
see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pylog import errors
from pylog.client.cluster.cluster import Cluster as ClientCluster
from pylog.client.producer.transaction_calls import TransactionCalls, answer_of, refused
from pylog.client.sending.accumulator import TopicBuffer
from pylog.client.sending.transaction_events import (
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    Operation,
    OperationDone,
    TransactionRequest,
)
from pylog.client.sending.transaction_state import TransactionState
from pylog.client.sending.transactions import Transactions, TransactionSettings
from pylog.model import BrokerId
from pylog.rpc import apis
from tests.sim.coordinator_shell import Refused, UnaryCall
from tests.sim.producers import MAY_FAIL, ProducerApp
from tests.sim.rpc import Rpc
from tests.sim.transaction_ghost import ClientTransaction
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.transaction_apps import TransactionApps

REQUEST_MS = 2_500
THINK_MS = 40
"""The time that a user takes from one call to the next, on average."""
API_OF: dict[type[Any], apis.UnaryApi[Any, Any]] = {
    FindCoordinator: apis.FIND_COORDINATOR,
    InitProducer: apis.INIT_PRODUCER_ID,
    CommitOffsets: apis.TXN_OFFSET_COMMIT,
    EndTransaction: apis.END_TXN,
}
ENDS = (errors.ProducerFenced, errors.InvalidProducerEpoch)
"""The errors that an instance may end with: another one has taken its place, or it came too
late."""


class _Settings:
    client_id = "simulated"


class _Named:
    """As much of the client's cluster as its messages tell."""

    settings = _Settings()


class TransactionalApp(ProducerApp):
    """One instance under a transactional id."""

    may_fail = MAY_FAIL | {
        errors.TransactionAborted,
        errors.TransactionAbortable,
        errors.InvalidProducerEpoch,
        errors.InvalidTxnState,
        errors.ProducerFenced,
        errors.CoordinatorNotAvailable,
    }

    def __init__(
        self,
        cluster: Cluster,
        apps: TransactionApps,
        name: str,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        self.transactional_id = transactional_id
        self._apps = apps
        self._settings = TransactionSettings(transactional_id, timeout_ms)
        super().__init__(cluster, name, acks=-1, idempotent=True)
        assert self.sender.transactions is not None
        self.transactions = self.sender.transactions
        self._calls = TransactionCalls(cast(ClientCluster, _Named()), 60_000)
        self._coordinators: dict[int, Rpc] = {}
        self._now: ClientTransaction | None = None
        self._stalled_until_ms = 0
        self._inits = 0
        self._is_last = False  # whether this transaction is to be the last one
        self._has_said_last = False

    def _make_transactions(self) -> Transactions:
        return Transactions(self._settings, self._sending, self.rng.random)

    # ---- the user

    def start(self) -> None:
        """Learn of the topic, and have the coordinator give an identity; then send."""
        self._kept.refresh_soon(self.cluster.TOPIC)
        self.transactions.init()
        self._step(self.sender.poll(self.now_ms()))

    def stall(self, for_ms: float) -> None:
        """The user does not come back for so long."""
        self._stalled_until_ms = self.now_ms() + int(for_ms)

    def crash(self) -> None:
        """The process is gone."""
        self.alive = False
        self.cluster.net.break_all_of(self.name, seen_by_peer=self.rng.random() < 0.7)

    def say_last_words(self) -> None:
        """One transaction more, with a record to each partition: L1."""
        self.stopped = True
        self._stalled_until_ms = 0

    @property
    def waits_for(self) -> list[str]:
        if not self.alive or self._has_said_last:
            return []
        return [f"its last transaction: {self.transactions.state.name}"]

    def _begin(self) -> None:
        """Another transaction, after a while."""
        if not self.alive or self._has_said_last:
            return
        buffer = self._buffer()
        if buffer is None or self.now_ms() < self._stalled_until_ms:
            self.timer(20, self._begin)
            return
        try:
            self.transactions.begin()
        except errors.PylogError as error:
            self._hears(error)
            return
        identity = (self.transactions.id.number, self.transactions.id.epoch)
        self._now = ClientTransaction(self.name, identity)
        self._apps.ghost.clients.append(self._now)
        self._is_last = self.stopped
        self._go_on(1 if self._is_last else self.rng.randint(1, 5))

    def _go_on(self, left: int) -> None:
        """Send so many times more, then end it."""
        if not self.alive:
            return
        if self.now_ms() < self._stalled_until_ms:
            self.timer(20, self._go_on, left)
            return
        if self.transactions.state is not TransactionState.IN_TRANSACTION:
            self._end(commits=False)
            return
        if left == 0:
            self._end(commits=self._is_last or self.rng.random() < 0.75)
            return
        buffer = self._buffer()
        assert buffer is not None
        if self._is_last:
            self._send_everywhere(buffer)
        else:
            self._send_some(buffer)
        wait_ms = self.rng.expovariate(1.0 / THINK_MS)
        self.timer(wait_ms, self._go_on, left - 1)

    def _send_everywhere(self, buffer: TopicBuffer) -> None:
        for number in range(self._kept.metadata.partition_count(buffer.name) or 0):
            self._add(buffer, b"0", number, is_deletion=False)
        self.accumulator.mark_all_due()
        self._step(self.sender.poll(self.now_ms()))

    def _add(self, buffer: TopicBuffer, *args: Any, **more: Any) -> Any:
        number = self._number
        added = super()._add(buffer, *args, **more)
        if self._number > number:
            assert self._now is not None
            self._now.values.append(f"{self.name}.{number}".encode())
        return added

    def _end(self, *, commits: bool) -> None:
        self.accumulator.mark_all_due()
        try:
            if commits:
                assert self._now is not None
                self._now.asked_commit = True
                self.transactions.commit()
            else:
                self.transactions.abort()
        except errors.PylogError as error:
            self._hears(error)
            return
        self._step(self.sender.poll(self.now_ms()))

    def _operation_done(self, effect: OperationDone) -> None:
        operation, error = effect.operation, effect.error
        self.cluster.scheduler.note("done", self.name, operation.call, error)
        # the user's thread hears of it a moment later
        self.timer(self.rng.random() * 2, self._heard, operation, error)
        if self._now is not None and error is None and operation.call != "init_transactions()":
            self._now.told = operation.call == "commit_transaction()"

    def _heard(self, operation: Operation, error: errors.PylogError | None) -> None:
        self.transactions.collected(operation)
        if error is not None:
            self._hears(error)
            return
        if self._is_last and operation.call == "commit_transaction()":
            self._has_said_last = True
            return
        wait_ms = self.rng.expovariate(1.0 / THINK_MS)
        self.timer(wait_ms, self._begin)

    def _hears(self, error: errors.PylogError) -> None:
        """A call of the user's has failed."""
        self.cluster.sometimes[f"transactions: user hears {error.name}"] += 1
        self.cluster.scheduler.note("user hears", self.name, error.name, error)
        if self.transactions.state is TransactionState.ABORTABLE_ERROR:
            self._end(commits=False)
            return
        if not isinstance(error, ENDS) or not self._may_be_ousted():
            raise Violation("C", f"{self.name} hears {error!r}")
        self.crash()
        self._apps.ended(self)

    def _may_be_ousted(self) -> bool:
        """Whether there is a reason. One that had to ask for its identity again may have been given
        another one by the first request, which came late (as in Kafka).
        """
        identity = self._now.identity if self._now is not None else (-1, -1)
        if self._apps.has_other(self) or self._apps.ghost.is_ousted(identity):
            return True
        self.cluster.sometimes["transactions: fenced by its own first request"] += self._inits > 1
        return self._inits > 1

    # ---- coordinators

    def _ask_coordinator(self, request: TransactionRequest) -> None:
        if isinstance(request, EndTransaction):
            identity = (request.producer_id, request.producer_epoch)
            self._apps.ghost.asked(identity, commits=request.committed)
            self.cluster.sometimes["transactions: end asked"] += 1
        if isinstance(request, InitProducer):
            self._inits += 1
        if isinstance(request, FindCoordinator):
            known = sorted(self._kept.metadata.brokers)
            broker = self.rng.choice(known) if known else -1
        else:
            broker = request.coordinator
        process = self.cluster.process(BrokerId(broker))
        if process is None or process.transactions is None:
            self._kept.refresh_soon(self.cluster.TOPIC)
            self.timer(1 + self.rng.random() * 20, self._unanswered, request)
            return
        rpc = self._coordinators.get(broker)
        if rpc is None or not rpc.open or rpc.server is not process:
            rpc = self._coordinators[broker] = Rpc(self.cluster.net, self, process)
        is_done = False

        def answered(answer: Any) -> None:
            nonlocal is_done
            if not is_done:
                is_done = True
                self._answered_by_coordinator(request, answer)

        call = UnaryCall(API_OF[type(request)].key, self._calls._message(request), self.name)
        service = process.transactions
        rpc.request(service.serve, call, answered, None)
        self.timer(REQUEST_MS, answered, None)

    def _answered_by_coordinator(self, request: TransactionRequest, answer: Any) -> None:
        if answer is None:
            self._unanswered(request)
            return
        if isinstance(answer, Refused):
            if errors.from_code(answer.code).retriable:
                self._unanswered(request)
                return
            told = refused(request, answer.code, answer.message)
        else:
            told = answer_of(request, answer)
        if told.code:
            name = errors.ERRORS_BY_CODE[told.code].__name__
            self.cluster.sometimes[f"transactions: {type(request).__name__} answered {name}"] += 1
        self.cluster.scheduler.told(self.name, "is answered", (request, told))
        self._step(self.sender.on_transaction_answer(self.now_ms(), request, told))

    def _unanswered(self, request: TransactionRequest) -> None:
        self.cluster.sometimes[f"transactions: {type(request).__name__} not answered"] += 1
        self.cluster.scheduler.told(self.name, "is not answered", request)
        error = errors.CoordinatorNotAvailable("no answer")
        self._step(self.sender.on_no_transaction_answer(self.now_ms(), request, error))
