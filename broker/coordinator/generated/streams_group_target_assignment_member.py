"""StreamsGroupTargetAssignmentMember (record type 21), versions 0 to 0.

Generated from broker/coordinator/schemas/streams_group_target_assignment_member.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 21
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")


class StreamsGroupTargetAssignmentMemberKey(NamedTuple):
    """The key."""

    group_id: str = ""
    member_id: str = ""


class TaskIds(NamedTuple):
    """active_tasks of StreamsGroupTargetAssignmentMemberValue."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()


class StreamsGroupTargetAssignmentMemberValue(NamedTuple):
    """The value."""

    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


def _encode_key(key: StreamsGroupTargetAssignmentMemberKey) -> bytearray:
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


def _decode_key(buffer: memoryview, position: int) -> tuple[StreamsGroupTargetAssignmentMemberKey, int]:
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
    return StreamsGroupTargetAssignmentMemberKey(group_id=key_group_id, member_id=key_member_id), position


def encode_key(key: StreamsGroupTargetAssignmentMemberKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> StreamsGroupTargetAssignmentMemberKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"StreamsGroupTargetAssignmentMemberKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupTargetAssignmentMemberKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupTargetAssignmentMemberKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: StreamsGroupTargetAssignmentMemberValue) -> bytearray:
    out = bytearray()
    value_a = value.active_tasks
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.subtopology_id
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _i.pack(c)
        out.append(0)
    value_d = value.standby_tasks
    write_varint(out, len(value_d) + 1)
    for d in value_d:
        value_e = d.subtopology_id
        text_e = value_e.encode()
        write_varint(out, len(text_e) + 1)
        out += text_e
        value_f = d.partitions
        write_varint(out, len(value_f) + 1)
        for f in value_f:
            out += _i.pack(f)
        out.append(0)
    value_g = value.warmup_tasks
    write_varint(out, len(value_g) + 1)
    for g in value_g:
        value_h = g.subtopology_id
        text_h = value_h.encode()
        write_varint(out, len(text_h) + 1)
        out += text_h
        value_i = g.partitions
        write_varint(out, len(value_i) + 1)
        for i in value_i:
            out += _i.pack(i)
        out.append(0)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[StreamsGroupTargetAssignmentMemberValue, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("active_tasks")
    value_active_tasks: tuple[TaskIds, ...]
    if size * 3 > length - position:
        count_refused("active_tasks", size, length - position)
    found_a: list[TaskIds] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        b_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
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
        found_a.append(TaskIds(subtopology_id=b_subtopology_id, partitions=b_partitions))
    value_active_tasks = tuple(found_a)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("standby_tasks")
    value_standby_tasks: tuple[TaskIds, ...]
    if size * 3 > length - position:
        count_refused("standby_tasks", size, length - position)
    found_e: list[TaskIds] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        f_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
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
        found_e.append(TaskIds(subtopology_id=f_subtopology_id, partitions=f_partitions))
    value_standby_tasks = tuple(found_e)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("warmup_tasks")
    value_warmup_tasks: tuple[TaskIds, ...]
    if size * 3 > length - position:
        count_refused("warmup_tasks", size, length - position)
    found_i: list[TaskIds] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        j_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        j_partitions: tuple[int, ...]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        found_k: list[int] = []
        for _ in range(size):
            element_l, = _i.unpack_from(buffer, position)
            position += 4
            found_k.append(element_l)
        j_partitions = tuple(found_k)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_i.append(TaskIds(subtopology_id=j_subtopology_id, partitions=j_partitions))
    value_warmup_tasks = tuple(found_i)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return StreamsGroupTargetAssignmentMemberValue(active_tasks=value_active_tasks, standby_tasks=value_standby_tasks, warmup_tasks=value_warmup_tasks), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: StreamsGroupTargetAssignmentMemberValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> StreamsGroupTargetAssignmentMemberValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"StreamsGroupTargetAssignmentMemberValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupTargetAssignmentMemberValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupTargetAssignmentMemberValue: {len(buffer) - end} bytes too many")
    return value
