"""A producer's calls about transactions: calls that wait for a coordinator. On the user's
thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Any, Final

from pylog import errors
from pylog.client.background import LoopThread, logger
from pylog.client.callers import kept_waiting
from pylog.client.producer.producer_loop import ProducerLoop
from pylog.client.sending.transaction_events import Operation
from pylog.client.sending.transactions import ABORT, COMMIT, INIT, SEND_OFFSETS, Transactions
from pylog.client.topics_and_partitions import offsets_of
from pylog.clock import ticks
from pylog.model import ConsumerGroupMetadata, PreparedTransaction, TopicPartition
from pylog.plain_text import is_text

_TIMES: Final = {
    INIT: "txn-init-time-ns-total",
    SEND_OFFSETS: "txn-send-offsets-time-ns-total",
    COMMIT: "txn-commit-time-ns-total",
    ABORT: "txn-abort-time-ns-total",
}
NO_ID: Final = "give Producer(..., transactional_id='a-name') for transactions"


class TransactionUse:
    """The transactions of one producer."""

    def __init__(self, loop: ProducerLoop, transactions: Transactions, max_block_ms: int) -> None:
        self._loop = loop
        self._transactions = transactions
        self._max_block_ms = max_block_ms
        self.times_ns: dict[str, int] = dict.fromkeys(_TIMES.values(), 0)
        """The time that users' calls have taken, by Kafka's names."""

    def init(self, *, keep_prepared: bool) -> None:
        """Fence earlier instances, and end what they left open."""
        self._do(lambda: self._transactions.init(keep_prepared=keep_prepared))

    def begin(self) -> None:
        """Open a transaction."""
        self._check_here()
        with self._loop.lock:
            self._transactions.begin()

    def adopt(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Write for a transaction that its coordinator has opened, and that somebody else ends."""
        self._check_here()
        self._loop.adopt(transactional_id, producer_id, producer_epoch)

    def receipt(self) -> dict[TopicPartition, tuple[int, int]]:
        """The first and the last offset by partition of what was stored of the one adopted last."""
        with self._loop.lock:
            return self._transactions.receipt.ranges()

    def send_offsets(self, offsets: Any, group: ConsumerGroupMetadata) -> None:
        """Commit these positions with the transaction."""
        if not isinstance(group, ConsumerGroupMetadata):
            raise errors.InvalidRequest(
                f"group_metadata={group!r}: give consumer.group_metadata(), or "
                f"ConsumerGroupMetadata('a-group') for a group without members"
            )
        if not all(map(is_text, (group.group_id, group.member_id, group.instance_id or ""))):
            raise errors.InvalidRequest(f"group_metadata={group!r}: its names are texts in UTF-8")
        wanted = offsets_of(offsets)
        self._do(lambda: self._transactions.send_offsets(group, wanted))

    def prepare(self) -> PreparedTransaction:
        """Have everything stored."""
        self._do(self._transactions.prepare, closes_batches=True)
        with self._loop.lock:
            return self._transactions.prepared

    def complete(self, decided: PreparedTransaction | str) -> None:
        """Commit what was decided, abort anything else."""
        if isinstance(decided, str):
            try:
                decided = PreparedTransaction.of(decided)
            except ValueError as error:
                raise errors.InvalidRequest(
                    f"complete_transaction({decided!r}): give what prepare_transaction() gave, or "
                    f"its text: {error}"
                ) from None
        chosen = decided
        self._do(lambda: self._transactions.complete(chosen))

    def commit(self) -> None:
        """All of it counts."""
        self._do(self._transactions.commit, closes_batches=True)

    def abort(self) -> None:
        """None of it counts."""
        self._do(self._transactions.abort, closes_batches=True)

    def check_open(self) -> None:
        """Raise what speaks against another batch. The producer's lock is held."""
        self._transactions.check_open()

    def refused(self, error: errors.PylogError) -> None:
        """`send` has raised this: the record is missing in the transaction. A value that its
        serializer refuses is no record, and not missing.
        """
        if not isinstance(error, errors.SerializationFailed):
            with self._loop.lock:
                self._transactions.on_refused(error)

    def close(self, timeout_s: float | None) -> None:
        """Wait for the end of a transaction that is being ended, and abort an open one. A prepared
        transaction stays, as another program decides about it.
        """
        limit_s = self._max_block_ms / 1000 if timeout_s is None else timeout_s
        with self._loop.lock:
            pending, is_open = self._transactions.pending, self._transactions.is_open
        try:
            if is_open:
                self._do(self._transactions.abort, closes_batches=True, limit_s=limit_s)
            elif pending is not None:
                self._wait(pending, limit_s)
        except errors.PylogError as error:
            logger.warning("a transaction was open when its producer was closed: %s", error)

    # ---- waiting ------------------------------------------------------------------------------

    def _do(
        self,
        begin: Callable[[], Operation],
        *,
        closes_batches: bool = False,
        limit_s: float | None = None,
    ) -> None:
        self._check_here()
        began = ticks()
        with self._loop.lock:
            operation = begin()
            if closes_batches:
                self._loop.accumulator.mark_all_due()
            self._loop.wake()
        try:
            self._wait(operation, self._max_block_ms / 1000 if limit_s is None else limit_s)
        finally:
            name = _TIMES.get(operation.call)
            if name is not None:
                self.times_ns[name] += int((ticks() - began) * 1e9)

    def _check_here(self) -> None:
        thread: LoopThread = self._loop.thread
        thread.check_here("the producer")
        if thread.is_current():
            raise errors.WrongThread(
                "a transaction's call inside a callback would wait for its own thread"
            )

    def _wait(self, operation: Operation, limit_s: float) -> None:
        waiter: Future[errors.PylogError | None] = operation.waiter
        try:
            error = self._first_result(waiter, limit_s)
        except TimeoutError:
            with self._loop.lock:
                fault = self._transactions.last_fault
            told = f"; last fault: {fault}" if fault else ""
            raise errors.RequestTimedOut(
                f"{operation.call}: not done within {limit_s:.3g} s, and it goes on: call it again "
                f"to wait for it{told}"
            ) from None
        with self._loop.lock:
            self._transactions.collected(operation)
        if error is not None:
            raise error

    def _first_result(
        self, waiter: Future[errors.PylogError | None], limit_s: float
    ) -> errors.PylogError | None:
        """The outcome of the operation. BootstrapFailed, while it goes on, where no server has ever
        answered for `bootstrap.timeout.ms`; TimeoutError after `limit_s`.
        """
        cluster = self._loop.cluster
        patience_ms = cluster.settings.bootstrap_timeout_ms
        if patience_ms < limit_s * 1000 and not cluster.metadata.version:
            try:
                return _result(waiter, patience_ms / 1000)
            except TimeoutError:
                if not cluster.metadata.version:
                    raise cluster.unreachable(patience_ms) from None
            limit_s -= patience_ms / 1000
        return _result(waiter, limit_s)


def _result(waiter: Future[errors.PylogError | None], timeout_s: float) -> errors.PylogError | None:
    """The outcome, unless the caller gives up; TimeoutError."""
    gave_up: Future[errors.PylogError | None] = Future()
    with kept_waiting(partial(gave_up.set_result, None)):
        wait((waiter, gave_up), timeout_s, FIRST_COMPLETED)
    return waiter.result(0)
