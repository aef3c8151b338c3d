"""SinkTask (record type 10002), versions 0 to 0.

Generated from broker/coordinator/schemas/sink_task.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    MalformedMessage,
    null_refused,
    read_varint,
    skip_tag,
    truncated,
    write_varint,
)

TYPE: Final = 10002
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_iqiqbqi: Final = Struct(">iqiqbqi")


class SinkTaskKey(NamedTuple):
    """The key."""

    transactional_id: str = ""


class SinkTaskValue(NamedTuple):
    """The value."""

    query_id: str = ""
    sink_id: str = ""
    run_number: int = 0
    batch_id: int = 0
    task: int = 0
    attempt: int = 0
    state: int = 0
    since_ms: int = 0
    timeout_ms: int = 0
    group: str = ""
    digest: str = ""


def _encode_key(key: SinkTaskKey) -> bytearray:
    out = bytearray()
    value_a = key.transactional_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[SinkTaskKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("transactional_id")
    if size > length - position:
        truncated("transactional_id", size, length - position)
    key_transactional_id = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return SinkTaskKey(transactional_id=key_transactional_id), position


def encode_key(key: SinkTaskKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> SinkTaskKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"SinkTaskKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SinkTaskKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SinkTaskKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: SinkTaskValue) -> bytearray:
    out = bytearray()
    value_a = value.query_id
    text_a = value_a.encode()
    write_varint(out, len(text_a) + 1)
    out += text_a
    value_b = value.sink_id
    text_b = value_b.encode()
    write_varint(out, len(text_b) + 1)
    out += text_b
    out += _iqiqbqi.pack(value.run_number, value.batch_id, value.task, value.attempt, value.state, value.since_ms, value.timeout_ms)
    tags_c: list[tuple[int, bytearray]] = []
    if value.group != "":
        part_c = bytearray()
        value_d = value.group
        text_d = value_d.encode()
        write_varint(part_c, len(text_d) + 1)
        part_c += text_d
        tags_c.append((0, part_c))
    if value.digest != "":
        part_c = bytearray()
        value_e = value.digest
        text_e = value_e.encode()
        write_varint(part_c, len(text_e) + 1)
        part_c += text_e
        tags_c.append((1, part_c))
    write_varint(out, len(tags_c))
    for tag_c, content_c in tags_c:
        write_varint(out, tag_c)
        write_varint(out, len(content_c))
        out += content_c
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[SinkTaskValue, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("query_id")
    if size > length - position:
        truncated("query_id", size, length - position)
    value_query_id = str(buffer[position : position + size], "utf-8")
    position += size
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("sink_id")
    if size > length - position:
        truncated("sink_id", size, length - position)
    value_sink_id = str(buffer[position : position + size], "utf-8")
    position += size
    value_run_number, value_batch_id, value_task, value_attempt, value_state, value_since_ms, value_timeout_ms = _iqiqbqi.unpack_from(buffer, position)
    position += 37
    value_group: str = ""
    value_digest: str = ""
    tags_value, position = read_varint(buffer, position)
    for _ in range(tags_value):
        tag_value, position = read_varint(buffer, position)
        if tag_value == 0:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("group")
            if size > length - position:
                truncated("group", size, length - position)
            value_group = str(buffer[position : position + size], "utf-8")
            position += size
            if position != end_value:
                raise MalformedMessage("group does not fill its tagged field")
        elif tag_value == 1:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("digest")
            if size > length - position:
                truncated("digest", size, length - position)
            value_digest = str(buffer[position : position + size], "utf-8")
            position += size
            if position != end_value:
                raise MalformedMessage("digest does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return SinkTaskValue(query_id=value_query_id, sink_id=value_sink_id, run_number=value_run_number, batch_id=value_batch_id, task=value_task, attempt=value_attempt, state=value_state, since_ms=value_since_ms, timeout_ms=value_timeout_ms, group=value_group, digest=value_digest), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: SinkTaskValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> SinkTaskValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"SinkTaskValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SinkTaskValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SinkTaskValue: {len(buffer) - end} bytes too many")
    return value
