"""Messages of `transaction.proto` as administrators' values, and back."""

from __future__ import annotations

from collections.abc import Iterable

from pylog import errors
from pylog.client.admin.group_wire import named
from pylog.client.admin.transaction_types import (
    TRANSACTION_STATES,
    ProducerState,
    TransactionDescription,
)
from pylog.client.arguments import several, shown, whole_or_none
from pylog.config import LONG_MAX
from pylog.model import TopicPartition
from pylog.plain_text import is_text
from pylog.rpc.v1 import transaction_pb2


def transactional_ids(given: object) -> list[str]:
    """One id, or several; InvalidRequest for what is none."""
    wanted = "a transactional id, or several"
    ids = [given] if isinstance(given, str) else several(given, "transactional_ids", wanted)
    for each in ids:
        if not is_text(each) or not each:
            raise errors.InvalidRequest(
                f"{shown(each)} is no transactional id: give a text in UTF-8, not empty"
            )
    return list(dict.fromkeys(ids))


def whole(given: object, argument: str, low: int = 0) -> int:
    """A whole number; InvalidRequest names the argument."""
    number = whole_or_none(given, low, LONG_MAX)
    if number is None:
        raise errors.InvalidRequest(f"{argument}={shown(given)}: give a whole number from {low} on")
    return number


def list_request(
    states: object, producer_ids: object, older_than_ms: object, pattern: object
) -> transaction_pb2.ListTransactionsRequest:
    """The request that lists transactional ids; InvalidRequest names an impossible argument."""
    ids: Iterable[object] = ()
    if producer_ids is not None:
        is_one = whole_or_none(producer_ids, 0) is not None
        ids = [producer_ids] if is_one else several(producer_ids, "producer_ids", "producer ids")
    if pattern is not None and not is_text(pattern):
        raise errors.InvalidRequest(
            f"pattern={shown(pattern)}: give a regular expression, as text in UTF-8"
        )
    return transaction_pb2.ListTransactionsRequest(
        states=named(states, "states", TRANSACTION_STATES),
        producer_ids=[whole(each, "producer_ids") for each in ids],
        duration_ms=-1 if older_than_ms is None else whole(older_than_ms, "older_than_ms"),
        transactional_id_pattern=pattern or "",
    )


def description_of(
    told: transaction_pb2.DescribedTransaction, coordinator: int
) -> TransactionDescription:
    return TransactionDescription(
        told.transactional_id,
        coordinator,
        told.state,
        told.producer_id,
        told.producer_epoch,
        told.timeout_ms or None,
        told.start_time_ms if told.start_time_ms >= 0 else None,
        tuple(sorted(TopicPartition(p.topic, p.partition) for p in told.partitions)),
    )


def producer_of(told: transaction_pb2.ActiveProducer) -> ProducerState:
    def known(number: int) -> int | None:
        return number if number >= 0 else None

    return ProducerState(
        told.producer_id,
        told.producer_epoch,
        known(told.last_sequence),
        known(told.last_timestamp_ms),
        known(told.coordinator_epoch),
        known(told.current_txn_start_offset),
    )
