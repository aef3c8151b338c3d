"""Which offset a segment had reached when its largest timestamp grew.

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
from typing import Final

from broker.storage.errors import IndexOffsetOverflow
from broker.storage.offset_index import RELATIVE_MAX

ENTRY: Final = struct.Struct(">qI")


class TimeIndex:
    """Strictly increasing timestamps with the offsets that brought them."""

    __slots__ = ("_offsets", "_timestamps", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("I")

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_append(self, timestamp: int, offset: int) -> bytes:
        """Add an entry if its timestamp is larger than the last one's; its bytes, else none."""
        if timestamp < 0 or (self._timestamps and timestamp <= self._timestamps[-1]):
            return b""
        relative = offset - self.base_offset
        if not 0 <= relative <= RELATIVE_MAX:
            raise IndexOffsetOverflow(
                f"offset {offset} is {relative} from its segment's base {self.base_offset}; "
                f"an index takes 0 to {RELATIVE_MAX}"
            )
        self._timestamps.append(timestamp)
        self._offsets.append(relative)
        return ENTRY.pack(timestamp, relative)

    def lookup(self, timestamp: int) -> int:
        """An offset before which every record is older than `timestamp`."""
        index = bisect_right(self._timestamps, timestamp)
        return self.base_offset + (self._offsets[index - 1] if index else 0)

    def truncate_to_offset(self, offset: int) -> int:
        """Drop entries of records at or behind `offset`; the number of entries left."""
        keep = bisect_left(self._offsets, max(0, offset - self.base_offset))
        del self._timestamps[keep:]
        del self._offsets[keep:]
        return keep

    def encode(self) -> bytes:
        """The whole file."""
        return b"".join(map(ENTRY.pack, self._timestamps, self._offsets))

    def entries(self) -> list[tuple[int, int]]:
        """(timestamp, absolute offset) of every entry."""
        return [
            (timestamp, self.base_offset + relative)
            for timestamp, relative in zip(self._timestamps, self._offsets, strict=True)
        ]
