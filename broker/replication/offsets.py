"""Offsets by time or by name (ListOffsets) of partitions led here.

A look-up by time reads the log (see `look_ups`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog.errors import InvalidRequest, KafkaStorageError, OffsetNotAvailable, PylogError
from pylog.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    Offset,
    OffsetAndTimestamp,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import OffsetsListed
from pylog_broker.replication.hosted import HostedPartitions
from pylog_broker.replication.look_ups import LookUps
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingRoom

_SPECIAL: Final = "-1 (latest), -2 (earliest) or -3 (largest timestamp)"


def offset_look_ups(
    hosted: HostedPartitions,
    room: WaitingRoom,
    storage_failed: Callable[[Partition, Exception], None],
) -> LookUps[OffsetQuery, OffsetAnswer]:
    """The look-ups that answer the offset queries of one broker, with OffsetsListed."""
    return LookUps(
        hosted,
        room,
        lambda at, query, nowait: answer_offset_query(at, query, storage_failed, nowait=nowait),
        OffsetAnswer,
        OffsetsListed,
    )


def answer_offset_query(
    partition: Partition,
    query: OffsetQuery,
    storage_failed: Callable[[Partition, Exception], None],
    *,
    nowait: bool,
) -> OffsetAnswer:
    """The offset; without one and without a failure, no record is that late. With `nowait` it may
    raise PagesCold.

    A new leader may not know yet how far its predecessor had committed. Until its high watermark
    has reached the start of its epoch, it does not say "latest", nor "none that late": a consumer
    would see the end move back (KIP-207).
    """
    fault = partition.leader_fault(query.current_leader_epoch)
    if fault is not None:
        return OffsetAnswer(partition.topic_partition, fault)
    try:
        return _answer(partition, query, nowait)
    except PylogError as error:
        if isinstance(error, KafkaStorageError):
            storage_failed(partition, error)
        return OffsetAnswer(partition.topic_partition, Failure(error.code, str(error)))


def _answer(partition: Partition, query: OffsetQuery, nowait: bool) -> OffsetAnswer:
    name, log = partition.topic_partition, partition.log
    if partition.awaited_markers and (
        query.read_committed or query.timestamp_ms == EARLIEST_TIMESTAMP
    ):
        return OffsetAnswer(name, _overwriting(partition))
    upper = partition.last_stable_offset if query.read_committed else partition.high_watermark
    match query.timestamp_ms:
        case t if t == LATEST_TIMESTAMP:
            unsure = unsure_of_end(partition)
            if unsure is not None:
                return OffsetAnswer(name, unsure)
            time_ms = _time_from(partition, query.from_offset, upper, nowait)
            epoch = partition.leader_epoch
            return OffsetAnswer(name, None, partition.topic_id, upper, time_ms, epoch)
        case t if t == EARLIEST_TIMESTAMP:
            start = log.log_start_offset
            epoch = log.epochs.epoch_at(start)
            return OffsetAnswer(name, None, partition.topic_id, start, leader_epoch=epoch)
        case t if t == MAX_TIMESTAMP:
            return _found(partition, log.max_timestamp(upper_bound=upper, nowait=nowait))
        case t if t >= 0:
            found = log.offset_for_timestamp(t, upper_bound=upper, nowait=nowait)
            unsure = unsure_of_end(partition) if found is None else None
            return OffsetAnswer(name, unsure) if unsure else _found(partition, found)
    return OffsetAnswer(
        name,
        Failure(
            InvalidRequest.code,
            f"timestamp {query.timestamp_ms} for {name}: it must be 0 or more, or {_SPECIAL}",
        ),
    )


def _time_from(partition: Partition, offset: int | None, upper: int, nowait: bool) -> int:
    """The time of the first record from an offset on; -1 where there is none, or none is wanted."""
    if offset is None or offset >= upper:
        return NO_TIMESTAMP
    found = partition.log.first_from(offset, upper_bound=upper, nowait=nowait)
    return NO_TIMESTAMP if found is None else found.timestamp_ms


def _found(partition: Partition, found: OffsetAndTimestamp | None) -> OffsetAnswer:
    name, topic_id = partition.topic_partition, partition.topic_id
    if found is None:
        return OffsetAnswer(name, None, topic_id)
    offset = Offset(found.offset)
    epoch = partition.log.epochs.epoch_at(offset)
    return OffsetAnswer(name, None, topic_id, offset, found.timestamp_ms, epoch)


def _overwriting(partition: Partition) -> Failure:
    """Its old records are gone, and the new ones do not count yet: it would look empty."""
    return Failure(
        OffsetNotAvailable.code,
        f"{partition.topic_partition} is being overwritten: it begins at "
        f"{partition.log.log_start_offset}, and the marker of the commit is on its way; retry",
    )


def unsure_of_end(partition: Partition) -> Failure | None:
    """The refusal of a leader that does not know yet how far its predecessor had committed."""
    leading = partition.leading
    assert leading is not None
    if partition.high_watermark >= leading.epoch_start_offset:
        return None
    return Failure(
        OffsetNotAvailable.code,
        f"the new leader of {partition.topic_partition} has confirmed records up to "
        f"{partition.high_watermark} only, its epoch began at {leading.epoch_start_offset}; retry",
    )
