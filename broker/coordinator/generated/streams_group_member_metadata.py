"""StreamsGroupMemberMetadata (record type 19), versions 0 to 0.

Generated from broker/coordinator/schemas/streams_group_member_metadata.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    MalformedMessage,
    count_refused,
    null_refused,
    read_varint,
    skip_tagged_fields,
    truncated,
    write_varint,
)

TYPE: Final = 19
VERSIONS: Final = range(0, 1)

_H: Final = Struct(">H")
_h: Final = Struct(">h")
_ii: Final = Struct(">ii")


class StreamsGroupMemberMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""
    member_id: str = ""


class Endpoint(NamedTuple):
    """user_endpoint of StreamsGroupMemberMetadataValue."""

    host: str = ""
    port: int = 0


class KeyValue(NamedTuple):
    """client_tags of StreamsGroupMemberMetadataValue."""

    key: str = ""
    value: str = ""


class StreamsGroupMemberMetadataValue(NamedTuple):
    """The value."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()


def _encode_key(key: StreamsGroupMemberMetadataKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    value_b = key.member_id
    text_b = value_b.encode()
    out += _h.pack(len(text_b))
    out += text_b
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[StreamsGroupMemberMetadataKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("group_id")
    if size > length - position:
        truncated("group_id", size, length - position)
    key_group_id = str(buffer[position : position + size], "utf-8")
    position += size
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("member_id")
    if size > length - position:
        truncated("member_id", size, length - position)
    key_member_id = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return StreamsGroupMemberMetadataKey(group_id=key_group_id, member_id=key_member_id), position


def encode_key(key: StreamsGroupMemberMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> StreamsGroupMemberMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"StreamsGroupMemberMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupMemberMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupMemberMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: StreamsGroupMemberMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.instance_id
    if value_a is None:
        out.append(0)
    else:
        text_a = value_a.encode()
        write_varint(out, len(text_a) + 1)
        out += text_a
    value_b = value.rack_id
    if value_b is None:
        out.append(0)
    else:
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
    value_c = value.client_id
    text_c = value_c.encode()
    write_varint(out, len(text_c) + 1)
    out += text_c
    value_d = value.client_host
    text_d = value_d.encode()
    write_varint(out, len(text_d) + 1)
    out += text_d
    out += _ii.pack(value.rebalance_timeout_ms, value.topology_epoch)
    value_e = value.process_id
    text_e = value_e.encode()
    write_varint(out, len(text_e) + 1)
    out += text_e
    value_f = value.user_endpoint
    if value_f is None:
        out.append(255)
    else:
        out.append(1)
        value_g = value_f.host
        text_g = value_g.encode()
        write_varint(out, len(text_g) + 1)
        out += text_g
        out += _H.pack(value_f.port)
        out.append(0)
    value_h = value.client_tags
    write_varint(out, len(value_h) + 1)
    for h in value_h:
        value_i = h.key
        text_i = value_i.encode()
        write_varint(out, len(text_i) + 1)
        out += text_i
        value_j = h.value
        text_j = value_j.encode()
        write_varint(out, len(text_j) + 1)
        out += text_j
        out.append(0)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[StreamsGroupMemberMetadataValue, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        value_instance_id: str | None = None
    else:
        if size > length - position:
            truncated("instance_id", size, length - position)
        value_instance_id = str(buffer[position : position + size], "utf-8")
        position += size
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        value_rack_id: str | None = None
    else:
        if size > length - position:
            truncated("rack_id", size, length - position)
        value_rack_id = str(buffer[position : position + size], "utf-8")
        position += size
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("client_id")
    if size > length - position:
        truncated("client_id", size, length - position)
    value_client_id = str(buffer[position : position + size], "utf-8")
    position += size
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("client_host")
    if size > length - position:
        truncated("client_host", size, length - position)
    value_client_host = str(buffer[position : position + size], "utf-8")
    position += size
    value_rebalance_timeout_ms, value_topology_epoch = _ii.unpack_from(buffer, position)
    position += 8
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("process_id")
    if size > length - position:
        truncated("process_id", size, length - position)
    value_process_id = str(buffer[position : position + size], "utf-8")
    position += size
    value_user_endpoint: Endpoint | None
    position += 1
    if buffer[position - 1] != 1:
        value_user_endpoint = None
    else:
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("host")
        if size > length - position:
            truncated("host", size, length - position)
        a_host = str(buffer[position : position + size], "utf-8")
        position += size
        a_port, = _H.unpack_from(buffer, position)
        position += 2
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        value_user_endpoint = Endpoint(host=a_host, port=a_port)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("client_tags")
    value_client_tags: tuple[KeyValue, ...]
    if size * 3 > length - position:
        count_refused("client_tags", size, length - position)
    found_b: list[KeyValue] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("key")
        if size > length - position:
            truncated("key", size, length - position)
        c_key = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("value")
        if size > length - position:
            truncated("value", size, length - position)
        c_value = str(buffer[position : position + size], "utf-8")
        position += size
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_b.append(KeyValue(key=c_key, value=c_value))
    value_client_tags = tuple(found_b)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return StreamsGroupMemberMetadataValue(instance_id=value_instance_id, rack_id=value_rack_id, client_id=value_client_id, client_host=value_client_host, rebalance_timeout_ms=value_rebalance_timeout_ms, topology_epoch=value_topology_epoch, process_id=value_process_id, user_endpoint=value_user_endpoint, client_tags=value_client_tags), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: StreamsGroupMemberMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> StreamsGroupMemberMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"StreamsGroupMemberMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupMemberMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupMemberMetadataValue: {len(buffer) - end} bytes too many")
    return value
