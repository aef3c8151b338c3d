"""GroupMetadata (record type 2), versions 0 to 4.

Generated from broker/coordinator/schemas/group_metadata.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 2
VERSIONS: Final = range(0, 5)

_h: Final = Struct(">h")
_i: Final = Struct(">i")
_ii: Final = Struct(">ii")
_q: Final = Struct(">q")


class GroupMetadataKey(NamedTuple):
    """The key."""

    group: str = ""


class ClassicMember(NamedTuple):
    """members of GroupMetadataValue."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(NamedTuple):
    """The value."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: tuple[ClassicMember, ...] = ()


def _encode_key(key: GroupMetadataKey) -> bytearray:
    out = bytearray()
    value_a = key.group
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[GroupMetadataKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("group")
    if size > length - position:
        truncated("group", size, length - position)
    key_group = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return GroupMetadataKey(group=key_group), position


def encode_key(key: GroupMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> GroupMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"GroupMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"GroupMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"GroupMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: GroupMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.protocol_type
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _i.pack(value.generation)
    value_b = value.protocol
    if value_b is None:
        out += _h.pack(-1)
    else:
        text_b = value_b.encode()
        out += _h.pack(len(text_b))
        out += text_b
    value_c = value.leader
    if value_c is None:
        out += _h.pack(-1)
    else:
        text_c = value_c.encode()
        out += _h.pack(len(text_c))
        out += text_c
    value_d = value.members
    out += _i.pack(len(value_d))
    for d in value_d:
        value_e = d.member_id
        text_e = value_e.encode()
        out += _h.pack(len(text_e))
        out += text_e
        value_f = d.client_id
        text_f = value_f.encode()
        out += _h.pack(len(text_f))
        out += text_f
        value_g = d.client_host
        text_g = value_g.encode()
        out += _h.pack(len(text_g))
        out += text_g
        out += _i.pack(d.session_timeout)
        value_h = d.subscription
        out += _i.pack(len(value_h))
        out += value_h
        value_i = d.assignment
        out += _i.pack(len(value_i))
        out += value_i
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[GroupMetadataValue, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("protocol_type")
    if size > length - position:
        truncated("protocol_type", size, length - position)
    value_protocol_type = str(buffer[position : position + size], "utf-8")
    position += size
    value_generation, = _i.unpack_from(buffer, position)
    position += 4
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        value_protocol: str | None = None
    else:
        if size > length - position:
            truncated("protocol", size, length - position)
        value_protocol = str(buffer[position : position + size], "utf-8")
        position += size
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        value_leader: str | None = None
    else:
        if size > length - position:
            truncated("leader", size, length - position)
        value_leader = str(buffer[position : position + size], "utf-8")
        position += size
    size, = _i.unpack_from(buffer, position)
    position += 4
    if size < 0:
        null_refused("members")
    value_members: tuple[ClassicMember, ...]
    if size * 18 > length - position:
        count_refused("members", size, length - position)
    found_a: list[ClassicMember] = []
    for _ in range(size):
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("member_id")
        if size > length - position:
            truncated("member_id", size, length - position)
        b_member_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("client_id")
        if size > length - position:
            truncated("client_id", size, length - position)
        b_client_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("client_host")
        if size > length - position:
            truncated("client_host", size, length - position)
        b_client_host = str(buffer[position : position + size], "utf-8")
        position += size
        b_session_timeout, = _i.unpack_from(buffer, position)
        position += 4
        size, = _i.unpack_from(buffer, position)
        position += 4
        if size < 0:
            null_refused("subscription")
        if size > length - position:
            truncated("subscription", size, length - position)
        b_subscription = bytes(buffer[position : position + size])
        position += size
        size, = _i.unpack_from(buffer, position)
        position += 4
        if size < 0:
            null_refused("assignment")
        if size > length - position:
            truncated("assignment", size, length - position)
        b_assignment = bytes(buffer[position : position + size])
        position += size
        found_a.append(ClassicMember(member_id=b_member_id, client_id=b_client_id, client_host=b_client_host, session_timeout=b_session_timeout, subscription=b_subscription, assignment=b_assignment))
    value_members = tuple(found_a)
    assert position <= length
    return GroupMetadataValue(protocol_type=value_protocol_type, generation=value_generation, protocol=value_protocol, leader=value_leader, members=value_members), position


def _encode_value_v1(value: GroupMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.protocol_type
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _i.pack(value.generation)
    value_b = value.protocol
    if value_b is None:
        out += _h.pack(-1)
    else:
        text_b = value_b.encode()
        out += _h.pack(len(text_b))
        out += text_b
    value_c = value.leader
    if value_c is None:
        out += _h.pack(-1)
    else:
        text_c = value_c.encode()
        out += _h.pack(len(text_c))
        out += text_c
    value_d = value.members
    out += _i.pack(len(value_d))
    for d in value_d:
        value_e = d.member_id
        text_e = value_e.encode()
        out += _h.pack(len(text_e))
        out += text_e
        value_f = d.client_id
        text_f = value_f.encode()
        out += _h.pack(len(text_f))
        out += text_f
        value_g = d.client_host
        text_g = value_g.encode()
        out += _h.pack(len(text_g))
        out += text_g
        out += _ii.pack(d.rebalance_timeout, d.session_timeout)
        value_h = d.subscription
        out += _i.pack(len(value_h))
        out += value_h
        value_i = d.assignment
        out += _i.pack(len(value_i))
        out += value_i
    return out


def _decode_value_v1(buffer: memoryview, position: int) -> tuple[GroupMetadataValue, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("protocol_type")
    if size > length - position:
        truncated("protocol_type", size, length - position)
    value_protocol_type = str(buffer[position : position + size], "utf-8")
    position += size
    value_generation, = _i.unpack_from(buffer, position)
    position += 4
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        value_protocol: str | None = None
    else:
        if size > length - position:
            truncated("protocol", size, length - position)
        value_protocol = str(buffer[position : position + size], "utf-8")
        position += size
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        value_leader: str | None = None
    else:
        if size > length - position:
            truncated("leader", size, length - position)
        value_leader = str(buffer[position : position + size], "utf-8")
        position += size
    size, = _i.unpack_from(buffer, position)
    position += 4
    if size < 0:
        null_refused("members")
    value_members: tuple[ClassicMember, ...]
    if size * 22 > length - position:
        count_refused("members", size, length - position)
    found_a: list[ClassicMember] = []
    for _ in range(size):
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("member_id")
        if size > length - position:
            truncated("member_id", size, length - position)
        b_member_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("client_id")
        if size > length - position:
            truncated("client_id", size, length - position)
        b_client_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("client_host")
        if size > length - position:
            truncated("client_host", size, length - position)
        b_client_host = str(buffer[position : position + size], "utf-8")
        position += size
        b_rebalance_timeout, b_session_timeout = _ii.unpack_from(buffer, position)
        position += 8
        size, = _i.unpack_from(buffer, position)
        position += 4
        if size < 0:
            null_refused("subscription")
        if size > length - position:
            truncated("subscription", size, length - position)
        b_subscription = bytes(buffer[position : position + size])
        position += size
        size, = _i.unpack_from(buffer, position)
        position += 4
        if size < 0:
            null_refused("assignment")
        if size > length - position:
            truncated("assignment", size, length - position)
        b_assignment = bytes(buffer[position : position + size])
        position += size
        found_a.append(ClassicMember(member_id=b_member_id, client_id=b_client_id, client_host=b_client_host, rebalance_timeout=b_rebalance_timeout, session_timeout=b_session_timeout, subscription=b_subscription, assignment=b_assignment))
    value_members = tuple(found_a)
    assert position <= length
    return GroupMetadataValue(protocol_type=value_protocol_type, generation=value_generation, protocol=value_protocol, leader=value_leader, members=value_members), position


def _encode_value_v2(value: GroupMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.protocol_type
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _i.pack(value.generation)
    value_b = value.protocol
    if value_b is None:
        out += _h.pack(-1)
    else:
        text_b = value_b.encode()
        out += _h.pack(len(text_b))
        out += text_b
    value_c = value.leader
    if value_c is None:
        out += _h.pack(-1)
    else:
        text_c = value_c.encode()
        out += _h.pack(len(text_c))
        out += text_c
    out += _q.pack(value.current_state_timestamp)
    value_d = value.members
    out += _i.pack(len(value_d))
    for d in value_d:
        value_e = d.member_id
        text_e = value_e.encode()
        out += _h.pack(len(text_e))
        out += text_e
        value_f = d.client_id
        text_f = value_f.encode()
        out += _h.pack(len(text_f))
        out += text_f
        value_g = d.client_host
        text_g = value_g.encode()
        out += _h.pack(len(text_g))
        out += text_g
        out += _ii.pack(d.rebalance_timeout, d.session_timeout)
        value_h = d.subscription
        out += _i.pack(len(value_h))
        out += value_h
        value_i = d.assignment
        out += _i.pack(len(value_i))
        out += value_i
    return out


def _decode_value_v2(buffer: memoryview, position: int) -> tuple[GroupMetadataValue, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("protocol_type")
    if size > length - position:
        truncated("protocol_type", size, length - position)
    value_protocol_type = str(buffer[position : position + size], "utf-8")
    position += size
    value_generation, = _i.unpack_from(buffer, position)
    position += 4
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        value_protocol: str | None = None
    else:
        if size > length - position:
            truncated("protocol", size, length - position)
        value_protocol = str(buffer[position : position + size], "utf-8")
        position += size
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        value_leader: str | None = None
    else:
        if size > length - position:
            truncated("leader", size, length - position)
        value_leader = str(buffer[position : position + size], "utf-8")
        position += size
    value_current_state_timestamp, = _q.unpack_from(buffer, position)
    position += 8
    size, = _i.unpack_from(buffer, position)
    position += 4
    if size < 0:
        null_refused("members")
    value_members: tuple[ClassicMember, ...]
    if size * 22 > length - position:
        count_refused("members", size, length - position)
    found_a: list[ClassicMember] = []
    for _ in range(size):
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("member_id")
        if size > length - position:
            truncated("member_id", size, length - position)
        b_member_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("client_id")
        if size > length - position:
            truncated("client_id", size, length - position)
        b_client_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("client_host")
        if size > length - position:
            truncated("client_host", size, length - position)
        b_client_host = str(buffer[position : position + size], "utf-8")
        position += size
        b_rebalance_timeout, b_session_timeout = _ii.unpack_from(buffer, position)
        position += 8
        size, = _i.unpack_from(buffer, position)
        position += 4
        if size < 0:
            null_refused("subscription")
        if size > length - position:
            truncated("subscription", size, length - position)
        b_subscription = bytes(buffer[position : position + size])
        position += size
        size, = _i.unpack_from(buffer, position)
        position += 4
        if size < 0:
            null_refused("assignment")
        if size > length - position:
            truncated("assignment", size, length - position)
        b_assignment = bytes(buffer[position : position + size])
        position += size
        found_a.append(ClassicMember(member_id=b_member_id, client_id=b_client_id, client_host=b_client_host, rebalance_timeout=b_rebalance_timeout, session_timeout=b_session_timeout, subscription=b_subscription, assignment=b_assignment))
    value_members = tuple(found_a)
    assert position <= length
    return GroupMetadataValue(protocol_type=value_protocol_type, generation=value_generation, protocol=value_protocol, leader=value_leader, current_state_timestamp=value_current_state_timestamp, members=value_members), position


def _encode_value_v3(value: GroupMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.protocol_type
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    out += _i.pack(value.generation)
    value_b = value.protocol
    if value_b is None:
        out += _h.pack(-1)
    else:
        text_b = value_b.encode()
        out += _h.pack(len(text_b))
        out += text_b
    value_c = value.leader
    if value_c is None:
        out += _h.pack(-1)
    else:
        text_c = value_c.encode()
        out += _h.pack(len(text_c))
        out += text_c
    out += _q.pack(value.current_state_timestamp)
    value_d = value.members
    out += _i.pack(len(value_d))
    for d in value_d:
        value_e = d.member_id
        text_e = value_e.encode()
        out += _h.pack(len(text_e))
        out += text_e
        value_f = d.group_instance_id
        if value_f is None:
            out += _h.pack(-1)
        else:
            text_f = value_f.encode()
            out += _h.pack(len(text_f))
            out += text_f
        value_g = d.client_id
        text_g = value_g.encode()
        out += _h.pack(len(text_g))
        out += text_g
        value_h = d.client_host
        text_h = value_h.encode()
        out += _h.pack(len(text_h))
        out += text_h
        out += _ii.pack(d.rebalance_timeout, d.session_timeout)
        value_i = d.subscription
        out += _i.pack(len(value_i))
        out += value_i
        value_j = d.assignment
        out += _i.pack(len(value_j))
        out += value_j
    return out


def _decode_value_v3(buffer: memoryview, position: int) -> tuple[GroupMetadataValue, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("protocol_type")
    if size > length - position:
        truncated("protocol_type", size, length - position)
    value_protocol_type = str(buffer[position : position + size], "utf-8")
    position += size
    value_generation, = _i.unpack_from(buffer, position)
    position += 4
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        value_protocol: str | None = None
    else:
        if size > length - position:
            truncated("protocol", size, length - position)
        value_protocol = str(buffer[position : position + size], "utf-8")
        position += size
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        value_leader: str | None = None
    else:
        if size > length - position:
            truncated("leader", size, length - position)
        value_leader = str(buffer[position : position + size], "utf-8")
        position += size
    value_current_state_timestamp, = _q.unpack_from(buffer, position)
    position += 8
    size, = _i.unpack_from(buffer, position)
    position += 4
    if size < 0:
        null_refused("members")
    value_members: tuple[ClassicMember, ...]
    if size * 24 > length - position:
        count_refused("members", size, length - position)
    found_a: list[ClassicMember] = []
    for _ in range(size):
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("member_id")
        if size > length - position:
            truncated("member_id", size, length - position)
        b_member_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            b_group_instance_id: str | None = None
        else:
            if size > length - position:
                truncated("group_instance_id", size, length - position)
            b_group_instance_id = str(buffer[position : position + size], "utf-8")
            position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("client_id")
        if size > length - position:
            truncated("client_id", size, length - position)
        b_client_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, = _h.unpack_from(buffer, position)
        position += 2
        if size < 0:
            null_refused("client_host")
        if size > length - position:
            truncated("client_host", size, length - position)
        b_client_host = str(buffer[position : position + size], "utf-8")
        position += size
        b_rebalance_timeout, b_session_timeout = _ii.unpack_from(buffer, position)
        position += 8
        size, = _i.unpack_from(buffer, position)
        position += 4
        if size < 0:
            null_refused("subscription")
        if size > length - position:
            truncated("subscription", size, length - position)
        b_subscription = bytes(buffer[position : position + size])
        position += size
        size, = _i.unpack_from(buffer, position)
        position += 4
        if size < 0:
            null_refused("assignment")
        if size > length - position:
            truncated("assignment", size, length - position)
        b_assignment = bytes(buffer[position : position + size])
        position += size
        found_a.append(ClassicMember(member_id=b_member_id, group_instance_id=b_group_instance_id, client_id=b_client_id, client_host=b_client_host, rebalance_timeout=b_rebalance_timeout, session_timeout=b_session_timeout, subscription=b_subscription, assignment=b_assignment))
    value_members = tuple(found_a)
    assert position <= length
    return GroupMetadataValue(protocol_type=value_protocol_type, generation=value_generation, protocol=value_protocol, leader=value_leader, current_state_timestamp=value_current_state_timestamp, members=value_members), position


def _encode_value_v4(value: GroupMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.protocol_type
    text_a = value_a.encode()
    write_varint(out, len(text_a) + 1)
    out += text_a
    out += _i.pack(value.generation)
    value_b = value.protocol
    if value_b is None:
        out.append(0)
    else:
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
    value_c = value.leader
    if value_c is None:
        out.append(0)
    else:
        text_c = value_c.encode()
        write_varint(out, len(text_c) + 1)
        out += text_c
    out += _q.pack(value.current_state_timestamp)
    value_d = value.members
    write_varint(out, len(value_d) + 1)
    for d in value_d:
        value_e = d.member_id
        text_e = value_e.encode()
        write_varint(out, len(text_e) + 1)
        out += text_e
        value_f = d.group_instance_id
        if value_f is None:
            out.append(0)
        else:
            text_f = value_f.encode()
            write_varint(out, len(text_f) + 1)
            out += text_f
        value_g = d.client_id
        text_g = value_g.encode()
        write_varint(out, len(text_g) + 1)
        out += text_g
        value_h = d.client_host
        text_h = value_h.encode()
        write_varint(out, len(text_h) + 1)
        out += text_h
        out += _ii.pack(d.rebalance_timeout, d.session_timeout)
        value_i = d.subscription
        write_varint(out, len(value_i) + 1)
        out += value_i
        value_j = d.assignment
        write_varint(out, len(value_j) + 1)
        out += value_j
        out.append(0)
    out.append(0)
    return out


def _decode_value_v4(buffer: memoryview, position: int) -> tuple[GroupMetadataValue, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("protocol_type")
    if size > length - position:
        truncated("protocol_type", size, length - position)
    value_protocol_type = str(buffer[position : position + size], "utf-8")
    position += size
    value_generation, = _i.unpack_from(buffer, position)
    position += 4
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        value_protocol: str | None = None
    else:
        if size > length - position:
            truncated("protocol", size, length - position)
        value_protocol = str(buffer[position : position + size], "utf-8")
        position += size
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        value_leader: str | None = None
    else:
        if size > length - position:
            truncated("leader", size, length - position)
        value_leader = str(buffer[position : position + size], "utf-8")
        position += size
    value_current_state_timestamp, = _q.unpack_from(buffer, position)
    position += 8
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("members")
    value_members: tuple[ClassicMember, ...]
    if size * 15 > length - position:
        count_refused("members", size, length - position)
    found_a: list[ClassicMember] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("member_id")
        if size > length - position:
            truncated("member_id", size, length - position)
        b_member_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            b_group_instance_id: str | None = None
        else:
            if size > length - position:
                truncated("group_instance_id", size, length - position)
            b_group_instance_id = str(buffer[position : position + size], "utf-8")
            position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("client_id")
        if size > length - position:
            truncated("client_id", size, length - position)
        b_client_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("client_host")
        if size > length - position:
            truncated("client_host", size, length - position)
        b_client_host = str(buffer[position : position + size], "utf-8")
        position += size
        b_rebalance_timeout, b_session_timeout = _ii.unpack_from(buffer, position)
        position += 8
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subscription")
        if size > length - position:
            truncated("subscription", size, length - position)
        b_subscription = bytes(buffer[position : position + size])
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("assignment")
        if size > length - position:
            truncated("assignment", size, length - position)
        b_assignment = bytes(buffer[position : position + size])
        position += size
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_a.append(ClassicMember(member_id=b_member_id, group_instance_id=b_group_instance_id, client_id=b_client_id, client_host=b_client_host, rebalance_timeout=b_rebalance_timeout, session_timeout=b_session_timeout, subscription=b_subscription, assignment=b_assignment))
    value_members = tuple(found_a)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return GroupMetadataValue(protocol_type=value_protocol_type, generation=value_generation, protocol=value_protocol, leader=value_leader, current_state_timestamp=value_current_state_timestamp, members=value_members), position


_ENCODE: Final = {0: _encode_value_v0, 1: _encode_value_v1, 2: _encode_value_v2, 3: _encode_value_v3, 4: _encode_value_v4}
_DECODE: Final = {0: _decode_value_v0, 1: _decode_value_v1, 2: _decode_value_v2, 3: _decode_value_v3, 4: _decode_value_v4}


def encode_value(value: GroupMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> GroupMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"GroupMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"GroupMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"GroupMetadataValue: {len(buffer) - end} bytes too many")
    return value
