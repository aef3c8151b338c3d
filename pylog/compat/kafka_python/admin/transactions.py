"""Transactions, by kafka-python's calls and in its shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from pylog.client.admin import transaction_types as ours_
from pylog.compat.kafka_python.admin.calls import Calls
from pylog.compat.kafka_python.admin.resources import TransactionState, member_of
from pylog.compat.kafka_python.structs import TopicPartition, ours, theirs
from pylog.compat.kafka_python.translation import translating


class TransactionListing(NamedTuple):
    """A transactional id, in one line."""

    transactional_id: str
    producer_id: int
    state: TransactionState


class TransactionDescription(NamedTuple):
    """A coordinator's description of a transactional id; -1 for times that do not exist."""

    coordinator_id: int
    state: TransactionState
    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    topic_partitions: set[TopicPartition]


class ProducerState(NamedTuple):
    """A partition leader's description of a producer; -1 for what the leader does not know."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: int


class PartitionProducerState(NamedTuple):
    """The producers of a partition."""

    active_producers: list[ProducerState]


class AbortTransactionSpec(NamedTuple):
    """A transaction that is open in a partition."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = -1


class TransactionCalls(Calls):
    """Transactions."""

    def list_transactions(
        self,
        broker_ids: Iterable[int] | None = None,
        producer_id_filters: Iterable[int] | None = None,
        state_filters: Iterable[Any] | None = None,
        duration_filter_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> dict[int, list[TransactionListing]]:
        """Transactional ids by the broker that coordinates them."""
        states = None
        if state_filters is not None:
            states = [member_of(TransactionState, each).value for each in state_filters]
        with translating():
            listed = self._admin.list_transactions(
                states,
                producer_ids=None if producer_id_filters is None else list(producer_id_filters),
                older_than_ms=duration_filter_ms,
                pattern=transactional_id_pattern,
            )
        here = None if broker_ids is None else set(broker_ids)
        found: dict[int, list[TransactionListing]] = {}
        for each in listed:
            if here is None or each.coordinator in here:
                state = member_of(TransactionState, each.state)
                row = TransactionListing(each.transactional_id, each.producer_id, state)
                found.setdefault(each.coordinator, []).append(row)
        return found

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """The coordinators' descriptions of transactional ids."""
        ids = list(transactional_ids)
        if not ids:
            return {}
        with translating():
            found = self._admin.describe_transactions(ids)
        return {
            name: TransactionDescription(
                each.coordinator,
                member_of(TransactionState, each.state),
                each.producer_id,
                each.producer_epoch,
                _number(each.timeout_ms),
                _number(each.start_time_ms),
                {theirs(tp) for tp in each.partitions},
            )
            for name, each in found.items()
        }

    def describe_producers(
        self, partitions: Iterable[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, PartitionProducerState]:
        """The producers that each partition's leader knows."""
        wanted = [ours(tp) for tp in partitions]
        if not wanted:
            return {}
        with translating():
            found = self._admin.describe_producers(wanted)
        return {
            theirs(tp): PartitionProducerState([_producer(each) for each in producers])
            for tp, producers in found.items()
        }

    def abort_transaction(self, spec: AbortTransactionSpec) -> None:
        """End a producer's transaction in a partition, which no coordinator will."""
        with translating():
            self._admin.abort_transaction(ours(spec.topic_partition), producer_id=spec.producer_id)

    def find_hanging_transactions(
        self, broker_ids: Iterable[int] | None = None, max_transaction_timeout_ms: int = 900_000
    ) -> list[AbortTransactionSpec]:
        """Transactions that are open and that no coordinator will end, as `abort_transaction` takes
        them. Partitions of all brokers are looked at.
        """
        with translating():
            hanging = self._admin.find_hanging_transactions(
                older_than_ms=max_transaction_timeout_ms
            )
        return [
            AbortTransactionSpec(
                theirs(each.partition), each.producer.producer_id, each.producer.producer_epoch
            )
            for each in hanging
        ]


def _producer(state: ours_.ProducerState) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        _number(state.last_sequence),
        _number(state.last_timestamp_ms),
        _number(state.coordinator_epoch),
        _number(state.start_offset),
    )


def _number(given: int | None) -> int:
    return -1 if given is None else given
