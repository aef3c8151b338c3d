"""Produce (api key 0), versions 9 to 13.

Generated from broker/kafka/schemas/produce.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    INLINE_RECORDS_MAX,
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

KEY: Final = 0
VERSIONS: Final = range(9, 14)
FLEXIBLE_FROM: Final = 9

_U: Final = Struct(">16s")
_hi: Final = Struct(">hi")
_i: Final = Struct(">i")
_ihqqq: Final = Struct(">ihqqq")
_ii: Final = Struct(">ii")


@dataclass(slots=True)
class PartitionProduceData:
    """partition_data of TopicProduceData."""

    index: int = 0
    records: bytes | None = None


@dataclass(slots=True)
class TopicProduceData:
    """topic_data of ProduceRequest."""

    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@dataclass(slots=True)
class ProduceRequest:
    """The request's body."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    """record_errors of PartitionProduceResponse."""

    batch_index: int = 0
    batch_index_error_message: str | None = None


@dataclass(slots=True)
class ProduceLeader:
    """current_leader of PartitionProduceResponse."""

    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class PartitionProduceResponse:
    """partition_responses of TopicProduceResponse."""

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list)
    error_message: str | None = None
    current_leader: ProduceLeader = field(default_factory=ProduceLeader)


@dataclass(slots=True)
class TopicProduceResponse:
    """responses of ProduceResponse."""

    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@dataclass(slots=True)
class ProduceNodeEndpoint:
    """node_endpoints of ProduceResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True)
class ProduceResponse:
    """The response's body."""

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[ProduceNodeEndpoint] = field(default_factory=list)


