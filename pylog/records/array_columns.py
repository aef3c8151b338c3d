"""The columns of one batch's records as the compiled kernels find them: arrays of positions, made
into Python objects column by column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylog.model import TimestampType
from pylog.records import native
from pylog.records.batch import BatchHeader
from pylog.records.faults import NONE, invalid_record
from pylog.records.headers import Header, read_headers
from pylog.records.native import decode_kernels as kernels
from pylog.records.native.raw_memory import buffer_address
from pylog.records.sections import Section


class ArrayColumns:
    """A `RecordColumns` over the positions in `fields`, one row per `decode_kernels` constant."""

    def __init__(self, section: Section, header: BatchHeader, fields: NDArray[np.int64]) -> None:
        self._section = section
        self._header = header
        self._fields = fields

    @classmethod
    def decode(cls, section: Section, header: BatchHeader, from_offset: int) -> ArrayColumns:
        """The records at `from_offset` and after; InvalidRecord for a malformed section."""
        count = header.record_count
        fields = np.empty((kernels.FIELDS, count), np.int64)
        address, _alive = buffer_address(section.buffer)
        fault, index = kernels.decode_records(
            address, section.start, section.end, count, header.last_offset_delta, fields
        )
        if fault != NONE:
            raise invalid_record(fault, index)
        delta = from_offset - header.base_offset
        if delta > 0:
            first = int(np.searchsorted(fields[kernels.OFFSET_DELTA], delta))
            fields = fields[:, first:]
        return cls(section, header, fields)

    @property
    def fields(self) -> NDArray[np.int64]:
        """The positions of each record's parts, for other kernels."""
        return self._fields

    def values(self) -> list[Any]:
        return self._bytes(kernels.VALUE_START)

    def keys(self) -> list[Any]:
        return self._bytes(kernels.KEY_START)

    def offsets(self) -> list[int]:
        offsets: list[int] = (
            self._fields[kernels.OFFSET_DELTA] + np.int64(self._header.base_offset)
        ).tolist()
        return offsets

    def offset_at(self, index: int) -> int:
        return self._header.base_offset + int(self._fields[kernels.OFFSET_DELTA, index])

    def timestamps(self) -> list[int]:
        header = self._header
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return [header.max_timestamp] * self._fields.shape[1]
        timestamps: list[int] = (
            self._fields[kernels.TIMESTAMP_DELTA] + np.int64(header.base_timestamp)
        ).tolist()
        return timestamps

    def first_at_or_after(self, timestamp_ms: int) -> tuple[int, int] | None:
        header, deltas = self._header, self._fields[kernels.TIMESTAMP_DELTA]
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            found = header.max_timestamp >= timestamp_ms and len(deltas) > 0
            return (self.offset_at(0), header.max_timestamp) if found else None
        times = deltas + np.int64(header.base_timestamp)
        index = int((times >= timestamp_ms).argmax()) if len(times) else 0
        if not len(times) or times[index] < timestamp_ms:
            return None
        return self.offset_at(index), int(times[index])

    def headers(self) -> list[list[Header]]:
        counts = self._fields[kernels.HEADER_COUNT]
        headers: list[list[Header]] = [[] for _ in range(len(counts))]
        starts, ends = self._fields[kernels.HEADERS_START], self._fields[kernels.END]
        for index in np.flatnonzero(counts).tolist():
            headers[index] = read_headers(
                self._section.buffer, int(starts[index]), int(counts[index]), int(ends[index])
            )
        return headers

    def _bytes(self, start_row: int) -> list[Any]:
        """The byte strings of the column whose positions stand in `start_row`, its lengths in the
        row below.
        """
        if not native.is_on():
            return self._bytes_plainly(start_row)
        count = self._fields.shape[1]
        items: list[Any] = [None] * count
        address, _alive = buffer_address(self._section.buffer)
        made = kernels.fill_list(
            id(items), address, self._fields[start_row], self._fields[start_row + 1]
        )
        if made < count:
            raise MemoryError(f"no memory for {count} values")
        return items

    def _bytes_plainly(self, start_row: int) -> list[Any]:
        view = memoryview(self._section.buffer)
        starts, lengths = self._fields[start_row].tolist(), self._fields[start_row + 1].tolist()
        return [
            bytes(view[start : start + length]) if length >= 0 else None
            for start, length in zip(starts, lengths, strict=True)
        ]
