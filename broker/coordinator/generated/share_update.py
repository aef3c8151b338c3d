"""ShareUpdate (record type 1), versions 0 to 0.

Generated from broker/coordinator/schemas/share_update.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    ZERO_UUID,
    MalformedMessage,
    count_refused,
    null_refused,
    read_varint,
    skip_tag,
    skip_tagged_fields,
    truncated,
    write_varint,
)

TYPE: Final = 1
VERSIONS: Final = range(0, 1)

_Ui: Final = Struct(">16si")
_h: Final = Struct(">h")
_i: Final = Struct(">i")
_iiq: Final = Struct(">iiq")
_qqbh: Final = Struct(">qqbh")


class ShareUpdateKey(NamedTuple):
    """The key."""

    group_id: str = ""
    topic_id: bytes = ZERO_UUID
    partition: int = 0


class StateBatch(NamedTuple):
    """state_batches of ShareUpdateValue."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


class ShareUpdateValue(NamedTuple):
    """The value."""

    snapshot_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    state_batches: tuple[StateBatch, ...] = ()
    delivery_complete_count: int = -1


def _encode_key(key: ShareUpdateKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _Ui.pack(key.topic_id, key.partition)
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[ShareUpdateKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("group_id")
    if size > length - position:
        truncated("group_id", size, length - position)
    key_group_id = str(buffer[position : position + size], "utf-8")
    position += size
    key_topic_id, key_partition = _Ui.unpack_from(buffer, position)
    position += 20
    assert position <= length
    return ShareUpdateKey(group_id=key_group_id, topic_id=key_topic_id, partition=key_partition), position


def encode_key(key: ShareUpdateKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ShareUpdateKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ShareUpdateKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ShareUpdateKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ShareUpdateKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ShareUpdateValue) -> bytearray:
    out = bytearray()
    out += _iiq.pack(value.snapshot_epoch, value.leader_epoch, value.start_offset)
    value_a = value.state_batches
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _qqbh.pack(a.first_offset, a.last_offset, a.delivery_state, a.delivery_count)
        out.append(0)
    tags_b: list[tuple[int, bytearray]] = []
    if value.delivery_complete_count != -1:
        part_b = bytearray()
        part_b += _i.pack(value.delivery_complete_count)
        tags_b.append((0, part_b))
    write_varint(out, len(tags_b))
    for tag_b, content_b in tags_b:
        write_varint(out, tag_b)
        write_varint(out, len(content_b))
        out += content_b
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ShareUpdateValue, int]:
    length = len(buffer)
    value_snapshot_epoch, value_leader_epoch, value_start_offset = _iiq.unpack_from(buffer, position)
    position += 16
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("state_batches")
    value_state_batches: tuple[StateBatch, ...]
    if size * 20 > length - position:
        count_refused("state_batches", size, length - position)
    found_a: list[StateBatch] = []
    for _ in range(size):
        b_first_offset, b_last_offset, b_delivery_state, b_delivery_count = _qqbh.unpack_from(buffer, position)
        position += 19
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_a.append(StateBatch(first_offset=b_first_offset, last_offset=b_last_offset, delivery_state=b_delivery_state, delivery_count=b_delivery_count))
    value_state_batches = tuple(found_a)
    value_delivery_complete_count: int = -1
    tags_value, position = read_varint(buffer, position)
    for _ in range(tags_value):
        tag_value, position = read_varint(buffer, position)
        if tag_value == 0:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_delivery_complete_count, = _i.unpack_from(buffer, position)
            position += 4
            if position != end_value:
                raise MalformedMessage("delivery_complete_count does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return ShareUpdateValue(snapshot_epoch=value_snapshot_epoch, leader_epoch=value_leader_epoch, start_offset=value_start_offset, state_batches=value_state_batches, delivery_complete_count=value_delivery_complete_count), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ShareUpdateValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ShareUpdateValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ShareUpdateValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ShareUpdateValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ShareUpdateValue: {len(buffer) - end} bytes too many")
    return value
