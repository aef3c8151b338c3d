"""Messages of `sink.proto` as administrators' values, and back."""

from __future__ import annotations

from pylog import errors
from pylog.client.admin.sink_types import DecidedBatch, OverwrittenTopic, SinkListing, WrittenRange
from pylog.client.arguments import shown
from pylog.model import SINK_PREFIX
from pylog.plain_text import is_text
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
    return sink_pb2.SinkKey(query_id=_name(query_id, "query_id"), sink_id=_name(sink_id, "sink_id"))


def list_request(query_id: object, sink_id: object, receipts: object) -> sink_pb2.ListSinksRequest:
    """The request that lists sinks; InvalidRequest names an impossible argument."""
    return sink_pb2.ListSinksRequest(
        query_id="" if query_id is None else _name(query_id, "query_id"),
        sink_id="" if sink_id is None else _name(sink_id, "sink_id"),
        receipts=bool(receipts),
    )


def _name(given: object, argument: str) -> str:
    if not is_text(given) or not given:
        raise errors.InvalidRequest(f"{argument}={shown(given)}: give a text in UTF-8, not empty")
    return given


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
