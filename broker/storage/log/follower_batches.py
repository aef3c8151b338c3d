"""The batches that a follower fetched, checked batch by batch before any of it is written. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from crc32c import crc32c

from pylog.errors import CorruptMessage
from pylog.model import TopicPartition
from pylog.records.batch import CRC_START, LENGTH_END, BatchHeader, iter_headers
from pylog_broker.storage.errors import InvalidOffset
from pylog_broker.storage.files import Buffer
from pylog_broker.storage.segments.segment import BatchPlace

PlacedBatch = tuple[BatchPlace, Buffer, Buffer]
"""The place of a batch in the log, and its bytes in two pieces (the second may be empty)."""


@dataclass(slots=True)
class FetchedBatches:
    """Whole batches in order; `has_gap` when offsets are missing before or between them."""

    headers: list[BatchHeader] = field(default_factory=list)
    placed: list[PlacedBatch] = field(default_factory=list)
    has_gap: bool = False
    record_count: int = 0
    size: int = 0  # bytes


def read_fetched(
    records: Buffer,
    topic_partition: TopicPartition,
    log_end: int,
    *,
    latest_epoch: int,
    may_begin_inside: bool,
) -> FetchedBatches:
    """The whole batches in `records`; a cut last one is left out.

    `latest_epoch` is that of the log's last batch. `may_begin_inside`: the log is empty, so the
    first batch may hold its end offset in the middle (the leader's log starts there, after
    DeleteRecords). Raises CorruptMessage for a CRC, and InvalidOffset for a batch that does not
    follow the one before it, by offset or by epoch.
    """
    fetched = FetchedBatches()
    expected = log_end
    view = memoryview(records)
    for position, header in iter_headers(records):
        base, size = header.base_offset, header.batch_length + LENGTH_END
        if crc32c(view[position + CRC_START : position + size]) != header.crc:
            raise CorruptMessage(
                f"{topic_partition}: the fetched batch at offset {header.base_offset} does not "
                "match its CRC"
            )
        last = base + header.last_offset_delta
        if may_begin_inside and not fetched.headers and base <= log_end <= last:
            expected = base
        if base < expected or last < base:
            raise InvalidOffset(
                f"{topic_partition}: the fetched batch of offsets {header.base_offset} to "
                f"{header.last_offset} does not follow the log's end {expected}"
            )
        if header.partition_leader_epoch < latest_epoch:
            raise InvalidOffset(
                f"{topic_partition}: the fetched batch at offset {header.base_offset} is of epoch "
                f"{header.partition_leader_epoch}, before it stands epoch {latest_epoch}"
            )
        latest_epoch = header.partition_leader_epoch
        if base > expected:
            fetched.has_gap = True
        expected = last + 1
        place = (size, base, last, header.max_timestamp)
        fetched.headers.append(header)
        fetched.placed.append((place, view[position : position + size], b""))
        fetched.record_count += header.record_count
        fetched.size += size
    return fetched
