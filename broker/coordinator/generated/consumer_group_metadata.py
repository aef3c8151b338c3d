"""ConsumerGroupMetadata (record type 3), versions 0 to 0.

Generated from broker/coordinator/schemas/consumer_group_metadata.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    MalformedMessage,
    null_refused,
    read_varint,
    skip_tag,
    truncated,
    write_varint,
)

TYPE: Final = 3
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")
_q: Final = Struct(">q")


class ConsumerGroupMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""


class ConsumerGroupMetadataValue(NamedTuple):
    """The value."""

    epoch: int = 0
    metadata_hash: int = 0


def _encode_key(key: ConsumerGroupMetadataKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[ConsumerGroupMetadataKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("group_id")
    if size > length - position:
        truncated("group_id", size, length - position)
    key_group_id = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return ConsumerGroupMetadataKey(group_id=key_group_id), position


def encode_key(key: ConsumerGroupMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ConsumerGroupMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ConsumerGroupMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ConsumerGroupMetadataValue) -> bytearray:
    out = bytearray()
    out += _i.pack(value.epoch)
    tags_a: list[tuple[int, bytearray]] = []
    if value.metadata_hash != 0:
        part_a = bytearray()
        part_a += _q.pack(value.metadata_hash)
        tags_a.append((0, part_a))
    write_varint(out, len(tags_a))
    for tag_a, content_a in tags_a:
        write_varint(out, tag_a)
        write_varint(out, len(content_a))
        out += content_a
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ConsumerGroupMetadataValue, int]:
    length = len(buffer)
    value_epoch, = _i.unpack_from(buffer, position)
    position += 4
    value_metadata_hash: int = 0
    tags_value, position = read_varint(buffer, position)
    for _ in range(tags_value):
        tag_value, position = read_varint(buffer, position)
        if tag_value == 0:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_metadata_hash, = _q.unpack_from(buffer, position)
            position += 8
            if position != end_value:
                raise MalformedMessage("metadata_hash does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return ConsumerGroupMetadataValue(epoch=value_epoch, metadata_hash=value_metadata_hash), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ConsumerGroupMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ConsumerGroupMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ConsumerGroupMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupMetadataValue: {len(buffer) - end} bytes too many")
    return value
