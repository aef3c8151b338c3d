"""A coordinator's records as they lie in its log: batches of Kafka's format. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pylog.model import Offset, TopicPartition
from pylog.records.batch import Buffer
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_chunks
from pylog_broker.coordinator.runtime.decision import Codec, Record
from pylog_broker.coordinator.runtime.shard import EncodedRecord
from pylog_broker.replicated.state_machine import AppendRecords, LogSlice


def batch_of(records: Sequence[EncodedRecord], wall_ms: int) -> bytes:
    """The batch to append."""
    keys, values = zip(*records, strict=True)
    return encode_batch(values, keys=keys, timestamps=wall_ms)


def slice_of(
    batches: Buffer,
    topic_partition: TopicPartition,
    from_offset: Offset,
    next_offset: Offset,
    codec: Codec,
) -> LogSlice[Record]:
    """What these batches say from `from_offset` on. Control records, those without a key, and those
    of types that are not known here are passed over.

    Raises CorruptMessage, InvalidRecord, and MalformedMessage of a record that the codec cannot
    read.
    """
    appends: list[AppendRecords[Record]] = []
    run: list[Record] = []
    first = expected = from_offset
    for chunk in iter_chunks(batches, *topic_partition, from_offset=from_offset):
        for offset, key, value in zip(chunk.offsets, chunk.keys, chunk.values, strict=True):
            record = None if key is None else codec.decode(key, value)
            if record is None:
                continue
            if offset != expected or not run:
                if run:
                    appends.append(AppendRecords(first, tuple(run)))
                    run = []
                first = Offset(offset)
            run.append(record)
            expected = Offset(offset + 1)
    if run:
        appends.append(AppendRecords(first, tuple(run)))
    return LogSlice(tuple(appends), next_offset)
