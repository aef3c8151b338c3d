"""AwaitRecords: messages and values."""

from __future__ import annotations

from collections.abc import Iterable

from pylog.model import LeaderEpoch, TopicPartition
from pylog.rpc.v1 import log_pb2
from pylog_broker.protobuf.failures import error_of
from pylog_broker.replication.range_messages import RecordWait, WaitedPartition, WaitEnd


def wait_from(request: log_pb2.AwaitRecordsRequest) -> RecordWait:
    """An await-records request as a value."""
    return RecordWait(
        tuple(
            WaitedPartition(
                TopicPartition(item.topic, item.partition),
                item.offset,
                LeaderEpoch(item.current_leader_epoch),
            )
            for item in request.partitions
        ),
        request.min_records,
        request.max_wait_ms,
        request.isolation_level == log_pb2.READ_COMMITTED,
    )


def records_arrived(ends: Iterable[WaitEnd]) -> log_pb2.AwaitRecordsResponse:
    """Its answer."""
    return log_pb2.AwaitRecordsResponse(
        partitions=[
            log_pb2.WaitedPartitionEnd(
                error=error_of(end.failure),
                topic=end.topic_partition.topic,
                partition=end.topic_partition.partition,
                end_offset=end.end_offset,
            )
            for end in ends
        ]
    )
