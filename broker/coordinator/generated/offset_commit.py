"""OffsetCommit (record type 1), versions 0 to 4.

Generated from broker/coordinator/schemas/offset_commit.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    ZERO_UUID,
    MalformedMessage,
    null_refused,
    read_varint,
    skip_tag,
    truncated,
    write_varint,
)

TYPE: Final = 1
VERSIONS: Final = range(0, 5)

_U: Final = Struct(">16s")
_h: Final = Struct(">h")
_i: Final = Struct(">i")
_q: Final = Struct(">q")
_qi: Final = Struct(">qi")
_qq: Final = Struct(">qq")


class OffsetCommitKey(NamedTuple):
    """The key."""

    group: str = ""
    topic: str = ""
    partition: int = 0


class OffsetCommitValue(NamedTuple):
    """The value."""

    offset: int = 0
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int = -1
    topic_id: bytes = ZERO_UUID


def _encode_key(key: OffsetCommitKey) -> bytearray:
    out = bytearray()
    value_a = key.group
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    value_b = key.topic
    text_b = value_b.encode()
    out += _h.pack(len(text_b))
    out += text_b
    out += _i.pack(key.partition)
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[OffsetCommitKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("group")
    if size > length - position:
        truncated("group", size, length - position)
    key_group = str(buffer[position : position + size], "utf-8")
    position += size
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("topic")
    if size > length - position:
        truncated("topic", size, length - position)
    key_topic = str(buffer[position : position + size], "utf-8")
    position += size
    key_partition, = _i.unpack_from(buffer, position)
    position += 4
    assert position <= length
    return OffsetCommitKey(group=key_group, topic=key_topic, partition=key_partition), position


def encode_key(key: OffsetCommitKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> OffsetCommitKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"OffsetCommitKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"OffsetCommitKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"OffsetCommitKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: OffsetCommitValue) -> bytearray:
    out = bytearray()
    out += _q.pack(value.offset)
    value_a = value.metadata
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _q.pack(value.commit_timestamp)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[OffsetCommitValue, int]:
    length = len(buffer)
    value_offset, = _q.unpack_from(buffer, position)
    position += 8
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("metadata")
    if size > length - position:
        truncated("metadata", size, length - position)
    value_metadata = str(buffer[position : position + size], "utf-8")
    position += size
    value_commit_timestamp, = _q.unpack_from(buffer, position)
    position += 8
    assert position <= length
    return OffsetCommitValue(offset=value_offset, metadata=value_metadata, commit_timestamp=value_commit_timestamp), position


def _encode_value_v1(value: OffsetCommitValue) -> bytearray:
    out = bytearray()
    out += _q.pack(value.offset)
    value_a = value.metadata
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _qq.pack(value.commit_timestamp, value.expire_timestamp)
    return out


def _decode_value_v1(buffer: memoryview, position: int) -> tuple[OffsetCommitValue, int]:
    length = len(buffer)
    value_offset, = _q.unpack_from(buffer, position)
    position += 8
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("metadata")
    if size > length - position:
        truncated("metadata", size, length - position)
    value_metadata = str(buffer[position : position + size], "utf-8")
    position += size
    value_commit_timestamp, value_expire_timestamp = _qq.unpack_from(buffer, position)
    position += 16
    assert position <= length
    return OffsetCommitValue(offset=value_offset, metadata=value_metadata, commit_timestamp=value_commit_timestamp, expire_timestamp=value_expire_timestamp), position


def _encode_value_v3(value: OffsetCommitValue) -> bytearray:
    out = bytearray()
    out += _qi.pack(value.offset, value.leader_epoch)
    value_a = value.metadata
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _q.pack(value.commit_timestamp)
    return out


def _decode_value_v3(buffer: memoryview, position: int) -> tuple[OffsetCommitValue, int]:
    length = len(buffer)
    value_offset, value_leader_epoch = _qi.unpack_from(buffer, position)
    position += 12
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("metadata")
    if size > length - position:
        truncated("metadata", size, length - position)
    value_metadata = str(buffer[position : position + size], "utf-8")
    position += size
    value_commit_timestamp, = _q.unpack_from(buffer, position)
    position += 8
    assert position <= length
    return OffsetCommitValue(offset=value_offset, leader_epoch=value_leader_epoch, metadata=value_metadata, commit_timestamp=value_commit_timestamp), position


def _encode_value_v4(value: OffsetCommitValue) -> bytearray:
    out = bytearray()
    out += _qi.pack(value.offset, value.leader_epoch)
    value_a = value.metadata
    text_a = value_a.encode()
    write_varint(out, len(text_a) + 1)
    out += text_a
    out += _q.pack(value.commit_timestamp)
    tags_b: list[tuple[int, bytearray]] = []
    if value.topic_id != ZERO_UUID:
        part_b = bytearray()
        part_b += _U.pack(value.topic_id)
        tags_b.append((0, part_b))
    write_varint(out, len(tags_b))
    for tag_b, content_b in tags_b:
        write_varint(out, tag_b)
        write_varint(out, len(content_b))
        out += content_b
    return out


def _decode_value_v4(buffer: memoryview, position: int) -> tuple[OffsetCommitValue, int]:
    length = len(buffer)
    value_offset, value_leader_epoch = _qi.unpack_from(buffer, position)
    position += 12
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("metadata")
    if size > length - position:
        truncated("metadata", size, length - position)
    value_metadata = str(buffer[position : position + size], "utf-8")
    position += size
    value_commit_timestamp, = _q.unpack_from(buffer, position)
    position += 8
    value_topic_id: bytes = ZERO_UUID
    tags_value, position = read_varint(buffer, position)
    for _ in range(tags_value):
        tag_value, position = read_varint(buffer, position)
        if tag_value == 0:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_topic_id, = _U.unpack_from(buffer, position)
            position += 16
            if position != end_value:
                raise MalformedMessage("topic_id does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return OffsetCommitValue(offset=value_offset, leader_epoch=value_leader_epoch, metadata=value_metadata, commit_timestamp=value_commit_timestamp, topic_id=value_topic_id), position


_ENCODE: Final = {0: _encode_value_v0, 1: _encode_value_v1, 2: _encode_value_v0, 3: _encode_value_v3, 4: _encode_value_v4}
_DECODE: Final = {0: _decode_value_v0, 1: _decode_value_v1, 2: _decode_value_v0, 3: _decode_value_v3, 4: _decode_value_v4}


def encode_value(value: OffsetCommitValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> OffsetCommitValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"OffsetCommitValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"OffsetCommitValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"OffsetCommitValue: {len(buffer) - end} bytes too many")
    return value
