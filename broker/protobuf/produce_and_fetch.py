"""Produce and fetch: between messages and values, mostly without protobuf, which copies batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pylog.model import LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.rpc.fetch_wire import Partition, encode_pieces
from pylog.rpc.framing import Chunks
from pylog.rpc.plain_answers import encode_found, encode_stored
from pylog.rpc.produce_wire import Request
from pylog.rpc.v1 import log_pb2
from pylog.rpc.varint import varint
from pylog_broker.protobuf.failures import error_of
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch, Standing
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce

_FOLLOWING: Final = b"\x1a"
"""The tag of `ProduceResponse.following`."""

_topic_partition = lru_cache(maxsize=4096)(TopicPartition)
"""Nearly every request names what others named before."""


def produce_from(request: Request) -> Produce:
    """A produce request as a value."""
    batches = []  # one, mostly: a generator would cost more than the loop
    for topic, topic_id, partition, batch in request.items:
        name = _topic_partition(topic, partition)
        batches.append(PartitionBatch(name, TopicId(topic_id) if topic_id else None, batch))
    if request.transactional_id:
        version = request.transaction_version or 2
        return Produce(
            request.acks,
            request.timeout_ms,
            tuple(batches),
            transactional_id=request.transactional_id,
            transaction_version=version,
        )
    return Produce(request.acks, request.timeout_ms, tuple(batches))


def all_produced(requests: Sequence[Request], answers: Sequence[Sequence[PartitionAck]]) -> bytes:
    """The answers to the requests of one message, as the bytes of a `ProduceResponse`."""
    if len(requests) == 1:
        return produced(requests[0].correlation, answers[0])
    pairs = zip(requests, answers, strict=True)
    return _together([produced(request.correlation, acks) for request, acks in pairs])


def produced(correlation: int, acks: Sequence[PartitionAck]) -> bytes:
    """The answer to one request, as the bytes of a `ProduceResponse`."""
    if len(acks) == 1:
        name, failure, base, time_ms, start, leader, epoch, index = acks[0]
        if failure is None and leader == -1 and epoch == -1 and index == -1 and base >= 0 <= start:
            return encode_stored(correlation, name, base, time_ms, start)
    said = []
    for (topic, partition), failure, base, time_ms, start, leader, epoch, index in acks:
        said.append(
            log_pb2.PartitionAck(
                error=error_of(failure) if failure else None,
                topic=topic,
                partition=partition,
                base_offset=base,
                log_append_time_ms=time_ms,
                log_start_offset=start,
                current_leader=leader,
                current_leader_epoch=epoch,
                record_index=index,
            )
        )
    return log_pb2.ProduceResponse(correlation=correlation, acks=said).SerializeToString()


def _together(answers: Sequence[bytes]) -> bytes:
    first, *others = answers
    parts = [first]
    for other in others:
        parts += (_FOLLOWING, varint(len(other)), other)
    return b"".join(parts)


def fetch_from(request: log_pb2.FetchRequest, *, may_stand: bool = False) -> Fetch:
    """A fetch request as a value. `may_stand`: the edge can give several answers."""
    items = []
    for item in request.partitions:
        topic_id = item.topic_id
        items.append(
            PartitionFetch(
                _topic_partition(item.topic, item.partition),
                TopicId(topic_id) if topic_id else None,
                Offset(item.fetch_offset),
                item.max_bytes,
                LeaderEpoch(item.current_leader_epoch),
                LeaderEpoch(item.last_fetched_epoch),
            )
        )
    answers = request.standing_answers if may_stand else 0
    return Fetch(
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        tuple(items),
        request.isolation_level == log_pb2.READ_COMMITTED,
        Standing(answers, request.standing_bytes) if answers > 1 else None,
        request.rack_id,
    )


def fetched(
    correlation: int, partitions: Sequence[PartitionData], *, stands: bool = False
) -> Chunks:
    """Its answer, as the bytes of a `FetchResponse` in pieces."""
    if len(partitions) == 1:
        name, failure, high, stable, start, records, aborted, diverging, leader, epoch, _, other = (
            partitions[0]
        )
        if (
            failure is None
            and diverging is None
            and not aborted
            and leader == -1
            and epoch == -1
            and other == -1
            and high >= 0
            and stable >= 0
            and start >= 0
        ):
            return encode_found(correlation, name, high, stable, start, records, stands)
    return encode_pieces(correlation, map(_fetched, partitions), stands=stands)


def _fetched(item: PartitionData) -> Partition:
    said = log_pb2.PartitionData(
        error=error_of(item.failure) if item.failure else None,
        topic=item.topic_partition.topic,
        partition=item.topic_partition.partition,
        high_watermark=item.high_watermark,
        last_stable_offset=item.last_stable_offset,
        log_start_offset=item.log_start_offset,
        aborted=map(_aborted, item.aborted) if item.aborted else (),
        current_leader=item.current_leader,
        current_leader_epoch=item.current_leader_epoch,
        preferred_read_replica=item.preferred_replica,
        diverging=log_pb2.EpochEnd(epoch=item.diverging.epoch, end_offset=item.diverging.end_offset)
        if item.diverging
        else None,
        damaged_end_offset=max(item.damaged_end, 0),
    )
    return said, item.records


def _aborted(transaction: tuple[int, int]) -> log_pb2.AbortedTransaction:
    producer, first = transaction
    return log_pb2.AbortedTransaction(producer_id=producer, first_offset=first)
