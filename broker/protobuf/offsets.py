"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch and InitProducerId: messages and values."""

from __future__ import annotations

from collections.abc import Iterable

from pylog import errors
from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.offsets import EpochAnswer, EpochQuery
from pylog_broker.api.producer_ids import InitProducerId, ProducerIdGiven
from pylog_broker.metadata.messages import Failure
from pylog_broker.protobuf.failures import error_of
from pylog_broker.protobuf.transactions import identity_of
from pylog_broker.replication.offset_messages import (
    DeleteRecords,
    LowWatermark,
    OffsetAnswer,
    OffsetQuery,
)


def queries_from(request: log_pb2.ListOffsetsRequest) -> list[OffsetQuery]:
    """The queries of a list-offsets request."""
    return [
        OffsetQuery(
            TopicPartition(item.topic, item.partition),
            item.timestamp_ms,
            LeaderEpoch(item.current_leader_epoch),
            request.isolation_level == log_pb2.READ_COMMITTED,
            item.from_offset if item.HasField("from_offset") else None,
        )
        for item in request.partitions
    ]


def offsets_listed(answers: Iterable[OffsetAnswer]) -> log_pb2.ListOffsetsResponse:
    """Its answer."""
    return log_pb2.ListOffsetsResponse(partitions=map(_offset, answers))


def _offset(answer: OffsetAnswer) -> log_pb2.PartitionOffset:
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
    """A delete-records request as a value."""
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


def epoch_queries_from(request: log_pb2.OffsetForLeaderEpochRequest) -> list[EpochQuery]:
    """The queries of an offset-for-leader-epoch request."""
    return [
        EpochQuery(
            TopicPartition(item.topic, item.partition),
            LeaderEpoch(item.current_leader_epoch),
            LeaderEpoch(item.leader_epoch),
        )
        for item in request.partitions
    ]


def epochs_ended(answers: Iterable[EpochAnswer]) -> log_pb2.OffsetForLeaderEpochResponse:
    """Its answer."""
    return log_pb2.OffsetForLeaderEpochResponse(
        partitions=[
            log_pb2.PartitionEpochEnd(
                error=error_of(answer.failure),
                topic=answer.topic_partition.topic,
                partition=answer.topic_partition.partition,
                leader_epoch=answer.leader_epoch,
                end_offset=answer.end_offset,
            )
            for answer in answers
        ]
    )


def init_from(request: log_pb2.InitProducerIdRequest) -> InitProducerId:
    """An init-producer-id request as a value."""
    if not request.transactional_id:
        return InitProducerId("", request.delivery_timeout_ms)
    producer_id, epoch = request.producer_id, request.producer_epoch
    return InitProducerId(
        request.transactional_id,
        request.delivery_timeout_ms,
        request.transaction_timeout_ms,
        identity_of(producer_id, epoch),
        request.enable_2pc,
        request.keep_prepared_txn,
    )


def id_given(answer: ProducerIdGiven) -> log_pb2.InitProducerIdResponse:
    """Its answer."""
    return log_pb2.InitProducerIdResponse(
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        ongoing_txn_producer_id=answer.ongoing.producer_id,
        ongoing_txn_producer_epoch=answer.ongoing.epoch,
    )


def no_id(fault: errors.PylogError) -> log_pb2.InitProducerIdResponse:
    """The answer to a producer that gets none."""
    wait_ms = fault.throttle_time_ms if isinstance(fault, errors.ThrottlingQuotaExceeded) else 0
    return log_pb2.InitProducerIdResponse(
        error=error_of(Failure(fault.code, str(fault))),
        producer_id=-1,
        producer_epoch=-1,
        throttle_time_ms=wait_ms,
        ongoing_txn_producer_id=-1,
        ongoing_txn_producer_epoch=-1,
    )
