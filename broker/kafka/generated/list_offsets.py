"""ListOffsets (api key 2), versions 8 to 8.

Generated from broker/kafka/schemas/list_offsets.txt by tools/kafka_codecs.py: do not edit.
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

KEY: Final = 2
VERSIONS: Final = range(8, 9)
FLEXIBLE_FROM: Final = 6

_i: Final = Struct(">i")
_ib: Final = Struct(">ib")
_ihqqi: Final = Struct(">ihqqi")
_iiq: Final = Struct(">iiq")


@dataclass(slots=True)
class ListOffsetsPartition:
    """partitions of ListOffsetsTopic."""

    partition_index: int = 0
    current_leader_epoch: int = 0
    timestamp: int = 0


@dataclass(slots=True)
class ListOffsetsTopic:
    """topics of ListOffsetsRequest."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsRequest:
    """The request's body."""

    replica_id: int = 0
    isolation_level: int = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsPartitionResult:
    """partitions of ListOffsetsTopicResult."""

    partition_index: int = 0
    error_code: int = 0
    timestamp: int = 0
    offset: int = 0
    leader_epoch: int = 0


@dataclass(slots=True)
class ListOffsetsTopicResult:
    """topics of ListOffsetsResponse."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class ListOffsetsResponse:
    """The response's body."""

    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResult] = field(default_factory=list)


def _encode_request_v8(message: ListOffsetsRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _ib.pack(message.replica_id, message.isolation_level)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.name
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _iiq.pack(c.partition_index, c.current_leader_epoch, c.timestamp)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v8(buffer: memoryview, position: int) -> tuple[ListOffsetsRequest, int]:
    length = len(buffer)
    message_replica_id, message_isolation_level = _ib.unpack_from(buffer, position)
    position += 5
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[ListOffsetsTopic]
    if size * 3 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("name")
        if size > length - position:
            truncated("name", size, length - position)
        a_name = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[ListOffsetsPartition]
        if size * 17 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition_index, b_current_leader_epoch, b_timestamp = _iiq.unpack_from(buffer, position)
            position += 16
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(ListOffsetsPartition(partition_index=b_partition_index, current_leader_epoch=b_current_leader_epoch, timestamp=b_timestamp))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(ListOffsetsTopic(name=a_name, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ListOffsetsRequest(replica_id=message_replica_id, isolation_level=message_isolation_level, topics=message_topics), position


_ENCODE_REQUEST: Final = {8: _encode_request_v8}


_DECODE_REQUEST: Final = {8: _decode_request_v8}


def encode_request(message: ListOffsetsRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> ListOffsetsRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ListOffsetsRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ListOffsetsRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v8(message: ListOffsetsResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _i.pack(message.throttle_time_ms)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.name
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _ihqqi.pack(c.partition_index, c.error_code, c.timestamp, c.offset, c.leader_epoch)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v8(buffer: memoryview, position: int) -> tuple[ListOffsetsResponse, int]:
    length = len(buffer)
    message_throttle_time_ms, = _i.unpack_from(buffer, position)
    position += 4
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[ListOffsetsTopicResult]
    if size * 3 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("name")
        if size > length - position:
            truncated("name", size, length - position)
        a_name = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[ListOffsetsPartitionResult]
        if size * 27 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition_index, b_error_code, b_timestamp, b_offset, b_leader_epoch = _ihqqi.unpack_from(buffer, position)
            position += 26
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(ListOffsetsPartitionResult(partition_index=b_partition_index, error_code=b_error_code, timestamp=b_timestamp, offset=b_offset, leader_epoch=b_leader_epoch))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(ListOffsetsTopicResult(name=a_name, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ListOffsetsResponse(throttle_time_ms=message_throttle_time_ms, topics=message_topics), position


_ENCODE_RESPONSE: Final = {8: _encode_response_v8}


_DECODE_RESPONSE: Final = {8: _decode_response_v8}


def encode_response(message: ListOffsetsResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> ListOffsetsResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ListOffsetsResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ListOffsetsResponse v{version}: {len(buffer) - end} bytes too many")
    return message
