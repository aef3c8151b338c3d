"""InitializeShareGroupState (api key 83), versions 0 to 0.

Generated from broker/kafka/schemas/initialize_share_group_state.txt by tools/kafka_codecs.py: do not edit.
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

KEY: Final = 83
VERSIONS: Final = range(0, 1)
FLEXIBLE_FROM: Final = 0

_U: Final = Struct(">16s")
_ih: Final = Struct(">ih")
_iiq: Final = Struct(">iiq")


@dataclass(slots=True)
class InitializedPartition:
    """partitions of InitializedTopic."""

    partition: int = 0
    state_epoch: int = 0
    start_offset: int = 0


@dataclass(slots=True)
class InitializedTopic:
    """topics of InitializeShareGroupStateRequest."""

    topic_id: bytes = ZERO_UUID
    partitions: list[InitializedPartition] = field(default_factory=list)


@dataclass(slots=True)
class InitializeShareGroupStateRequest:
    """The request's body."""

    group_id: str = ""
    topics: list[InitializedTopic] = field(default_factory=list)


@dataclass(slots=True)
class InitializePartitionResult:
    """partitions of InitializeResult."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class InitializeResult:
    """results of InitializeShareGroupStateResponse."""

    topic_id: bytes = ZERO_UUID
    partitions: list[InitializePartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class InitializeShareGroupStateResponse:
    """The response's body."""

    results: list[InitializeResult] = field(default_factory=list)


def _encode_request_v0(message: InitializeShareGroupStateRequest) -> Chunks:
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
            out += _iiq.pack(c.partition, c.state_epoch, c.start_offset)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v0(buffer: memoryview, position: int) -> tuple[InitializeShareGroupStateRequest, int]:
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
    message_topics: list[InitializedTopic]
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
        a_partitions: list[InitializedPartition]
        if size * 17 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_state_epoch, b_start_offset = _iiq.unpack_from(buffer, position)
            position += 16
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(InitializedPartition(partition=b_partition, state_epoch=b_state_epoch, start_offset=b_start_offset))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(InitializedTopic(topic_id=a_topic_id, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return InitializeShareGroupStateRequest(group_id=message_group_id, topics=message_topics), position


_ENCODE_REQUEST: Final = {0: _encode_request_v0}


_DECODE_REQUEST: Final = {0: _decode_request_v0}


def encode_request(message: InitializeShareGroupStateRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> InitializeShareGroupStateRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"InitializeShareGroupStateRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"InitializeShareGroupStateRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v0(message: InitializeShareGroupStateResponse) -> Chunks:
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


def _decode_response_v0(buffer: memoryview, position: int) -> tuple[InitializeShareGroupStateResponse, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("results")
    message_results: list[InitializeResult]
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
        a_partitions: list[InitializePartitionResult]
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
            a_partitions.append(InitializePartitionResult(partition=b_partition, error_code=b_error_code, error_message=b_error_message))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_results.append(InitializeResult(topic_id=a_topic_id, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return InitializeShareGroupStateResponse(results=message_results), position


_ENCODE_RESPONSE: Final = {0: _encode_response_v0}


_DECODE_RESPONSE: Final = {0: _decode_response_v0}


def encode_response(message: InitializeShareGroupStateResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> InitializeShareGroupStateResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"InitializeShareGroupStateResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"InitializeShareGroupStateResponse v{version}: {len(buffer) - end} bytes too many")
    return message
