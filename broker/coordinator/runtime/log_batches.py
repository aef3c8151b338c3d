"""A coordinator's records as they lie in its log: batches of Kafka's format. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pylog.model import Offset, ProducerEpoch, ProducerId, TopicPartition
from pylog.records.batch import BatchHeader, Buffer, iter_headers
from pylog.records.builder import ControlType, encode_batch, encode_control_batch, read_control
from pylog.records.reader import iter_chunks
from pylog_broker.coordinator.runtime.decision import Codec, Record, TransactionEnd
from pylog_broker.coordinator.runtime.shard import Append
from pylog_broker.replicated.state_machine import AppendRecords, LogSlice


def batch_of(append: Append, wall_ms: int) -> bytes:
    """The batch to append."""
    end = append.end
    if end is not None:
        return encode_control_batch(
            ControlType.COMMIT if end.commits else ControlType.ABORT,
            producer_id=end.producer_id,
            producer_epoch=end.epoch,
            coordinator_epoch=end.coordinator_epoch,
            timestamp_ms=wall_ms,
        )
    keys, values = zip(*append.records, strict=True)
    producer = append.producer
    if producer is None:
        return encode_batch(values, keys=keys, timestamps=wall_ms)
    return encode_batch(
        values,
        keys=keys,
        timestamps=wall_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transactional=True,
    )


def slice_of(
    batches: Buffer,
    topic_partition: TopicPartition,
    from_offset: Offset,
    next_offset: Offset,
    codec: Codec,
) -> LogSlice[Record]:
    """The records of these batches from `from_offset` on, with the markers among them. Records
    without a key, and those of types that are not known here, are passed over.

    Raises CorruptMessage, InvalidRecord, and MalformedMessage of a record that the codec cannot
    read.
    """
    appends: list[AppendRecords[Record]] = []
    run: list[Record] = []
    first = expected = from_offset
    for offset, record in _records(batches, topic_partition, from_offset, codec):
        if offset != expected or not run:
            if run:
                appends.append(AppendRecords(first, tuple(run)))
                run = []
            first = offset
        run.append(record)
        expected = Offset(offset + 1)
    if run:
        appends.append(AppendRecords(first, tuple(run)))
    return LogSlice(tuple(appends), next_offset)


def _records(
    batches: Buffer, topic_partition: TopicPartition, from_offset: Offset, codec: Codec
) -> Iterator[tuple[Offset, Record]]:
    view = memoryview(batches)
    for begin, end, header in _parts(batches):
        producer_id = -1 if header is None else header.producer_id
        is_control = header is not None and header.is_control
        for chunk in iter_chunks(
            view[begin:end],
            *topic_partition,
            from_offset=from_offset,
            include_control=is_control,
        ):
            for offset, key, value in zip(chunk.offsets, chunk.keys, chunk.values, strict=True):
                if header is not None and is_control:
                    kind, coordinator_epoch = read_control(key, value)
                    marker = TransactionEnd(
                        ProducerId(producer_id),
                        ProducerEpoch(header.producer_epoch),
                        kind is ControlType.COMMIT,
                        coordinator_epoch,
                    )
                    yield Offset(offset), Record(marker, None)
                    continue
                record = None if key is None else codec.decode(key, value)
                if record is not None:
                    if producer_id >= 0:
                        record = record._replace(producer_id=producer_id)
                    yield Offset(offset), record


def _parts(batches: Buffer) -> Iterator[tuple[int, int, BatchHeader | None]]:
    """The positions of transactional batches, each by itself with its header, and of the others
    together.
    """
    begin = end = 0
    for position, header in iter_headers(batches):
        if header.is_transactional:
            if begin < position:
                yield begin, position, None
            begin = position + header.size
            yield position, begin, header
        end = position + header.size
    if begin < end:
        yield begin, end, None