def _encode_request_v9(message: ProduceRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.transactional_id
    if value_a is None:
        out.append(0)
    else:
        text_a = value_a.encode()
        write_varint(out, len(text_a) + 1)
        out += text_a
    out += _hi.pack(message.acks, message.timeout_ms)
    value_b = message.topic_data
    write_varint(out, len(value_b) + 1)
    for b in value_b:
        value_c = b.name
        text_c = value_c.encode()
        write_varint(out, len(text_c) + 1)
        out += text_c
        value_d = b.partition_data
        write_varint(out, len(value_d) + 1)
        for d in value_d:
            out += _i.pack(d.index)
            value_e = d.records
            if value_e is None:
                out.append(0)
            else:
                write_varint(out, len(value_e) + 1)
                if len(value_e) <= INLINE_RECORDS_MAX:
                    out += value_e
                else:
                    chunks.append(out)
                    chunks.append(value_e)
                    out = bytearray()
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v9(buffer: memoryview, position: int) -> tuple[ProduceRequest, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        message_transactional_id: str | None = None
    else:
        if size > length - position:
            truncated("transactional_id", size, length - position)
        message_transactional_id = str(buffer[position : position + size], "utf-8")
        position += size
    message_acks, message_timeout_ms = _hi.unpack_from(buffer, position)
    position += 6
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topic_data")
    message_topic_data: list[TopicProduceData]
    if size * 3 > length - position:
        count_refused("topic_data", size, length - position)
    message_topic_data = []
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
            null_refused("partition_data")
        a_partition_data: list[PartitionProduceData]
        if size * 6 > length - position:
            count_refused("partition_data", size, length - position)
        a_partition_data = []
        for _ in range(size):
            b_index, = _i.unpack_from(buffer, position)
            position += 4
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                b_records: bytes | None = None
            else:
                if size > length - position:
                    truncated("records", size, length - position)
                b_records = bytes(buffer[position : position + size])
                position += size
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partition_data.append(PartitionProduceData(index=b_index, records=b_records))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topic_data.append(TopicProduceData(name=a_name, partition_data=a_partition_data))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ProduceRequest(transactional_id=message_transactional_id, acks=message_acks, timeout_ms=message_timeout_ms, topic_data=message_topic_data), position


def _encode_request_v13(message: ProduceRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.transactional_id
    if value_a is None:
        out.append(0)
    else:
        text_a = value_a.encode()
        write_varint(out, len(text_a) + 1)
        out += text_a
    out += _hi.pack(message.acks, message.timeout_ms)
    value_b = message.topic_data
    write_varint(out, len(value_b) + 1)
    for b in value_b:
        out += _U.pack(b.topic_id)
        value_c = b.partition_data
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _i.pack(c.index)
            value_d = c.records
            if value_d is None:
                out.append(0)
            else:
                write_varint(out, len(value_d) + 1)
                if len(value_d) <= INLINE_RECORDS_MAX:
                    out += value_d
                else:
                    chunks.append(out)
                    chunks.append(value_d)
                    out = bytearray()
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v13(buffer: memoryview, position: int) -> tuple[ProduceRequest, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        message_transactional_id: str | None = None
    else:
        if size > length - position:
            truncated("transactional_id", size, length - position)
        message_transactional_id = str(buffer[position : position + size], "utf-8")
        position += size
    message_acks, message_timeout_ms = _hi.unpack_from(buffer, position)
    position += 6
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topic_data")
    message_topic_data: list[TopicProduceData]
    if size * 18 > length - position:
        count_refused("topic_data", size, length - position)
    message_topic_data = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partition_data")
        a_partition_data: list[PartitionProduceData]
        if size * 6 > length - position:
            count_refused("partition_data", size, length - position)
        a_partition_data = []
        for _ in range(size):
            b_index, = _i.unpack_from(buffer, position)
            position += 4
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                b_records: bytes | None = None
            else:
                if size > length - position:
                    truncated("records", size, length - position)
                b_records = bytes(buffer[position : position + size])
                position += size
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partition_data.append(PartitionProduceData(index=b_index, records=b_records))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topic_data.append(TopicProduceData(topic_id=a_topic_id, partition_data=a_partition_data))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ProduceRequest(transactional_id=message_transactional_id, acks=message_acks, timeout_ms=message_timeout_ms, topic_data=message_topic_data), position


_ENCODE_REQUEST: Final = {9: _encode_request_v9, 10: _encode_request_v9, 11: _encode_request_v9, 12: _encode_request_v9, 13: _encode_request_v13}


_DECODE_REQUEST: Final = {9: _decode_request_v9, 10: _decode_request_v9, 11: _decode_request_v9, 12: _decode_request_v9, 13: _decode_request_v13}


def encode_request(message: ProduceRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> ProduceRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ProduceRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ProduceRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v9(message: ProduceResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.responses
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.name
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partition_responses
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _ihqqq.pack(c.index, c.error_code, c.base_offset, c.log_append_time_ms, c.log_start_offset)
            value_d = c.record_errors
            write_varint(out, len(value_d) + 1)
            for d in value_d:
                out += _i.pack(d.batch_index)
                value_e = d.batch_index_error_message
                if value_e is None:
                    out.append(0)
                else:
                    text_e = value_e.encode()
                    write_varint(out, len(text_e) + 1)
                    out += text_e
                out.append(0)
            value_f = c.error_message
            if value_f is None:
                out.append(0)
            else:
                text_f = value_f.encode()
                write_varint(out, len(text_f) + 1)
                out += text_f
            out.append(0)
        out.append(0)
    out += _i.pack(message.throttle_time_ms)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v9(buffer: memoryview, position: int) -> tuple[ProduceResponse, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("responses")
    message_responses: list[TopicProduceResponse]
    if size * 3 > length - position:
        count_refused("responses", size, length - position)
    message_responses = []
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
            null_refused("partition_responses")
        a_partition_responses: list[PartitionProduceResponse]
        if size * 33 > length - position:
            count_refused("partition_responses", size, length - position)
        a_partition_responses = []
        for _ in range(size):
            b_index, b_error_code, b_base_offset, b_log_append_time_ms, b_log_start_offset = _ihqqq.unpack_from(buffer, position)
            position += 30
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("record_errors")
            b_record_errors: list[BatchIndexAndErrorMessage]
            if size * 6 > length - position:
                count_refused("record_errors", size, length - position)
            b_record_errors = []
            for _ in range(size):
                c_batch_index, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    c_batch_index_error_message: str | None = None
                else:
                    if size > length - position:
                        truncated("batch_index_error_message", size, length - position)
                    c_batch_index_error_message = str(buffer[position : position + size], "utf-8")
                    position += size
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                b_record_errors.append(BatchIndexAndErrorMessage(batch_index=c_batch_index, batch_index_error_message=c_batch_index_error_message))
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
            a_partition_responses.append(PartitionProduceResponse(index=b_index, error_code=b_error_code, base_offset=b_base_offset, log_append_time_ms=b_log_append_time_ms, log_start_offset=b_log_start_offset, record_errors=b_record_errors, error_message=b_error_message))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_responses.append(TopicProduceResponse(name=a_name, partition_responses=a_partition_responses))
    message_throttle_time_ms, = _i.unpack_from(buffer, position)
    position += 4
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return ProduceResponse(responses=message_responses, throttle_time_ms=message_throttle_time_ms), position


def _encode_response_v10(message: ProduceResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.responses
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.name
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partition_responses
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _ihqqq.pack(c.index, c.error_code, c.base_offset, c.log_append_time_ms, c.log_start_offset)
            value_d = c.record_errors
            write_varint(out, len(value_d) + 1)
            for d in value_d:
                out += _i.pack(d.batch_index)
                value_e = d.batch_index_error_message
                if value_e is None:
                    out.append(0)
                else:
                    text_e = value_e.encode()
                    write_varint(out, len(text_e) + 1)
                    out += text_e
                out.append(0)
            value_f = c.error_message
            if value_f is None:
                out.append(0)
            else:
                text_f = value_f.encode()
                write_varint(out, len(text_f) + 1)
                out += text_f
            tags_g: list[tuple[int, bytearray]] = []
            if c.current_leader != ProduceLeader():
                part_g = bytearray()
                part_g += _ii.pack(c.current_leader.leader_id, c.current_leader.leader_epoch)
                part_g.append(0)
                tags_g.append((0, part_g))
            write_varint(out, len(tags_g))
            for tag_g, content_g in tags_g:
                write_varint(out, tag_g)
                write_varint(out, len(content_g))
                out += content_g
        out.append(0)
    out += _i.pack(message.throttle_time_ms)
    tags_h: list[tuple[int, bytearray]] = []
    if message.node_endpoints != []:
        part_h = bytearray()
        value_i = message.node_endpoints
        write_varint(part_h, len(value_i) + 1)
        for i in value_i:
            part_h += _i.pack(i.node_id)
            value_j = i.host
            text_j = value_j.encode()
            write_varint(part_h, len(text_j) + 1)
            part_h += text_j
            part_h += _i.pack(i.port)
            value_k = i.rack
            if value_k is None:
                part_h.append(0)
            else:
                text_k = value_k.encode()
                write_varint(part_h, len(text_k) + 1)
                part_h += text_k
            part_h.append(0)
        tags_h.append((0, part_h))
    write_varint(out, len(tags_h))
    for tag_h, content_h in tags_h:
        write_varint(out, tag_h)
        write_varint(out, len(content_h))
        out += content_h
    chunks.append(out)
    return chunks


def _decode_response_v10(buffer: memoryview, position: int) -> tuple[ProduceResponse, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("responses")
    message_responses: list[TopicProduceResponse]
    if size * 3 > length - position:
        count_refused("responses", size, length - position)
    message_responses = []
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
            null_refused("partition_responses")
        a_partition_responses: list[PartitionProduceResponse]
        if size * 33 > length - position:
            count_refused("partition_responses", size, length - position)
        a_partition_responses = []
        for _ in range(size):
            b_index, b_error_code, b_base_offset, b_log_append_time_ms, b_log_start_offset = _ihqqq.unpack_from(buffer, position)
            position += 30
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("record_errors")
            b_record_errors: list[BatchIndexAndErrorMessage]
            if size * 6 > length - position:
                count_refused("record_errors", size, length - position)
            b_record_errors = []
            for _ in range(size):
                c_batch_index, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    c_batch_index_error_message: str | None = None
                else:
                    if size > length - position:
                        truncated("batch_index_error_message", size, length - position)
                    c_batch_index_error_message = str(buffer[position : position + size], "utf-8")
                    position += size
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                b_record_errors.append(BatchIndexAndErrorMessage(batch_index=c_batch_index, batch_index_error_message=c_batch_index_error_message))
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                b_error_message: str | None = None
            else:
                if size > length - position:
                    truncated("error_message", size, length - position)
                b_error_message = str(buffer[position : position + size], "utf-8")
                position += size
            b_current_leader: ProduceLeader = ProduceLeader()
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 0:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    d_leader_id, d_leader_epoch = _ii.unpack_from(buffer, position)
                    position += 8
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_current_leader = ProduceLeader(leader_id=d_leader_id, leader_epoch=d_leader_epoch)
                    if position != end_b:
                        raise MalformedMessage("current_leader does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_partition_responses.append(PartitionProduceResponse(index=b_index, error_code=b_error_code, base_offset=b_base_offset, log_append_time_ms=b_log_append_time_ms, log_start_offset=b_log_start_offset, record_errors=b_record_errors, error_message=b_error_message, current_leader=b_current_leader))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_responses.append(TopicProduceResponse(name=a_name, partition_responses=a_partition_responses))
    message_throttle_time_ms, = _i.unpack_from(buffer, position)
    position += 4
    message_node_endpoints: list[ProduceNodeEndpoint] = []
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("node_endpoints")
            if size * 11 > length - position:
                count_refused("node_endpoints", size, length - position)
            message_node_endpoints = []
            for _ in range(size):
                e_node_id, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("host")
                if size > length - position:
                    truncated("host", size, length - position)
                e_host = str(buffer[position : position + size], "utf-8")
                position += size
                e_port, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    e_rack: str | None = None
                else:
                    if size > length - position:
                        truncated("rack", size, length - position)
                    e_rack = str(buffer[position : position + size], "utf-8")
                    position += size
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                message_node_endpoints.append(ProduceNodeEndpoint(node_id=e_node_id, host=e_host, port=e_port, rack=e_rack))
            if position != end_message:
                raise MalformedMessage("node_endpoints does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return ProduceResponse(responses=message_responses, throttle_time_ms=message_throttle_time_ms, node_endpoints=message_node_endpoints), position


def _encode_response_v13(message: ProduceResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.responses
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partition_responses
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _ihqqq.pack(b.index, b.error_code, b.base_offset, b.log_append_time_ms, b.log_start_offset)
            value_c = b.record_errors
            write_varint(out, len(value_c) + 1)
            for c in value_c:
                out += _i.pack(c.batch_index)
                value_d = c.batch_index_error_message
                if value_d is None:
                    out.append(0)
                else:
                    text_d = value_d.encode()
                    write_varint(out, len(text_d) + 1)
                    out += text_d
                out.append(0)
            value_e = b.error_message
            if value_e is None:
                out.append(0)
            else:
                text_e = value_e.encode()
                write_varint(out, len(text_e) + 1)
                out += text_e
            tags_f: list[tuple[int, bytearray]] = []
            if b.current_leader != ProduceLeader():
                part_f = bytearray()
                part_f += _ii.pack(b.current_leader.leader_id, b.current_leader.leader_epoch)
                part_f.append(0)
                tags_f.append((0, part_f))
            write_varint(out, len(tags_f))
            for tag_f, content_f in tags_f:
                write_varint(out, tag_f)
                write_varint(out, len(content_f))
                out += content_f
        out.append(0)
    out += _i.pack(message.throttle_time_ms)
    tags_g: list[tuple[int, bytearray]] = []
    if message.node_endpoints != []:
        part_g = bytearray()
        value_h = message.node_endpoints
        write_varint(part_g, len(value_h) + 1)
        for h in value_h:
            part_g += _i.pack(h.node_id)
            value_i = h.host
            text_i = value_i.encode()
            write_varint(part_g, len(text_i) + 1)
            part_g += text_i
            part_g += _i.pack(h.port)
            value_j = h.rack
            if value_j is None:
                part_g.append(0)
            else:
                text_j = value_j.encode()
                write_varint(part_g, len(text_j) + 1)
                part_g += text_j
            part_g.append(0)
        tags_g.append((0, part_g))
    write_varint(out, len(tags_g))
    for tag_g, content_g in tags_g:
        write_varint(out, tag_g)
        write_varint(out, len(content_g))
        out += content_g
    chunks.append(out)
    return chunks


def _decode_response_v13(buffer: memoryview, position: int) -> tuple[ProduceResponse, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("responses")
    message_responses: list[TopicProduceResponse]
    if size * 18 > length - position:
        count_refused("responses", size, length - position)
    message_responses = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partition_responses")
        a_partition_responses: list[PartitionProduceResponse]
        if size * 33 > length - position:
            count_refused("partition_responses", size, length - position)
        a_partition_responses = []
        for _ in range(size):
            b_index, b_error_code, b_base_offset, b_log_append_time_ms, b_log_start_offset = _ihqqq.unpack_from(buffer, position)
            position += 30
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("record_errors")
            b_record_errors: list[BatchIndexAndErrorMessage]
            if size * 6 > length - position:
                count_refused("record_errors", size, length - position)
            b_record_errors = []
            for _ in range(size):
                c_batch_index, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    c_batch_index_error_message: str | None = None
                else:
                    if size > length - position:
                        truncated("batch_index_error_message", size, length - position)
                    c_batch_index_error_message = str(buffer[position : position + size], "utf-8")
                    position += size
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                b_record_errors.append(BatchIndexAndErrorMessage(batch_index=c_batch_index, batch_index_error_message=c_batch_index_error_message))
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                b_error_message: str | None = None
            else:
                if size > length - position:
                    truncated("error_message", size, length - position)
                b_error_message = str(buffer[position : position + size], "utf-8")
                position += size
            b_current_leader: ProduceLeader = ProduceLeader()
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 0:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    d_leader_id, d_leader_epoch = _ii.unpack_from(buffer, position)
                    position += 8
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_current_leader = ProduceLeader(leader_id=d_leader_id, leader_epoch=d_leader_epoch)
                    if position != end_b:
                        raise MalformedMessage("current_leader does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_partition_responses.append(PartitionProduceResponse(index=b_index, error_code=b_error_code, base_offset=b_base_offset, log_append_time_ms=b_log_append_time_ms, log_start_offset=b_log_start_offset, record_errors=b_record_errors, error_message=b_error_message, current_leader=b_current_leader))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_responses.append(TopicProduceResponse(topic_id=a_topic_id, partition_responses=a_partition_responses))
    message_throttle_time_ms, = _i.unpack_from(buffer, position)
    position += 4
    message_node_endpoints: list[ProduceNodeEndpoint] = []
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("node_endpoints")
            if size * 11 > length - position:
                count_refused("node_endpoints", size, length - position)
            message_node_endpoints = []
            for _ in range(size):
                e_node_id, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("host")
                if size > length - position:
                    truncated("host", size, length - position)
                e_host = str(buffer[position : position + size], "utf-8")
                position += size
                e_port, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    e_rack: str | None = None
                else:
                    if size > length - position:
                        truncated("rack", size, length - position)
                    e_rack = str(buffer[position : position + size], "utf-8")
                    position += size
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                message_node_endpoints.append(ProduceNodeEndpoint(node_id=e_node_id, host=e_host, port=e_port, rack=e_rack))
            if position != end_message:
                raise MalformedMessage("node_endpoints does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return ProduceResponse(responses=message_responses, throttle_time_ms=message_throttle_time_ms, node_endpoints=message_node_endpoints), position


_ENCODE_RESPONSE: Final = {9: _encode_response_v9, 10: _encode_response_v10, 11: _encode_response_v10, 12: _encode_response_v10, 13: _encode_response_v13}


_DECODE_RESPONSE: Final = {9: _decode_response_v9, 10: _decode_response_v10, 11: _decode_response_v10, 12: _decode_response_v10, 13: _decode_response_v13}


def encode_response(message: ProduceResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> ProduceResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"ProduceResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"ProduceResponse v{version}: {len(buffer) - end} bytes too many")
    return message
