"""TransactionLog (record type 0), versions 0 to 1.

Generated from broker/coordinator/schemas/transaction_log.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    MalformedMessage,
    count_refused,
    null_refused,
    read_varint,
    skip_tag,
    skip_tagged_fields,
    truncated,
    write_varint,
)

TYPE: Final = 0
VERSIONS: Final = range(0, 2)

_h: Final = Struct(">h")
_i: Final = Struct(">i")
_q: Final = Struct(">q")
_qhib: Final = Struct(">qhib")
_qq: Final = Struct(">qq")


class TransactionLogKey(NamedTuple):
    """The key."""

    transactional_id: str = ""


class TransactionPartitions(NamedTuple):
    """transaction_partitions of TransactionLogValue."""

    topic: str = ""
    partition_ids: tuple[int, ...] = ()


class TransactionLogValue(NamedTuple):
    """The value."""

    producer_id: int = 0
    previous_producer_id: int = -1
    next_producer_id: int = -1
    producer_epoch: int = 0
    next_producer_epoch: int = -1
    transaction_timeout_ms: int = 0
    transaction_status: int = 0
    transaction_partitions: tuple[TransactionPartitions, ...] | None = ()
    transaction_last_update_timestamp_ms: int = 0
    transaction_start_timestamp_ms: int = 0
    client_transaction_version: int = 0


def _encode_key(key: TransactionLogKey) -> bytearray:
    out = bytearray()
    value_a = key.transactional_id
    text_a = value_a.encode()
    out += _h.pack(len(text_a))
    out += text_a
    return out


def _decode_key(buffer: memoryview, position: int) -> tuple[TransactionLogKey, int]:
    length = len(buffer)
    size, = _h.unpack_from(buffer, position)
    position += 2
    if size < 0:
        null_refused("transactional_id")
    if size > length - position:
        truncated("transactional_id", size, length - position)
    key_transactional_id = str(buffer[position : position + size], "utf-8")
    position += size
    assert position <= length
    return TransactionLogKey(transactional_id=key_transactional_id), position


def encode_key(key: TransactionLogKey) -> bytes:
    """The record's key, which begins with its type."""
    return _h.pack(TYPE) + _encode_key(key)


