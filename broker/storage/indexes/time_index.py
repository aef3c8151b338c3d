"""The offsets that a segment had reached each time its largest timestamp grew.

File format (`.timeindex`, big-endian, Kafka's), 12 bytes an entry:

    0  8  the largest timestamp so far
    8  4  offset of the last record of the batch that brought it, relative to the segment's base

Pure: `Segment` writes the bytes. Timestamps strictly grow from entry to entry, also when records
come out of order: everything before an entry's batch is older than the entry's timestamp.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, Self

import numpy as np

from pylog_broker.storage.errors import IndexOffsetOverflow, InvalidOffset
from pylog_broker.storage.indexes.offset_index import RELATIVE_MAX

ENTRY: Final = struct.Struct(">qI")


class TimeIndex:
    """Strictly increasing timestamps with the offsets that brought them."""

    __slots__ = ("_offsets", "base_offset", "timestamps")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")  # to look at
        self._offsets = array("I")

    @classmethod
    def decode(cls, base_offset: int, data: bytes, end_offset: int) -> Self:
        """The index in a file; InvalidOffset when that cannot belong to a log that ends there."""
        if len(data) % ENTRY.size:
            raise InvalidOffset(f"{len(data)} bytes are no multiple of {ENTRY.size}")
        index = cls(base_offset)
        rows = np.frombuffer(data, [("timestamp", ">i8"), ("offset", ">u4")])
        timestamps, offsets = rows["timestamp"].astype("i8"), rows["offset"].astype("u4")
        if len(rows) and (
            int(timestamps[0]) < 0
            or base_offset + int(offsets[-1]) >= end_offset
            or bool((timestamps[1:] <= timestamps[:-1]).any())
            or bool((offsets[1:] <= offsets[:-1]).any())
        ):
            raise InvalidOffset(
                f"its {len(rows)} entries are not in order, or reach beyond offset {end_offset}"
            )
        index.timestamps.frombytes(timestamps.tobytes())
        index._offsets.frombytes(offsets.tobytes())
        return index

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the newest entry; (-1, base offset) without one."""
        if not self.timestamps:
            return -1, self.base_offset
        return self.timestamps[-1], self.base_offset + self._offsets[-1]

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Whether its timestamp is larger than the last one's; such an entry is added."""
        if timestamp < 0 or (self.timestamps and timestamp <= self.timestamps[-1]):
            return False
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_MAX:
            raise IndexOffsetOverflow(
                f"offset {offset} is {relative} from its segment's base {self.base_offset}; "
                f"an index takes 0 to {RELATIVE_MAX}"
            )
        self.timestamps.append(timestamp)
        self._offsets.append(relative)
        return True

    def entry_at(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the last entry that is not newer than `timestamp`; None without.

        Every record before that entry's batch is older than `timestamp`.
        """
        index = bisect_right(self.timestamps, timestamp)
        if not index:
            return None
        return self.timestamps[index - 1], self.base_offset + self._offsets[index - 1]

    def lookup(self, timestamp: int) -> int:
        """An offset before which every record is older than `timestamp`."""
        entry = self.entry_at(timestamp)
        return self.base_offset if entry is None else entry[1]

    def truncate_to_offset(self, offset: int) -> int:
        """Drop entries of records at or behind `offset`; the number of entries left."""
        keep = bisect_left(self._offsets, max(0, offset - self.base_offset))
        del self.timestamps[keep:]
        del self._offsets[keep:]
        return keep

    def encode(self, first: int = 0) -> bytes:
        """The file, from entry `first` on."""
        return b"".join(map(ENTRY.pack, self.timestamps[first:], self._offsets[first:]))

    def entries(self) -> list[tuple[int, int]]:
        """(timestamp, absolute offset) of every entry."""
        return [
            (timestamp, self.base_offset + relative)
            for timestamp, relative in zip(self.timestamps, self._offsets, strict=True)
        ]
