"""The messages of transactions, and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pylog.errors import InvalidRequest, PylogError
from pylog.model import NO_TIMESTAMP, LeaderEpoch, ProducerEpoch, ProducerId, TopicPartition
from pylog.rpc.v1 import transaction_pb2
from pylog_broker.api.limits import named_twice
from pylog_broker.api.transactions.offsets import TxnCommit
from pylog_broker.api.transactions.producers import AddOffsets
from pylog_broker.api.transactions.transaction_admin import (
    Described,
    DescribedProducers,
    ListTransactions,
    TransactionsListed,
)
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    OffsetCommit,
    OffsetsCommitted,
)
from pylog_broker.coordinator.transactions.messages import (
    AddPartitions,
    EndTransaction,
    PartitionsAdded,
    TransactionEnded,
)
from pylog_broker.coordinator.transactions.transaction import EPOCH_MAX, Identity
from pylog_broker.metadata.messages import Failure, failure_of
from pylog_broker.protobuf.failures import error_of
from pylog_broker.replication.produce_messages import WriteMarker

NEWEST_VERSION = 2


def identity_of(producer_id: int, producer_epoch: int) -> Identity:
    """The identity of a producer, -1 where it has none yet. InvalidRequest for numbers that no
    producer has.
    """
    if not -1 <= producer_epoch <= EPOCH_MAX:
        raise InvalidRequest(f"producer_epoch={producer_epoch}: it must be from -1 to {EPOCH_MAX}")
    if producer_id < -1:
        raise InvalidRequest(f"producer_id={producer_id}: it must be -1 or more")
    return Identity(ProducerId(producer_id), ProducerEpoch(producer_epoch))


def version_of(version: int) -> int:
    """The transaction version that a client speaks."""
    return version or NEWEST_VERSION


def _partitions(named: Iterable[transaction_pb2.TxnPartition]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, each.partition) for each in named)


def _results(
    faults: Mapping[TopicPartition, PylogError | None],
) -> list[transaction_pb2.TxnPartitionResult]:
    return [_result(each, failure_of(fault)) for each, fault in faults.items()]


def _result(
    partition: TopicPartition, failure: Failure | None
) -> transaction_pb2.TxnPartitionResult:
    topic, number = partition
    return transaction_pb2.TxnPartitionResult(
        error=error_of(failure), topic=topic, partition=number
    )


# ---- producers ----------------------------------------------------------------------------------


def addition_from(request: transaction_pb2.AddPartitionsToTxnRequest) -> AddPartitions:
    """A request of a client of version 1."""
    return AddPartitions(
        request.transactional_id,
        identity_of(request.producer_id, request.producer_epoch),
        _partitions(request.partitions),
        version=1,
    )


def added(answer: PartitionsAdded) -> transaction_pb2.AddPartitionsToTxnResponse:
    """Its answer."""
    return transaction_pb2.AddPartitionsToTxnResponse(partitions=_results(answer.partitions))


def offsets_from(request: transaction_pb2.AddOffsetsToTxnRequest) -> AddOffsets:
    """A request of a client of version 1."""
    return AddOffsets(
        request.transactional_id,
        identity_of(request.producer_id, request.producer_epoch),
        request.group_id,
    )


def offsets_added(_: None) -> transaction_pb2.AddOffsetsToTxnResponse:
    """Its answer."""
    return transaction_pb2.AddOffsetsToTxnResponse()


def end_from(request: transaction_pb2.EndTxnRequest) -> EndTransaction:
    """An end-transaction request as a value."""
    return EndTransaction(
        request.transactional_id,
        identity_of(request.producer_id, request.producer_epoch),
        request.committed,
        version_of(request.transaction_version),
    )


def ended(answer: TransactionEnded) -> transaction_pb2.EndTxnResponse:
    """Its answer."""
    producer_id, epoch = answer.identity
    return transaction_pb2.EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


# ---- offsets of groups ---------------------------------------------------------------------------


def commit_from(request: transaction_pb2.TxnOffsetCommitRequest) -> TxnCommit:
    """A commit as a value. InvalidRequest for a partition that stands in it twice."""
    offsets = {
        TopicPartition(each.topic, each.partition): CommittedOffset(
            each.offset, LeaderEpoch(each.leader_epoch), each.metadata
        )
        for each in request.offsets
    }
    if len(offsets) < len(request.offsets):
        twice = named_twice((each.topic, each.partition) for each in request.offsets)
        raise InvalidRequest(twice.message if twice else "")
    instance_id = request.instance_id if request.HasField("instance_id") else None
    caller = Caller(request.member_id, instance_id, request.generation_or_epoch)
    return TxnCommit(
        request.transactional_id,
        identity_of(request.producer_id, request.producer_epoch),
        OffsetCommit(request.group_id, caller, offsets),
        version_of(request.transaction_version),
    )


def committed(answer: OffsetsCommitted) -> transaction_pb2.TxnOffsetCommitResponse:
    """Its answer."""
    return transaction_pb2.TxnOffsetCommitResponse(partitions=_results(answer.partitions))


# ---- administrators -----------------------------------------------------------------------------


def markers_from(request: transaction_pb2.WriteTxnMarkersRequest) -> list[WriteMarker]:
    """An administrator's markers, which know no transaction version."""
    return [
        WriteMarker(
            partition,
            *identity_of(marker.producer_id, marker.producer_epoch),
            marker.committed,
            marker.coordinator_epoch,
        )
        for marker in request.markers
        for partition in _partitions(marker.partitions)
    ]


