"""ConsumerGroupRegularExpression (record type 16), versions 0 to 0.

Generated from broker/coordinator/schemas/consumer_group_regular_expression.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 16
VERSIONS: Final = range(0, 1)

_h: Final = Struct(">h")
_qq: Final = Struct(">qq")


class ConsumerGroupRegularExpressionKey(NamedTuple):
    """The key."""

    group_id: str = ""
    regular_expression: str = ""


class ConsumerGroupRegularExpressionValue(NamedTuple):
    """The value."""

    topics: tuple[str, ...] = ()
    version: int = 0
    timestamp: int = 0


def _encode_key(key: ConsumerGroupRegularExpressionKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    value_b = key.regular_expression
    text_b = value_b.encode()
    out += _h.pack(len(text_b))
    out += text_b
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[ConsumerGroupRegularExpressionKey, int]:
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
        null_refused("regular_expression")
    if size > length - position:
        truncated("regular_expression", size, length - position)
    key_regular_expression = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return ConsumerGroupRegularExpressionKey(group_id=key_group_id, regular_expression=key_regular_expression), position


def encode_key(key: ConsumerGroupRegularExpressionKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ConsumerGroupRegularExpressionKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ConsumerGroupRegularExpressionKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupRegularExpressionKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupRegularExpressionKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ConsumerGroupRegularExpressionValue) -> bytearray:
    out = bytearray()
    value_a = value.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
    out += _qq.pack(value.version, value.timestamp)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ConsumerGroupRegularExpressionValue, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    value_topics: tuple[str, ...]
    if size * 1 > length - position:
        count_refused("topics", size, length - position)
    found_a: list[str] = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topics")
        if size > length - position:
            truncated("topics", size, length - position)
        element_b = str(buffer[position : position + size], "utf-8")
        position += size
        found_a.append(element_b)
    value_topics = tuple(found_a)
    value_version, value_timestamp = _qq.unpack_from(buffer, position)
    position += 16
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ConsumerGroupRegularExpressionValue(topics=value_topics, version=value_version, timestamp=value_timestamp), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ConsumerGroupRegularExpressionValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ConsumerGroupRegularExpressionValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ConsumerGroupRegularExpressionValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupRegularExpressionValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupRegularExpressionValue: {len(buffer) - end} bytes too many")
    return value
