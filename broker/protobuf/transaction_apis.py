"""The Transaction service's APIs, bound to a broker's handlers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pylog.rpc import apis
from pylog.rpc.v1 import transaction_pb2
from pylog_broker.api.api import TransactionApi
from pylog_broker.api.context import RequestContext
from pylog_broker.metadata.messages import Failure
from pylog_broker.protobuf import transactions
from pylog_broker.protobuf.failures import error_of
from pylog_broker.protobuf.groups import refusal
from pylog_broker.protobuf.unary import AnyBound, Bound
from pylog_broker.replication.produce_messages import WriteMarker


def transaction_apis(api: TransactionApi) -> tuple[AnyBound, ...]:
    """The APIs of a broker for transactional producers, and for who looks after transactions."""
    return (*_producer_apis(api), *_admin_apis(api))


def _producer_apis(api: TransactionApi) -> tuple[AnyBound, ...]:
    producers = api.producers
    return (
        Bound(
            apis.ADD_PARTITIONS_TO_TXN,
            transactions.addition_from,
            producers.add_partitions,
            transactions.added,
            refusal(transaction_pb2.AddPartitionsToTxnResponse),
        ),
        Bound(
            apis.ADD_OFFSETS_TO_TXN,
            transactions.offsets_from,
            producers.add_offsets,
            transactions.offsets_added,
            refusal(transaction_pb2.AddOffsetsToTxnResponse),
        ),
        Bound(
            apis.END_TXN,
            transactions.end_from,
            producers.end,
            transactions.ended,
            refusal(transaction_pb2.EndTxnResponse),
        ),
        Bound(
            apis.TXN_OFFSET_COMMIT,
            transactions.commit_from,
            api.offsets.commit,
            transactions.committed,
            refusal(transaction_pb2.TxnOffsetCommitResponse),
        ),
    )


def _admin_apis(api: TransactionApi) -> tuple[AnyBound, ...]:
    admin = api.admin

    async def write_markers(
        context: RequestContext, markers: Sequence[WriteMarker]
    ) -> list[tuple[WriteMarker, Failure | None]]:
        outcomes = await api.markers.write_for_admin(context, markers)
        return list(zip(markers, outcomes, strict=True))

    return (
        Bound(apis.WRITE_TXN_MARKERS, transactions.markers_from, write_markers, _markers_written),
        Bound(
            apis.DESCRIBE_PRODUCERS,
            transactions.partitions_from,
            admin.describe_producers,
            transactions.producers_described,
        ),
        Bound(
            apis.DESCRIBE_TRANSACTIONS,
            transactions.ids_from,
            admin.describe,
            transactions.described,
        ),
        Bound(
            apis.LIST_TRANSACTIONS,
            transactions.filters_from,
            admin.list_transactions,
            transactions.listed,
            refusal(transaction_pb2.ListTransactionsResponse),
        ),
    )


def _markers_written(
    outcomes: Sequence[tuple[WriteMarker, Failure | None]],
) -> transaction_pb2.WriteTxnMarkersResponse:
    """A result for each producer's marker, in the order of the request."""
    results: list[transaction_pb2.TxnMarkerResult] = []
    for owner, group in groupby(outcomes, key=_owner):
        partitions = [
            transaction_pb2.TxnPartitionResult(
                error=error_of(failure),
                topic=marker.topic_partition.topic,
                partition=marker.topic_partition.partition,
            )
            for marker, failure in group
        ]
        results.append(transaction_pb2.TxnMarkerResult(producer_id=owner[0], partitions=partitions))
    return transaction_pb2.WriteTxnMarkersResponse(markers=results)


def _owner(outcome: tuple[WriteMarker, Failure | None]) -> tuple[int, int, int]:
    marker = outcome[0]
    return marker.producer_id, marker.producer_epoch, marker.coordinator_epoch
