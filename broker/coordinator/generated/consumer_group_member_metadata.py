"""ConsumerGroupMemberMetadata (record type 5), versions 0 to 0.

Generated from broker/coordinator/schemas/consumer_group_member_metadata.txt by tools/kafka_codecs.py: do not edit.
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
    skip_tag,
    skip_tagged_fields,
    truncated,
    write_varint,
)

TYPE: Final = 5
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")


class ConsumerGroupMemberMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""
    member_id: str = ""


class ClassicProtocol(NamedTuple):
    """supported_protocols of ClassicMemberMetadata."""

    name: str = ""
    metadata: bytes = b""


class ClassicMemberMetadata(NamedTuple):
    """classic_member_metadata of ConsumerGroupMemberMetadataValue."""

    session_timeout_ms: int = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


class ConsumerGroupMemberMetadataValue(NamedTuple):
    """The value."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = ClassicMemberMetadata()


def _encode_key(key: ConsumerGroupMemberMetadataKey) -> bytearray:
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


def _decode_key(buffer: memoryview, position: int) -> tuple[ConsumerGroupMemberMetadataKey, int]:
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
    return ConsumerGroupMemberMetadataKey(group_id=key_group_id, member_id=key_member_id), position


def encode_key(key: ConsumerGroupMemberMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ConsumerGroupMemberMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ConsumerGroupMemberMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupMemberMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupMemberMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ConsumerGroupMemberMetadataValue) -> bytearray:
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
    value_e = value.subscribed_topic_names
    write_varint(out, len(value_e) + 1)
    for e in value_e:
        value_f = e
        text_f = value_f.encode()
        write_varint(out, len(text_f) + 1)
        out += text_f
    value_g = value.subscribed_topic_regex
    if value_g is None:
        out.append(0)
    else:
        text_g = value_g.encode()
        write_varint(out, len(text_g) + 1)
        out += text_g
    out += _i.pack(value.rebalance_timeout_ms)
    value_h = value.server_assignor
    if value_h is None:
        out.append(0)
    else:
        text_h = value_h.encode()
        write_varint(out, len(text_h) + 1)
        out += text_h
    tags_i: list[tuple[int, bytearray]] = []
    if value.classic_member_metadata != ClassicMemberMetadata():
        part_i = bytearray()
        value_j = value.classic_member_metadata
        if value_j is None:
            part_i.append(0)
        else:
            part_i.append(1)
            part_i += _i.pack(value_j.session_timeout_ms)
            value_k = value_j.supported_protocols
            write_varint(part_i, len(value_k) + 1)
            for k in value_k:
                value_l = k.name
                text_l = value_l.encode()
                write_varint(part_i, len(text_l) + 1)
                part_i += text_l
                value_m = k.metadata
                write_varint(part_i, len(value_m) + 1)
                part_i += value_m
                part_i.append(0)
            part_i.append(0)
        tags_i.append((0, part_i))
    write_varint(out, len(tags_i))
    for tag_i, content_i in tags_i:
        write_varint(out, tag_i)
        write_varint(out, len(content_i))
        out += content_i
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ConsumerGroupMemberMetadataValue, int]:
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
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("subscribed_topic_names")
    value_subscribed_topic_names: tuple[str, ...]
    if size * 1 > length - position:
        count_refused("subscribed_topic_names", size, length - position)
    found_a: list[str] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subscribed_topic_names")
        if size > length - position:
            truncated("subscribed_topic_names", size, length - position)
        element_b = str(buffer[position : position + size], "utf-8")
        position += size
        found_a.append(element_b)
    value_subscribed_topic_names = tuple(found_a)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        value_subscribed_topic_regex: str | None = None
    else:
        if size > length - position:
            truncated("subscribed_topic_regex", size, length - position)
        value_subscribed_topic_regex = str(buffer[position : position + size], "utf-8")
        position += size
    value_rebalance_timeout_ms, = _i.unpack_from(buffer, position)
    position += 4
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        value_server_assignor: str | None = None
    else:
        if size > length - position:
            truncated("server_assignor", size, length - position)
        value_server_assignor = str(buffer[position : position + size], "utf-8")
        position += size
    value_classic_member_metadata: ClassicMemberMetadata | None = ClassicMemberMetadata()
    tags_value, position = read_varint(buffer, position)
    for _ in range(tags_value):
        tag_value, position = read_varint(buffer, position)
        if tag_value == 0:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            position += 1
            if buffer[position - 1] != 1:
                value_classic_member_metadata = None
            else:
                c_session_timeout_ms, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("supported_protocols")
                c_supported_protocols: tuple[ClassicProtocol, ...]
                if size * 3 > length - position:
                    count_refused("supported_protocols", size, length - position)
                found_d: list[ClassicProtocol] = []
                for _ in range(size):
                    size, position = read_varint(buffer, position)
                    size -= 1
                    if size < 0:
                        null_refused("name")
                    if size > length - position:
                        truncated("name", size, length - position)
                    e_name = str(buffer[position : position + size], "utf-8")
                    position += size
                    size, position = read_varint(buffer, position)
                    size -= 1
                    if size < 0:
                        null_refused("metadata")
                    if size > length - position:
                        truncated("metadata", size, length - position)
                    e_metadata = bytes(buffer[position : position + size])
                    position += size
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    found_d.append(ClassicProtocol(name=e_name, metadata=e_metadata))
                c_supported_protocols = tuple(found_d)
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                value_classic_member_metadata = ClassicMemberMetadata(session_timeout_ms=c_session_timeout_ms, supported_protocols=c_supported_protocols)
            if position != end_value:
                raise MalformedMessage("classic_member_metadata does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return ConsumerGroupMemberMetadataValue(instance_id=value_instance_id, rack_id=value_rack_id, client_id=value_client_id, client_host=value_client_host, subscribed_topic_names=value_subscribed_topic_names, subscribed_topic_regex=value_subscribed_topic_regex, rebalance_timeout_ms=value_rebalance_timeout_ms, server_assignor=value_server_assignor, classic_member_metadata=value_classic_member_metadata), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ConsumerGroupMemberMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ConsumerGroupMemberMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ConsumerGroupMemberMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupMemberMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupMemberMetadataValue: {len(buffer) - end} bytes too many")
    return value
