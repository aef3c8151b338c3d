"""Transactions and their producers, as administrators see them: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from pylog.model import TopicPartition

TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
"""Kafka's names."""


class TransactionListing(NamedTuple):
    """A transactional id, in one line. `coordinator` is a broker's id. `query_id` and `sink_id` are
    those of the sink that it belongs to, if it does.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str
    query_id: str | None = None
    sink_id: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator knows it: one of TRANSACTION_STATES, and the
    partitions of its open transaction. `start_time_ms` (since 1970) is None while none is open,
    `timeout_ms` where it has none, because somebody else decides about it.
    """

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int | None
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer as the leader of a partition knows it. `start_offset`: the first record of its
    open transaction; None while none is open. The rest is None where there is nothing to tell.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int | None
    start_offset: int | None


class HangingTransaction(NamedTuple):
    """A transaction that is open in a partition and that no coordinator will end. Readers of
    committed records do not get beyond it. `transactional_id`: of the producer, where its
    coordinator knows that.
    """

    partition: TopicPartition
    producer: ProducerState
    transactional_id: str | None = None


class FencedProducer(NamedTuple):
    """The id and epoch that a transactional id goes on with."""

    producer_id: int
    producer_epoch: int
