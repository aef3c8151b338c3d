"""Whether index files that were left in order tell the truth, though others would be made now.

The choice of the batches with an index entry depends on the time of a broker's start (a whole
interval passes after it), and on the writer of the segment: Kafka's cleaner makes an entry for each
of its buffers. Such files stay as they are, byte for byte. Pure: fed with every batch of a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pylog.records.batch import BatchHeader

_GAP_MAX: Final = 1024 * 1024
"""Bytes without an entry that some starts, or some buffers of Kafka's cleaner, leave."""
_DUE_MAX: Final = 3
"""An empty file is a lost one where more entries are due than this, unless a cleaner was at
work."""


class IndexWitness:
    """Compares a segment's batches, in order, with the entries of its two index files."""

    def __init__(
        self,
        offsets: Sequence[tuple[int, int]],
        times: Sequence[tuple[int, int]],
    ) -> None:
        """(last offset of a batch, its position), and (timestamp, last offset of a batch)."""
        self._offsets = offsets
        self._times = times
        self._offsets_met = self._times_met = 0
        self._last_position = 0
        self._largest = -1
        self._gap = 0

    def see(self, position: int, header: BatchHeader) -> None:
        """The next batch."""
        here = (header.last_offset, position)
        if self._offsets_met < len(self._offsets) and self._offsets[self._offsets_met] == here:
            self._offsets_met += 1
            self._last_position = position
        self._gap = max(self._gap, position - self._last_position)
        if header.max_timestamp <= self._largest:
            return
        self._largest = header.max_timestamp
        newest = (header.max_timestamp, header.last_offset)
        if self._times_met < len(self._times) and self._times[self._times_met] == newest:
            self._times_met += 1

    def agrees(self, due: int, *, compacted: bool) -> bool:
        """All entries were met, the largest timestamp is the last one, and none seem to be lost
        though there should be `due`.
        """
        largest = self._times[-1][0] if self._times else -1
        return (
            self._offsets_met == len(self._offsets)
            and self._times_met == len(self._times)
            and largest == self._largest
            and self._gap <= _GAP_MAX
            and (compacted or bool(self._offsets) or due <= _DUE_MAX)
        )
