"""Rules of transactional ids, and the partition that has one."""

from __future__ import annotations

from typing import Final

from pylog.errors import InvalidRequest
from pylog_broker.coordinator.runtime.runtime import partition_for
from pylog_broker.coordinator.transactions.sink_messages import (
    NAME_LENGTH_MAX,
    check_is_of_no_sink,
    is_of_a_sink,
    placement_of,
)

TRANSACTIONAL_ID_CHARS_MAX: Final = 249
"""Apache Kafka takes 32 KiB; an id stands in every record of its transactions, and in errors."""
SINK_ID_CHARS_MAX: Final = 2 * NAME_LENGTH_MAX + 20
"""The most characters of an id that belongs to a sink: it has the names of the query and of the
sink, and a number."""


def check_transactional_id(transactional_id: str) -> None:
    """Raises InvalidRequest."""
    if not transactional_id:
        raise InvalidRequest("transactional_id is empty")
    most = SINK_ID_CHARS_MAX if is_of_a_sink(transactional_id) else TRANSACTIONAL_ID_CHARS_MAX
    if len(transactional_id) > most:
        raise InvalidRequest(
            f"transactional_id has {len(transactional_id)} characters; the limit is {most}"
        )


def check_id_of_producer(transactional_id: str) -> None:
    """The same, of a producer that brings its own. Raises InvalidRequest also for an id that
    belongs to a sink, whose attempts it would disturb.
    """
    check_transactional_id(transactional_id)
    check_is_of_no_sink(transactional_id)


def partition_of(transactional_id: str, partitions: int) -> int:
    """The partition of `__transaction_state` whose leader coordinates it."""
    return partition_for(placement_of(transactional_id), partitions)
