"""ShareGroupMemberMetadata (record type 10), versions 0 to 0.

Generated from broker/coordinator/schemas/share_group_member_metadata.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 10
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")


class ShareGroupMemberMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""
    member_id: str = ""


class ShareGroupMemberMetadataValue(NamedTuple):
    """The value."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()


def _encode_key(key: ShareGroupMemberMetadataKey) -> bytearray:
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


def _decode_key(buffer: memoryview, position: int) -> tuple[ShareGroupMemberMetadataKey, int]:
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
    return ShareGroupMemberMetadataKey(group_id=key_group_id, member_id=key_member_id), position


def encode_key(key: ShareGroupMemberMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ShareGroupMemberMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ShareGroupMemberMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ShareGroupMemberMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ShareGroupMemberMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ShareGroupMemberMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.rack_id
    if value_a is None:
        out.append(0)
    else:
        text_a = value_a.encode()
        write_varint(out, len(text_a) + 1)
        out += text_a
    value_b = value.client_id
    text_b = value_b.encode()
    write_varint(out, len(text_b) + 1)
    out += text_b
    value_c = value.client_host
    text_c = value_c.encode()
    write_varint(out, len(text_c) + 1)
    out += text_c
    value_d = value.subscribed_topic_names
    write_varint(out, len(value_d) + 1)
    for d in value_d:
        value_e = d
        text_e = value_e.encode()
        write_varint(out, len(text_e) + 1)
        out += text_e
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ShareGroupMemberMetadataValue, int]:
    length = len(buffer)
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
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ShareGroupMemberMetadataValue(rack_id=value_rack_id, client_id=value_client_id, client_host=value_client_host, subscribed_topic_names=value_subscribed_topic_names), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ShareGroupMemberMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ShareGroupMemberMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ShareGroupMemberMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ShareGroupMemberMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ShareGroupMemberMetadataValue: {len(buffer) - end} bytes too many")
    return value
