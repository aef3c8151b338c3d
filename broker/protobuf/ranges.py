"""SplitRanges: messages and values."""

from __future__ import annotations

from collections.abc import Iterable

from pylog.model import LeaderEpoch, RangePiece, TopicPartition
from pylog.rpc.v1 import log_pb2
from pylog_broker.protobuf.failures import error_of
from pylog_broker.replication.range_messages import RangeAnswer, RangeQuery


def queries_from(request: log_pb2.SplitRangesRequest) -> list[RangeQuery]:
    """The queries of a split-ranges request."""
    return [
        RangeQuery(
            TopicPartition(item.topic, item.partition),
            item.start_offset,
            item.end_offset,
            item.piece_bytes,
            item.pieces_max,
            item.even,
            LeaderEpoch(item.current_leader_epoch),
        )
        for item in request.partitions
    ]


def ranges_split(answers: Iterable[RangeAnswer]) -> log_pb2.SplitRangesResponse:
    """Its answer."""
    return log_pb2.SplitRangesResponse(partitions=map(_split, answers))


def _split(answer: RangeAnswer) -> log_pb2.SplitRange:
    return log_pb2.SplitRange(
        error=error_of(answer.failure),
        topic=answer.topic_partition.topic,
        partition=answer.topic_partition.partition,
        topic_id=answer.topic_id or "",
        bytes=answer.split.bytes,
        pieces=map(_piece, answer.split.pieces),
        next=None if answer.split.next is None else _piece(answer.split.next),
    )


def _piece(piece: RangePiece) -> log_pb2.RangePiece:
    return log_pb2.RangePiece(end_offset=piece.end_offset, bytes=piece.bytes)
