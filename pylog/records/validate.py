"""What a leader checks of a batch that a client sent, before it takes it into the log.

`check_batch` costs a CRC and is done for every batch, on the loop. `check_records` looks at each
record, decompressing where needed, so it belongs in the pool for large or compressed batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from crc32c import crc32c

from pylog.errors import CorruptMessage, InvalidRecord, MessageTooLarge, UnsupportedVersion
from pylog.model import NO_SEQUENCE
from pylog.records import faults
from pylog.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    MAGIC_OFFSET,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    read_header,
)
from pylog.records.compression import check_codec
from pylog.records.kernels_pure import RecordsSummary
from pylog.records.sections import Section, check_crc, open_section


def check_batch(
    batch: Buffer, *, max_message_bytes: int, allow_control: bool = False
) -> BatchHeader:
    """The header of `batch`, which is proven to be exactly one batch that a client may send.

    `allow_control` is for coordinators' own writes. Raises MessageTooLarge, UnsupportedVersion
    (magic), CorruptMessage (size, CRC), UnsupportedCompressionType, and InvalidRecord for a header
    that contradicts itself. Says nothing about the records inside.
    """
    size = len(batch)
    if size > max_message_bytes:
        raise MessageTooLarge(
            f"the batch has {size} bytes; max.message.bytes is {max_message_bytes}"
        )
    if size > MAGIC_OFFSET and batch[MAGIC_OFFSET] != MAGIC and size >= HEADER_SIZE:
        raise UnsupportedVersion(
            f"record format (magic) {batch[MAGIC_OFFSET]} is not supported; use {MAGIC}"
        )
    header = read_header(batch)
    own_size = header.batch_length + LENGTH_END
    if own_size > size:
        raise CorruptMessage(f"the batch is cut: {size} of {own_size} bytes")
    if crc32c(memoryview(batch)[CRC_START:own_size]) != header.crc:
        check_crc(batch, 0, header)
    if own_size < size:
        raise InvalidRecord(
            f"exactly one batch is allowed; {size - own_size} bytes follow the first"
        )
    if header.attributes & CODEC_MASK:
        check_codec(header.compression)
    _check_fields(header, allow_control)
    return header


def _check_fields(header: BatchHeader, allow_control: bool) -> None:
    if header.record_count <= 0:
        raise InvalidRecord(f"the batch declares {header.record_count} records; send at least 1")
    if header.last_offset_delta != header.record_count - 1:
        raise InvalidRecord(
            f"the last offset delta is {header.last_offset_delta} with "
            f"{header.record_count} records; it must be their number less 1"
        )
    if header.base_offset != 0:
        raise InvalidRecord(f"the base offset is {header.base_offset}; a producer must leave it 0")
    if header.attributes & CONTROL_BIT:
        if not allow_control:
            raise InvalidRecord("clients may not write control batches")
        return
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRecord(
                f"producer id {header.producer_id} with epoch {header.producer_epoch} and "
                f"sequence {header.base_sequence}; both must be 0 or more"
            )
    elif header.attributes & TRANSACTIONAL_BIT or header.base_sequence != NO_SEQUENCE:
        raise InvalidRecord("a transactional or sequenced batch needs a producer id")


def check_records(
    batch: Buffer, header: BatchHeader, *, max_decompressed_bytes: int
) -> RecordsSummary:
    """Proof that the batch holds what its header declares: the count of records, each whole,
    with offset deltas 0, 1, 2 ... and nothing after the last.

    The summary lets a leader check what Kafka checks per record: timestamps against the topic's
    limits, keys on a compacted topic. Raises InvalidRecord with `record_index`, and the errors of
    decompression; the output never passes `max_decompressed_bytes`.
    """
    if header.attributes & CODEC_MASK:
        section = open_section(batch, 0, header, max_bytes=max_decompressed_bytes)
        return check_section(section, header)
    size, count = header.batch_length + LENGTH_END, header.record_count
    if not 0 <= count <= (size - HEADER_SIZE) // faults.RECORD_SIZE_MIN:
        raise faults.invalid_count(count, size - HEADER_SIZE)
    return _check(batch, HEADER_SIZE, size, header)


def check_section(section: Section, header: BatchHeader) -> RecordsSummary:
    """`check_records` for records that are unpacked already."""
    return _check(section.buffer, section.start, section.end, header)


def _check(buffer: Buffer, start: int, end: int, header: BatchHeader) -> RecordsSummary:
    buffer_address, compiled = _kernels()
    address, _alive = buffer_address(buffer)
    fault, index, smallest, largest, without_key = compiled(
        address, start, end, header.record_count, header.base_timestamp
    )
    if fault != faults.NONE:
        raise faults.invalid_record(fault, index)
    return RecordsSummary(smallest, largest, without_key)


@cache
def _kernels() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Loaded at the first use: who only checks headers never loads numba."""
    from pylog.records import decode_kernels, raw_memory

    return raw_memory.buffer_address, decode_kernels.check_records
