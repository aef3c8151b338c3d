"""Record batches to Arrow columns in plain Python: for a process without numba.

The same results as `compiled_columns`, row by row and so tens of times slower.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from pylog.errors import InvalidTimestamp, MessageTooLarge, PylogError
from pylog.records import faults
from pylog.records.arrow_schema import record_schema
from pylog.records.batch import BatchHeader, Buffer, iter_headers
from pylog.records.record_columns import RowColumns
from pylog.records.sections import check_crc, located, open_section

BYTES_MAX: Final = 2**31 - 1
"""The most bytes of uncompressed records together, as `opened.BYTES_MAX`."""
_TIMESTAMP_MAX: Final = (2**63 - 1) // 1000
"""In milliseconds: what still fits 64 bits as microseconds."""


def decode_readable(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int,
    to_offset: int,
    include_headers: bool,
    check_crcs: bool,
    max_decompressed_bytes: int,
) -> tuple[pa.RecordBatch, PylogError | None, int]:
    """As `columnar.decode_readable`."""
    rows = _Rows(from_offset, to_offset)
    error: PylogError | None = None
    error_offset, next_offset = -1, from_offset
    try:
        for position, header in iter_headers(buffer):
            if header.base_offset >= to_offset:
                break
            if header.last_offset < from_offset or header.is_control:
                continue
            next_offset = max(header.next_offset, from_offset)
            try:
                if check_crcs:
                    check_crc(buffer, position, header)
                rows.add(buffer, position, header, max_decompressed_bytes)
            except PylogError as fault:
                error = located(fault, topic, partition, header)
                error.__cause__ = fault
                error_offset = header.base_offset
                break
    except PylogError as fault:  # no batch begins where the next one should
        error, error_offset = fault, next_offset
    return rows.batch(topic, partition, include_headers), error, error_offset


class _Rows:
    """The parts of the records so far, as lists; whole batches only."""

    def __init__(self, from_offset: int, to_offset: int) -> None:
        self._from_offset = from_offset
        self._to_offset = to_offset
        self._bytes = 0
        self._keys: list[Any] = []
        self._values: list[Any] = []
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._types: list[int] = []
        self._headers: list[Any] = []

    def add(
        self, buffer: Buffer, position: int, header: BatchHeader, max_decompressed_bytes: int
    ) -> None:
        """The records of one batch. PylogError, and nothing added, when it cannot be read."""
        section = open_section(buffer, position, header, max_bytes=max_decompressed_bytes)
        size = self._bytes + section.end - section.start
        if size > BYTES_MAX:
            raise MessageTooLarge(
                f"more than {BYTES_MAX} bytes of records in one Arrow batch; fetch fewer bytes at "
                "once"
            )
        columns = RowColumns.decode(section, header, 0)
        offsets, timestamps = columns.offsets(), columns.timestamps()
        taken = [
            index
            for index, offset in enumerate(offsets)
            if self._from_offset <= offset < self._to_offset
        ]
        for index in taken:
            if not -_TIMESTAMP_MAX <= timestamps[index] <= _TIMESTAMP_MAX:
                fault = faults.invalid_record(faults.TIMESTAMP, index)
                raise InvalidTimestamp(str(fault))
        self._bytes = size
        keys, values, headers = columns.keys(), columns.values(), columns.headers()
        self._keys += [keys[index] for index in taken]
        self._values += [values[index] for index in taken]
        self._offsets += [offsets[index] for index in taken]
        self._timestamps += [timestamps[index] * 1000 for index in taken]
        self._types += [int(header.timestamp_type)] * len(taken)
        self._headers += [
            [{"key": name, "value": value} for name, value in headers[index]] or None
            for index in taken
        ]

    def batch(self, topic: str, partition: int, include_headers: bool) -> pa.RecordBatch:
        """All of them as columns."""
        count = len(self._offsets)
        columns: list[list[Any]] = [
            self._keys, self._values, [topic] * count, [partition] * count, self._offsets,
            self._timestamps, self._types,
        ]  # fmt: skip
        if include_headers:
            columns.append(self._headers)
        schema = record_schema(include_headers)
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
