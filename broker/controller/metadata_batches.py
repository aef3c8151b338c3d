"""Appends of the metadata log as record batches, and back.

An append is all or nothing, whatever its size; a batch is bounded, so that reading, copying or
checking one takes bounded memory. An append above the bound lies in several batches, its parts: the
first record of each carries the header `part`, `2/5` in the second of five. Readers give out whole
appends only. Parts that something else follows than the next one belong to an append that was never
finished: nobody has learnt of it, and no reader gives it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pylog.errors import CorruptMessage
from pylog.model import Offset
from pylog.records import kernels_pure
from pylog.records.batch import BatchHeader, CompressionType, iter_headers, pack_header, seal
from pylog.records.headers import Header, encode_headers
from pylog.records.record_columns import RecordColumns, RowColumns
from pylog.records.sections import check_crc, open_section
from pylog_broker.metadata.record_codec import record_from_bytes, record_to_bytes
from pylog_broker.metadata.records import MetadataRecord
from pylog_broker.replicated.state_machine import AppendRecords

BATCH_RECORDS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 1024 * 1024
"""The most bytes of the records in a batch; a single larger record has a batch for itself."""

_PART: Final = "part"
_DECODED_BYTES_MAX: Final = 256 * 1024 * 1024  # earlier versions wrote one batch for any append


class MetadataBatchFound(NamedTuple):
    """A batch of the log; a control batch has no records. `part` is (1, 1) of a whole append."""

    header: BatchHeader
    records: list[MetadataRecord]
    part: tuple[int, int]


def encode_append(records: Sequence[MetadataRecord], timestamp_ms: int) -> list[bytes]:
    """The batches that hold these records, oldest first."""
    values = [record_to_bytes(record) for record in records]
    parts = _split(values)
    if len(parts) == 1:
        return [_encode(values, timestamp_ms)]
    return [
        _encode(part, timestamp_ms, headers=[(_PART, f"{number}/{len(parts)}".encode())])
        for number, part in enumerate(parts, 1)
    ]


def encode_plain(records: Sequence[MetadataRecord], timestamp_ms: int, base_offset: int) -> bytes:
    """One batch of records, which need not come all or none."""
    values = [record_to_bytes(record) for record in records]
    return _encode(values, timestamp_ms, base_offset=base_offset)


def decode_batches(batches: bytes) -> Iterator[MetadataBatchFound]:
    """Each batch in turn.

    CorruptMessage, InvalidRecord when one is damaged, UnsupportedVersion when it holds what only a
    later version knows.
    """
    for position, header in iter_headers(batches):
        check_crc(batches, position, header)
        if header.is_control:
            yield MetadataBatchFound(header, [], (1, 1))
            continue
        section = open_section(batches, position, header, max_bytes=_DECODED_BYTES_MAX)
        columns = RowColumns.decode(section, header, header.base_offset)
        records = [record_from_bytes(bytes(value)) for value in columns.values()]
        part = part_of(columns)
        yield MetadataBatchFound(header, records, part)


class WholeAppends:
    """Puts the batches of a log, in their order, together to appends."""

    def __init__(self) -> None:
        self._parts: list[MetadataBatchFound] = []

    @property
    def begun_at(self) -> Offset | None:
        """The first offset of an append whose last parts are still missing; None: there is none."""
        return Offset(self._parts[0].header.base_offset) if self._parts else None

    def add(self, batch: MetadataBatchFound) -> AppendRecords[MetadataRecord] | None:
        """The append that ends with this batch; None: with none that is whole."""
        number, count = batch.part
        if number == 1:
            self._parts = []
        elif not self._continues(batch):
            self._parts = []
            return None
        self._parts.append(batch)
        if number < count:
            return None
        parts, self._parts = self._parts, []
        records = [record for part in parts for record in part.records]
        if not records:
            return None
        return AppendRecords(Offset(parts[0].header.base_offset), tuple(records))

    def _continues(self, batch: MetadataBatchFound) -> bool:
        if not self._parts:
            return False
        last, header = self._parts[-1], batch.header
        return (
            header.base_offset == last.header.last_offset + 1
            and header.partition_leader_epoch == last.header.partition_leader_epoch
            and batch.part == (last.part[0] + 1, last.part[1])
        )


def _split(values: list[bytes]) -> list[list[bytes]]:
    parts: list[list[bytes]] = []
    begin = 0
    for end in kernels_pure.split_records([len(value) for value in values], BATCH_BYTES_MAX):
        firsts = range(begin, end, BATCH_RECORDS_MAX)
        parts += (values[first : min(first + BATCH_RECORDS_MAX, end)] for first in firsts)
        begin = end
    return parts


def _encode(
    values: list[bytes],
    timestamp_ms: int,
    *,
    base_offset: int = 0,
    headers: list[Header] | None = None,
) -> bytes:
    """In plain Python: it is small, and the driver need not load a compiler."""
    count = len(values)
    blobs = None if headers is None else [encode_headers(headers), *[None] * (count - 1)]
    timestamps = [timestamp_ms] * count
    body = kernels_pure.encode_records(values, None, blobs, timestamps, timestamp_ms)
    header = pack_header(
        attributes=CompressionType.NONE,
        record_count=count,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        base_offset=base_offset,
    )
    return seal(header, body)


def part_of(columns: RecordColumns) -> tuple[int, int]:
    """The number of a batch among the parts of its append, and the count of the parts.
    CorruptMessage when the batch's header `part` makes no sense.
    """
    for name, value in next(iter(columns.headers()), ()):
        if name == _PART:
            number, _, count = (value or b"").partition(b"/")
            if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
                raise CorruptMessage(f"a batch says of itself to be part {value!r}")
            return int(number), int(count)
    return (1, 1)
