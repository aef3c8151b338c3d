"""The batches of a fetch made ready for a kernel that reads all their records at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from pylog.errors import MessageTooLarge, PylogError
from pylog.records import faults
from pylog.records import scan_kernels as scanning
from pylog.records.batch import CRC_START, HEADER_SIZE, Buffer, read_header
from pylog.records.native.raw_memory import buffer_address
from pylog.records.sections import check_crc, located, open_section

BYTES_MAX: Final = 2**31 - 1
"""The most bytes of uncompressed records together: Arrow's `binary` and `string` count in 32 bits.
"""
_SCANNED_AT_ONCE: Final = 1024


class OpenedBatches:
    """Batches of one partition that may hold records from `from_offset` to below `to_offset`:
    found, their CRCs checked, decompressed. Control batches and a cut last one are left out.

    `table` (of `scan_kernels`, with addresses) ends before the first batch that cannot be read;
    `error` then says why, with topic, partition and offset, and `error_offset` is where that batch
    begins. The addresses are good while this object lives.
    """

    def __init__(
        self,
        buffer: Buffer,
        topic: str,
        partition: int,
        *,
        from_offset: int,
        to_offset: int,
        check_crcs: bool,
        max_bytes: int,
    ) -> None:
        self.error: PylogError | None = None
        self.error_offset = -1
        self.bytes = 0
        self._buffer = buffer
        self._topic = topic
        self._partition = partition
        self._address, alive = buffer_address(buffer)
        self._alive = [alive]
        self.table = self._scan(from_offset, to_offset)
        self._rows = self.table[:, : scanning.CRC + 1].tolist()
        if check_crcs:
            self._check_crcs()
        self._open(max_bytes)

    @property
    def records(self) -> int:
        """The number of records that the headers declare; safe to allocate for."""
        return int(self.table[:, scanning.COUNT].sum())

    def cut(self, row: int, error: PylogError) -> None:
        """The batch in this row cannot be read: what is left are those before it."""
        start = self._rows[row][0] - HEADER_SIZE - self._address
        header = read_header(self._buffer, start)
        self.table = self.table[:row]
        self.error = located(error, self._topic, self._partition, header)
        self.error.__cause__ = error
        self.error_offset = header.base_offset

    def _scan(self, from_offset: int, to_offset: int) -> NDArray[np.int64]:
        tables: list[NDArray[np.int64]] = []
        position, why = 0, scanning.FULL
        while why == scanning.FULL:
            found = np.empty((_SCANNED_AT_ONCE, scanning.FIELDS), np.int64)
            rows, position, why = scanning.scan_batches(
                self._address, position, len(self._buffer), from_offset, to_offset, found
            )
            tables.append(found[:rows])
        table = tables[0] if len(tables) == 1 else np.concatenate(tables)
        if why == scanning.NOT_A_BATCH:
            try:
                read_header(self._buffer, position)
            except PylogError as error:
                last = int((table[:, scanning.BASE_OFFSET] + table[:, 5]).max(initial=-1))
                self.error, self.error_offset = error, max(last + 1, from_offset)
        return table

    def _check_crcs(self) -> None:
        view = memoryview(self._buffer)
        # From a batch's records back to what the CRC covers.
        offset = CRC_START - HEADER_SIZE - self._address
        for row, (start, stop, crc) in enumerate(self._rows):
            if crc32c(view[start + offset : stop - self._address]) != crc:
                position = start - HEADER_SIZE - self._address
                try:
                    check_crc(self._buffer, position, read_header(self._buffer, position))
                except PylogError as error:
                    self.cut(row, error)
                return

    def _open(self, max_bytes: int) -> None:
        """Decompress what needs it, and refuse impossible counts and sizes."""
        table = self.table
        for row in np.flatnonzero(table[:, scanning.CODEC]).tolist():
            position = self._rows[row][0] - HEADER_SIZE - self._address
            header = read_header(self._buffer, position)
            try:
                section = open_section(self._buffer, position, header, max_bytes=max_bytes)
                self.bytes += section.end - section.start
                self._refuse_too_many()
            except PylogError as error:
                self.cut(row, error)
                break
            address, alive = buffer_address(section.buffer)
            self._alive.append(alive)
            table[row, scanning.START] = address + section.start
            table[row, scanning.STOP] = address + section.end
        table = self.table
        sizes = table[:, scanning.STOP] - table[:, scanning.START]
        counts = table[:, scanning.COUNT]
        impossible = np.flatnonzero((counts < 0) | (counts > sizes // faults.RECORD_SIZE_MIN))
        if len(impossible):
            row = int(impossible[0])
            self.cut(row, faults.invalid_count(int(counts[row]), int(sizes[row])))
        self.bytes = int(sizes[: len(self.table)].sum())
        if len(self.table):
            try:
                self._refuse_too_many()
            except MessageTooLarge as error:
                self.cut(0, error)

    def _refuse_too_many(self) -> None:
        if self.bytes > BYTES_MAX:
            raise MessageTooLarge(
                f"more than {BYTES_MAX} bytes of records in one Arrow batch; fetch fewer bytes at "
                "once"
            )
