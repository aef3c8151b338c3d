"""Request and response headers of Kafka's protocol, and the table of what this edge speaks.

Request header: api key i16, api version i16, correlation id i32, client id string (length i16), and
tagged fields when the version of the request is flexible. Response header: correlation id i32, and
tagged fields likewise, except for ApiVersions, which a client of any age must be able to read.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from pylog_broker.kafka.generated import (
    add_partitions_to_txn,
    api_versions,
    delete_share_group_state,
    fetch,
    initialize_share_group_state,
    list_offsets,
    offset_for_leader_epoch,
    produce,
    read_share_group_state,
    read_share_group_state_summary,
    sasl_authenticate,
    sasl_handshake,
    write_share_group_state,
    write_txn_markers,
)
from pylog_broker.kafka_primitives import MalformedMessage, skip_tagged_fields

_REQUEST: Final = Struct(">hhih")
_CORRELATION: Final = Struct(">i")

FLEXIBLE_FROM: Final = {
    module.KEY: module.FLEXIBLE_FROM
    for module in (
        add_partitions_to_txn,
        api_versions,
        delete_share_group_state,
        fetch,
        initialize_share_group_state,
        list_offsets,
        offset_for_leader_epoch,
        produce,
        read_share_group_state,
        read_share_group_state_summary,
        sasl_authenticate,
        sasl_handshake,
        write_share_group_state,
        write_txn_markers,
    )
}
OFFERED: Final = {
    fetch.KEY: range(17, 19),
    sasl_handshake.KEY: sasl_handshake.VERSIONS,
    api_versions.KEY: api_versions.VERSIONS,
    offset_for_leader_epoch.KEY: offset_for_leader_epoch.VERSIONS,
    sasl_authenticate.KEY: sasl_authenticate.VERSIONS,
    add_partitions_to_txn.KEY: add_partitions_to_txn.VERSIONS,
    write_txn_markers.KEY: write_txn_markers.VERSIONS,
    list_offsets.KEY: list_offsets.VERSIONS,
    produce.KEY: range(13, 14),
    initialize_share_group_state.KEY: initialize_share_group_state.VERSIONS,
    read_share_group_state.KEY: read_share_group_state.VERSIONS,
    write_share_group_state.KEY: write_share_group_state.VERSIONS,
    delete_share_group_state.KEY: delete_share_group_state.VERSIONS,
    read_share_group_state_summary.KEY: read_share_group_state_summary.VERSIONS,
}
"""Api key -> versions that the listener between brokers takes, where somebody answers them."""
_FETCH: Final = fetch.KEY
_FETCH_OFFERED: Final = OFFERED[fetch.KEY]


class RequestHeader(NamedTuple):
    """A request's header; the body begins at `body`."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str
) -> bytes:
    """The header in the form that goes with the request's version."""
    name = client_id.encode()
    end = b"\0" if api_version >= FLEXIBLE_FROM[api_key] else b""
    return _REQUEST.pack(api_key, api_version, correlation_id, len(name)) + name + end


def decode_request_header(buffer: memoryview) -> RequestHeader:
    """The header; MalformedMessage when the frame is too short for it.

    For an api key that is not known the header ends behind the client id.
    """
    try:
        key, version, correlation_id, size = _REQUEST.unpack_from(buffer, 0)
        position = _REQUEST.size
        client_id: str | None = None
        if size >= 0:
            if size > len(buffer) - position:
                raise MalformedMessage(f"client id announces {size} bytes")
            client_id = str(buffer[position : position + size], "utf-8")
            position += size
        if key == _FETCH and version in _FETCH_OFFERED and not buffer[position]:
            return RequestHeader(key, version, correlation_id, client_id, position + 1)
        if version in OFFERED.get(key, ()) and version >= FLEXIBLE_FROM[key]:
            position = skip_tagged_fields(buffer, position)
    except (struct_error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(f"request header: {error}") from None
    return RequestHeader(key, version, correlation_id, client_id, position)


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header in the form that goes with the request's version."""
    head = _CORRELATION.pack(correlation_id)
    if api_key != api_versions.KEY and api_version >= FLEXIBLE_FROM[api_key]:
        return head + b"\0"
    return head


def correlation_of(buffer: memoryview) -> int:
    """The correlation id of the request that a response frame answers."""
    if len(buffer) < _CORRELATION.size:
        raise MalformedMessage(f"a response of {len(buffer)} bytes has no header")
    (correlation_id,) = _CORRELATION.unpack_from(buffer, 0)
    return int(correlation_id)


def response_body(buffer: memoryview, api_key: int, api_version: int) -> int:
    """The position at which the body of a response begins."""
    if api_key == api_versions.KEY or api_version < FLEXIBLE_FROM[api_key]:
        return _CORRELATION.size
    if len(buffer) > _CORRELATION.size and not buffer[_CORRELATION.size]:
        return _CORRELATION.size + 1  # no tags
    try:
        return skip_tagged_fields(buffer, _CORRELATION.size)
    except IndexError:
        raise MalformedMessage("a response ends within its header") from None
