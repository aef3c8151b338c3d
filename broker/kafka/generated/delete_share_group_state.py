"""DeleteShareGroupState (api key 86), versions 0 to 0.

Generated from broker/kafka/schemas/delete_share_group_state.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    ZERO_UUID,
    Chunks,
    MalformedMessage,
    count_refused,
    null_refused,
    read_varint,
    skip_tagged_fields,
    truncated,
    write_varint,
)

KEY: Final = 86
VERSIONS: Final = range(0, 1)
FLEXIBLE_FROM: Final = 0

_U: Final = Struct(">16s")
_i: Final = Struct(">i")
_ih: Final = Struct(">ih")


@dataclass(slots=True)
class DeletedPartition:
    """partitions of DeletedTopic."""

    partition: int = 0


@dataclass(slots=True)
class DeletedTopic:
    """topics of DeleteShareGroupStateRequest."""

    topic_id: bytes = ZERO_UUID
    partitions: list[DeletedPartition] = field(default_factory=list)


@dataclass(slots=True)
class DeleteShareGroupStateRequest:
    """The request's body."""

    group_id: str = ""
    topics: list[DeletedTopic] = field(default_factory=list)


@dataclass(slots=True)
class DeletePartitionResult:
    """partitions of DeleteResult."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class DeleteResult:
    """results of DeleteShareGroupStateResponse."""

    topic_id: bytes = ZERO_UUID
    partitions: list[DeletePartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class DeleteShareGroupStateResponse:
    """The response's body."""

    results: list[DeleteResult] = field(default_factory=list)


def _encode_request_v0(message: DeleteShareGroupStateRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.group_id
    text_a = value_a.encode()
    write_varint(out, len(text_a) + 1)
    out += text_a
    value_b = message.topics
    write_varint(out, len(value_b) + 1)
    for b in value_b:
        out += _U.pack(b.topic_id)
        value_c = b.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _i.pack(c.partition)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v0(buffer: memoryview, position: int) -> tuple[DeleteShareGroupStateRequest, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("group_id")
    if size > length - position:
        truncated("group_id", size, length - position)
    message_group_id = str(buffer[position : position + size], "utf-8")
    position += size
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[DeletedTopic]
    if size * 18 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[DeletedPartition]
        if size * 5 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, = _i.unpack_from(buffer, position)
            position += 4
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(DeletedPartition(partition=b_partition))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(DeletedTopic(topic_id=a_topic_id, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return DeleteShareGroupStateRequest(group_id=message_group_id, topics=message_topics), position


_ENCODE_REQUEST: Final = {0: _encode_request_v0}


_DECODE_REQUEST: Final = {0: _decode_request_v0}


def encode_request(message: DeleteShareGroupStateRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> DeleteShareGroupStateRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"DeleteShareGroupStateRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"DeleteShareGroupStateRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v0(message: DeleteShareGroupStateResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.results
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partitions
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _ih.pack(b.partition, b.error_code)
            value_c = b.error_message
            if value_c is None:
                out.append(0)
            else:
                text_c = value_c.encode()
                write_varint(out, len(text_c) + 1)
                out += text_c
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v0(buffer: memoryview, position: int) -> tuple[DeleteShareGroupStateResponse, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("results")
    message_results: list[DeleteResult]
    if size * 18 > length - position:
        count_refused("results", size, length - position)
    message_results = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[DeletePartitionResult]
        if size * 8 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_error_code = _ih.unpack_from(buffer, position)
            position += 6
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                b_error_message: str | None = None
            else:
                if size > length - position:
                    truncated("error_message", size, length - position)
                b_error_message = str(buffer[position : position + size], "utf-8")
                position += size
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(DeletePartitionResult(partition=b_partition, error_code=b_error_code, error_message=b_error_message))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_results.append(DeleteResult(topic_id=a_topic_id, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return DeleteShareGroupStateResponse(results=message_results), position


_ENCODE_RESPONSE: Final = {0: _encode_response_v0}


_DECODE_RESPONSE: Final = {0: _decode_response_v0}


def encode_response(message: DeleteShareGroupStateResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> DeleteShareGroupStateResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"DeleteShareGroupStateResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"DeleteShareGroupStateResponse v{version}: {len(buffer) - end} bytes too many")
    return message
