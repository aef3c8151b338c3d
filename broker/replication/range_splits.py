"""The bytes and the pieces of a range of offsets, of partitions led here.

A reader that plans its reads by bytes asks for them. Records that are not committed do not count: a
range ends at the high watermark at the latest. Records of it that were deleted have no bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from pylog.errors import KafkaStorageError, PylogError
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import RangesSplit
from pylog_broker.replication.hosted import HostedPartitions
from pylog_broker.replication.look_ups import LookUps
from pylog_broker.replication.offsets import unsure_of_end
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.range_messages import RangeAnswer, RangeQuery
from pylog_broker.replication.waiting import WaitingRoom


def range_look_ups(
    hosted: HostedPartitions,
    room: WaitingRoom,
    storage_failed: Callable[[Partition, Exception], None],
) -> LookUps[RangeQuery, RangeAnswer]:
    """The look-ups that answer the range queries of one broker, with RangesSplit."""
    return LookUps(
        hosted,
        room,
        lambda at, query, nowait: answer_range_query(at, query, storage_failed, nowait=nowait),
        RangeAnswer,
        RangesSplit,
    )


def answer_range_query(
    partition: Partition,
    query: RangeQuery,
    storage_failed: Callable[[Partition, Exception], None],
    *,
    nowait: bool,
) -> RangeAnswer:
    """The bytes and pieces of a range. With `nowait` it may raise PagesCold."""
    name = partition.topic_partition
    fault = partition.leader_fault(query.current_leader_epoch)
    if fault is None and query.end > partition.high_watermark:
        fault = unsure_of_end(partition)
    if fault is not None:
        return RangeAnswer(name, fault)
    try:
        split = partition.log.split(
            query.start,
            min(query.end, partition.high_watermark),
            piece_bytes=query.piece_bytes,
            pieces_max=query.pieces_max,
            even=query.even,
            nowait=nowait,
        )
    except PylogError as error:
        if isinstance(error, KafkaStorageError):
            storage_failed(partition, error)
        return RangeAnswer(name, Failure(error.code, str(error)))
    return RangeAnswer(name, None, partition.topic_id, split)
