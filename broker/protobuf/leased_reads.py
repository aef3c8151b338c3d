"""LeaseReads: messages and values."""

from __future__ import annotations

from collections.abc import Iterable

from pylog.errors import InvalidRequest
from pylog.model import LeaderEpoch, TopicId, TopicPartition
from pylog.rpc.v1 import log_pb2
from pylog_broker.protobuf.failures import error_of
from pylog_broker.replication.range_messages import LeaseReads, PartitionLease, ReadsLeased


def leases_from(request: log_pb2.LeaseReadsRequest) -> LeaseReads:
    """A lease-reads request as a value. Raises InvalidRequest when the lists of a topic differ in
    length.
    """
    return LeaseReads(
        request.holder,
        "",
        (*_leases(request.topics, follows=False), *_leases(request.followed, follows=True)),
        request.timeout_ms,
        request.renew,
    )


def _leases(topics: Iterable[log_pb2.LeasedTopic], *, follows: bool) -> list[PartitionLease]:
    leases = []
    for item in topics:
        columns = item.partitions, item.start_offsets, item.end_offsets, item.current_leader_epochs
        if len({len(column) for column in columns}) > 1:
            raise InvalidRequest(
                f"topic {item.topic}: partitions, start_offsets, end_offsets and "
                "current_leader_epochs differ in length"
            )
        name, topic_id = item.topic, TopicId(item.topic_id) if item.topic_id else None
        leases += [
            PartitionLease(
                TopicPartition(name, partition), topic_id, start, end, LeaderEpoch(epoch), follows
            )
            for partition, start, end, epoch in zip(*columns, strict=True)
        ]
    return leases


def reads_leased(answer: ReadsLeased) -> log_pb2.LeaseReadsResponse:
    """Its answer."""
    return log_pb2.LeaseReadsResponse(
        timeout_ms=answer.timeout_ms,
        refused=[
            log_pb2.RefusedLease(error=error_of(failure), topic=at.topic, partition=at.partition)
            for at, failure in answer.refused
        ],
    )
