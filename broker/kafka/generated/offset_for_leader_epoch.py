"""OffsetForLeaderEpoch (api key 23), versions 4 to 4.

Generated from broker/kafka/schemas/offset_for_leader_epoch.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    Chunks,
    MalformedMessage,
    count_refused,
    null_refused,
    read_varint,
    skip_tagged_fields,
    truncated,
    write_varint,
)

KEY: Final = 23
VERSIONS: Final = range(4, 5)
FLEXIBLE_FROM: Final = 4

_hiiq: Final = Struct(">hiiq")
_i: Final = Struct(">i")
_iii: Final = Struct(">iii")


@dataclass(slots=True)
class OffsetForLeaderPartition:
    """partitions of OffsetForLeaderTopic."""

    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


@dataclass(slots=True)
class OffsetForLeaderTopic:
    """topics of OffsetForLeaderEpochRequest."""

    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@dataclass(slots=True)
class OffsetForLeaderEpochRequest:
    """The request's body."""

    replica_id: int = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@dataclass(slots=True)
class EpochEndOffset:
    """partitions of OffsetForLeaderTopicResult."""

    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True)
class OffsetForLeaderTopicResult:
    """topics of OffsetForLeaderEpochResponse."""

    topic: str = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)


@dataclass(slots=True)
class OffsetForLeaderEpochResponse:
    """The response's body."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)


def _encode_request_v4(message: OffsetForLeaderEpochRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _i.pack(message.replica_id)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.topic
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _iii.pack(c.partition, c.current_leader_epoch, c.leader_epoch)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v4(buffer: memoryview, position: int) -> tuple[OffsetForLeaderEpochRequest, int]:
    length = len(buffer)
    message_replica_id, = _i.unpack_from(buffer, position)
    position += 4
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[OffsetForLeaderTopic]
    if size * 3 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic")
        if size > length - position:
            truncated("topic", size, length - position)
        a_topic = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[OffsetForLeaderPartition]
        if size * 13 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_current_leader_epoch, b_leader_epoch = _iii.unpack_from(buffer, position)
            position += 12
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(OffsetForLeaderPartition(partition=b_partition, current_leader_epoch=b_current_leader_epoch, leader_epoch=b_leader_epoch))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(OffsetForLeaderTopic(topic=a_topic, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return OffsetForLeaderEpochRequest(replica_id=message_replica_id, topics=message_topics), position


_ENCODE_REQUEST: Final = {4: _encode_request_v4}


_DECODE_REQUEST: Final = {4: _decode_request_v4}


def encode_request(message: OffsetForLeaderEpochRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> OffsetForLeaderEpochRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"OffsetForLeaderEpochRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"OffsetForLeaderEpochRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v4(message: OffsetForLeaderEpochResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _i.pack(message.throttle_time_ms)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.topic
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _hiiq.pack(c.error_code, c.partition, c.leader_epoch, c.end_offset)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v4(buffer: memoryview, position: int) -> tuple[OffsetForLeaderEpochResponse, int]:
    length = len(buffer)
    message_throttle_time_ms, = _i.unpack_from(buffer, position)
    position += 4
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[OffsetForLeaderTopicResult]
    if size * 3 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic")
        if size > length - position:
            truncated("topic", size, length - position)
        a_topic = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[EpochEndOffset]
        if size * 19 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_error_code, b_partition, b_leader_epoch, b_end_offset = _hiiq.unpack_from(buffer, position)
            position += 18
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(EpochEndOffset(error_code=b_error_code, partition=b_partition, leader_epoch=b_leader_epoch, end_offset=b_end_offset))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(OffsetForLeaderTopicResult(topic=a_topic, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return OffsetForLeaderEpochResponse(throttle_time_ms=message_throttle_time_ms, topics=message_topics), position


_ENCODE_RESPONSE: Final = {4: _encode_response_v4}


_DECODE_RESPONSE: Final = {4: _decode_response_v4}


def encode_response(message: OffsetForLeaderEpochResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> OffsetForLeaderEpochResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"OffsetForLeaderEpochResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"OffsetForLeaderEpochResponse v{version}: {len(buffer) - end} bytes too many")
    return message
