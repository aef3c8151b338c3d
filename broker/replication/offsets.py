"""Offsets by time or by name (ListOffsets) of a partition led here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog.errors import InvalidRequest, KafkaStorageError, OffsetNotAvailable, PylogError
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    Offset,
    OffsetAndTimestamp,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.messages import OffsetAnswer, OffsetQuery
from pylog_broker.replication.partition import Partition

_SPECIAL: Final = "-1 (latest), -2 (earliest) or -3 (largest timestamp)"


def answer_offset_query(
    partition: Partition,
    query: OffsetQuery,
    storage_failed: Callable[[Partition, Exception], None],
) -> OffsetAnswer:
    """The offset; without one and without a failure, no record is that late.

    A new leader may not know yet how far its predecessor had committed. Until its high watermark
    has reached the start of its epoch, it does not say "latest", nor "none that late": a consumer
    would see the end move back (KIP-207).
    """
    fault = partition.leader_fault(query.current_leader_epoch)
    if fault is not None:
        return OffsetAnswer(partition.topic_partition, fault)
    try:
        return _answer(partition, query)
    except PylogError as error:
        if isinstance(error, KafkaStorageError):
            storage_failed(partition, error)
        return OffsetAnswer(partition.topic_partition, Failure(error.code, str(error)))


def _answer(partition: Partition, query: OffsetQuery) -> OffsetAnswer:
    name, log = partition.topic_partition, partition.log
    upper = partition.last_stable_offset if query.read_committed else partition.high_watermark
    match query.timestamp_ms:
        case t if t == LATEST_TIMESTAMP:
            unsure = _unsure(partition)
            if unsure is not None:
                return OffsetAnswer(name, unsure)
            return OffsetAnswer(
                name, None, partition.topic_id, upper, leader_epoch=partition.leader_epoch
            )
        case t if t == EARLIEST_TIMESTAMP:
            start = log.log_start_offset
            epoch = log.epochs.epoch_at(start)
            return OffsetAnswer(name, None, partition.topic_id, start, leader_epoch=epoch)
        case t if t == MAX_TIMESTAMP:
            return _found(partition, log.max_timestamp(upper_bound=upper))
        case t if t >= 0:
            found = log.offset_for_timestamp(t, upper_bound=upper)
            unsure = _unsure(partition) if found is None else None
            return OffsetAnswer(name, unsure) if unsure else _found(partition, found)
    return OffsetAnswer(
        name,
        Failure(
            InvalidRequest.code,
            f"timestamp {query.timestamp_ms} for {name}: it must be 0 or more, or {_SPECIAL}",
        ),
    )


def _found(partition: Partition, found: OffsetAndTimestamp | None) -> OffsetAnswer:
    name, topic_id = partition.topic_partition, partition.topic_id
    if found is None:
        return OffsetAnswer(name, None, topic_id)
    offset = Offset(found.offset)
    epoch = partition.log.epochs.epoch_at(offset)
    return OffsetAnswer(name, None, topic_id, offset, found.timestamp_ms, epoch)


def _unsure(partition: Partition) -> Failure | None:
    leading = partition.leading
    assert leading is not None
    if partition.high_watermark >= leading.epoch_start_offset:
        return None
    return Failure(
        OffsetNotAvailable.code,
        f"the new leader of {partition.topic_partition} has confirmed records up to "
        f"{partition.high_watermark} only, its epoch began at {leading.epoch_start_offset}; retry",
    )
