"""The 61-byte header of a record batch: reading, checking and patching it.

Nothing here looks at single records (see `reader`, `columnar`, `validate`) and nothing here loads
numba: a broker's hot path needs this module only.

Layout of Kafka's `DefaultRecordBatch`, big endian:

    position  size  field
           0     8  base offset                 \
           8     4  batch length, from byte 12   |  outside the CRC, so a broker sets offset
          12     4  partition leader epoch       |  and epoch without touching the rest
          16     1  magic = 2                   /
          17     4  CRC-32C of byte 21 to the end
          21     2  attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control,
                    6 delete horizon
          23     4  last offset delta
          27     8  base timestamp
          35     8  max timestamp
          43     8  producer id
          51     2  producer epoch
          53     4  base sequence
          57     4  record count
          61        records, compressed as one when a codec is set
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from pylog.errors import CorruptMessage, MessageTooLarge
from pylog.model import NO_SEQUENCE, TimestampType

Buffer = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
LENGTH_OFFSET: Final = 8
LENGTH_END: Final = 12
"""`batch_length` counts the bytes after this position."""
MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
CRC_START: Final = 21
MAGIC: Final = 2
BATCH_LENGTH_MIN: Final = HEADER_SIZE - LENGTH_END
BATCH_LENGTH_MAX: Final = 2**31 - 1

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

SEQUENCE_MAX: Final = 2**31 - 1

HEADER: Final = Struct(">qiibIhiqqqhii")
"""All fields of the header in the order of `BatchHeader`."""
_OFFSET: Final = Struct(">q")
_INT: Final = Struct(">i")
_CRC: Final = Struct(">I")
_BEFORE_ATTRIBUTES: Final = Struct(">qiibI")
_FROM_ATTRIBUTES: Final = Struct(">hiqqqhii")
_BEFORE_MAGIC: Final = Struct(">qii")
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_OFFSET: Final = 43
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP_OFFSET: Final = 35


class CompressionType(IntEnum):
    """Kafka's codec ids, the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """The fields of one batch header, as they stand in the bytes."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        """Offset of the last record; compaction may have removed the record itself."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        """The codec id; compare it with `CompressionType`. 5 to 7 mean nothing today."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & TIMESTAMP_TYPE_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 without one. Sequences wrap from 2^31-1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


def add_to_sequence(sequence: int, count: int) -> int:
    """`sequence` moved on by `count`, wrapping from 2^31-1 to 0 as Kafka's producer does."""
    return (sequence + count) & SEQUENCE_MAX


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. The batch itself may be cut; the CRC is not checked.

    Raises CorruptMessage when the bytes cannot be a batch header: fewer than 61, another magic, or
    an impossible length. Zero-filled space is therefore corrupt, never an empty batch.
    """
    available = len(buffer) - position
    if available < HEADER_SIZE or position < 0:
        raise CorruptMessage(
            f"a batch header needs {HEADER_SIZE} bytes; {max(available, 0)} are left "
            f"at position {position}"
        )
    # Not by its constructor, a Python function: that would be half the price of this one.
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptMessage(
            f"magic {header.magic} at position {position}; only {MAGIC} is a record batch"
        )
    if header.batch_length < BATCH_LENGTH_MIN:
        raise CorruptMessage(
            f"batch length {header.batch_length} at position {position} is below the smallest "
            f"possible, {BATCH_LENGTH_MIN}"
        )
    return header


def iter_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Each whole batch's (position, header), in order.

    Ends without an error before a cut last batch, which a fetch may end with. Raises
    CorruptMessage, like `read_header`, where the next header is not one.
    """
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = read_header(buffer, position)
        following = position + header.batch_length + LENGTH_END
        if following > end:
            return
        yield position, header
        position = following


def last_header(buffer: Buffer) -> BatchHeader | None:
    """The header of the last whole batch; None when there is none.

    Hops from length to length: the other headers are not looked at, which is for the decoder.
    Raises CorruptMessage as `read_header` does, for an impossible length or the last header.
    """
    end = len(buffer)
    position, last = 0, -1
    while end - position >= HEADER_SIZE:
        (length,) = _INT.unpack_from(buffer, position + LENGTH_OFFSET)
        if length < BATCH_LENGTH_MIN:
            read_header(buffer, position)
        if position + length + LENGTH_END > end:
            break
        last = position
        position += length + LENGTH_END
    return read_header(buffer, last) if last >= 0 else None


