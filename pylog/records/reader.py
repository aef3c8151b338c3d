"""Records out of fetched or stored bytes: one or more batches, the last possibly cut.

For Python values; `columnar` gives Arrow columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pylog.errors import PylogError
from pylog.records import compiled
from pylog.records.batch import HEADER_SIZE, BatchHeader, Buffer, iter_headers, read_header
from pylog.records.compression import DECOMPRESSED_BYTES_MAX
from pylog.records.record import Record, RecordChunk
from pylog.records.record_columns import BatchColumns, RowColumns
from pylog.records.sections import check_crc, located, open_section


def iter_records(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int = 0,
    include_control: bool = False,
    check_crcs: bool = True,
) -> Iterator[Record]:
    """The records at `from_offset` and after it, in order.

    A fetch begins with the batch that holds the asked offset, so its first records may lie before
    it. Control batches are left out unless asked for. Raises CorruptMessage for a batch whose CRC
    does not match, InvalidRecord for one whose records break the format, and
    UnsupportedCompressionType; each names topic, partition and offset. The records of the batches
    before it were given out by then.
    """
    for chunk in iter_chunks(
        buffer,
        topic,
        partition,
        from_offset=from_offset,
        include_control=include_control,
        check_crcs=check_crcs,
    ):
        yield from chunk.records()


def iter_chunks(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int = 0,
    include_control: bool = False,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[RecordChunk]:
    """As `iter_records`: a chunk for each batch with at least one record to give, or for several
    batches together.
    """
    if not include_control and _is_large(buffer):
        yield from _runs().read_runs(
            buffer,
            topic,
            partition,
            from_offset=from_offset,
            check_crcs=check_crcs,
            max_decompressed_bytes=max_decompressed_bytes,
        )
        return
    for position, header in iter_headers(buffer):
        if header.last_offset < from_offset or (header.is_control and not include_control):
            continue
        try:
            if check_crcs:
                check_crc(buffer, position, header)
            columns = decode_columns(buffer, position, header, from_offset, max_decompressed_bytes)
        except PylogError as error:
            raise located(error, topic, partition, header) from error
        epoch = header.partition_leader_epoch
        chunk = RecordChunk(
            topic,
            partition,
            header.timestamp_type,
            epoch if epoch >= 0 else None,
            columns.values(),
            header.next_offset,
            columns,
        )
        if chunk.values:
            yield chunk


def decode_columns(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    from_offset: int = 0,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> BatchColumns:
    """The columns of the whole batch at `position`, from `from_offset` on. CRC not checked.

    Raises InvalidRecord and UnsupportedCompressionType.
    """
    section = open_section(buffer, position, header, max_bytes=max_decompressed_bytes)
    if compiled.is_small(header.record_count):
        return RowColumns.decode(section, header, from_offset)
    columns: BatchColumns = _array_columns().decode(section, header, from_offset)
    return columns


def _is_large(buffer: Buffer) -> bool:
    """Whether compiled code is worth its call, by what the first batch looks like."""
    if len(buffer) < HEADER_SIZE or compiled.is_small_read(len(buffer)):
        return False
    return read_header(buffer).record_count > compiled.SMALL_BATCH_RECORDS


@cache
def _runs() -> Any:
    compiled.load()
    from pylog.records.native import runs

    return runs


@cache
def _array_columns() -> Any:
    compiled.load()
    from pylog.records.array_columns import ArrayColumns

    return ArrayColumns


def first_record_at_or_after(
    buffer: Buffer, timestamp_ms: int, *, from_offset: int = 0
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record whose timestamp is `timestamp_ms` or later, or None.

    Only batches whose header promises such a record are opened. Control records count, as in
    Kafka: they take offsets and timestamps like others.
    """
    for position, header in iter_headers(buffer):
        if header.max_timestamp < timestamp_ms or header.last_offset < from_offset:
            continue
        columns = decode_columns(buffer, position, header, from_offset)
        found = columns.first_at_or_after(timestamp_ms)
        if found is not None:
            return found
    return None
