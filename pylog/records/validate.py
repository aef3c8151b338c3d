"""The checks of a leader on a batch that a client sent, before it takes it into the log.

`plain_header` finds most batches in order, in one look at all of it. A batch that it does not
answer for is looked at one thing after the other, so that an error names what is wrong:
`check_batch` costs a CRC and is done on the loop; `check_records` looks at each record,
decompressing where needed, so it belongs in the pool for large or compressed batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

from crc32c import crc32c

from pylog.errors import CorruptMessage, InvalidRecord, MessageTooLarge, UnsupportedVersion
from pylog.model import NO_SEQUENCE
from pylog.records import faults
from pylog.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
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


def plain_header(
    batch: Buffer,
    max_message_bytes: int,
    wall_ms: int,
    before_ms: int,
    after_ms: int,
    *,
    needs_keys: bool,
) -> BatchHeader | None:
    """The header of a batch that both checks below pass, and whose timestamps, in milliseconds, are
    from `before_ms` before to `after_ms` after `wall_ms` and those that the header declares; each
    record has a key if it `needs_keys`.

    None says nothing: only batches without any attribute, with timestamps, are answered for.
    """
    size = len(batch)
    if not HEADER_SIZE <= size <= max_message_bytes:
        return None
    buffer_address, _, is_plain = _kernels()
    address, _alive = buffer_address(batch)
    if not is_plain(address, size, wall_ms, before_ms, after_ms, needs_keys):
        return None
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(batch))
    return header if crc32c(memoryview(batch)[CRC_START:]) == header.crc else None


def check_batch(batch: Buffer, max_message_bytes: int, allow_control: bool = False) -> BatchHeader:
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
    if size >= HEADER_SIZE and batch[MAGIC_OFFSET] != MAGIC:
        raise UnsupportedVersion(
            f"record format (magic) {batch[MAGIC_OFFSET]} is not supported; use {MAGIC}"
        )
    header = read_header(batch)
    if header.batch_length + LENGTH_END != size:
        _refuse_size(batch, header)
    if crc32c(memoryview(batch)[CRC_START:]) != header.crc:
        check_crc(batch, 0, header)
    _check_fields(header, allow_control)
    return header


def _refuse_size(batch: Buffer, header: BatchHeader) -> NoReturn:
    size, own_size = len(batch), header.size
    if own_size > size:
        raise CorruptMessage(f"the batch is cut: {size} of {own_size} bytes")
    check_crc(batch, 0, header)
    raise InvalidRecord(f"exactly one batch is allowed; {size - own_size} bytes follow the first")


def _check_fields(header: BatchHeader, allow_control: bool) -> None:
    (
        base_offset, _, _, _, _, attributes, last_offset_delta, _, _,
        producer_id, epoch, sequence, count,
    ) = header  # fmt: skip
    if attributes & CODEC_MASK:
        check_codec(attributes & CODEC_MASK)
    if count <= 0:
        raise InvalidRecord(f"the batch declares {count} records; send at least 1")
    if last_offset_delta != count - 1:
        raise InvalidRecord(
            f"the last offset delta is {last_offset_delta} with "
            f"{count} records; it must be their number less 1"
        )
    if base_offset != 0:
        raise InvalidRecord(f"the base offset is {base_offset}; a producer must leave it 0")
    if attributes & CONTROL_BIT:
        if not allow_control:
            raise InvalidRecord("clients may not write control batches")
        return
    if producer_id >= 0:
        # A coordinator's batch of a transaction has no sequence.
        if epoch < 0 or (sequence < 0 and not allow_control):
            raise InvalidRecord(
                f"producer id {producer_id} with epoch {epoch} and "
                f"sequence {sequence}; both must be 0 or more"
            )
    elif attributes & TRANSACTIONAL_BIT or sequence != NO_SEQUENCE:
        raise InvalidRecord("a transactional or sequenced batch needs a producer id")


def check_records(
    batch: Buffer, header: BatchHeader, max_decompressed_bytes: int
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
    return _check(batch, HEADER_SIZE, size, count, header.base_timestamp)


def check_section(section: Section, header: BatchHeader) -> RecordsSummary:
    """`check_records` for records that are unpacked already."""
    return _check(*section, header.record_count, header.base_timestamp)


def _check(buffer: Buffer, start: int, end: int, count: int, base_timestamp: int) -> RecordsSummary:
    buffer_address, compiled, _ = _kernels()
    address, _alive = buffer_address(buffer)
    found = compiled(address, start, end, count, base_timestamp)
    if found[0] != faults.NONE:
        raise faults.invalid_record(found[0], found[1])
    return tuple.__new__(RecordsSummary, found[2:])


@cache
def _kernels() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Loaded at the first use: a caller that only checks headers never loads numba."""
    from pylog.records import check_kernels
    from pylog.records.native import raw_memory

    directly = raw_memory.directly
    return (
        raw_memory.buffer_address,
        directly(check_kernels.check_records),
        directly(check_kernels.is_plain),
    )
