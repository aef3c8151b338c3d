"""kafka-python's record, and how one comes to be."""

from __future__ import annotations

from typing import Any, NamedTuple

from pylog.compat.kafka_python.serializer import Convert
from pylog.records.record import Record


class ConsumerRecord(NamedTuple):
    """One record of a partition. Sizes are of the bytes, -1 for None; `checksum` is None, as for
    all records since Kafka 0.11.
    """

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


def consumer_record(
    record: Record, deserialize_key: Convert | None, deserialize_value: Convert | None
) -> ConsumerRecord:
    """The record with its key and value deserialized; raises what a deserializer raises."""
    topic, headers = record.topic, list(record.headers)
    key, value = record.key, record.value
    epoch = record.leader_epoch
    return ConsumerRecord(
        topic,
        record.partition,
        -1 if epoch is None else epoch,
        record.offset,
        record.timestamp_ms,
        int(record.timestamp_type),
        key if deserialize_key is None else deserialize_key(topic, headers, key),
        value if deserialize_value is None else deserialize_value(topic, headers, value),
        headers,
        None,
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        sum(len(name.encode()) + len(data or b"") for name, data in headers) if headers else -1,
    )
