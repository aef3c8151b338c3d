"""DescribeTransactionsInRange: messages and values."""

from __future__ import annotations

from collections.abc import Iterable

from pylog.model import LeaderEpoch, TopicPartition, TransactionName, TransactionSpan
from pylog.rpc.v1 import log_pb2
from pylog_broker.protobuf.failures import error_of
from pylog_broker.replication.range_messages import RangeTransactionsAnswer, RangeTransactionsQuery


def queries_from(
    request: log_pb2.DescribeTransactionsInRangeRequest,
) -> list[RangeTransactionsQuery]:
    """The queries of a request."""
    names = [TransactionName(each.producer_id, each.producer_epoch) for each in request.named]
    named = frozenset(names) if names else None
    return [
        RangeTransactionsQuery(
            TopicPartition(item.topic, item.partition),
            item.start_offset,
            item.end_offset,
            named,
            current_leader_epoch=LeaderEpoch(item.current_leader_epoch),
        )
        for item in request.partitions
    ]


def transactions_described(
    answers: Iterable[RangeTransactionsAnswer],
) -> log_pb2.DescribeTransactionsInRangeResponse:
    """Its answer."""
    return log_pb2.DescribeTransactionsInRangeResponse(partitions=map(_described, answers))


def _described(answer: RangeTransactionsAnswer) -> log_pb2.DescribedTransactions:
    return log_pb2.DescribedTransactions(
        error=error_of(answer.failure),
        topic=answer.topic_partition.topic,
        partition=answer.topic_partition.partition,
        topic_id=answer.topic_id or "",
        last_stable_offset=answer.last_stable_offset,
        next_offset=answer.next_offset,
        transactions=map(_span, answer.spans),
    )


def _span(span: TransactionSpan) -> log_pb2.TransactionSpan:
    return log_pb2.TransactionSpan(
        producer_id=span.name.producer_id,
        producer_epoch=span.name.producer_epoch,
        first_offset=span.first,
        marker_offset=span.marker,
    )
