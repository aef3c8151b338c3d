"""WriteTxnMarkers (api key 27), versions 1 to 2.

Generated from broker/kafka/schemas/write_txn_markers.txt by tools/kafka_codecs.py: do not edit.
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
    skip_tag,
    skip_tagged_fields,
    truncated,
    write_varint,
)

KEY: Final = 27
VERSIONS: Final = range(1, 3)
FLEXIBLE_FROM: Final = 1

_U: Final = Struct(">16s")
_i: Final = Struct(">i")
_ib: Final = Struct(">ib")
_ih: Final = Struct(">ih")
_q: Final = Struct(">q")
_qhB: Final = Struct(">qh?")


@dataclass(slots=True)
class WritableTxnMarkerTopic:
    """topics of WritableTxnMarker."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)
    topic_id: bytes = ZERO_UUID
    new_starts: list[int] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarker:
    """markers of WriteTxnMarkersRequest."""

    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: int = 0
    transaction_version: int = 0


@dataclass(slots=True)
class WriteTxnMarkersRequest:
    """The request's body."""

    markers: list[WritableTxnMarker] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarkerPartitionResult:
    """partitions of WritableTxnMarkerTopicResult."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True)
class WritableTxnMarkerTopicResult:
    """topics of WritableTxnMarkerResult."""

    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class WritableTxnMarkerResult:
    """markers of WriteTxnMarkersResponse."""

    producer_id: int = 0
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@dataclass(slots=True)
class WriteTxnMarkersResponse:
    """The response's body."""

    markers: list[WritableTxnMarkerResult] = field(default_factory=list)


