"""AddPartitionsToTxn (api key 24), versions 4 to 5.

Generated from broker/kafka/schemas/add_partitions_to_txn.txt by tools/kafka_codecs.py: do not edit.
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

KEY: Final = 24
VERSIONS: Final = range(4, 6)
FLEXIBLE_FROM: Final = 3

_i: Final = Struct(">i")
_ih: Final = Struct(">ih")
_qhB: Final = Struct(">qh?")


@dataclass(slots=True)
class AddPartitionsToTxnTopic:
    """topics of AddPartitionsToTxnTransaction."""

    name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnTransaction:
    """transactions of AddPartitionsToTxnRequest."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnRequest:
    """The request's body."""

    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult:
    """results_by_partition of AddPartitionsToTxnTopicResult."""

    partition_index: int = 0
    partition_error_code: int = 0


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult:
    """topic_results of AddPartitionsToTxnResult."""

    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnResult:
    """results_by_transaction of AddPartitionsToTxnResponse."""

    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


@dataclass(slots=True)
class AddPartitionsToTxnResponse:
    """The response's body."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default_factory=list)


def _encode_request_v4(message: AddPartitionsToTxnRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    value_a = message.transactions
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.transactional_id
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        out += _qhB.pack(a.producer_id, a.producer_epoch, a.verify_only)
        value_c = a.topics
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            value_d = c.name
            text_d = value_d.encode()
            write_varint(out, len(text_d) + 1)
            out += text_d
            value_e = c.partitions
            write_varint(out, len(value_e) + 1)
            for e in value_e:
                out += _i.pack(e)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_request_v4(buffer: memoryview, position: int) -> tuple[AddPartitionsToTxnRequest, int]:
    length = len(buffer)
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("transactions")
    message_transactions: list[AddPartitionsToTxnTransaction]
    if size * 14 > length - position:
        count_refused("transactions", size, length - position)
    message_transactions = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("transactional_id")
        if size > length - position:
            truncated("transactional_id", size, length - position)
        a_transactional_id = str(buffer[position : position + size], "utf-8")
        position += size
        a_producer_id, a_producer_epoch, a_verify_only = _qhB.unpack_from(buffer, position)
        position += 11
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topics")
        a_topics: list[AddPartitionsToTxnTopic]
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
            b_partitions: list[int]
            if size * 4 > length - position:
                count_refused("partitions", size, length - position)
            b_partitions = []
            for _ in range(size):
                element_c, = _i.unpack_from(buffer, position)
                position += 4
                b_partitions.append(element_c)
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_topics.append(AddPartitionsToTxnTopic(name=b_name, partitions=b_partitions))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_transactions.append(AddPartitionsToTxnTransaction(transactional_id=a_transactional_id, producer_id=a_producer_id, producer_epoch=a_producer_epoch, verify_only=a_verify_only, topics=a_topics))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return AddPartitionsToTxnRequest(transactions=message_transactions), position


_ENCODE_REQUEST: Final = {4: _encode_request_v4, 5: _encode_request_v4}


_DECODE_REQUEST: Final = {4: _decode_request_v4, 5: _decode_request_v4}


def encode_request(message: AddPartitionsToTxnRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> AddPartitionsToTxnRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"AddPartitionsToTxnRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"AddPartitionsToTxnRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v4(message: AddPartitionsToTxnResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _ih.pack(message.throttle_time_ms, message.error_code)
    value_a = message.results_by_transaction
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.transactional_id
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.topic_results
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            value_d = c.name
            text_d = value_d.encode()
            write_varint(out, len(text_d) + 1)
            out += text_d
            value_e = c.results_by_partition
            write_varint(out, len(value_e) + 1)
            for e in value_e:
                out += _ih.pack(e.partition_index, e.partition_error_code)
                out.append(0)
            out.append(0)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v4(buffer: memoryview, position: int) -> tuple[AddPartitionsToTxnResponse, int]:
    length = len(buffer)
    message_throttle_time_ms, message_error_code = _ih.unpack_from(buffer, position)
    position += 6
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("results_by_transaction")
    message_results_by_transaction: list[AddPartitionsToTxnResult]
    if size * 3 > length - position:
        count_refused("results_by_transaction", size, length - position)
    message_results_by_transaction = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("transactional_id")
        if size > length - position:
            truncated("transactional_id", size, length - position)
        a_transactional_id = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic_results")
        a_topic_results: list[AddPartitionsToTxnTopicResult]
        if size * 3 > length - position:
            count_refused("topic_results", size, length - position)
        a_topic_results = []
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
                null_refused("results_by_partition")
            b_results_by_partition: list[AddPartitionsToTxnPartitionResult]
            if size * 7 > length - position:
                count_refused("results_by_partition", size, length - position)
            b_results_by_partition = []
            for _ in range(size):
                c_partition_index, c_partition_error_code = _ih.unpack_from(buffer, position)
                position += 6
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                b_results_by_partition.append(AddPartitionsToTxnPartitionResult(partition_index=c_partition_index, partition_error_code=c_partition_error_code))
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_topic_results.append(AddPartitionsToTxnTopicResult(name=b_name, results_by_partition=b_results_by_partition))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_results_by_transaction.append(AddPartitionsToTxnResult(transactional_id=a_transactional_id, topic_results=a_topic_results))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return AddPartitionsToTxnResponse(throttle_time_ms=message_throttle_time_ms, error_code=message_error_code, results_by_transaction=message_results_by_transaction), position


_ENCODE_RESPONSE: Final = {4: _encode_response_v4, 5: _encode_response_v4}


_DECODE_RESPONSE: Final = {4: _decode_response_v4, 5: _decode_response_v4}


def encode_response(message: AddPartitionsToTxnResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> AddPartitionsToTxnResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"AddPartitionsToTxnResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"AddPartitionsToTxnResponse v{version}: {len(buffer) - end} bytes too many")
    return message
