"""ShareGroupMetadata (record type 11), versions 0 to 0.

Generated from broker/coordinator/schemas/share_group_metadata.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 11
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_iq: Final = Struct(">iq")


class ShareGroupMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""


class ShareGroupMetadataValue(NamedTuple):
    """The value."""

    epoch: int = 0
    metadata_hash: int = 0


def _encode_key(key: ShareGroupMetadataKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[ShareGroupMetadataKey, int]:
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
    return ShareGroupMetadataKey(group_id=key_group_id), position


def encode_key(key: ShareGroupMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ShareGroupMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ShareGroupMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ShareGroupMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ShareGroupMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ShareGroupMetadataValue) -> bytearray:
    out = bytearray()
    out += _iq.pack(value.epoch, value.metadata_hash)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ShareGroupMetadataValue, int]:
    length = len(buffer)
    value_epoch, value_metadata_hash = _iq.unpack_from(buffer, position)
    position += 12
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ShareGroupMetadataValue(epoch=value_epoch, metadata_hash=value_metadata_hash), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ShareGroupMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ShareGroupMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ShareGroupMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ShareGroupMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ShareGroupMetadataValue: {len(buffer) - end} bytes too many")
    return value
