"""Records of a fetch's batches, all decoded at once: for fetches of more than a few records."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pylog.model import TimestampType
from pylog.records import faults
from pylog.records import scan_kernels as scanning
from pylog.records.batch import Buffer
from pylog.records.headers import Header, read_headers
from pylog.records.native import OBJECT_SLOTS
from pylog.records.native import decode_kernels as kernels
from pylog.records.opened import OpenedBatches
from pylog.records.record import Record, RecordChunk

CHUNK_RECORDS: Final = 512
"""Values become objects in pieces that the processor's caches hold until they are used."""
_OFFSET_MAX: Final = 2**63 - 1


def read_runs(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int,
    check_crcs: bool,
    max_decompressed_bytes: int,
) -> Iterator[RecordChunk]:
    """As `reader.iter_chunks` without control batches, but a chunk spans neighbouring batches of
    one leader epoch and timestamp type.
    """
    opened = OpenedBatches(
        buffer,
        topic,
        partition,
        from_offset=from_offset,
        to_offset=_OFFSET_MAX,
        check_crcs=check_crcs,
        max_bytes=max_decompressed_bytes,
    )
    while True:
        fields = np.empty((kernels.FIELDS, opened.records), np.int64)
        rows, fault, section, index = kernels.decode_sections(opened.table, from_offset, fields)
        if fault == faults.NONE:
            break
        opened.cut(section, faults.invalid_record(fault, index))
    offsets = fields[kernels.OFFSET_DELTA, :rows]
    for begin, end, first, last in _runs(opened.table, offsets):
        epoch = int(first[scanning.LEADER_EPOCH])
        next_offset = int(last[scanning.BASE_OFFSET] + last[scanning.LAST_OFFSET_DELTA]) + 1
        for index in range(begin, end, CHUNK_RECORDS):
            stop = min(index + CHUNK_RECORDS, end)
            columns = RunColumns(fields[:, index:stop], opened)
            yield RecordChunk(
                topic,
                partition,
                TimestampType(int(first[scanning.TIMESTAMP_TYPE])),
                epoch if epoch >= 0 else None,
                columns.values(),
                int(offsets[stop]) if stop < end else next_offset,
                columns,
            )
    if opened.error is not None:
        raise opened.error


def _runs(
    table: NDArray[np.int64], offsets: NDArray[np.int64]
) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
    """(begin, end) among the records, and the first and last batch, of each run."""
    if not len(table):
        return
    kinds = table[:, scanning.LEADER_EPOCH] * 2 + table[:, scanning.TIMESTAMP_TYPE]
    starts = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist()]
    stops = [*starts[1:], len(table)]
    begin = 0
    for start, stop in zip(starts, stops, strict=True):
        end = len(offsets)
        if stop < len(table):
            end = int(np.searchsorted(offsets, table[stop, scanning.BASE_OFFSET]))
        yield begin, end, table[start], table[stop - 1]
        begin = end


def check_record_layout() -> None:
    """RuntimeError unless a Record lies in memory as `fill_records` makes it."""
    chunk = RecordChunk("", 0, TimestampType.CREATE_TIME, None, [b"value"])
    record = Record(chunk, 1 << 40, chunk.values[0])
    word = ctypes.c_int64.from_address
    slots = [word(id(record) + OBJECT_SLOTS + 8 * n).value for n in range(3)]
    number = ctypes.cast(slots[1], ctypes.py_object).value if slots[1] > 0 else None
    if (
        Record.__basicsize__ != OBJECT_SLOTS + 24
        or [slots[0], slots[2]] != [id(chunk), id(chunk.values[0])]
        or number != 1 << 40
    ):
        raise RuntimeError("this Python's objects with slots differ from CPython 3.11 to 3.13")


check_record_layout()


class RunColumns:
    """A `RecordColumns` over what `decode_sections` found: values by address."""

    def __init__(self, fields: NDArray[np.int64], alive: object) -> None:
        self._fields = fields
        self._alive = alive

    def values(self) -> list[Any]:
        return self._bytes(kernels.VALUE_START)

    def keys(self) -> list[Any]:
        return self._bytes(kernels.KEY_START)

    def offsets(self) -> list[int]:
        offsets: list[int] = self._fields[kernels.OFFSET_DELTA].tolist()
        return offsets

    def offset_at(self, index: int) -> int:
        return int(self._fields[kernels.OFFSET_DELTA, index])

    def timestamps(self) -> list[int]:
        timestamps: list[int] = self._fields[kernels.TIMESTAMP_DELTA].tolist()
        return timestamps

    def headers(self) -> list[list[Header]]:
        counts = self._fields[kernels.HEADER_COUNT]
        headers: list[list[Header]] = [[] for _ in range(len(counts))]
        starts, ends = self._fields[kernels.HEADERS_START], self._fields[kernels.END]
        for index in np.flatnonzero(counts).tolist():
            data = ctypes.string_at(int(starts[index]), int(ends[index] - starts[index]))
            headers[index] = read_headers(data, 0, int(counts[index]), len(data))
        return headers

    def new_records(self, chunk: RecordChunk, *, cyclic: bool) -> list[Record]:
        """All records of the chunk whose columns these are."""
        values = chunk.values
        made: list[Any] = [None] * len(values)
        count = kernels.fill_records(
            id(made), id(Record), id(chunk), id(values), len(values), cyclic
        )
        if count < len(values):
            raise MemoryError(f"no memory for {len(values)} records")
        return made

    def _bytes(self, start_row: int) -> list[Any]:
        """The byte strings of the column whose addresses stand in `start_row`, its lengths in the
        row below.
        """
        count = self._fields.shape[1]
        items: list[Any] = [None] * count
        made = kernels.fill_list(id(items), 0, self._fields[start_row], self._fields[start_row + 1])
        if made < count:
            raise MemoryError(f"no memory for {count} values")
        return items
