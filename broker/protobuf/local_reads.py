"""OpenLocalRead: messages and values."""

from __future__ import annotations

from pylog.model import LeaderEpoch, TopicPartition
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.local_reads import LocalReadOffer
from pylog_broker.protobuf.failures import error_of
from pylog_broker.replication.range_messages import LocalReadQuery


def query_from(request: log_pb2.OpenLocalReadRequest) -> LocalReadQuery:
    """An open-local-read request as a value."""
    return LocalReadQuery(
        TopicPartition(request.topic, request.partition),
        request.topic_id,
        request.start_offset,
        request.end_offset,
        LeaderEpoch(request.current_leader_epoch),
        request.isolation_level == log_pb2.READ_COMMITTED,
        request.machine_id,
    )


def read_offered(offer: LocalReadOffer) -> log_pb2.OpenLocalReadResponse:
    """Its answer. Paths of files stay here: the reader opens none."""
    answer = offer.answer
    return log_pb2.OpenLocalReadResponse(
        error=error_of(answer.failure),
        end_offset=answer.end_offset,
        socket_path=offer.socket_path,
        token=offer.token,
        files=[log_pb2.FileRange(begin=each.begin, end=each.end) for each in answer.files],
        aborted=[
            log_pb2.AbortedRange(
                producer_id=each.producer_id,
                first_offset=each.first_offset,
                last_offset=each.last_offset,
            )
            for each in answer.aborted
        ],
    )
