"""The state of one transactional id, as its log holds it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pylog.config import INT_MAX
from pylog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from pylog_broker.coordinator.generated.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.coordinator.transactions.states import TransactionState

EPOCH_MAX: Final = ProducerEpoch(32_767)
"""No client gets it: a marker that fences the last epoch of a client carries it."""
LAST_EPOCH: Final = ProducerEpoch(EPOCH_MAX - 1)
"""A producer with this epoch gets another id with its next one."""
NO_TIMEOUT_MS: Final = INT_MAX
"""The timeout of a transaction of two-phase commit: it stays open until somebody ends it."""


class Identity(NamedTuple):
    """The producer id and epoch under which an instance of a producer writes."""

    producer_id: ProducerId
    epoch: ProducerEpoch

    @property
    def is_used_up(self) -> bool:
        """Whether its next epoch would be one that no client gets."""
        return self.epoch >= LAST_EPOCH

    @property
    def next(self) -> Identity:
        """The same id in its next epoch."""
        return Identity(self.producer_id, ProducerEpoch(self.epoch + 1))


NO_IDENTITY: Final = Identity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Transaction(NamedTuple):
    """Invariant: an EMPTY or complete one has no partitions.

    `identity` is the producer's; of a prepared transaction that its markers carry. `following`: the
    identity with which the producer goes on behind a prepared transaction, and in an ONGOING one
    the identity of the instance that keeps a prepared transaction of its predecessor (KIP-939);
    else none. `previous_producer_id`: the one before this. `started_ms`: when the transaction
    began, -1 outside of one. `version`: the transaction version of the client.
    """

    transactional_id: str
    identity: Identity
    state: TransactionState
    timeout_ms: int
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    version: int = 0
    following: Identity = NO_IDENTITY
    previous_producer_id: ProducerId = NO_PRODUCER_ID

    @property
    def owner(self) -> Identity:
        """The identity whose requests are accepted: the producer's, as the last answer gave it."""
        return self.identity if self.following == NO_IDENTITY else self.following

    @property
    def times_out(self) -> bool:
        """Whether it is aborted when it stays open."""
        return self.state is TransactionState.ONGOING and self.timeout_ms != NO_TIMEOUT_MS

    def ended(self, asked: Identity) -> bool:
        """Whether an instance with this identity has lost it by the end of its last transaction,
        and by nothing else since: a repeated request is answered by what was decided.
        """
        if self.version < 2 or not (self.state.is_prepared or self.state.is_complete):
            return False
        return self.came_after(asked)

    def came_after(self, asked: Identity) -> bool:
        """Whether the owner's identity is the next one behind `asked`."""
        now = self.owner
        if asked.producer_id == now.producer_id:
            return asked.epoch + 1 == now.epoch
        before = self.identity.producer_id if self.state.is_prepared else self.previous_producer_id
        return now.epoch == 0 and asked.producer_id == before and asked.is_used_up

    def is_past(self, asked: Identity) -> bool:
        """Whether `asked` is certainly an identity from before the owner's. Any other one but the
        owner's may have come from a coordinator that knows more.
        """
        if asked.producer_id == self.owner.producer_id:
            return asked.epoch < self.owner.epoch
        return asked.producer_id in (self.identity.producer_id, self.previous_producer_id)


def record_of(transaction: Transaction) -> Record:
    """The transaction's record, as Kafka writes it."""
    following = transaction.following
    value = TransactionLogValue(
        producer_id=transaction.identity.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=following.producer_id,
        producer_epoch=transaction.identity.epoch,
        next_producer_epoch=following.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.value,
        transaction_partitions=_grouped(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version,
    )
    return Record(TransactionLogKey(transaction.transactional_id), value)


def tombstone_of(transactional_id: str) -> Record:
    """The record by which an id is forgotten."""
    return Record(TransactionLogKey(transactional_id), None)


def transaction_of(key: TransactionLogKey, value: TransactionLogValue) -> Transaction:
    """The transaction of a record."""
    following = Identity(
        ProducerId(value.next_producer_id), ProducerEpoch(value.next_producer_epoch)
    )
    if following.producer_id != NO_PRODUCER_ID and following.epoch == NO_PRODUCER_EPOCH:
        following = Identity(following.producer_id, ProducerEpoch(0))  # as Kafka means it
    return Transaction(
        key.transactional_id,
        Identity(ProducerId(value.producer_id), ProducerEpoch(value.producer_epoch)),
        TransactionState(value.transaction_status),
        value.transaction_timeout_ms,
        frozenset(
            TopicPartition(each.topic, number)
            for each in value.transaction_partitions or ()
            for number in each.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
        following,
        ProducerId(value.previous_producer_id),
    )


def _grouped(transaction: Transaction) -> tuple[TransactionPartitions, ...] | None:
    if transaction.state is TransactionState.EMPTY:
        return None
    return tuple(
        TransactionPartitions(topic, tuple(numbers))
        for topic, numbers in by_topic(transaction.partitions).items()
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of each topic, in order."""
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return grouped
