"""SinkDecision (record type 10001), versions 0 to 1.

Generated from broker/coordinator/schemas/sink_decision.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 10001
VERSIONS: Final = range(0, 2)

_U: Final = Struct(">16s")
_h: Final = Struct(">h")
_i: Final = Struct(">i")
_iqq: Final = Struct(">iqq")
_q: Final = Struct(">q")
_qiqq: Final = Struct(">qiqq")
_qq: Final = Struct(">qq")


class SinkDecisionKey(NamedTuple):
    """The key."""

    query_id: str = ""
    sink_id: str = ""


class WrittenPartition(NamedTuple):
    """partitions of WrittenTopic."""

    partition: int = 0
    first_offset: int = 0
    last_offset: int = 0


class WrittenTopic(NamedTuple):
    """receipt of SinkDecisionValue."""

    topic: str = ""
    partitions: tuple[WrittenPartition, ...] = ()


class OverwrittenTopic(NamedTuple):
    """overwritten of SinkDecisionValue."""

    topic_id: bytes = ZERO_UUID
    topic: str = ""
    starts: tuple[int, ...] = ()


class SinkDecisionValue(NamedTuple):
    """The value."""

    batch_id: int = 0
    run_number: int = 0
    row_count: int = 0
    checksum: int = 0
    digest: str = ""
    decided_ms: int = 0
    expires_ms: int = 0
    members: tuple[int, ...] = ()
    receipt: tuple[WrittenTopic, ...] = ()
    overwritten: tuple[OverwrittenTopic, ...] = ()


def _encode_key(key: SinkDecisionKey) -> bytearray:
    out = bytearray()
    value_a = key.query_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    value_b = key.sink_id
    text_b = value_b.encode()
    out += _h.pack(len(text_b))
    out += text_b
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[SinkDecisionKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("query_id")
    if size > length - position:
        truncated("query_id", size, length - position)
    key_query_id = str(buffer[position : position + size], "utf-8")
    position += size
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("sink_id")
    if size > length - position:
        truncated("sink_id", size, length - position)
    key_sink_id = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return SinkDecisionKey(query_id=key_query_id, sink_id=key_sink_id), position


def encode_key(key: SinkDecisionKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> SinkDecisionKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"SinkDecisionKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SinkDecisionKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SinkDecisionKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: SinkDecisionValue) -> bytearray:
    out = bytearray()
    out += _qiqq.pack(value.batch_id, value.run_number, value.row_count, value.checksum)
    value_a = value.digest
    text_a = value_a.encode()
    write_varint(out, len(text_a) + 1)
    out += text_a
    out += _qq.pack(value.decided_ms, value.expires_ms)
    value_b = value.members
    write_varint(out, len(value_b) + 1)
    for b in value_b:
        out += _i.pack(b)
    value_c = value.receipt
    write_varint(out, len(value_c) + 1)
    for c in value_c:
        value_d = c.topic
        text_d = value_d.encode()
        write_varint(out, len(text_d) + 1)
        out += text_d
        value_e = c.partitions
        write_varint(out, len(value_e) + 1)
        for e in value_e:
            out += _iqq.pack(e.partition, e.first_offset, e.last_offset)
            out.append(0)
        out.append(0)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[SinkDecisionValue, int]:
    length = len(buffer)
    value_batch_id, value_run_number, value_row_count, value_checksum = _qiqq.unpack_from(buffer, position)
    position += 28
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("digest")
    if size > length - position:
        truncated("digest", size, length - position)
    value_digest = str(buffer[position : position + size], "utf-8")
    position += size
    value_decided_ms, value_expires_ms = _qq.unpack_from(buffer, position)
    position += 16
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("members")
    value_members: tuple[int, ...]
    if size * 4 > length - position:
        count_refused("members", size, length - position)
    found_a: list[int] = []
    for _ in range(size):
        element_b, = _i.unpack_from(buffer, position)
        position += 4
        found_a.append(element_b)
    value_members = tuple(found_a)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("receipt")
    value_receipt: tuple[WrittenTopic, ...]
    if size * 3 > length - position:
        count_refused("receipt", size, length - position)
    found_c: list[WrittenTopic] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic")
        if size > length - position:
            truncated("topic", size, length - position)
        d_topic = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        d_partitions: tuple[WrittenPartition, ...]
        if size * 21 > length - position:
            count_refused("partitions", size, length - position)
        found_e: list[WrittenPartition] = []
        for _ in range(size):
            f_partition, f_first_offset, f_last_offset = _iqq.unpack_from(buffer, position)
            position += 20
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            found_e.append(WrittenPartition(partition=f_partition, first_offset=f_first_offset, last_offset=f_last_offset))
        d_partitions = tuple(found_e)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_c.append(WrittenTopic(topic=d_topic, partitions=d_partitions))
    value_receipt = tuple(found_c)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return SinkDecisionValue(batch_id=value_batch_id, run_number=value_run_number, row_count=value_row_count, checksum=value_checksum, digest=value_digest, decided_ms=value_decided_ms, expires_ms=value_expires_ms, members=value_members, receipt=value_receipt), position


def _encode_value_v1(value: SinkDecisionValue) -> bytearray:
    out = bytearray()
    out += _qiqq.pack(value.batch_id, value.run_number, value.row_count, value.checksum)
    value_a = value.digest
    text_a = value_a.encode()
    write_varint(out, len(text_a) + 1)
    out += text_a
    out += _qq.pack(value.decided_ms, value.expires_ms)
    value_b = value.members
    write_varint(out, len(value_b) + 1)
    for b in value_b:
        out += _i.pack(b)
    value_c = value.receipt
    write_varint(out, len(value_c) + 1)
    for c in value_c:
        value_d = c.topic
        text_d = value_d.encode()
        write_varint(out, len(text_d) + 1)
        out += text_d
        value_e = c.partitions
        write_varint(out, len(value_e) + 1)
        for e in value_e:
            out += _iqq.pack(e.partition, e.first_offset, e.last_offset)
            out.append(0)
        out.append(0)
    value_f = value.overwritten
    write_varint(out, len(value_f) + 1)
    for f in value_f:
        out += _U.pack(f.topic_id)
        value_g = f.topic
        text_g = value_g.encode()
        write_varint(out, len(text_g) + 1)
        out += text_g
        value_h = f.starts
        write_varint(out, len(value_h) + 1)
        for h in value_h:
            out += _q.pack(h)
        out.append(0)
    out.append(0)
    return out


def _decode_value_v1(buffer: memoryview, position: int) -> tuple[SinkDecisionValue, int]:
    length = len(buffer)
    value_batch_id, value_run_number, value_row_count, value_checksum = _qiqq.unpack_from(buffer, position)
    position += 28
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("digest")
    if size > length - position:
        truncated("digest", size, length - position)
    value_digest = str(buffer[position : position + size], "utf-8")
    position += size
    value_decided_ms, value_expires_ms = _qq.unpack_from(buffer, position)
    position += 16
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("members")
    value_members: tuple[int, ...]
    if size * 4 > length - position:
        count_refused("members", size, length - position)
    found_a: list[int] = []
    for _ in range(size):
        element_b, = _i.unpack_from(buffer, position)
        position += 4
        found_a.append(element_b)
    value_members = tuple(found_a)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("receipt")
    value_receipt: tuple[WrittenTopic, ...]
    if size * 3 > length - position:
        count_refused("receipt", size, length - position)
    found_c: list[WrittenTopic] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic")
        if size > length - position:
            truncated("topic", size, length - position)
        d_topic = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        d_partitions: tuple[WrittenPartition, ...]
        if size * 21 > length - position:
            count_refused("partitions", size, length - position)
        found_e: list[WrittenPartition] = []
        for _ in range(size):
            f_partition, f_first_offset, f_last_offset = _iqq.unpack_from(buffer, position)
            position += 20
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            found_e.append(WrittenPartition(partition=f_partition, first_offset=f_first_offset, last_offset=f_last_offset))
        d_partitions = tuple(found_e)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_c.append(WrittenTopic(topic=d_topic, partitions=d_partitions))
    value_receipt = tuple(found_c)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("overwritten")
    value_overwritten: tuple[OverwrittenTopic, ...]
    if size * 19 > length - position:
        count_refused("overwritten", size, length - position)
    found_g: list[OverwrittenTopic] = []
    for _ in range(size):
        h_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic")
        if size > length - position:
            truncated("topic", size, length - position)
        h_topic = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("starts")
        h_starts: tuple[int, ...]
        if size * 8 > length - position:
            count_refused("starts", size, length - position)
        found_i: list[int] = []
        for _ in range(size):
            element_j, = _q.unpack_from(buffer, position)
            position += 8
            found_i.append(element_j)
        h_starts = tuple(found_i)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_g.append(OverwrittenTopic(topic_id=h_topic_id, topic=h_topic, starts=h_starts))
    value_overwritten = tuple(found_g)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return SinkDecisionValue(batch_id=value_batch_id, run_number=value_run_number, row_count=value_row_count, checksum=value_checksum, digest=value_digest, decided_ms=value_decided_ms, expires_ms=value_expires_ms, members=value_members, receipt=value_receipt, overwritten=value_overwritten), position


_ENCODE: Final = {0: _encode_value_v0, 1: _encode_value_v1}
_DECODE: Final = {0: _decode_value_v0, 1: _decode_value_v1}


def encode_value(value: SinkDecisionValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> SinkDecisionValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"SinkDecisionValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SinkDecisionValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SinkDecisionValue: {len(buffer) - end} bytes too many")
    return value
