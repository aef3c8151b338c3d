"""ConsumerGroupTargetAssignmentMetadata (record type 6), versions 0 to 0.

Generated from broker/coordinator/schemas/consumer_group_target_assignment_metadata.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    MalformedMessage,
    null_refused,
    skip_tagged_fields,
    truncated,
)

TYPE: Final = 6
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""


class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    """The value."""

    assignment_epoch: int = 0


def _encode_key(key: ConsumerGroupTargetAssignmentMetadataKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[ConsumerGroupTargetAssignmentMetadataKey, int]:
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
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=key_group_id), position


def encode_key(key: ConsumerGroupTargetAssignmentMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ConsumerGroupTargetAssignmentMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ConsumerGroupTargetAssignmentMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupTargetAssignmentMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupTargetAssignmentMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ConsumerGroupTargetAssignmentMetadataValue) -> bytearray:
    out = bytearray()
    out += _i.pack(value.assignment_epoch)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ConsumerGroupTargetAssignmentMetadataValue, int]:
    length = len(buffer)
    value_assignment_epoch, = _i.unpack_from(buffer, position)
    position += 4
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=value_assignment_epoch), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ConsumerGroupTargetAssignmentMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ConsumerGroupTargetAssignmentMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ConsumerGroupTargetAssignmentMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupTargetAssignmentMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupTargetAssignmentMetadataValue: {len(buffer) - end} bytes too many")
    return value
