"""What a leader makes sure of before a client's batch enters its log (Kafka's LogValidator).

Costs one CRC and, unless the caller did that in the pool already, one pass of the record kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker.config import TopicConfig
from pylog.config import LONG_MAX
from pylog.errors import InvalidRecord, InvalidTimestamp, InvalidTxnState, PylogError
from pylog.model import NO_TIMESTAMP, TimestampType
from pylog.records.batch import (
    CODEC_MASK,
    BatchHeader,
    CompressionType,
    pack_header,
    read_header,
    seal,
    with_log_append_time,
)
from pylog.records.compression import compress
from pylog.records.kernels_pure import RecordsSummary
from pylog.records.sections import open_section
from pylog.records.validate import check_batch, check_records

DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024

_STORED_CODECS: Final = {
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Who writes, and what was checked before.

    `internal`: a coordinator or the controller itself; control batches are allowed and the records
    are its own. `transaction_verified`: the transaction coordinator knows of this partition.
    `checked`: what `check_records` said where it has run already (in the pool, for a compressed
    batch); an error of it is raised only when nothing else comes first.
    """

    internal: bool = False
    transaction_verified: bool = False
    checked: RecordsSummary | PylogError | None = None


CLIENT: Final = Origin()
INTERNAL: Final = Origin(internal=True, transaction_verified=True)


def checked_header(
    batch: bytes,
    config: TopicConfig,
    origin: Origin,
    *,
    wall_ms: int,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> BatchHeader:
    """The header of a batch that may be appended; the errors name the limit and the value.

    Raises MessageTooLarge, UnsupportedVersion, CorruptMessage, UnsupportedCompressionType,
    InvalidRecord, InvalidTimestamp, InvalidTxnState.
    """
    header = check_batch(
        batch, max_message_bytes=config.max_message_bytes, allow_control=origin.internal
    )
    if header.is_transactional and not origin.transaction_verified:
        raise InvalidTxnState(
            f"producer {header.producer_id} sent a transactional batch, but this partition was "
            "not added to its transaction"
        )
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME and not origin.internal:
        raise InvalidTimestamp("a producer may not mark its records as stamped by the broker")
    by_producer = config.message_timestamp_type == "CreateTime"
    if by_producer:
        _check_time(header.base_timestamp, config, wall_ms)
        _check_time(header.max_timestamp, config, wall_ms)
    if not origin.internal:
        summary = origin.checked
        if summary is None:
            summary = check_records(batch, header, max_decompressed_bytes=max_decompressed_bytes)
        elif isinstance(summary, PylogError):
            raise summary
        if by_producer:
            _check_time(summary.min_timestamp, config, wall_ms)
            if summary.max_timestamp != header.max_timestamp:
                raise InvalidTimestamp(
                    f"the batch declares {header.max_timestamp} as its largest timestamp; "
                    f"its records have {summary.max_timestamp}"
                )
        if config.compacted and summary.first_without_key >= 0:
            raise InvalidRecord(
                f"record {summary.first_without_key} of the batch has no key; a compacted topic "
                "needs one",
                record_index=summary.first_without_key,
            )
    return header


def as_stored(
    batch: bytes, header: BatchHeader, config: TopicConfig, *, wall_ms: int
) -> tuple[bytes, BatchHeader]:
    """The batch as the topic keeps it: its codec and who stamps it. Usually the very same bytes."""
    if header.is_control:
        return batch, header
    codec = _STORED_CODECS.get(config.compression_type)
    if codec is not None and codec != header.compression:
        batch = _recompressed(batch, header, codec)
        header = read_header(batch)
    if config.message_timestamp_type == "LogAppendTime":
        batch = with_log_append_time(batch, wall_ms)
        header = read_header(batch)
    return batch, header


def _recompressed(batch: bytes, header: BatchHeader, codec: CompressionType) -> bytes:
    section = open_section(batch, 0, header, max_bytes=DECOMPRESSED_BYTES_MAX)
    body = compress(codec, memoryview(section.buffer)[section.start : section.end])
    new_header = pack_header(
        attributes=(header.attributes & ~CODEC_MASK) | codec,
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


def _check_time(timestamp: int, config: TopicConfig, wall_ms: int) -> None:
    if timestamp == NO_TIMESTAMP:
        return
    after = config.message_timestamp_after_max_ms
    before = config.message_timestamp_before_max_ms
    if timestamp < 0:
        raise InvalidTimestamp(f"timestamp {timestamp} is negative (only -1 means none)")
    if after != LONG_MAX and timestamp > wall_ms + after:
        raise InvalidTimestamp(
            f"timestamp {timestamp} is {timestamp - wall_ms} ms in the broker's future; "
            f"message.timestamp.after.max.ms is {after}"
        )
    if before != LONG_MAX and timestamp < wall_ms - before:
        raise InvalidTimestamp(
            f"timestamp {timestamp} is {wall_ms - timestamp} ms in the broker's past; "
            f"message.timestamp.before.max.ms is {before}"
        )
