"""What a follower fetched, checked batch by batch before any of it is written. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.storage.errors import InvalidOffset
from broker.storage.files import Buffer
from broker.storage.segment import BatchPlace
from pylog.errors import CorruptMessage
from pylog.model import TopicPartition
from pylog.records.batch import BatchHeader, crc_matches, iter_headers

PlacedBatch = tuple[BatchPlace, Buffer, Buffer]
"""Where a batch goes, and its bytes in two pieces (the second may be empty)."""


@dataclass(slots=True)
class FetchedBatches:
    """Whole batches in order; `has_gap` when offsets are missing before or between them."""

    headers: list[BatchHeader] = field(default_factory=list)
    placed: list[PlacedBatch] = field(default_factory=list)
    has_gap: bool = False

    @property
    def record_count(self) -> int:
        """Records in all batches."""
        return sum(header.record_count for header in self.headers)

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return sum(place.size for place, _, _ in self.placed)


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
        if not crc_matches(records, position, header):
            raise CorruptMessage(
                f"{topic_partition}: the fetched batch at offset {header.base_offset} does not "
                "match its CRC"
            )
        first = not fetched.headers
        if first and may_begin_inside and header.base_offset <= log_end <= header.last_offset:
            expected = header.base_offset
        if header.base_offset < expected or header.last_offset_delta < 0:
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
        fetched.has_gap = fetched.has_gap or header.base_offset > expected
        expected = header.last_offset + 1
        place = BatchPlace(
            header.size, header.base_offset, header.last_offset, header.max_timestamp
        )
        fetched.headers.append(header)
        fetched.placed.append((place, view[position : position + place.size], b""))
    return fetched
