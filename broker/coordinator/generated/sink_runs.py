"""SinkRuns (record type 10000), versions 0 to 0.

Generated from broker/coordinator/schemas/sink_runs.txt by tools/kafka_codecs.py: do not edit.
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
    truncated,
    write_varint,
)

TYPE: Final = 10000
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_i: Final = Struct(">i")
_q: Final = Struct(">q")


class SinkRunsKey(NamedTuple):
    """The key."""

    query_id: str = ""
    sink_id: str = ""


class SinkRunsValue(NamedTuple):
    """The value."""

    first_number: int = 0
    run_ids: tuple[str, ...] = ()
    ended_ms: int = -1


def _encode_key(key: SinkRunsKey) -> bytearray:
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


def _decode_key(buffer: memoryview, position: int) -> tuple[SinkRunsKey, int]:
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
    return SinkRunsKey(query_id=key_query_id, sink_id=key_sink_id), position


def encode_key(key: SinkRunsKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> SinkRunsKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"SinkRunsKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SinkRunsKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SinkRunsKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: SinkRunsValue) -> bytearray:
    out = bytearray()
    out += _i.pack(value.first_number)
    value_a = value.run_ids
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
    tags_c: list[tuple[int, bytearray]] = []
    if value.ended_ms != -1:
        part_c = bytearray()
        part_c += _q.pack(value.ended_ms)
        tags_c.append((0, part_c))
    write_varint(out, len(tags_c))
    for tag_c, content_c in tags_c:
        write_varint(out, tag_c)
        write_varint(out, len(content_c))
        out += content_c
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[SinkRunsValue, int]:
    length = len(buffer)
    value_first_number, = _i.unpack_from(buffer, position)
    position += 4
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("run_ids")
    value_run_ids: tuple[str, ...]
    if size * 1 > length - position:
        count_refused("run_ids", size, length - position)
    found_a: list[str] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("run_ids")
        if size > length - position:
            truncated("run_ids", size, length - position)
        element_b = str(buffer[position : position + size], "utf-8")
        position += size
        found_a.append(element_b)
    value_run_ids = tuple(found_a)
    value_ended_ms: int = -1
    tags_value, position = read_varint(buffer, position)
    for _ in range(tags_value):
        tag_value, position = read_varint(buffer, position)
        if tag_value == 0:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_ended_ms, = _q.unpack_from(buffer, position)
            position += 8
            if position != end_value:
                raise MalformedMessage("ended_ms does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return SinkRunsValue(first_number=value_first_number, run_ids=value_run_ids, ended_ms=value_ended_ms), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: SinkRunsValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> SinkRunsValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"SinkRunsValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"SinkRunsValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"SinkRunsValue: {len(buffer) - end} bytes too many")
    return value
