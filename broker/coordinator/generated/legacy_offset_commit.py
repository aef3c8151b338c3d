"""LegacyOffsetCommit (record type 0), versions 0 to 0.

Generated from broker/coordinator/schemas/legacy_offset_commit.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    MalformedMessage,
    null_refused,
    truncated,
)

TYPE: Final = 0
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")
_q: Final = Struct(">q")


class LegacyOffsetCommitKey(NamedTuple):
    """The key."""

    group: str = ""
    topic: str = ""
    partition: int = 0


class LegacyOffsetCommitValue(NamedTuple):
    """The value."""

    offset: int = 0
    metadata: str = ""
    commit_timestamp: int = 0


def _encode_key(key: LegacyOffsetCommitKey) -> bytearray:
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


def _decode_key(buffer: memoryview, position: int) -> tuple[LegacyOffsetCommitKey, int]:
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
    return LegacyOffsetCommitKey(group=key_group, topic=key_topic, partition=key_partition), position


def encode_key(key: LegacyOffsetCommitKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> LegacyOffsetCommitKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"LegacyOffsetCommitKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"LegacyOffsetCommitKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"LegacyOffsetCommitKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: LegacyOffsetCommitValue) -> bytearray:
    out = bytearray()
    out += _q.pack(value.offset)
    value_a = value.metadata
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _q.pack(value.commit_timestamp)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[LegacyOffsetCommitValue, int]:
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
    return LegacyOffsetCommitValue(offset=value_offset, metadata=value_metadata, commit_timestamp=value_commit_timestamp), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: LegacyOffsetCommitValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> LegacyOffsetCommitValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"LegacyOffsetCommitValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"LegacyOffsetCommitValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"LegacyOffsetCommitValue: {len(buffer) - end} bytes too many")
    return value
