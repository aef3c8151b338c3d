"""Batches in the codec that a topic's `compression.type` asks for.

A batch that comes in that codec is kept as it is, whatever its level: only another codec costs the
unpacking and packing. That is work for the pool, so it is done before the log sees the batch, and
what comes out goes along with it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog.records.batch import (
    CODEC_MASK,
    BatchHeader,
    Buffer,
    CompressionType,
    pack_header,
    read_header,
    seal,
)
from pylog.records.compression import Compression, compress
from pylog.records.kernels_pure import RecordsSummary
from pylog.records.sections import Section, open_section
from pylog.records.validate import check_section
from pylog_broker.config import TopicConfig

_CODECS: Final = {
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}


class Recompressed(NamedTuple):
    """A batch whose records were found good, in the codec that its topic keeps."""

    summary: RecordsSummary
    compression: Compression
    batch: bytes


def wanted_compression(config: TopicConfig, codec: int) -> Compression | None:
    """The codec that a batch in that codec must be turned into; None when it is right as it is."""
    if config.compression_type == "producer":
        return None
    wanted = _CODECS[config.compression_type]
    if wanted == codec:
        return None
    if wanted is CompressionType.GZIP:
        return Compression(wanted, config.compression_gzip_level)
    if wanted is CompressionType.LZ4:
        return Compression(wanted, config.compression_lz4_level)
    if wanted is CompressionType.ZSTD:
        return Compression(wanted, config.compression_zstd_level)
    return Compression(wanted)


def recompress(header: BatchHeader, section: Section, compression: Compression) -> bytes:
    """The batch of that header around its plain records, in another codec; the rest is kept."""
    body = compress(compression, memoryview(section.buffer)[section.start : section.end])
    new_header = pack_header(
        attributes=(header.attributes & ~CODEC_MASK) | compression.codec,
        record_count=header.record_count,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_offset_delta=header.last_offset_delta,
    )
    return seal(new_header, body)


def checked_and_recompressed(
    batch: Buffer, compression: Compression | None, *, max_decompressed_bytes: int
) -> RecordsSummary | Recompressed:
    """The result of `check_records`, and the batch in another codec where one is given.

    For the pool; raises what `check_records` raises. The CRC is not looked at: the log does that
    with the batch as it came, before it takes this.
    """
    header = read_header(batch)
    section = open_section(batch, 0, header, max_bytes=max_decompressed_bytes)
    summary = check_section(section, header)
    if compression is None:
        return summary
    return Recompressed(summary, compression, recompress(header, section, compression))
