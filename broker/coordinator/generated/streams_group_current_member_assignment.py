"""StreamsGroupCurrentMemberAssignment (record type 22), versions 0 to 0.

Generated from broker/coordinator/schemas/streams_group_current_member_assignment.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 22
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")
_iib: Final = Struct(">iib")


class StreamsGroupCurrentMemberAssignmentKey(NamedTuple):
    """The key."""

    group_id: str = ""
    member_id: str = ""


class TaskIds(NamedTuple):
    """active_tasks of StreamsGroupCurrentMemberAssignmentValue."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()
    assignment_epochs: tuple[int, ...] | None = None


class StreamsGroupCurrentMemberAssignmentValue(NamedTuple):
    """The value."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()
    active_tasks_pending_revocation: tuple[TaskIds, ...] = ()
    standby_tasks_pending_revocation: tuple[TaskIds, ...] = ()
    warmup_tasks_pending_revocation: tuple[TaskIds, ...] = ()


def _encode_key(key: StreamsGroupCurrentMemberAssignmentKey) -> bytearray:
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


def _decode_key(buffer: memoryview, position: int) -> tuple[StreamsGroupCurrentMemberAssignmentKey, int]:
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
    return StreamsGroupCurrentMemberAssignmentKey(group_id=key_group_id, member_id=key_member_id), position


def encode_key(key: StreamsGroupCurrentMemberAssignmentKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> StreamsGroupCurrentMemberAssignmentKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"StreamsGroupCurrentMemberAssignmentKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupCurrentMemberAssignmentKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupCurrentMemberAssignmentKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: StreamsGroupCurrentMemberAssignmentValue) -> bytearray:
    out = bytearray()
    out += _iib.pack(value.member_epoch, value.previous_member_epoch, value.state)
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
        tags_d: list[tuple[int, bytearray]] = []
        if a.assignment_epochs != None:
            part_d = bytearray()
            value_e = a.assignment_epochs
            if value_e is None:
                part_d.append(0)
            else:
                write_varint(part_d, len(value_e) + 1)
                for e in value_e:
                    part_d += _i.pack(e)
            tags_d.append((0, part_d))
        write_varint(out, len(tags_d))
        for tag_d, content_d in tags_d:
            write_varint(out, tag_d)
            write_varint(out, len(content_d))
            out += content_d
    value_f = value.standby_tasks
    write_varint(out, len(value_f) + 1)
    for f in value_f:
        value_g = f.subtopology_id
        text_g = value_g.encode()
        write_varint(out, len(text_g) + 1)
        out += text_g
        value_h = f.partitions
        write_varint(out, len(value_h) + 1)
        for h in value_h:
            out += _i.pack(h)
        tags_i: list[tuple[int, bytearray]] = []
        if f.assignment_epochs != None:
            part_i = bytearray()
            value_j = f.assignment_epochs
            if value_j is None:
                part_i.append(0)
            else:
                write_varint(part_i, len(value_j) + 1)
                for j in value_j:
                    part_i += _i.pack(j)
            tags_i.append((0, part_i))
        write_varint(out, len(tags_i))
        for tag_i, content_i in tags_i:
            write_varint(out, tag_i)
            write_varint(out, len(content_i))
            out += content_i
    value_k = value.warmup_tasks
    write_varint(out, len(value_k) + 1)
    for k in value_k:
        value_l = k.subtopology_id
        text_l = value_l.encode()
        write_varint(out, len(text_l) + 1)
        out += text_l
        value_m = k.partitions
        write_varint(out, len(value_m) + 1)
        for m in value_m:
            out += _i.pack(m)
        tags_n: list[tuple[int, bytearray]] = []
        if k.assignment_epochs != None:
            part_n = bytearray()
            value_o = k.assignment_epochs
            if value_o is None:
                part_n.append(0)
            else:
                write_varint(part_n, len(value_o) + 1)
                for o in value_o:
                    part_n += _i.pack(o)
            tags_n.append((0, part_n))
        write_varint(out, len(tags_n))
        for tag_n, content_n in tags_n:
            write_varint(out, tag_n)
            write_varint(out, len(content_n))
            out += content_n
    value_p = value.active_tasks_pending_revocation
    write_varint(out, len(value_p) + 1)
    for p in value_p:
        value_q = p.subtopology_id
        text_q = value_q.encode()
        write_varint(out, len(text_q) + 1)
        out += text_q
        value_r = p.partitions
        write_varint(out, len(value_r) + 1)
        for r in value_r:
            out += _i.pack(r)
        tags_s: list[tuple[int, bytearray]] = []
        if p.assignment_epochs != None:
            part_s = bytearray()
            value_t = p.assignment_epochs
            if value_t is None:
                part_s.append(0)
            else:
                write_varint(part_s, len(value_t) + 1)
                for t in value_t:
                    part_s += _i.pack(t)
            tags_s.append((0, part_s))
        write_varint(out, len(tags_s))
        for tag_s, content_s in tags_s:
            write_varint(out, tag_s)
            write_varint(out, len(content_s))
            out += content_s
    value_u = value.standby_tasks_pending_revocation
    write_varint(out, len(value_u) + 1)
    for u in value_u:
        value_v = u.subtopology_id
        text_v = value_v.encode()
        write_varint(out, len(text_v) + 1)
        out += text_v
        value_w = u.partitions
        write_varint(out, len(value_w) + 1)
        for w in value_w:
            out += _i.pack(w)
        tags_x: list[tuple[int, bytearray]] = []
        if u.assignment_epochs != None:
            part_x = bytearray()
            value_y = u.assignment_epochs
            if value_y is None:
                part_x.append(0)
            else:
                write_varint(part_x, len(value_y) + 1)
                for y in value_y:
                    part_x += _i.pack(y)
            tags_x.append((0, part_x))
        write_varint(out, len(tags_x))
        for tag_x, content_x in tags_x:
            write_varint(out, tag_x)
            write_varint(out, len(content_x))
            out += content_x
    value_z = value.warmup_tasks_pending_revocation
    write_varint(out, len(value_z) + 1)
    for z in value_z:
        value_a1 = z.subtopology_id
        text_a1 = value_a1.encode()
        write_varint(out, len(text_a1) + 1)
        out += text_a1
        value_b1 = z.partitions
        write_varint(out, len(value_b1) + 1)
        for b1 in value_b1:
            out += _i.pack(b1)
        tags_c1: list[tuple[int, bytearray]] = []
        if z.assignment_epochs != None:
            part_c1 = bytearray()
            value_d1 = z.assignment_epochs
            if value_d1 is None:
                part_c1.append(0)
            else:
                write_varint(part_c1, len(value_d1) + 1)
                for d1 in value_d1:
                    part_c1 += _i.pack(d1)
            tags_c1.append((0, part_c1))
        write_varint(out, len(tags_c1))
        for tag_c1, content_c1 in tags_c1:
            write_varint(out, tag_c1)
            write_varint(out, len(content_c1))
            out += content_c1
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[StreamsGroupCurrentMemberAssignmentValue, int]:
    length = len(buffer)
    value_member_epoch, value_previous_member_epoch, value_state = _iib.unpack_from(buffer, position)
    position += 9
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
        b_assignment_epochs: tuple[int, ...] | None = None
        tags_b, position = read_varint(buffer, position)
        for _ in range(tags_b):
            tag_b, position = read_varint(buffer, position)
            if tag_b == 0:
                end_b = skip_tag(buffer, position)
                _, position = read_varint(buffer, position)
                size, position = read_varint(buffer, position)
                size -= 1
                pass
                if size < 0:
                    b_assignment_epochs = None
                else:
                    if size * 4 > length - position:
                        count_refused("assignment_epochs", size, length - position)
                    found_e: list[int] = []
                    for _ in range(size):
                        element_f, = _i.unpack_from(buffer, position)
                        position += 4
                        found_e.append(element_f)
                    b_assignment_epochs = tuple(found_e)
                if position != end_b:
                    raise MalformedMessage("assignment_epochs does not fill its tagged field")
            else:
                position = skip_tag(buffer, position)
        found_a.append(TaskIds(subtopology_id=b_subtopology_id, partitions=b_partitions, assignment_epochs=b_assignment_epochs))
    value_active_tasks = tuple(found_a)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("standby_tasks")
    value_standby_tasks: tuple[TaskIds, ...]
    if size * 3 > length - position:
        count_refused("standby_tasks", size, length - position)
    found_g: list[TaskIds] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        h_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        h_partitions: tuple[int, ...]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        found_i: list[int] = []
        for _ in range(size):
            element_j, = _i.unpack_from(buffer, position)
            position += 4
            found_i.append(element_j)
        h_partitions = tuple(found_i)
        h_assignment_epochs: tuple[int, ...] | None = None
        tags_h, position = read_varint(buffer, position)
        for _ in range(tags_h):
            tag_h, position = read_varint(buffer, position)
            if tag_h == 0:
                end_h = skip_tag(buffer, position)
                _, position = read_varint(buffer, position)
                size, position = read_varint(buffer, position)
                size -= 1
                pass
                if size < 0:
                    h_assignment_epochs = None
                else:
                    if size * 4 > length - position:
                        count_refused("assignment_epochs", size, length - position)
                    found_k: list[int] = []
                    for _ in range(size):
                        element_l, = _i.unpack_from(buffer, position)
                        position += 4
                        found_k.append(element_l)
                    h_assignment_epochs = tuple(found_k)
                if position != end_h:
                    raise MalformedMessage("assignment_epochs does not fill its tagged field")
            else:
                position = skip_tag(buffer, position)
        found_g.append(TaskIds(subtopology_id=h_subtopology_id, partitions=h_partitions, assignment_epochs=h_assignment_epochs))
    value_standby_tasks = tuple(found_g)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("warmup_tasks")
    value_warmup_tasks: tuple[TaskIds, ...]
    if size * 3 > length - position:
        count_refused("warmup_tasks", size, length - position)
    found_m: list[TaskIds] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        n_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        n_partitions: tuple[int, ...]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        found_o: list[int] = []
        for _ in range(size):
            element_p, = _i.unpack_from(buffer, position)
            position += 4
            found_o.append(element_p)
        n_partitions = tuple(found_o)
        n_assignment_epochs: tuple[int, ...] | None = None
        tags_n, position = read_varint(buffer, position)
        for _ in range(tags_n):
            tag_n, position = read_varint(buffer, position)
            if tag_n == 0:
                end_n = skip_tag(buffer, position)
                _, position = read_varint(buffer, position)
                size, position = read_varint(buffer, position)
                size -= 1
                pass
                if size < 0:
                    n_assignment_epochs = None
                else:
                    if size * 4 > length - position:
                        count_refused("assignment_epochs", size, length - position)
                    found_q: list[int] = []
                    for _ in range(size):
                        element_r, = _i.unpack_from(buffer, position)
                        position += 4
                        found_q.append(element_r)
                    n_assignment_epochs = tuple(found_q)
                if position != end_n:
                    raise MalformedMessage("assignment_epochs does not fill its tagged field")
            else:
                position = skip_tag(buffer, position)
        found_m.append(TaskIds(subtopology_id=n_subtopology_id, partitions=n_partitions, assignment_epochs=n_assignment_epochs))
    value_warmup_tasks = tuple(found_m)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("active_tasks_pending_revocation")
    value_active_tasks_pending_revocation: tuple[TaskIds, ...]
    if size * 3 > length - position:
        count_refused("active_tasks_pending_revocation", size, length - position)
    found_s: list[TaskIds] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        t_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        t_partitions: tuple[int, ...]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        found_u: list[int] = []
        for _ in range(size):
            element_v, = _i.unpack_from(buffer, position)
            position += 4
            found_u.append(element_v)
        t_partitions = tuple(found_u)
        t_assignment_epochs: tuple[int, ...] | None = None
        tags_t, position = read_varint(buffer, position)
        for _ in range(tags_t):
            tag_t, position = read_varint(buffer, position)
            if tag_t == 0:
                end_t = skip_tag(buffer, position)
                _, position = read_varint(buffer, position)
                size, position = read_varint(buffer, position)
                size -= 1
                pass
                if size < 0:
                    t_assignment_epochs = None
                else:
                    if size * 4 > length - position:
                        count_refused("assignment_epochs", size, length - position)
                    found_w: list[int] = []
                    for _ in range(size):
                        element_x, = _i.unpack_from(buffer, position)
                        position += 4
                        found_w.append(element_x)
                    t_assignment_epochs = tuple(found_w)
                if position != end_t:
                    raise MalformedMessage("assignment_epochs does not fill its tagged field")
            else:
                position = skip_tag(buffer, position)
        found_s.append(TaskIds(subtopology_id=t_subtopology_id, partitions=t_partitions, assignment_epochs=t_assignment_epochs))
    value_active_tasks_pending_revocation = tuple(found_s)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("standby_tasks_pending_revocation")
    value_standby_tasks_pending_revocation: tuple[TaskIds, ...]
    if size * 3 > length - position:
        count_refused("standby_tasks_pending_revocation", size, length - position)
    found_y: list[TaskIds] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        z_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        z_partitions: tuple[int, ...]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        found_a1: list[int] = []
        for _ in range(size):
            element_b1, = _i.unpack_from(buffer, position)
            position += 4
            found_a1.append(element_b1)
        z_partitions = tuple(found_a1)
        z_assignment_epochs: tuple[int, ...] | None = None
        tags_z, position = read_varint(buffer, position)
        for _ in range(tags_z):
            tag_z, position = read_varint(buffer, position)
            if tag_z == 0:
                end_z = skip_tag(buffer, position)
                _, position = read_varint(buffer, position)
                size, position = read_varint(buffer, position)
                size -= 1
                pass
                if size < 0:
                    z_assignment_epochs = None
                else:
                    if size * 4 > length - position:
                        count_refused("assignment_epochs", size, length - position)
                    found_c1: list[int] = []
                    for _ in range(size):
                        element_d1, = _i.unpack_from(buffer, position)
                        position += 4
                        found_c1.append(element_d1)
                    z_assignment_epochs = tuple(found_c1)
                if position != end_z:
                    raise MalformedMessage("assignment_epochs does not fill its tagged field")
            else:
                position = skip_tag(buffer, position)
        found_y.append(TaskIds(subtopology_id=z_subtopology_id, partitions=z_partitions, assignment_epochs=z_assignment_epochs))
    value_standby_tasks_pending_revocation = tuple(found_y)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("warmup_tasks_pending_revocation")
    value_warmup_tasks_pending_revocation: tuple[TaskIds, ...]
    if size * 3 > length - position:
        count_refused("warmup_tasks_pending_revocation", size, length - position)
    found_e1: list[TaskIds] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("subtopology_id")
        if size > length - position:
            truncated("subtopology_id", size, length - position)
        f1_subtopology_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        f1_partitions: tuple[int, ...]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        found_g1: list[int] = []
        for _ in range(size):
            element_h1, = _i.unpack_from(buffer, position)
            position += 4
            found_g1.append(element_h1)
        f1_partitions = tuple(found_g1)
        f1_assignment_epochs: tuple[int, ...] | None = None
        tags_f1, position = read_varint(buffer, position)
        for _ in range(tags_f1):
            tag_f1, position = read_varint(buffer, position)
            if tag_f1 == 0:
                end_f1 = skip_tag(buffer, position)
                _, position = read_varint(buffer, position)
                size, position = read_varint(buffer, position)
                size -= 1
                pass
                if size < 0:
                    f1_assignment_epochs = None
                else:
                    if size * 4 > length - position:
                        count_refused("assignment_epochs", size, length - position)
                    found_i1: list[int] = []
                    for _ in range(size):
                        element_j1, = _i.unpack_from(buffer, position)
                        position += 4
                        found_i1.append(element_j1)
                    f1_assignment_epochs = tuple(found_i1)
                if position != end_f1:
                    raise MalformedMessage("assignment_epochs does not fill its tagged field")
            else:
                position = skip_tag(buffer, position)
        found_e1.append(TaskIds(subtopology_id=f1_subtopology_id, partitions=f1_partitions, assignment_epochs=f1_assignment_epochs))
    value_warmup_tasks_pending_revocation = tuple(found_e1)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return StreamsGroupCurrentMemberAssignmentValue(member_epoch=value_member_epoch, previous_member_epoch=value_previous_member_epoch, state=value_state, active_tasks=value_active_tasks, standby_tasks=value_standby_tasks, warmup_tasks=value_warmup_tasks, active_tasks_pending_revocation=value_active_tasks_pending_revocation, standby_tasks_pending_revocation=value_standby_tasks_pending_revocation, warmup_tasks_pending_revocation=value_warmup_tasks_pending_revocation), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: StreamsGroupCurrentMemberAssignmentValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> StreamsGroupCurrentMemberAssignmentValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"StreamsGroupCurrentMemberAssignmentValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"StreamsGroupCurrentMemberAssignmentValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"StreamsGroupCurrentMemberAssignmentValue: {len(buffer) - end} bytes too many")
    return value
