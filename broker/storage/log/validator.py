"""The checks that a leader makes before a client's batch enters its log (Kafka's LogValidator).

Costs one CRC and, unless the caller did that in the pool already, one pass of a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pylog.config import LONG_MAX
from pylog.errors import (
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    MessageTooLarge,
    PylogError,
)
from pylog.model import NO_TIMESTAMP
from pylog.records.batch import (
    CODEC_MASK,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    read_header,
    with_log_append_time,
)
from pylog.records.kernels_pure import RecordsSummary
from pylog.records.sections import open_section
from pylog.records.validate import check_batch, check_records, plain_header
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.recompression import Recompressed, recompress, wanted_compression

COORDINATOR_BYTES_MAX: Final = 1_048_588
"""The most bytes of a batch that a coordinator wrote, whatever `max.message.bytes` its topic has.
"""
DECOMPRESSED_BYTES_MAX: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Origin:
    """The writer of a batch, and the checks that were made before.

    `internal`: a coordinator or the controller itself; control batches are allowed and the records
    are its own. `transaction_verified`: the transaction coordinator knows of this partition.
    `checked`: what `check_records` said where it has run already (in the pool, for a compressed
    batch), with the batch in the topic's codec where that differs; an error of it is raised only
    when nothing else comes first.
    """

    internal: bool = False
    transaction_verified: bool = False
    checked: RecordsSummary | Recompressed | PylogError | None = None


CLIENT: Final = Origin()
INTERNAL: Final = Origin(internal=True, transaction_verified=True)


def checked_header(
    batch: Buffer,
    config: TopicConfig,
    origin: Origin,
    wall_ms: int,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
    has_open: Callable[[int, int], bool] = lambda producer_id, epoch: False,
) -> BatchHeader:
    """The header of a batch that may be appended; the errors name the limit and the value.
    `has_open`: whether a transaction of that producer id and epoch is open in the log.

    Raises MessageTooLarge, UnsupportedVersion, CorruptMessage, UnsupportedCompressionType,
    InvalidRecord, InvalidTimestamp, InvalidTxnState.
    """
    internal = origin.internal
    by_producer = config.message_timestamp_type == "CreateTime"
    if by_producer and not internal and origin.checked is None:
        plain = plain_header(
            batch,
            config.max_message_bytes,
            wall_ms,
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
            needs_keys=config.compacted,
        )
        if plain is not None:
            return plain
    bytes_max = COORDINATOR_BYTES_MAX if internal else config.max_message_bytes
    header = check_batch(batch, bytes_max, internal)
    attributes = header.attributes
    if (
        attributes & TRANSACTIONAL_BIT
        and not origin.transaction_verified
        and not has_open(header.producer_id, header.producer_epoch)
    ):
        raise InvalidTxnState(
            f"producer {header.producer_id} sent a transactional batch, but this partition was "
            "not added to its transaction"
        )
    if attributes & TIMESTAMP_TYPE_BIT and not internal:
        raise InvalidTimestamp("a producer may not mark its records as stamped by the broker")
    if by_producer:
        _check_times(header.base_timestamp, header.max_timestamp, config, wall_ms)
    if not internal:
        summary = origin.checked
        if summary is None:
            summary = check_records(batch, header, max_decompressed_bytes)
        elif isinstance(summary, Recompressed):
            summary = summary.summary
        elif isinstance(summary, PylogError):
            raise summary
        smallest, largest, without_key = summary
        if by_producer:
            if smallest != header.base_timestamp:
                _check_times(smallest, smallest, config, wall_ms)
            if largest != header.max_timestamp:
                raise InvalidTimestamp(
                    f"the batch declares {header.max_timestamp} as its largest timestamp; "
                    f"its records have {largest}"
                )
        if without_key >= 0 and config.compacted:
            raise InvalidRecord(
                f"record {without_key} of the batch has no key; a compacted topic needs one",
                record_index=without_key,
            )
    return header


def as_stored(
    batch: Buffer, header: BatchHeader, config: TopicConfig, origin: Origin, *, wall_ms: int
) -> tuple[Buffer, BatchHeader]:
    """The batch in the topic's codec and with its timestamp type. Usually the very same bytes.

    MessageTooLarge when a client's is above `max.message.bytes` in the topic's codec.
    """
    if header.is_control:
        return batch, header
    compression = wanted_compression(config, header.attributes & CODEC_MASK)
    if compression is not None:
        ready = origin.checked
        if isinstance(ready, Recompressed) and ready.compression == compression:
            batch = ready.batch
        else:  # a coordinator's, or the setting changed on the way from the pool
            section = open_section(batch, 0, header, max_bytes=DECOMPRESSED_BYTES_MAX)
            batch = recompress(header, section, compression)
        header = read_header(batch)
        if len(batch) > config.max_message_bytes and not origin.internal:
            raise MessageTooLarge(
                f"the batch has {len(batch)} bytes with compression.type="
                f"{config.compression_type} of the topic; max.message.bytes is "
                f"{config.max_message_bytes}"
            )
    if config.message_timestamp_type == "LogAppendTime":
        batch = with_log_append_time(batch, wall_ms)
        header = read_header(batch)
    return batch, header


def _check_times(one: int, other: int, config: TopicConfig, wall_ms: int) -> None:
    """Both, at the price of one where nothing is wrong."""
    oldest = wall_ms - config.message_timestamp_before_max_ms
    if oldest <= one and oldest <= other and one >= 0 and other >= 0:
        newest = wall_ms + config.message_timestamp_after_max_ms
        if one <= newest and other <= newest:
            return
    _check_time(one, config, wall_ms)
    _check_time(other, config, wall_ms)


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
