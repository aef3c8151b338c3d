"""The Log service's unary APIs, bound to a broker's handlers, and the gateway's part of them."""

from __future__ import annotations

from pylog.rpc import apis
from pylog_broker.api.api import Api
from pylog_broker.api.metadata import MetadataHandler
from pylog_broker.protobuf import (
    leased_reads,
    local_reads,
    metadata,
    offsets,
    range_transactions,
    ranges,
    record_waits,
)
from pylog_broker.protobuf.unary import AnyBound, Bound


def log_apis(api: Api) -> tuple[AnyBound, ...]:
    """The APIs of a broker for clients, beside produce and fetch."""
    return (
        metadata_api(api.metadata),
        Bound(
            apis.LIST_OFFSETS,
            offsets.queries_from,
            api.list_offsets.handle,
            offsets.offsets_listed,
        ),
        Bound(
            apis.DELETE_RECORDS,
            offsets.cuts_from,
            api.delete_records.handle,
            offsets.low_watermarks,
        ),
        Bound(
            apis.OFFSET_FOR_LEADER_EPOCH,
            offsets.epoch_queries_from,
            api.offset_for_leader_epoch.handle,
            offsets.epochs_ended,
        ),
        Bound(
            apis.INIT_PRODUCER_ID,
            offsets.init_from,
            api.init_producer_id.handle,
            offsets.id_given,
            offsets.no_id,
        ),
        Bound(
            apis.SPLIT_RANGES,
            ranges.queries_from,
            api.ranges.handle,
            ranges.ranges_split,
        ),
        Bound(
            apis.AWAIT_RECORDS,
            record_waits.wait_from,
            api.record_waits.handle,
            record_waits.records_arrived,
        ),
        Bound(
            apis.DESCRIBE_TRANSACTIONS_IN_RANGE,
            range_transactions.queries_from,
            api.range_transactions.handle,
            range_transactions.transactions_described,
        ),
        Bound(
            apis.LEASE_READS,
            leased_reads.leases_from,
            api.leased_reads.handle,
            leased_reads.reads_leased,
        ),
        Bound(
            apis.OPEN_LOCAL_READ,
            local_reads.query_from,
            api.local_reads.handle,
            local_reads.read_offered,
        ),
    )


def metadata_api(handler: MetadataHandler) -> AnyBound:
    """The API by which brokers and the gateway tell of the cluster."""
    return Bound(apis.METADATA, metadata.query_from, handler.handle, metadata.metadata_response)
