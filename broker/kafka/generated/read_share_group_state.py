"""ReadShareGroupState (api key 84), versions 0 to 0.

Generated from broker/kafka/schemas/read_share_group_state.txt by tools/kafka_codecs.py: do not edit.
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

KEY: Final = 84
VERSIONS: Final = range(0, 1)
FLEXIBLE_FROM: Final = 0

_U: Final = Struct(">16s")
_ih: Final = Struct(">ih")
_ii: Final = Struct(">ii")
_iq: Final = Struct(">iq")
_qqbh: Final = Struct(">qqbh")


@dataclass(slots=True)
class ReadPartition:
    """partitions of ReadTopic."""

    partition: int = 0
    leader_epoch: int = 0


@dataclass(slots=True)
class ReadTopic:
    """topics of ReadShareGroupStateRequest."""

    topic_id: bytes = ZERO_UUID
    partitions: list[ReadPartition] = field(default_factory=list)


@dataclass(slots=True)
class ReadShareGroupStateRequest:
    """The request's body."""

    group_id: str = ""
    topics: list[ReadTopic] = field(default_factory=list)


@dataclass(slots=True)
class ReadStateBatch:
    """state_batches of ReadPartitionResult."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


@dataclass(slots=True)
class ReadPartitionResult:
    """partitions of ReadResult."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: list[ReadStateBatch] = field(default_factory=list)


@dataclass(slots=True)
class ReadResult:
    """results of ReadShareGroupStateResponse."""

    topic_id: bytes = ZERO_UUID
    partitions: list[ReadPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class ReadShareGroupStateResponse:
    """The response's body."""

    results: list[ReadResult] = field(default_factory=list)


def _encode_request_v0(message: ReadShareGroupStateRequest) -> Chunks:
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
            out += _ii.pack(c.partition, c.leader_epoch)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v0(buffer: memoryview, position: int) -> tuple[ReadShareGroupStateRequest, int]:
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
    message_topics: list[ReadTopic]
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
        a_partitions: list[ReadPartition]
        if size * 9 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_leader_epoch = _ii.unpack_from(buffer, position)
            position += 8
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(ReadPartition(partition=b_partition, leader_epoch=b_leader_epoch))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(ReadTopic(topic_id=a_topic_id, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ReadShareGroupStateRequest(group_id=message_group_id, topics=message_topics), position


_ENCODE_REQUEST: Final = {0: _encode_request_v0}


_DECODE_REQUEST: Final = {0: _decode_request_v0}


def encode_request(message: ReadShareGroupStateRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> ReadShareGroupStateRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ReadShareGroupStateRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ReadShareGroupStateRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v0(message: ReadShareGroupStateResponse) -> Chunks:
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
            out += _iq.pack(b.state_epoch, b.start_offset)
            value_d = b.state_batches
            write_varint(out, len(value_d) + 1)
            for d in value_d:
                out += _qqbh.pack(d.first_offset, d.last_offset, d.delivery_state, d.delivery_count)
                out.append(0)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v0(buffer: memoryview, position: int) -> tuple[ReadShareGroupStateResponse, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("results")
    message_results: list[ReadResult]
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
        a_partitions: list[ReadPartitionResult]
        if size * 21 > length - position:
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
            b_state_epoch, b_start_offset = _iq.unpack_from(buffer, position)
            position += 12
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("state_batches")
            b_state_batches: list[ReadStateBatch]
            if size * 20 > length - position:
                count_refused("state_batches", size, length - position)
            b_state_batches = []
            for _ in range(size):
                c_first_offset, c_last_offset, c_delivery_state, c_delivery_count = _qqbh.unpack_from(buffer, position)
                position += 19
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                b_state_batches.append(ReadStateBatch(first_offset=c_first_offset, last_offset=c_last_offset, delivery_state=c_delivery_state, delivery_count=c_delivery_count))
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(ReadPartitionResult(partition=b_partition, error_code=b_error_code, error_message=b_error_message, state_epoch=b_state_epoch, start_offset=b_start_offset, state_batches=b_state_batches))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_results.append(ReadResult(topic_id=a_topic_id, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ReadShareGroupStateResponse(results=message_results), position


_ENCODE_RESPONSE: Final = {0: _encode_response_v0}


_DECODE_RESPONSE: Final = {0: _decode_response_v0}


def encode_response(message: ReadShareGroupStateResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> ReadShareGroupStateResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ReadShareGroupStateResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ReadShareGroupStateResponse v{version}: {len(buffer) - end} bytes too many")
    return message
