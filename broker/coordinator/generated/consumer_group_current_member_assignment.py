"""ConsumerGroupCurrentMemberAssignment (record type 8), versions 0 to 0.

Generated from broker/coordinator/schemas/consumer_group_current_member_assignment.txt by tools/kafka_codecs.py: do not edit.
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
    skip_tagged_fields,
    truncated,
    write_varint,
)

TYPE: Final = 8
VERSIONS: Final = range(0, 1)

_U: Final = Struct(">16s")
_h: Final = Struct(">h")
_i: Final = Struct(">i")
_iib: Final = Struct(">iib")


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    """The key."""

    group_id: str = ""
    member_id: str = ""


class AssignedTopic(NamedTuple):
    """assigned_partitions of ConsumerGroupCurrentMemberAssignmentValue."""

    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


class ConsumerGroupCurrentMemberAssignmentValue(NamedTuple):
    """The value."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: tuple[AssignedTopic, ...] = ()
    partitions_pending_revocation: tuple[AssignedTopic, ...] = ()


def _encode_key(key: ConsumerGroupCurrentMemberAssignmentKey) -> bytearray:
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


def _decode_key(buffer: memoryview, position: int) -> tuple[ConsumerGroupCurrentMemberAssignmentKey, int]:
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
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=key_group_id, member_id=key_member_id), position


def encode_key(key: ConsumerGroupCurrentMemberAssignmentKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ConsumerGroupCurrentMemberAssignmentKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ConsumerGroupCurrentMemberAssignmentKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupCurrentMemberAssignmentKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupCurrentMemberAssignmentKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ConsumerGroupCurrentMemberAssignmentValue) -> bytearray:
    out = bytearray()
    out += _iib.pack(value.member_epoch, value.previous_member_epoch, value.state)
    value_a = value.assigned_partitions
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partitions
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _i.pack(b)
        out.append(0)
    value_c = value.partitions_pending_revocation
    write_varint(out, len(value_c) + 1)
    for c in value_c:
        out += _U.pack(c.topic_id)
        value_d = c.partitions
        write_varint(out, len(value_d) + 1)
        for d in value_d:
            out += _i.pack(d)
        out.append(0)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ConsumerGroupCurrentMemberAssignmentValue, int]:
    length = len(buffer)
    value_member_epoch, value_previous_member_epoch, value_state = _iib.unpack_from(buffer, position)
    position += 9
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("assigned_partitions")
    value_assigned_partitions: tuple[AssignedTopic, ...]
    if size * 18 > length - position:
        count_refused("assigned_partitions", size, length - position)
    found_a: list[AssignedTopic] = []
    for _ in range(size):
        b_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        b_partitions: tuple[int, ...]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        found_c: list[int] = []
        for _ in range(size):
            element_d, = _i.unpack_from(buffer, position)
            position += 4
            found_c.append(element_d)
        b_partitions = tuple(found_c)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_a.append(AssignedTopic(topic_id=b_topic_id, partitions=b_partitions))
    value_assigned_partitions = tuple(found_a)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("partitions_pending_revocation")
    value_partitions_pending_revocation: tuple[AssignedTopic, ...]
    if size * 18 > length - position:
        count_refused("partitions_pending_revocation", size, length - position)
    found_e: list[AssignedTopic] = []
    for _ in range(size):
        f_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        f_partitions: tuple[int, ...]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        found_g: list[int] = []
        for _ in range(size):
            element_h, = _i.unpack_from(buffer, position)
            position += 4
            found_g.append(element_h)
        f_partitions = tuple(found_g)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_e.append(AssignedTopic(topic_id=f_topic_id, partitions=f_partitions))
    value_partitions_pending_revocation = tuple(found_e)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ConsumerGroupCurrentMemberAssignmentValue(member_epoch=value_member_epoch, previous_member_epoch=value_previous_member_epoch, state=value_state, assigned_partitions=value_assigned_partitions, partitions_pending_revocation=value_partitions_pending_revocation), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ConsumerGroupCurrentMemberAssignmentValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ConsumerGroupCurrentMemberAssignmentValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ConsumerGroupCurrentMemberAssignmentValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupCurrentMemberAssignmentValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupCurrentMemberAssignmentValue: {len(buffer) - end} bytes too many")
    return value