def batch_crc(buffer: Buffer, position: int, size: int) -> int:
    """CRC-32C of the batch of `size` bytes at `position`, as its header should state it."""
    return int(crc32c(memoryview(buffer)[position + CRC_START : position + size]))


def crc_matches(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch at `position` is whole and its bytes match its CRC."""
    size = header.size
    return len(buffer) - position >= size and batch_crc(buffer, position, size) == header.crc


def with_offset_and_epoch(
    batch: Buffer, base_offset: int, leader_epoch: int
) -> tuple[bytes, memoryview]:
    """`batch`, exactly one, with the leader's fields: what stands before the magic, made anew, and
    a view of the unchanged rest.

    The CRC does not cover them. Made for `writev`: the records are not copied.
    """
    first = _BEFORE_MAGIC.pack(base_offset, len(batch) - LENGTH_END, leader_epoch)
    return first, memoryview(batch)[MAGIC_OFFSET:]


def with_producer(
    batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int
) -> bytes:
    """A copy of `batch` under another producer id, epoch and first sequence, CRC renewed.

    For batches that were encoded before their place in the producer's order was known.
    """
    header = header_with_producer(batch, producer_id, producer_epoch, base_sequence)
    return b"".join((header, memoryview(batch)[HEADER_SIZE:]))


def header_with_producer(
    batch: Buffer, producer_id: int, producer_epoch: int, base_sequence: int
) -> bytes:
    """The header of `with_producer`'s copy."""
    header = bytearray(batch[:HEADER_SIZE])
    _PRODUCER.pack_into(header, _PRODUCER_OFFSET, producer_id, producer_epoch, base_sequence)
    covered = crc32c(bytes(header[CRC_START:]))
    _CRC.pack_into(header, CRC_OFFSET, crc32c(memoryview(batch)[HEADER_SIZE:], covered))
    return bytes(header)


def with_log_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """A copy of `batch` whose records all bear the broker's `timestamp_ms`, CRC renewed.

    A topic with `message.timestamp.type=LogAppendTime` stores that.
    """
    copy = bytearray(batch)
    attributes = read_header(batch).attributes | TIMESTAMP_TYPE_BIT
    _ATTRIBUTES.pack_into(copy, CRC_START, attributes)
    _OFFSET.pack_into(copy, _MAX_TIMESTAMP_OFFSET, timestamp_ms)
    _CRC.pack_into(copy, CRC_OFFSET, batch_crc(copy, 0, len(copy)))
    return bytes(copy)


def pack_header(
    *,
    attributes: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    last_offset_delta: int | None = None,
) -> bytearray:
    """A header whose length and CRC wait for `finish_header`."""
    header = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        header,
        0,
        base_offset,
        BATCH_LENGTH_MIN,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        record_count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    return header


def finish_header(header: bytearray, records: Buffer) -> None:
    """Set length and CRC for the records that follow, compressed already.

    Raises MessageTooLarge when the batch would pass what its length field can say, 2 GiB.
    """
    _INT.pack_into(header, LENGTH_OFFSET, _batch_length(records))
    _CRC.pack_into(header, CRC_OFFSET, crc32c(records, crc32c(memoryview(header)[CRC_START:])))


def seal(header: bytearray, records: Buffer) -> bytes:
    """The finished batch."""
    finish_header(header, records)
    return b"".join((header, records))


def header_before(
    records: Buffer,
    attributes: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    checked: bool = True,
) -> bytes:
    """`pack_header` and `finish_header` in one, for the producer's path, where a batch may be a
    single record. Unless `checked`, the CRC is left 0. Raises MessageTooLarge.
    """
    rest = _FROM_ATTRIBUTES.pack(
        attributes,
        record_count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    crc = crc32c(records, crc32c(rest)) if checked else 0
    length = _batch_length(records)
    return _BEFORE_ATTRIBUTES.pack(base_offset, length, leader_epoch, MAGIC, crc) + rest


def _batch_length(records: Buffer) -> int:
    length = len(records) + BATCH_LENGTH_MIN
    if length > BATCH_LENGTH_MAX:
        raise MessageTooLarge(
            f"{len(records)} bytes of records do not fit a batch, which ends at "
            f"{BATCH_LENGTH_MAX} bytes"
        )
    return length
