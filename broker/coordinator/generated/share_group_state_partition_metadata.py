"""ShareGroupStatePartitionMetadata (record type 15), versions 0 to 0.

Generated from broker/coordinator/schemas/share_group_state_partition_metadata.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 15
VERSIONS: Final = range(0, 1)

_U: Final = Struct(">16s")
_h: Final = Struct(">h")
_i: Final = Struct(">i")


class ShareGroupStatePartitionMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""


class SharedTopic(NamedTuple):
    """initializing_topics of ShareGroupStatePartitionMetadataValue."""

    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


class DeletedTopic(NamedTuple):
    """deleting_topics of ShareGroupStatePartitionMetadataValue."""

    topic_id: bytes = ZERO_UUID
    topic_name: str = ""


class ShareGroupStatePartitionMetadataValue(NamedTuple):
    """The value."""

    initializing_topics: tuple[SharedTopic, ...] = ()
    initialized_topics: tuple[SharedTopic, ...] = ()
    deleting_topics: tuple[DeletedTopic, ...] = ()


def _encode_key(key: ShareGroupStatePartitionMetadataKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[ShareGroupStatePartitionMetadataKey, int]:
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
    return ShareGroupStatePartitionMetadataKey(group_id=key_group_id), position


def encode_key(key: ShareGroupStatePartitionMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ShareGroupStatePartitionMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ShareGroupStatePartitionMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ShareGroupStatePartitionMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ShareGroupStatePartitionMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ShareGroupStatePartitionMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.initializing_topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.topic_name
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _i.pack(c)
        out.append(0)
    value_d = value.initialized_topics
    write_varint(out, len(value_d) + 1)
    for d in value_d:
        out += _U.pack(d.topic_id)
        value_e = d.topic_name
        text_e = value_e.encode()
        write_varint(out, len(text_e) + 1)
        out += text_e
        value_f = d.partitions
        write_varint(out, len(value_f) + 1)
        for f in value_f:
            out += _i.pack(f)
        out.append(0)
    value_g = value.deleting_topics
    write_varint(out, len(value_g) + 1)
    for g in value_g:
        out += _U.pack(g.topic_id)
        value_h = g.topic_name
        text_h = value_h.encode()
        write_varint(out, len(text_h) + 1)
        out += text_h
        out.append(0)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ShareGroupStatePartitionMetadataValue, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("initializing_topics")
    value_initializing_topics: tuple[SharedTopic, ...]
    if size * 19 > length - position:
        count_refused("initializing_topics", size, length - position)
    found_a: list[SharedTopic] = []
    for _ in range(size):
        b_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic_name")
        if size > length - position:
            truncated("topic_name", size, length - position)
        b_topic_name = str(buffer[position : position + size], "utf-8")
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
        found_a.append(SharedTopic(topic_id=b_topic_id, topic_name=b_topic_name, partitions=b_partitions))
    value_initializing_topics = tuple(found_a)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("initialized_topics")
    value_initialized_topics: tuple[SharedTopic, ...]
    if size * 19 > length - position:
        count_refused("initialized_topics", size, length - position)
    found_e: list[SharedTopic] = []
    for _ in range(size):
        f_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic_name")
        if size > length - position:
            truncated("topic_name", size, length - position)
        f_topic_name = str(buffer[position : position + size], "utf-8")
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
        found_e.append(SharedTopic(topic_id=f_topic_id, topic_name=f_topic_name, partitions=f_partitions))
    value_initialized_topics = tuple(found_e)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("deleting_topics")
    value_deleting_topics: tuple[DeletedTopic, ...]
    if size * 18 > length - position:
        count_refused("deleting_topics", size, length - position)
    found_i: list[DeletedTopic] = []
    for _ in range(size):
        j_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic_name")
        if size > length - position:
            truncated("topic_name", size, length - position)
        j_topic_name = str(buffer[position : position + size], "utf-8")
        position += size
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_i.append(DeletedTopic(topic_id=j_topic_id, topic_name=j_topic_name))
    value_deleting_topics = tuple(found_i)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ShareGroupStatePartitionMetadataValue(initializing_topics=value_initializing_topics, initialized_topics=value_initialized_topics, deleting_topics=value_deleting_topics), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ShareGroupStatePartitionMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ShareGroupStatePartitionMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ShareGroupStatePartitionMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ShareGroupStatePartitionMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ShareGroupStatePartitionMetadataValue: {len(buffer) - end} bytes too many")
    return value
