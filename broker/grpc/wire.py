"""Between the messages of the Log service and the values of replication."""

from __future__ import annotations

from collections.abc import Iterable

from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog.rpc.v1 import log_pb2
from pylog_broker.clients.wire import error_of
from pylog_broker.replication.messages import DeleteRecords, LowWatermark, OffsetAnswer, OffsetQuery


def queries_from(request: log_pb2.ListOffsetsRequest) -> list[OffsetQuery]:
    """The queries of a list-offsets request."""
    return [
        OffsetQuery(
            TopicPartition(item.topic, item.partition),
            item.timestamp_ms,
            LeaderEpoch(item.current_leader_epoch),
            request.isolation_level == log_pb2.READ_COMMITTED,
        )
        for item in request.partitions
    ]


def offset_answer(answer: OffsetAnswer) -> log_pb2.PartitionOffset:
    """The answer to one query."""
    return log_pb2.PartitionOffset(
        error=error_of(answer.failure),
        topic=answer.topic_partition.topic,
        partition=answer.topic_partition.partition,
        offset=answer.offset,
        timestamp_ms=answer.timestamp_ms,
        leader_epoch=answer.leader_epoch,
        topic_id=answer.topic_id or "",
    )


def cuts_from(request: log_pb2.DeleteRecordsRequest) -> DeleteRecords:
    """A delete-records request as the replica manager takes it."""
    return DeleteRecords(
        tuple(
            (TopicPartition(item.topic, item.partition), Offset(item.offset))
            for item in request.partitions
        ),
        request.timeout_ms,
    )


def low_watermarks(watermarks: Iterable[LowWatermark]) -> log_pb2.DeleteRecordsResponse:
    """Its answer."""
    return log_pb2.DeleteRecordsResponse(
        partitions=[
            log_pb2.PartitionLowWatermark(
                error=error_of(item.failure),
                topic=item.topic_partition.topic,
                partition=item.topic_partition.partition,
                low_watermark=item.low_watermark,
            )
            for item in watermarks
        ]
    )
