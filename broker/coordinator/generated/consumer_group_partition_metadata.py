"""ConsumerGroupPartitionMetadata (record type 4), versions 0 to 0.

Generated from broker/coordinator/schemas/consumer_group_partition_metadata.txt by tools/kafka_codecs.py: do not edit.
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

TYPE: Final = 4
VERSIONS: Final = range(0, 1)

_U: Final = Struct(">16s")
_h: Final = Struct(">h")
_i: Final = Struct(">i")


class ConsumerGroupPartitionMetadataKey(NamedTuple):
    """The key."""

    group_id: str = ""


class PartitionRacks(NamedTuple):
    """partition_metadata of TopicMetadata."""

    partition: int = 0
    racks: tuple[str, ...] = ()


class TopicMetadata(NamedTuple):
    """topics of ConsumerGroupPartitionMetadataValue."""

    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    num_partitions: int = 0
    partition_metadata: tuple[PartitionRacks, ...] = ()


class ConsumerGroupPartitionMetadataValue(NamedTuple):
    """The value."""

    topics: tuple[TopicMetadata, ...] = ()


def _encode_key(key: ConsumerGroupPartitionMetadataKey) -> bytearray:
    out = bytearray()
    value_a = key.group_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[ConsumerGroupPartitionMetadataKey, int]:
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
    return ConsumerGroupPartitionMetadataKey(group_id=key_group_id), position


def encode_key(key: ConsumerGroupPartitionMetadataKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> ConsumerGroupPartitionMetadataKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"ConsumerGroupPartitionMetadataKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupPartitionMetadataKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupPartitionMetadataKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: ConsumerGroupPartitionMetadataValue) -> bytearray:
    out = bytearray()
    value_a = value.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.topic_name
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        out += _i.pack(a.num_partitions)
        value_c = a.partition_metadata
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _i.pack(c.partition)
            value_d = c.racks
            write_varint(out, len(value_d) + 1)
            for d in value_d:
                value_e = d
                text_e = value_e.encode()
                write_varint(out, len(text_e) + 1)
                out += text_e
            out.append(0)
        out.append(0)
    out.append(0)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[ConsumerGroupPartitionMetadataValue, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    value_topics: tuple[TopicMetadata, ...]
    if size * 23 > length - position:
        count_refused("topics", size, length - position)
    found_a: list[TopicMetadata] = []
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
        b_num_partitions, = _i.unpack_from(buffer, position)
        position += 4
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partition_metadata")
        b_partition_metadata: tuple[PartitionRacks, ...]
        if size * 6 > length - position:
            count_refused("partition_metadata", size, length - position)
        found_c: list[PartitionRacks] = []
        for _ in range(size):
            d_partition, = _i.unpack_from(buffer, position)
            position += 4
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("racks")
            d_racks: tuple[str, ...]
            if size * 1 > length - position:
                count_refused("racks", size, length - position)
            found_e: list[str] = []
            for _ in range(size):
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("racks")
                if size > length - position:
                    truncated("racks", size, length - position)
                element_f = str(buffer[position : position + size], "utf-8")
                position += size
                found_e.append(element_f)
            d_racks = tuple(found_e)
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            found_c.append(PartitionRacks(partition=d_partition, racks=d_racks))
        b_partition_metadata = tuple(found_c)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        found_a.append(TopicMetadata(topic_id=b_topic_id, topic_name=b_topic_name, num_partitions=b_num_partitions, partition_metadata=b_partition_metadata))
    value_topics = tuple(found_a)
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ConsumerGroupPartitionMetadataValue(topics=value_topics), position


_ENCODE: Final = {0: _encode_value_v0}
_DECODE: Final = {0: _decode_value_v0}


def encode_value(value: ConsumerGroupPartitionMetadataValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> ConsumerGroupPartitionMetadataValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"ConsumerGroupPartitionMetadataValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ConsumerGroupPartitionMetadataValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ConsumerGroupPartitionMetadataValue: {len(buffer) - end} bytes too many")
    return value