def ids_from(request: transaction_pb2.DescribeTransactionsRequest) -> Sequence[str]:
    """The transactional ids that are asked about."""
    return list(request.transactional_ids)


def described(answers: Iterable[Described]) -> transaction_pb2.DescribeTransactionsResponse:
    """The described transactions."""
    return transaction_pb2.DescribeTransactionsResponse(transactions=map(_described, answers))


def _described(answer: Described) -> transaction_pb2.DescribedTransaction:
    found = answer.described
    if found is None:
        return transaction_pb2.DescribedTransaction(
            error=error_of(answer.failure),
            transactional_id=answer.transactional_id,
            start_time_ms=NO_TIMESTAMP,
            producer_id=-1,
            producer_epoch=-1,
        )
    return transaction_pb2.DescribedTransaction(
        transactional_id=answer.transactional_id,
        state=found.state,
        timeout_ms=found.timeout_ms,
        start_time_ms=found.started_ms,
        producer_id=found.identity.producer_id,
        producer_epoch=found.identity.epoch,
        partitions=[
            transaction_pb2.TxnPartition(topic=topic, partition=number)
            for topic, number in found.partitions
        ],
    )


def filters_from(request: transaction_pb2.ListTransactionsRequest) -> ListTransactions:
    """The transactions that a request asks for."""
    return ListTransactions(
        tuple(request.states),
        tuple(request.producer_ids),
        request.duration_ms if request.duration_ms > 0 else -1,
        request.transactional_id_pattern,
    )


def listed(answer: TransactionsListed) -> transaction_pb2.ListTransactionsResponse:
    """Their list."""
    return transaction_pb2.ListTransactionsResponse(
        unknown_states=answer.unknown_states,
        transactions=[
            transaction_pb2.ListedTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                state=each.state,
            )
            for each in answer.transactions
        ],
    )


def partitions_from(request: transaction_pb2.DescribeProducersRequest) -> Sequence[TopicPartition]:
    """The partitions whose producers are asked for."""
    return _partitions(request.partitions)


def producers_described(
    answers: Iterable[DescribedProducers],
) -> transaction_pb2.DescribeProducersResponse:
    """The described producers."""
    return transaction_pb2.DescribeProducersResponse(
        partitions=[
            transaction_pb2.DescribedProducers(
                error=error_of(answer.failure),
                topic=answer.topic_partition.topic,
                partition=answer.topic_partition.partition,
                producers=[
                    transaction_pb2.ActiveProducer(
                        producer_id=each.producer_id,
                        producer_epoch=each.producer_epoch,
                        last_sequence=each.last_sequence,
                        last_timestamp_ms=each.timestamp_ms,
                        coordinator_epoch=each.coordinator_epoch,
                        current_txn_start_offset=each.transaction_start,
                    )
                    for each in answer.producers
                ],
            )
            for answer in answers
        ]
    )