def decode_key(buffer: memoryview) -> TransactionLogKey:
    """The key that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number != TYPE:
            raise MalformedMessage(f"TransactionLogKey: type {number} is not known")
        key, end = _decode_key(buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"TransactionLogKey: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"TransactionLogKey: {len(buffer) - end} bytes too many")
    return key


def _encode_value_v0(value: TransactionLogValue) -> bytearray:
    out = bytearray()
    out += _qhib.pack(value.producer_id, value.producer_epoch, value.transaction_timeout_ms, value.transaction_status)
    value_a = value.transaction_partitions
    if value_a is None:
        out += _i.pack(-1)
    else:
        out += _i.pack(len(value_a))
        for a in value_a:
            value_b = a.topic
            text_b = value_b.encode()
            out += _h.pack(len(text_b))
            out += text_b
            value_c = a.partition_ids
            out += _i.pack(len(value_c))
            for c in value_c:
                out += _i.pack(c)
    out += _qq.pack(value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms)
    return out


def _decode_value_v0(buffer: memoryview, position: int) -> tuple[TransactionLogValue, int]:
    length = len(buffer)
    value_producer_id, value_producer_epoch, value_transaction_timeout_ms, value_transaction_status = _qhib.unpack_from(buffer, position)
    position += 15
    size, = _i.unpack_from(buffer, position)
    position += 4
    value_transaction_partitions: tuple[TransactionPartitions, ...] | None
    if size < 0:
        value_transaction_partitions = None
    else:
        if size * 6 > length - position:
            count_refused("transaction_partitions", size, length - position)
        found_a: list[TransactionPartitions] = []
        for _ in range(size):
            size, = _h.unpack_from(buffer, position)
            position += 2
            if size < 0:
                null_refused("topic")
            if size > length - position:
                truncated("topic", size, length - position)
            b_topic = str(buffer[position : position + size], "utf-8")
            position += size
            size, = _i.unpack_from(buffer, position)
            position += 4
            if size < 0:
                null_refused("partition_ids")
            b_partition_ids: tuple[int, ...]
            if size * 4 > length - position:
                count_refused("partition_ids", size, length - position)
            found_c: list[int] = []
            for _ in range(size):
                element_d, = _i.unpack_from(buffer, position)
                position += 4
                found_c.append(element_d)
            b_partition_ids = tuple(found_c)
            found_a.append(TransactionPartitions(topic=b_topic, partition_ids=b_partition_ids))
        value_transaction_partitions = tuple(found_a)
    value_transaction_last_update_timestamp_ms, value_transaction_start_timestamp_ms = _qq.unpack_from(buffer, position)
    position += 16
    assert position <= length
    return TransactionLogValue(producer_id=value_producer_id, producer_epoch=value_producer_epoch, transaction_timeout_ms=value_transaction_timeout_ms, transaction_status=value_transaction_status, transaction_partitions=value_transaction_partitions, transaction_last_update_timestamp_ms=value_transaction_last_update_timestamp_ms, transaction_start_timestamp_ms=value_transaction_start_timestamp_ms), position


def _encode_value_v1(value: TransactionLogValue) -> bytearray:
    out = bytearray()
    out += _qhib.pack(value.producer_id, value.producer_epoch, value.transaction_timeout_ms, value.transaction_status)
    value_a = value.transaction_partitions
    if value_a is None:
        out.append(0)
    else:
        write_varint(out, len(value_a) + 1)
        for a in value_a:
            value_b = a.topic
            text_b = value_b.encode()
            write_varint(out, len(text_b) + 1)
            out += text_b
            value_c = a.partition_ids
            write_varint(out, len(value_c) + 1)
            for c in value_c:
                out += _i.pack(c)
            out.append(0)
    out += _qq.pack(value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms)
    tags_d: list[tuple[int, bytearray]] = []
    if value.previous_producer_id != -1:
        part_d = bytearray()
        part_d += _q.pack(value.previous_producer_id)
        tags_d.append((0, part_d))
    if value.next_producer_id != -1:
        part_d = bytearray()
        part_d += _q.pack(value.next_producer_id)
        tags_d.append((1, part_d))
    if value.client_transaction_version != 0:
        part_d = bytearray()
        part_d += _h.pack(value.client_transaction_version)
        tags_d.append((2, part_d))
    if value.next_producer_epoch != -1:
        part_d = bytearray()
        part_d += _h.pack(value.next_producer_epoch)
        tags_d.append((3, part_d))
    write_varint(out, len(tags_d))
    for tag_d, content_d in tags_d:
        write_varint(out, tag_d)
        write_varint(out, len(content_d))
        out += content_d
    return out


def _decode_value_v1(buffer: memoryview, position: int) -> tuple[TransactionLogValue, int]:
    length = len(buffer)
    value_producer_id, value_producer_epoch, value_transaction_timeout_ms, value_transaction_status = _qhib.unpack_from(buffer, position)
    position += 15
    size, position = read_varint(buffer, position)
    size -= 1
    value_transaction_partitions: tuple[TransactionPartitions, ...] | None
    if size < 0:
        value_transaction_partitions = None
    else:
        if size * 3 > length - position:
            count_refused("transaction_partitions", size, length - position)
        found_a: list[TransactionPartitions] = []
        for _ in range(size):
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("topic")
            if size > length - position:
                truncated("topic", size, length - position)
            b_topic = str(buffer[position : position + size], "utf-8")
            position += size
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("partition_ids")
            b_partition_ids: tuple[int, ...]
            if size * 4 > length - position:
                count_refused("partition_ids", size, length - position)
            found_c: list[int] = []
            for _ in range(size):
                element_d, = _i.unpack_from(buffer, position)
                position += 4
                found_c.append(element_d)
            b_partition_ids = tuple(found_c)
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            found_a.append(TransactionPartitions(topic=b_topic, partition_ids=b_partition_ids))
        value_transaction_partitions = tuple(found_a)
    value_transaction_last_update_timestamp_ms, value_transaction_start_timestamp_ms = _qq.unpack_from(buffer, position)
    position += 16
    value_previous_producer_id: int = -1
    value_next_producer_id: int = -1
    value_client_transaction_version: int = 0
    value_next_producer_epoch: int = -1
    tags_value, position = read_varint(buffer, position)
    for _ in range(tags_value):
        tag_value, position = read_varint(buffer, position)
        if tag_value == 0:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_previous_producer_id, = _q.unpack_from(buffer, position)
            position += 8
            if position != end_value:
                raise MalformedMessage("previous_producer_id does not fill its tagged field")
        elif tag_value == 1:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_next_producer_id, = _q.unpack_from(buffer, position)
            position += 8
            if position != end_value:
                raise MalformedMessage("next_producer_id does not fill its tagged field")
        elif tag_value == 2:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_client_transaction_version, = _h.unpack_from(buffer, position)
            position += 2
            if position != end_value:
                raise MalformedMessage("client_transaction_version does not fill its tagged field")
        elif tag_value == 3:
            end_value = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            value_next_producer_epoch, = _h.unpack_from(buffer, position)
            position += 2
            if position != end_value:
                raise MalformedMessage("next_producer_epoch does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return TransactionLogValue(producer_id=value_producer_id, producer_epoch=value_producer_epoch, transaction_timeout_ms=value_transaction_timeout_ms, transaction_status=value_transaction_status, transaction_partitions=value_transaction_partitions, transaction_last_update_timestamp_ms=value_transaction_last_update_timestamp_ms, transaction_start_timestamp_ms=value_transaction_start_timestamp_ms, previous_producer_id=value_previous_producer_id, next_producer_id=value_next_producer_id, client_transaction_version=value_client_transaction_version, next_producer_epoch=value_next_producer_epoch), position


_ENCODE: Final = {0: _encode_value_v0, 1: _encode_value_v1}
_DECODE: Final = {0: _decode_value_v0, 1: _decode_value_v1}


def encode_value(value: TransactionLogValue, version: int) -> bytes:
    """The record's value, which begins with its version."""
    return _h.pack(version) + _ENCODE[version](value)


def decode_value(buffer: memoryview) -> TransactionLogValue:
    """The value that fills `buffer`; MalformedMessage says why not."""
    try:
        number, = _h.unpack_from(buffer)
        if number not in _DECODE:
            raise MalformedMessage(f"TransactionLogValue: version {number} is not known")
        value, end = _DECODE[number](buffer, 2)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"TransactionLogValue: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"TransactionLogValue: {len(buffer) - end} bytes too many")
    return value
