"""From a batch's bytes to its plain records section, the first step of every reader of records."""

from __future__ import annotations

from typing import NamedTuple

from pylog.errors import CorruptMessage, InvalidRecord, PylogError
from pylog.records import faults
from pylog.records.batch import HEADER_SIZE, BatchHeader, Buffer, CompressionType, crc_matches
from pylog.records.compression import decompress


class Section(NamedTuple):
    """Uncompressed records: `buffer[start:end]`."""

    buffer: Buffer
    start: int
    end: int


def open_section(buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int) -> Section:
    """The records of the whole batch at `position`, decompressed when they need it.

    Raises InvalidRecord when the stream is malformed, passes `max_bytes`, or cannot hold as many
    records as the header declares; UnsupportedCompressionType for another codec. After this the
    declared count is safe to allocate for.
    """
    start, end = position + HEADER_SIZE, position + header.size
    section = Section(buffer, start, end)
    codec = header.compression
    if codec != CompressionType.NONE:
        plain = decompress(codec, memoryview(buffer)[start:end], max_bytes=max_bytes)
        section = Section(plain, 0, len(plain))
    size = section.end - section.start
    if not 0 <= header.record_count <= size // faults.RECORD_SIZE_MIN:
        raise faults.invalid_count(header.record_count, size)
    return section


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raises CorruptMessage, with the offset, unless the batch's bytes match its CRC."""
    if not crc_matches(buffer, position, header):
        raise CorruptMessage(
            f"the batch at offset {header.base_offset} ({header.size} bytes) does not match its CRC"
        )


def located(error: PylogError, topic: str, partition: int, header: BatchHeader) -> PylogError:
    """The same error, its message led by where the batch is."""
    message = f"{topic}-{partition}, batch at offset {header.base_offset}: {error}"
    if isinstance(error, InvalidRecord):
        return InvalidRecord(message, record_index=error.record_index)
    return type(error)(message)
