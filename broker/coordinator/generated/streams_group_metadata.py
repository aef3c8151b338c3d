"""StreamsGroupMetadata (record type 17), versions 0 to 0.

Generated from broker/coordinator/schemas/streams_group_metadata.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 17
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")
_iq: Final = Struct(">iq")


class StreamsGroupMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""


class KeyValue(NamedTuple):
    """last_assignment_configs of StreamsGroupMetadataValue."""

    key: str = ""
    value: str = ""


class StreamsGroupMetadataValue(NamedTuple):
    """The value."""

    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    last_assignment_configs: tuple[KeyValue, ...] | None = ()


def _encode_key(key: StreamsGroupMetadataKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[StreamsGroupMetadataKey, int]:
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
    return StreamsGroupMetadataKey(group_id=key_group_id), position


def encode_key(key: StreamsGroupMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> StreamsGroupMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"StreamsGroupMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: StreamsGroupMetadataValue) -> bytearray:
    out = bytearray()
    out += _iq.pack(value.epoch, value.metadata_hash)
    tags_a: list[tuple[int, bytearray]] = []
    if value.validated_topology_epoch != -1:
        part_a = bytearray()
        part_a += _i.pack(value.validated_topology_epoch)
        tags_a.append((0, part_a))
    if value.last_assignment_configs != ():
        part_a = bytearray()
        value_b = value.last_assignment_configs
        if value_b is None:
            part_a.append(0)
        else:
            write_varint(part_a, len(value_b) + 1)
            for b in value_b:
                value_c = b.key
                text_c = value_c.encode()
                write_varint(part_a, len(text_c) + 1)
                part_a += text_c
                value_d = b.value
                text_d = value_d.encode()
                write_varint(part_a, len(text_d) + 1)
                part_a += text_d
                part_a.append(0)
        tags_a.append((1, part_a))
    write_varint(out, len(tags_a))
    for tag_a, content_a in tags_a:
        write_varint(out, tag_a)
        write_varint(out, len(content_a))
        out += content_a
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[StreamsGroupMetadataValue, int]:
    length = len(buffer)
    value_epoch, value_metadata_hash = _iq.unpack_from(buffer, position)
    position += 12
    value_validated_topology_epoch: int = -1
    value_last_assignment_configs: tuple[KeyValue, ...] | None = ()
    tags_value, position = read_varint(buffer, position)
    for _ in range(tags_value):
        tag_value, position = read_varint(buffer, position)
        if tag_value == 0:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_validated_topology_epoch, = _i.unpack_from(buffer, position)
            position += 4
            if position != end_value:
                raise MalformedMessage("validated_topology_epoch does not fill its tagged field")
        elif tag_value == 1:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            pass
            if size < 0:
                value_last_assignment_configs = None
            else:
                if size * 3 > length - position:
                    count_refused("last_assignment_configs", size, length - position)
                found_a: list[KeyValue] = []
                for _ in range(size):
                    size, position = read_varint(buffer, position)
                    size -= 1
                    if size < 0:
                        null_refused("key")
                    if size > length - position:
                        truncated("key", size, length - position)
                    b_key = str(buffer[position : position + size], "utf-8")
                    position += size
                    size, position = read_varint(buffer, position)
                    size -= 1
                    if size < 0:
                        null_refused("value")
                    if size > length - position:
                        truncated("value", size, length - position)
                    b_value = str(buffer[position : position + size], "utf-8")
                    position += size
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    found_a.append(KeyValue(key=b_key, value=b_value))
                value_last_assignment_configs = tuple(found_a)
            if position != end_value:
                raise MalformedMessage("last_assignment_configs does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return StreamsGroupMetadataValue(epoch=value_epoch, metadata_hash=value_metadata_hash, validated_topology_epoch=value_validated_topology_epoch, last_assignment_configs=value_last_assignment_configs), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: StreamsGroupMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> StreamsGroupMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"StreamsGroupMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupMetadataValue: {len(buffer) - end} bytes too many")
    return value
