"""The positions of offsets in a segment, by the batches that hold them: one entry about every 4
KiB.

File format (`.index`, big-endian, Kafka's), 8 bytes an entry:

    0  4  offset of the batch's last record, relative to the segment's base
    4  4  position in the segment where that batch begins

Pure: `Segment` writes the bytes. In memory the two columns are arrays: 8 bytes an entry too.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, Self

import numpy as np

from pylog_broker.storage.errors import IndexOffsetOverflow, InvalidOffset

ENTRY: Final = struct.Struct(">II")
RELATIVE_MAX: Final = 2**31 - 1


class OffsetIndex:
    """Strictly increasing offsets with the positions of their batches."""

    __slots__ = ("_offsets", "base_offset", "positions")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._offsets = array("I")
        self.positions = array("I")  # to look at

    @classmethod
    def decode(cls, base_offset: int, data: bytes, log_bytes: int) -> Self:
        """The index in a file; InvalidOffset when that cannot belong to a log of `log_bytes`."""
        if len(data) % ENTRY.size:
            raise InvalidOffset(f"{len(data)} bytes are no multiple of {ENTRY.size}")
        index = cls(base_offset)
        columns = np.frombuffer(data, ">u4").reshape(-1, 2)
        offsets, positions = columns[:, 0].astype("u4"), columns[:, 1].astype("u4")
        if len(offsets) and (
            int(offsets[-1]) > RELATIVE_MAX
            or int(positions[-1]) >= log_bytes
            or bool((offsets[1:] <= offsets[:-1]).any())
            or bool((positions[1:] <= positions[:-1]).any())
        ):
            raise InvalidOffset(
                f"its {len(offsets)} entries are not in order, or reach beyond {log_bytes} bytes"
            )
        index._offsets.frombytes(offsets.tobytes())
        index.positions.frombytes(positions.tobytes())
        return index

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def last(self) -> tuple[int, int]:
        """(offset, position) of the newest entry; (base offset - 1, 0) without one."""
        if not self._offsets:
            return self.base_offset - 1, 0
        return self.base_offset + self._offsets[-1], self.positions[-1]

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry. InvalidOffset or IndexOffsetOverflow when it cannot stand."""
        relative = last_offset - self.base_offset
        if not 0 <= relative <= RELATIVE_MAX:
            raise IndexOffsetOverflow(
                f"offset {last_offset} is {relative} from its segment's base {self.base_offset}; "
                f"an index takes 0 to {RELATIVE_MAX}"
            )
        if not 0 <= position <= RELATIVE_MAX:
            raise InvalidOffset(f"position {position} of offset {last_offset} is not in 0..2^31-1")
        if self._offsets and relative <= self._offsets[-1]:
            raise InvalidOffset(
                f"offset {last_offset} does not follow {self.base_offset + self._offsets[-1]}, "
                f"the last of {len(self)} entries"
            )
        self._offsets.append(relative)
        self.positions.append(position)

    def entry_at(self, offset: int) -> tuple[int, int] | None:
        """(last offset of the batch, its position) of the last entry at or before `offset`."""
        relative = offset - self.base_offset
        if relative < 0:
            return None
        index = bisect_right(self._offsets, min(relative, RELATIVE_MAX))
        if not index:
            return None
        return self.base_offset + self._offsets[index - 1], self.positions[index - 1]

    def lookup(self, offset: int) -> int:
        """A position at or before the batch that contains `offset`; 0 when the index starts later.

        The entry holds its batch's last offset, so the batch with `offset` is that one or later.
        """
        relative = offset - self.base_offset
        if relative < 0:
            return 0
        index = bisect_right(self._offsets, min(relative, RELATIVE_MAX))
        return self.positions[index - 1] if index else 0

    def truncate_to_position(self, position: int) -> int:
        """Drop entries of batches at or behind `position`; the number of entries left."""
        keep = bisect_left(self.positions, position)
        del self._offsets[keep:]
        del self.positions[keep:]
        return keep

    def encode(self, first: int = 0) -> bytes:
        """The file, from entry `first` on."""
        columns = np.empty((len(self._offsets) - first, 2), ">u4")
        columns[:, 0] = self._offsets[first:]
        columns[:, 1] = self.positions[first:]
        return columns.tobytes()

    def near(self, position: int, count: int) -> list[tuple[int, int]]:
        """The last `count` entries at or before a position of the log file, and the next `count`:
        (absolute offset, position) of each.
        """
        middle = bisect_right(self.positions, position)
        part = slice(max(0, middle - count), middle + count)
        return [
            (self.base_offset + relative, place)
            for relative, place in zip(self._offsets[part], self.positions[part], strict=True)
        ]

    def position_behind(self, position: int) -> int | None:
        """The position of the first batch that has an entry behind a position of the log file."""
        index = bisect_right(self.positions, position)
        return self.positions[index] if index < len(self.positions) else None

    def entries(self) -> list[tuple[int, int]]:
        """(absolute offset, position) of every entry."""
        return [
            (self.base_offset + relative, position)
            for relative, position in zip(self._offsets, self.positions, strict=True)
        ]
