"""The columns of one batch's decoded records, as Python lists made on demand."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Protocol

from pylog.model import TimestampType
from pylog.records.batch import BatchHeader, Buffer
from pylog.records.faults import invalid_record
from pylog.records.headers import Header, read_headers
from pylog.records.kernels_pure import RecordFault, RecordFields, decode_records, wrap_int64
from pylog.records.sections import Section


class RecordColumns(Protocol):
    """Lists of equal length, in the order of the records."""

    def offsets(self) -> list[int]: ...
    def offset_at(self, index: int) -> int: ...
    def timestamps(self) -> list[int]: ...
    def keys(self) -> list[Any]: ...
    def headers(self) -> list[list[Header]]: ...
    def values(self) -> list[Any]: ...


class BatchColumns(RecordColumns, Protocol):
    """Those of one batch."""

    def first_at_or_after(self, timestamp_ms: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record whose timestamp is `timestamp_ms` or later."""


class RowColumns:
    """Over the rows that the pure decoder found."""

    def __init__(self, buffer: Buffer, header: BatchHeader, rows: list[RecordFields]) -> None:
        self._buffer = buffer
        self._header = header
        self._rows = rows

    @classmethod
    def decode(cls, section: Section, header: BatchHeader, from_offset: int) -> RowColumns:
        """The records at `from_offset` and after; InvalidRecord for a malformed section."""
        try:
            rows = decode_records(*section, header.record_count, header.last_offset_delta)
        except RecordFault as fault:
            raise invalid_record(fault.fault, fault.index) from None
        delta = from_offset - header.base_offset
        first = bisect_left(rows, delta, key=lambda row: row.offset_delta)
        return cls(section.buffer, header, rows[first:])

    def values(self) -> list[Any]:
        return [self._data(row.value_start, row.value_length) for row in self._rows]

    def keys(self) -> list[Any]:
        return [self._data(row.key_start, row.key_length) for row in self._rows]

    def offsets(self) -> list[int]:
        base = self._header.base_offset
        return [base + row.offset_delta for row in self._rows]

    def offset_at(self, index: int) -> int:
        return self._header.base_offset + self._rows[index].offset_delta

    def timestamps(self) -> list[int]:
        header = self._header
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return [header.max_timestamp] * len(self._rows)
        return [wrap_int64(header.base_timestamp + row.timestamp_delta) for row in self._rows]

    def first_at_or_after(self, timestamp_ms: int) -> tuple[int, int] | None:
        for index, timestamp in enumerate(self.timestamps()):
            if timestamp >= timestamp_ms:
                return self.offset_at(index), timestamp
        return None

    def headers(self) -> list[list[Header]]:
        return [
            read_headers(self._buffer, row.headers_start, row.header_count, row.end)
            for row in self._rows
        ]

    def _data(self, start: int, length: int) -> bytes | None:
        return None if length < 0 else bytes(self._buffer[start : start + length])