def _encode_request_v1(message: WriteTxnMarkersRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.markers
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _qhB.pack(a.producer_id, a.producer_epoch, a.transaction_result)
        value_b = a.topics
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            value_c = b.name
            text_c = value_c.encode()
            write_varint(out, len(text_c) + 1)
            out += text_c
            value_d = b.partition_indexes
            write_varint(out, len(value_d) + 1)
            for d in value_d:
                out += _i.pack(d)
            tags_e: list[tuple[int, bytearray]] = []
            if b.topic_id != ZERO_UUID:
                part_e = bytearray()
                part_e += _U.pack(b.topic_id)
                tags_e.append((10000, part_e))
            if b.new_starts != []:
                part_e = bytearray()
                value_f = b.new_starts
                write_varint(part_e, len(value_f) + 1)
                for f in value_f:
                    part_e += _q.pack(f)
                tags_e.append((10001, part_e))
            write_varint(out, len(tags_e))
            for tag_e, content_e in tags_e:
                write_varint(out, tag_e)
                write_varint(out, len(content_e))
                out += content_e
        out += _i.pack(a.coordinator_epoch)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v1(buffer: memoryview, position: int) -> tuple[WriteTxnMarkersRequest, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("markers")
    message_markers: list[WritableTxnMarker]
    if size * 17 > length - position:
        count_refused("markers", size, length - position)
    message_markers = []
    for _ in range(size):
        a_producer_id, a_producer_epoch, a_transaction_result = _qhB.unpack_from(buffer, position)
        position += 11
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topics")
        a_topics: list[WritableTxnMarkerTopic]
        if size * 3 > length - position:
            count_refused("topics", size, length - position)
        a_topics = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("name")
            if size > length - position:
                truncated("name", size, length - position)
            b_name = str(buffer[position : position + size], "utf-8")
            position += size
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("partition_indexes")
            b_partition_indexes: list[int]
            if size * 4 > length - position:
                count_refused("partition_indexes", size, length - position)
            b_partition_indexes = []
            for _ in range(size):
                element_c, = _i.unpack_from(buffer, position)
                position += 4
                b_partition_indexes.append(element_c)
            b_topic_id: bytes = ZERO_UUID
            b_new_starts: list[int] = []
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 10000:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    b_topic_id, = _U.unpack_from(buffer, position)
                    position += 16
                    if position != end_b:
                        raise MalformedMessage("topic_id does not fill its tagged field")
                elif tag_b == 10001:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    size, position = read_varint(buffer, position)
                    size -= 1
                    if size < 0:
                        null_refused("new_starts")
                    if size * 8 > length - position:
                        count_refused("new_starts", size, length - position)
                    b_new_starts = []
                    for _ in range(size):
                        element_d, = _q.unpack_from(buffer, position)
                        position += 8
                        b_new_starts.append(element_d)
                    if position != end_b:
                        raise MalformedMessage("new_starts does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_topics.append(WritableTxnMarkerTopic(name=b_name, partition_indexes=b_partition_indexes, topic_id=b_topic_id, new_starts=b_new_starts))
        a_coordinator_epoch, = _i.unpack_from(buffer, position)
        position += 4
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_markers.append(WritableTxnMarker(producer_id=a_producer_id, producer_epoch=a_producer_epoch, transaction_result=a_transaction_result, topics=a_topics, coordinator_epoch=a_coordinator_epoch))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return WriteTxnMarkersRequest(markers=message_markers), position


def _encode_request_v2(message: WriteTxnMarkersRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.markers
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _qhB.pack(a.producer_id, a.producer_epoch, a.transaction_result)
        value_b = a.topics
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            value_c = b.name
            text_c = value_c.encode()
            write_varint(out, len(text_c) + 1)
            out += text_c
            value_d = b.partition_indexes
            write_varint(out, len(value_d) + 1)
            for d in value_d:
                out += _i.pack(d)
            tags_e: list[tuple[int, bytearray]] = []
            if b.topic_id != ZERO_UUID:
                part_e = bytearray()
                part_e += _U.pack(b.topic_id)
                tags_e.append((10000, part_e))
            if b.new_starts != []:
                part_e = bytearray()
                value_f = b.new_starts
                write_varint(part_e, len(value_f) + 1)
                for f in value_f:
                    part_e += _q.pack(f)
                tags_e.append((10001, part_e))
            write_varint(out, len(tags_e))
            for tag_e, content_e in tags_e:
                write_varint(out, tag_e)
                write_varint(out, len(content_e))
                out += content_e
        out += _ib.pack(a.coordinator_epoch, a.transaction_version)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v2(buffer: memoryview, position: int) -> tuple[WriteTxnMarkersRequest, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("markers")
    message_markers: list[WritableTxnMarker]
    if size * 18 > length - position:
        count_refused("markers", size, length - position)
    message_markers = []
    for _ in range(size):
        a_producer_id, a_producer_epoch, a_transaction_result = _qhB.unpack_from(buffer, position)
        position += 11
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topics")
        a_topics: list[WritableTxnMarkerTopic]
        if size * 3 > length - position:
            count_refused("topics", size, length - position)
        a_topics = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("name")
            if size > length - position:
                truncated("name", size, length - position)
            b_name = str(buffer[position : position + size], "utf-8")
            position += size
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("partition_indexes")
            b_partition_indexes: list[int]
            if size * 4 > length - position:
                count_refused("partition_indexes", size, length - position)
            b_partition_indexes = []
            for _ in range(size):
                element_c, = _i.unpack_from(buffer, position)
                position += 4
                b_partition_indexes.append(element_c)
            b_topic_id: bytes = ZERO_UUID
            b_new_starts: list[int] = []
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 10000:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    b_topic_id, = _U.unpack_from(buffer, position)
                    position += 16
                    if position != end_b:
                        raise MalformedMessage("topic_id does not fill its tagged field")
                elif tag_b == 10001:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    size, position = read_varint(buffer, position)
                    size -= 1
                    if size < 0:
                        null_refused("new_starts")
                    if size * 8 > length - position:
                        count_refused("new_starts", size, length - position)
                    b_new_starts = []
                    for _ in range(size):
                        element_d, = _q.unpack_from(buffer, position)
                        position += 8
                        b_new_starts.append(element_d)
                    if position != end_b:
                        raise MalformedMessage("new_starts does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_topics.append(WritableTxnMarkerTopic(name=b_name, partition_indexes=b_partition_indexes, topic_id=b_topic_id, new_starts=b_new_starts))
        a_coordinator_epoch, a_transaction_version = _ib.unpack_from(buffer, position)
        position += 5
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_markers.append(WritableTxnMarker(producer_id=a_producer_id, producer_epoch=a_producer_epoch, transaction_result=a_transaction_result, topics=a_topics, coordinator_epoch=a_coordinator_epoch, transaction_version=a_transaction_version))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return WriteTxnMarkersRequest(markers=message_markers), position


_ENCODE_REQUEST: Final = {1: _encode_request_v1, 2: _encode_request_v2}


_DECODE_REQUEST: Final = {1: _decode_request_v1, 2: _decode_request_v2}


def encode_request(message: WriteTxnMarkersRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> WriteTxnMarkersRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"WriteTxnMarkersRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"WriteTxnMarkersRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v1(message: WriteTxnMarkersResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.markers
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _q.pack(a.producer_id)
        value_b = a.topics
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            value_c = b.name
            text_c = value_c.encode()
            write_varint(out, len(text_c) + 1)
            out += text_c
            value_d = b.partitions
            write_varint(out, len(value_d) + 1)
            for d in value_d:
                out += _ih.pack(d.partition_index, d.error_code)
                out.append(0)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v1(buffer: memoryview, position: int) -> tuple[WriteTxnMarkersResponse, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("markers")
    message_markers: list[WritableTxnMarkerResult]
    if size * 10 > length - position:
        count_refused("markers", size, length - position)
    message_markers = []
    for _ in range(size):
        a_producer_id, = _q.unpack_from(buffer, position)
        position += 8
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topics")
        a_topics: list[WritableTxnMarkerTopicResult]
        if size * 3 > length - position:
            count_refused("topics", size, length - position)
        a_topics = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("name")
            if size > length - position:
                truncated("name", size, length - position)
            b_name = str(buffer[position : position + size], "utf-8")
            position += size
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("partitions")
            b_partitions: list[WritableTxnMarkerPartitionResult]
            if size * 7 > length - position:
                count_refused("partitions", size, length - position)
            b_partitions = []
            for _ in range(size):
                c_partition_index, c_error_code = _ih.unpack_from(buffer, position)
                position += 6
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                b_partitions.append(WritableTxnMarkerPartitionResult(partition_index=c_partition_index, error_code=c_error_code))
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_topics.append(WritableTxnMarkerTopicResult(name=b_name, partitions=b_partitions))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_markers.append(WritableTxnMarkerResult(producer_id=a_producer_id, topics=a_topics))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return WriteTxnMarkersResponse(markers=message_markers), position


_ENCODE_RESPONSE: Final = {1: _encode_response_v1, 2: _encode_response_v1}


_DECODE_RESPONSE: Final = {1: _decode_response_v1, 2: _decode_response_v1}


def encode_response(message: WriteTxnMarkersResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> WriteTxnMarkersResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"WriteTxnMarkersResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"WriteTxnMarkersResponse v{version}: {len(buffer) - end} bytes too many")
    return message
