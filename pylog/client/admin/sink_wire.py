"""Messages of `sink.proto` as administrators' values, and back."""

from __future__ import annotations

from pylog import errors
from pylog.client.admin.sink_types import DecidedBatch, OverwrittenTopic, SinkListing, WrittenRange
from pylog.client.arguments import shown
from pylog.model import SINK_PREFIX
from pylog.rpc.v1 import sink_pb2


def sink_of(transactional_id: str) -> tuple[str | None, str | None]:
    """The query and the sink that a transactional id belongs to, if it belongs to one."""
    if not transactional_id.startswith(SINK_PREFIX):
        return None, None
    query_id, _, rest = transactional_id.removeprefix(SINK_PREFIX).partition("/")
    return query_id, rest.rpartition("/")[0]


def placement_of(key: sink_pb2.SinkKey) -> str:
    """A transactional id of the sink: its coordinator is the sink's."""
    return f"{SINK_PREFIX}{key.query_id}/{key.sink_id}/0"


def key_message(query_id: object, sink_id: object) -> sink_pb2.SinkKey:
    """A sink that is named in full; InvalidRequest names what is missing."""
    named = {"query_id": query_id, "sink_id": sink_id}
    for argument, value in named.items():
        if not isinstance(value, str) or not value:
            raise errors.InvalidRequest(f"{argument}={shown(value)}: give a text, not empty")
    return sink_pb2.SinkKey(query_id=str(query_id), sink_id=str(sink_id))


def list_request(query_id: object, sink_id: object, receipts: object) -> sink_pb2.ListSinksRequest:
    """The request that lists sinks; InvalidRequest names an impossible argument."""
    for argument, value in (("query_id", query_id), ("sink_id", sink_id)):
        if value is not None and (not isinstance(value, str) or not value):
            raise errors.InvalidRequest(f"{argument}={shown(value)}: give a text, not empty")
    return sink_pb2.ListSinksRequest(
        query_id=str(query_id or ""), sink_id=str(sink_id or ""), receipts=bool(receipts)
    )


def listing_of(told: sink_pb2.ListedSink, coordinator: int) -> SinkListing:
    """A sink as its coordinator lists it."""
    return SinkListing(
        told.sink.query_id,
        told.sink.sink_id,
        coordinator,
        told.run_id or None,
        _batch_of(told.last) if told.HasField("last") else None,
        told.open_attempts,
        told.prepared_attempts,
        _known(told.held_since_ms),
        _known(told.prepared_since_ms),
        tuple(told.progress_groups),
    )


def _batch_of(told: sink_pb2.SinkDecision) -> DecidedBatch:
    return DecidedBatch(
        told.batch_id,
        told.run_number,
        told.row_count,
        told.checksum,
        told.digest,
        told.decided_ms,
        _known(told.expires_ms),
        tuple(
            WrittenRange(each.topic, each.partition, each.first_offset, each.last_offset)
            for each in told.receipt
        ),
        tuple(
            OverwrittenTopic(each.topic, each.topic_id, tuple(each.starts))
            for each in told.overwritten
        ),
    )


def _known(moment_ms: int) -> int | None:
    return moment_ms if moment_ms >= 0 else None
